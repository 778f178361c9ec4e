// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func manyChecks() []check {
	return []check{
		{"many/write each", checkWriteEach},
		{"many/write each one row", checkWriteEachOneRow},
		{"many/write all", checkWriteAll},
		{"many/write all refused", checkWriteAllRefused},
		{"many/transfers", checkTransfers},
		{"many/write skew", checkWriteSkew},
		{"many/write skew of absent rows", checkAbsentSkew},
		{"many/write skew with plain writes", checkPlainSkew},
		{"many/all ways at once", checkAllWays},
		{"many/token", checkToken},
		{"many/token at once", checkTokenAtOnce},
		{"many/token of two requests at once", checkTokenContest},
	}
}

func checkWriteEach(e *env) {
	a, b := e.create(rich("a")), e.create(define("b", "pk:S"))
	var ws []storage.Write
	for i := range 100 {
		it := item("pk", fmt.Sprint(i), "sk", "s", "g", "G", "h", i)
		w := putWrite([]*storage.Table{a, b}[i%2], it)
		switch i % 10 {
		case 3:
			w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, &refusal{i} }
		case 4:
			w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return storage.Unchanged, nil }
		}
		ws = append(ws, w)
	}
	for i, r := range e.e.WriteEach(e.ctx, ws) {
		var refused *refusal
		switch {
		case i%10 == 3 && (!errors.As(r.Err, &refused) || refused.n != i):
			e.Fatalf("result %d is %v", i, r.Err)
		case i%10 != 3:
			e.ok(r.Err)
			same(e, r.Table, []*storage.Table{a, b}[i%2])
		}
	}
	equal(e, "rows of a", len(e.rows(a, storage.Range{})), 40)
	equal(e, "rows of b", len(e.rows(b, storage.Range{})), 40)
	e.consistent(a)
	equal(e, "results of nothing", len(e.e.WriteEach(e.ctx, nil)), 0)
}

// checkWriteEachOneRow: several of the writes may name one row.
func checkWriteEachOneRow(e *env) {
	t := e.create(define("t", "pk:S"))
	var ws []storage.Write
	for range 20 {
		ws = append(ws, add(t, item("pk", "p"), 1))
	}
	for _, r := range e.e.WriteEach(e.ctx, ws) {
		e.ok(r.Err)
	}
	e.holds(t, item("pk", "p", "n", 20))
}

func checkWriteAll(e *env) {
	a, b := e.create(rich("a")), e.create(define("b", "pk:S"))
	old, gone, kept := item("pk", "p", "sk", "old", "g", "1"), item("pk", "gone"), item("pk", "kept")
	e.put(a, old)
	e.put(b, gone, kept)
	ver := e.get(b, kept).Ver
	fresh := item("pk", "p", "sk", "new", "g", "2", "l", 5)
	leave := storage.Write{Table: b, Key: keyOf(b, kept), Decide: func(_ *storage.Table, cur *storage.Row) (*storage.Next, error) {
		if cur == nil || cur.Ver != ver {
			return nil, fmt.Errorf("row is %+v", cur)
		}
		return storage.Unchanged, nil
	}}
	results, err := e.e.WriteAll(e.ctx, []storage.Write{
		putWrite(a, fresh), deleteWrite(b, gone), leave, putWrite(a, with(old, "x", "changed")),
	}, nil)
	e.ok(err)
	for i, want := range []*storage.Table{a, b, b, a} {
		same(e, results[i].Table, want)
	}
	e.holds(a, fresh)
	e.holds(a, with(old, "x", "changed"))
	e.holds(b, kept)
	e.absent(b, gone)
	equal(e, "version", e.get(b, kept).Ver, ver)
	e.consistent(a)
	var ws []storage.Write
	for i := range 100 {
		ws = append(ws, putWrite(a, item("pk", "many", "sk", fmt.Sprint(i), "g", "G")))
	}
	_, err = e.e.WriteAll(e.ctx, ws, nil)
	e.ok(err)
	equal(e, "rows", len(e.rows(a, storage.Range{})), 102)
	e.consistent(a)
}

func checkWriteAllRefused(e *env) {
	a, b := e.create(rich("a")), e.create(define("b", "pk:S"))
	old := item("pk", "p", "sk", "old", "g", "1")
	e.put(a, old)
	refuse := func(t *storage.Table, it ddb.Item, n int) storage.Write {
		w := putWrite(t, it)
		w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, &refusal{n} }
		return w
	}
	ran := false
	last := putWrite(b, item("pk", "last"))
	derive := last.Decide
	last.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		ran = true
		return derive(t, cur)
	}
	_, err := e.e.WriteAll(e.ctx, []storage.Write{
		putWrite(a, with(old, "g", "2")), refuse(b, item("pk", "r"), 1),
		deleteWrite(a, item("pk", "p", "sk", "none")), refuse(a, item("pk", "q", "sk", "q"), 3), last,
	}, nil)
	var c *storage.Cancelled
	if !errors.As(err, &c) || len(c.Reasons) != 5 {
		e.Fatalf("error %v, want five reasons", err)
	}
	for i, reason := range c.Reasons {
		var r *refusal
		if refused := i == 1 || i == 3; refused != errors.As(reason, &r) || (refused && r.n != i) || (!refused && reason != nil) {
			e.Fatalf("reason %d is %v", i, reason)
		}
	}
	equal(e, "every Decide ran", ran, true)
	e.holds(a, old)
	equal(e, "rows of a", len(e.rows(a, storage.Range{})), 1)
	equal(e, "rows of b", len(e.rows(b, storage.Range{})), 0)
	e.consistent(a)
}

