// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func rowChecks() []check {
	return []check{
		{"rows/put get delete", checkPutGetDelete},
		{"rows/decide sees the row", checkDecideSees},
		{"rows/unchanged", checkUnchanged},
		{"rows/refusal", checkRefusal},
		{"rows/counter", checkCounter},
		{"rows/insert if absent", checkInsertIfAbsent},
		{"rows/versions never repeat", checkVersions},
		{"rows/blind writes", checkBlind},
		{"rows/many keys at once", checkManyKeys},
		{"rows/bytes stored are bytes served", checkBytes},
		{"rows/own copies", checkOwnCopies},
	}
}

func checkPutGetDelete(e *env) {
	for i, def := range []ddb.TableDefinition{define("hash", "pk:S"), define("composite", "pk:S/sk:N"), define("binary", "pk:B/sk:B"), rich("rich")} {
		t := e.create(def)
		it := item("pk", "p", "sk", 7, "x", "one")
		switch i {
		case 2:
			it = item("pk", []byte{0}, "sk", []byte{0xFF, 0}, "x", "one")
		case 3:
			it = item("pk", "p", "sk", "s", "g", "G", "h", 5, "l", 3, "x", "one")
		}
		e.absent(t, it)
		e.delete(t, it) // nothing there
		e.put(t, it)
		e.holds(t, it)
		if !e.get(t, it).Key.Equal(keyOf(t, it)) {
			e.Fatal("row has another key")
		}
		it = with(it, "x", "two", "m", "M")
		e.put(t, it)
		e.holds(t, it)
		e.consistent(t)
		e.reopen()
		e.holds(t, it)
		e.delete(t, it)
		e.absent(t, it)
		e.consistent(t)
		equal(e, "rows", len(e.rows(t, storage.Range{})), 0)
	}
}

func checkDecideSees(e *env) {
	t := e.create(rich("t"))
	it := item("pk", "p", "sk", "s", "n", number("1E-100"))
	sees := func(want *storage.Row) {
		e.Helper()
		_, err := e.e.Write(e.ctx, storage.Write{Table: t, Key: keyOf(t, it), Decide: func(got *storage.Table, cur *storage.Row) (*storage.Next, error) {
			if got.Version != t.Version {
				return nil, fmt.Errorf("version is %d, want %d", got.Version, t.Version)
			}
			if (cur == nil) != (want == nil) {
				return nil, fmt.Errorf("row is %v, want %v", cur, want)
			}
			if cur != nil && (string(cur.Item) != string(want.Item) || cur.Size != want.Size || cur.Ver != want.Ver || cur.Flags != want.Flags) {
				return nil, fmt.Errorf("row is %+v, want %+v", cur, want)
			}
			return storage.Unchanged, nil
		}})
		e.ok(err)
	}
	sees(nil)
	e.put(t, it)
	sees(e.get(t, it))
	e.put(t, item("pk", "p", "sk", "s"))
	sees(e.get(t, it))
	e.delete(t, it)
	sees(nil)
}

func checkUnchanged(e *env) {
	t := e.create(rich("t"))
	it := item("pk", "p", "sk", "s", "g", "G")
	leave := func() {
		e.Helper()
		r, err := e.e.Write(e.ctx, storage.Write{Table: t, Key: keyOf(t, it), Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) {
			return storage.Unchanged, nil
		}})
		e.ok(err)
		same(e, r.Table, t)
	}
	leave()
	e.absent(t, it)
	e.put(t, it)
	before := e.get(t, it)
	leave()
	equal(e, "version", e.get(t, it).Ver, before.Ver)
	e.holds(t, it)
	e.consistent(t)
}

// refusal is an error of a Decide, with contents.
type refusal struct{ n int }

func (r *refusal) Error() string { return fmt.Sprint("refused for reason ", r.n) }

func checkRefusal(e *env) {
	t := e.create(rich("t"))
	it := item("pk", "p", "sk", "s")
	e.put(t, it)
	before := e.get(t, it)
	_, err := e.e.Write(e.ctx, storage.Write{Table: t, Key: keyOf(t, it), Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		next, _ := storage.Derive(t, with(it, "g", "G"))
		return next, &refusal{42} // the error counts, whatever comes with it
	}})
	var r *refusal
	if !errors.As(err, &r) || r.n != 42 {
		e.Fatalf("error %v, want the refusal", err)
	}
	e.holds(t, it)
	equal(e, "version", e.get(t, it).Ver, before.Ver)
	e.consistent(t)
}