// checkTransfers: money moves between rows, its sum is always the same.
func checkTransfers(e *env) {
	const accounts, each = 6, 100
	t := e.create(define("t", "pk:S/sk:N", index{"by-n", "n:N", ddb.ProjectAll}))
	var keys []storage.TableKey
	row := func(i int) ddb.Item { return item("pk", fmt.Sprint(i%2), "sk", i) }
	for i := range accounts {
		e.put(t, with(row(i), "n", each))
		keys = append(keys, storage.TableKey{Table: t, Key: keyOf(t, row(i))})
	}
	sum := func() error {
		rows, err := e.e.GetAll(e.ctx, keys, 0)
		if err != nil {
			return err
		}
		total := ddb.Number{}
		for _, r := range rows {
			it, err := ddb.ParseItem(r.Item)
			if err != nil {
				return err
			}
			if total, err = total.Add(it["n"].Number()); err != nil {
				return err
			}
		}
		if total.Cmp(ddb.NumberFromInt(accounts*each)) != 0 {
			return fmt.Errorf("sum is %s, want %d", total, accounts*each)
		}
		return nil
	}
	e.together(workers, func(i int) error {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		for range repeats {
			if i < 2 {
				if err := sum(); err != nil {
					return err
				}
				continue
			}
			p := rnd.Perm(accounts)
			d := rnd.Int64N(20)
			if _, err := e.e.WriteAll(e.ctx, []storage.Write{add(t, row(p[0]), d), add(t, row(p[1]), -d)}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	e.ok(sum())
	e.consistent(t)
}

var errNeeded = errors.New("the other row is needed")

// require is a Write that changes nothing and refuses when a row is, or is
// not, there.
func require(t *storage.Table, it ddb.Item, there bool) storage.Write {
	return storage.Write{Table: t, Key: keyOf(t, it), Decide: func(_ *storage.Table, cur *storage.Row) (*storage.Next, error) {
		if (cur != nil) != there {
			return nil, errNeeded
		}
		return storage.Unchanged, nil
	}}
}

func refusedOrDone(err error) error {
	if c := new(storage.Cancelled); errors.As(err, &c) {
		return nil
	}
	return err
}

// checkWriteSkew: each of two transactions removes a row if the other's is
// there; never are both removed.
func checkWriteSkew(e *env) {
	t := e.create(define("t", "pk:S"))
	rows := []ddb.Item{item("pk", "a"), item("pk", "b")}
	for range repeats {
		e.put(t, rows...)
		e.together(2, func(i int) error {
			_, err := e.e.WriteAll(e.ctx, []storage.Write{require(t, rows[1-i], true), deleteWrite(t, rows[i])}, nil)
			return refusedOrDone(err)
		})
		equal(e, "rows left", len(e.rows(t, storage.Range{})), 1)
	}
}

// checkAbsentSkew: the same with rows that are not there yet.
func checkAbsentSkew(e *env) {
	t := e.create(define("t", "pk:S"))
	for n := range repeats {
		rows := []ddb.Item{item("pk", fmt.Sprint("a", n)), item("pk", fmt.Sprint("b", n))}
		e.together(2, func(i int) error {
			_, err := e.e.WriteAll(e.ctx, []storage.Write{putWrite(t, rows[i]), require(t, rows[1-i], false)}, nil)
			return refusedOrDone(err)
		})
		equal(e, "rows made", len(e.rows(t, storage.Range{})), n+1)
	}
}

// checkPlainSkew: who has changed the row that a transaction requires, and then
// still sees what the transaction changes, has been first.
func checkPlainSkew(e *env) {
	t := e.create(define("t", "pk:S"))
	for n := range repeats {
		needed, other := item("pk", fmt.Sprint("needed", n)), item("pk", fmt.Sprint("other", n))
		there := n%2 == 0 // at first, both
		change, back := putWrite, deleteWrite
		if there {
			e.put(t, needed, other)
			change, back = deleteWrite, putWrite
		}
		seen, done := false, false
		e.together(2, func(i int) error {
			if i == 0 {
				_, err := e.e.WriteAll(e.ctx, []storage.Write{require(t, needed, there), change(t, other)}, nil)
				done = err == nil
				return refusedOrDone(err)
			}
			if _, err := e.e.Write(e.ctx, change(t, needed)); err != nil {
				return err
			}
			row, err := e.e.Get(e.ctx, t, keyOf(t, other))
			seen = (row != nil) == there // as before the transaction
			return err
		})
		if seen && done {
			e.Fatalf("round %d: a transaction was done although the row it requires had changed before", n)
		}
		equal(e, "the transaction took effect", (e.get(t, other) != nil) != there, done)
		for _, it := range []ddb.Item{needed, other} {
			_, err := e.e.Write(e.ctx, back(t, it))
			e.ok(err)
		}
	}
}

// checkAllWays: the same rows are changed by every kind of write at once, and
// no change is lost.
func checkAllWays(e *env) {
	t := e.create(define("t", "pk:S", index{"by-n", "n:N", ddb.ProjectKeysOnly}))
	a, b := item("pk", "a"), item("pk", "b")
	e.together(3, func(i int) error {
		for range repeats {
			ws := []storage.Write{add(t, a, 1), add(t, b, 1)}
			var err error
			switch i {
			case 0:
				_, err = e.e.WriteAll(e.ctx, ws, nil)
			case 1:
				for _, r := range e.e.WriteEach(e.ctx, ws) {
					err = errors.Join(err, r.Err)
				}
			default:
				_, err = e.e.Write(e.ctx, ws[0])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	e.holds(t, with(a, "n", 3*repeats))
	e.holds(t, with(b, "n", 2*repeats))
	e.consistent(t)
}

func checkToken(e *env) {
	t := e.create(define("t", "pk:S"))
	it := item("pk", "p")
	all := func(token storage.Token) error {
		_, err := e.e.WriteAll(e.ctx, []storage.Write{add(t, it, 1)}, &token)
		return err
	}
	token := storage.Token{Account: account, Token: "once", Digest: [32]byte{1}, Now: e.now}
	later := func(d time.Duration) storage.Token {
		later := token
		later.Now = token.Now.Add(d)
		return later
	}
	e.ok(all(token))
	e.fails(all(token), storage.ErrReplayed)
	e.fails(all(later(10*time.Minute-time.Second)), storage.ErrReplayed)
	other := token
	other.Digest[31]++
	e.fails(all(other), storage.ErrTokenMismatch)
	e.holds(t, with(it, "n", 1))
	e.reopen()
	e.fails(all(token), storage.ErrReplayed)
	elsewhere := token
	elsewhere.Account = "111111111111"
	e.ok(all(elsewhere))
	second := token
	second.Token = "Once"
	e.ok(all(second))
	e.holds(t, with(it, "n", 3))
	other.Now = later(10 * time.Minute).Now
	e.ok(all(other)) // ten minutes after the first use, a new life
	e.fails(all(later(10*time.Minute)), storage.ErrTokenMismatch)
	e.fails(all(storage.Token{Account: account, Token: "once", Digest: other.Digest, Now: other.Now.Add(9 * time.Minute)}), storage.ErrReplayed)
	e.holds(t, with(it, "n", 4))

	refused := storage.Token{Account: account, Token: "refused", Now: e.now}
	_, err := e.e.WriteAll(e.ctx, []storage.Write{require(t, it, false)}, &refused)
	if c := new(storage.Cancelled); !errors.As(err, &c) {
		e.Fatalf("error %v, want a cancellation", err)
	}
	e.ok(all(refused)) // a request that was not carried out uses no token up
	e.holds(t, with(it, "n", 5))

	e.drop(t) // a request that was carried out stays so, whatever became of its table
	e.fails(all(refused), storage.ErrReplayed)
	unused := refused
	unused.Token = "unused"
	e.fails(all(unused), storage.ErrTableNotFound)
}

func checkTokenAtOnce(e *env) {
	t := e.create(define("t", "pk:S"))
	for n := range repeats {
		token := storage.Token{Account: account, Token: fmt.Sprint(n), Now: e.now}
		var done atomic.Int64
		e.together(4, func(int) error {
			_, err := e.e.WriteAll(e.ctx, []storage.Write{add(t, item("pk", "p"), 1)}, &token)
			if errors.Is(err, storage.ErrReplayed) {
				return nil
			}
			done.Add(1)
			return err
		})
		equal(e, "requests carried out", done.Load(), 1)
	}
	e.holds(t, item("pk", "p", "n", repeats))
}

// checkTokenContest: one of two different requests with one token is carried
// out, and all others are told which.
func checkTokenContest(e *env) {
	t := e.create(define("t", "pk:S"))
	for n := range repeats {
		errs := make([]error, 4)
		e.together(len(errs), func(i int) error {
			token := storage.Token{Account: account, Token: fmt.Sprint(n), Digest: [32]byte{byte(i % 2)}, Now: e.now}
			_, errs[i] = e.e.WriteAll(e.ctx, []storage.Write{add(t, item("pk", fmt.Sprint(i%2)), 1), add(t, item("pk", "both"), 1)}, &token)
			return nil
		})
		first := slices.Index(errs, nil)
		if first < 0 {
			e.Fatalf("round %d: nobody was first: %v", n, errs)
		}
		for i, err := range errs {
			want := storage.ErrReplayed
			if i%2 != first%2 {
				want = storage.ErrTokenMismatch
			}
			if i != first && !errors.Is(err, want) {
				e.Fatalf("round %d: request %d: error %v, want %v", n, i, err, want)
			}
		}
	}
	e.holds(t, item("pk", "both", "n", repeats))
}