// add is a write that adds d to attribute n of a row.
func add(t *storage.Table, it ddb.Item, d int64) storage.Write {
	return storage.Write{Table: t, Key: keyOf(t, it), Decide: func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		next := it
		if cur != nil {
			var err error
			if next, err = ddb.ParseItem(cur.Item); err != nil {
				return nil, err
			}
		}
		sum, err := next["n"].Number().Add(ddb.NumberFromInt(d))
		if err != nil {
			return nil, err
		}
		return storage.Derive(t, with(next, "n", ddb.Num(sum)))
	}}
}

func checkCounter(e *env) {
	t := e.create(define("t", "pk:S", index{"by-n", "n:N", ddb.ProjectKeysOnly}))
	it := item("pk", "counter")
	e.together(workers, func(int) error {
		for range repeats {
			if _, err := e.e.Write(e.ctx, add(t, it, 1)); err != nil {
				return err
			}
		}
		return nil
	})
	e.holds(t, with(it, "n", workers*repeats))
	e.consistent(t)
}

func checkInsertIfAbsent(e *env) {
	t := e.create(define("t", "pk:S"))
	taken := errors.New("taken")
	for round := range repeats {
		it := item("pk", fmt.Sprint(round))
		var winners atomic.Int64
		var winner atomic.Int64
		e.together(workers, func(i int) error {
			_, err := e.e.Write(e.ctx, storage.Write{Table: t, Key: keyOf(t, it), Decide: func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
				if cur != nil {
					return nil, taken
				}
				return storage.Derive(t, with(it, "by", i))
			}})
			if errors.Is(err, taken) {
				return nil
			}
			winners.Add(1)
			winner.Store(int64(i))
			return err
		})
		equal(e, "winners", winners.Load(), 1)
		e.holds(t, with(it, "by", int(winner.Load())))
	}
}

func checkVersions(e *env) {
	t := e.create(define("t", "pk:S"))
	it := item("pk", "p", "x", "always the same")
	vers := map[int64]bool{}
	note := func() {
		e.Helper()
		ver := e.get(t, it).Ver
		if vers[ver] {
			e.Fatalf("version %d is repeated", ver)
		}
		vers[ver] = true
	}
	for round := range 3 {
		for range 10 {
			e.put(t, it)
			note()
			e.put(t, it)
			note()
			e.delete(t, it)
		}
		if round == 1 {
			e.reopen()
		}
	}
	// The same when the row disappears and comes back between reading and
	// writing: nobody may believe it unchanged.
	ws := []storage.Write{putWrite(t, it), deleteWrite(t, it)}
	var mu sync.Mutex
	e.together(workers, func(i int) error {
		for range repeats {
			if _, err := e.e.Write(e.ctx, ws[i%2]); err != nil {
				return err
			}
			row, err := e.e.Get(e.ctx, t, keyOf(t, it))
			if err != nil {
				return err
			}
			if row != nil {
				mu.Lock()
				vers[row.Ver] = true
				mu.Unlock()
			}
		}
		return nil
	})
	e.put(t, it)
	note()
}

func checkBlind(e *env) {
	t := e.create(rich("t"))
	it := item("pk", "p", "sk", "s")
	e.together(workers, func(i int) error {
		for n := range repeats {
			w := putWrite(t, with(it, "g", fmt.Sprint("g", i), "h", n, "l", i, "m", strings.Repeat("x", i+1)))
			w.Blind = true
			if n%5 == 4 {
				w = deleteWrite(t, it)
				w.Blind = true
			}
			if _, err := e.e.Write(e.ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
	e.consistent(t)
	last := with(it, "g", "last", "h", 1)
	w := putWrite(t, last)
	w.Blind = true
	_, err := e.e.Write(e.ctx, w)
	e.ok(err)
	e.holds(t, last)
	e.consistent(t)
}

// checkManyKeys: refused and carried out writes side by side, each with its
// own answer.
func checkManyKeys(e *env) {
	t := e.create(rich("t"))
	e.together(workers, func(i int) error {
		for n := range repeats {
			it := item("pk", fmt.Sprint("p", n%5), "sk", fmt.Sprintf("%d-%d", i, n), "g", fmt.Sprint(n%3), "h", i)
			w := putWrite(t, it)
			if n%4 == 3 {
				w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, &refusal{i*repeats + n} }
			}
			_, err := e.e.Write(e.ctx, w)
			var r *refusal
			switch refused := errors.As(err, &r); {
			case refused != (n%4 == 3):
				return fmt.Errorf("write %d of %d: %w", n, i, err)
			case refused && r.n != i*repeats+n:
				return fmt.Errorf("write %d of %d got the refusal %d", n, i, r.n)
			case err != nil && !refused:
				return err
			}
		}
		return nil
	})
	equal(e, "rows", len(e.rows(t, storage.Range{})), workers*(repeats-repeats/4))
	e.consistent(t)
	e.reopen()
	equal(e, "rows", len(e.rows(t, storage.Range{})), workers*(repeats-repeats/4))
	e.consistent(t)
}

// checkBytes: number sets in canonical order, U+0000, numbers of 126 digits,
// deep nesting: what is stored is what is served, by every way of reading.
func checkBytes(e *env) {
	t := e.create(rich("t"))
	deep := ddb.Null()
	for range 14 {
		deep = ddb.List(ddb.Map(ddb.Item{"k": ddb.Bool(true), "\x00": deep}))
	}
	it := item("pk", "\x00", "sk", "\x00\xf4\x8f\xbf\xbf", "g", "\x00", "h", number("-1E-130"), "l", number("9.9999999999999999999999999999999999999E+125"),
		"ns", ddb.NewSet(ddb.KindNS, []string{"10", "9", "-1", "0.5", "100"}),
		"ss", ddb.StringSet("b", "a", "\x00", "é"), "bs", ddb.NewSet(ddb.KindBS, []string{"\xff", "\x00", ""}),
		"s", "\"\\/\b\f\n\r\t\x00\x1f\u007f\u2028\U0001F600", "empty", "", "b", []byte{}, "map", ddb.Map(ddb.Item{}), "list", ddb.List(),
		"big", strings.Repeat("x", 100_000))
	it["deep"] = deep
	e.put(t, it)
	want := string(ddb.AppendItem(nil, it))
	if !strings.Contains(want, `"ns":{"NS":["-1","0.5","10","100","9"]}`) {
		e.Fatalf("number set is not in canonical order: %.300s", want)
	}
	for range 2 {
		e.holds(t, it)
		for _, r := range []storage.Range{{}, {P: keyOf(t, it).PK}, {Index: t.Index("g-all").ID}, {Index: t.Index("l-number").ID}} {
			rows := e.rows(t, r)
			equal(e, "rows", len(rows), 1)
			equal(e, "item", string(rows[0].Item), want)
			equal(e, "flags", rows[0].Flags, storage.FlagLongNumber)
		}
		rows, err := e.e.GetAll(e.ctx, []storage.TableKey{{Table: t, Key: keyOf(t, it)}}, 0)
		e.ok(err)
		equal(e, "item", string(rows[0].Item), want)
		e.reopen()
	}
	e.consistent(t)
}

// checkOwnCopies: rows that Get and GetAll return belong to the caller.
func checkOwnCopies(e *env) {
	t := e.create(define("t", "pk:S/sk:S"))
	a, b := item("pk", "a", "sk", "x"), item("pk", "b", "sk", "y")
	e.put(t, a, b)
	scribble := func(r *storage.Row) {
		for _, p := range [][]byte{r.Item, r.Key.PK, r.Key.SK} {
			for i := range p {
				p[i] = '!'
			}
		}
	}
	rows, err := e.e.GetAll(e.ctx, []storage.TableKey{{Table: t, Key: keyOf(t, a)}, {Table: t, Key: keyOf(t, b)}}, 0)
	e.ok(err)
	scribble(rows[0])
	equal(e, "second row", string(rows[1].Item), string(ddb.AppendItem(nil, b)))
	row := e.get(t, b)
	scribble(row)
	e.holds(t, a)
	e.holds(t, b)
	// What a writer passed is the writer's again.
	w := putWrite(t, a)
	var passed []byte
	w.Decide = func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		next, err := storage.Derive(t, a)
		passed = next.Item
		return next, err
	}
	_, err = e.e.Write(e.ctx, w)
	e.ok(err)
	for i := range passed {
		passed[i] = '!'
	}
	e.holds(t, a)
}
