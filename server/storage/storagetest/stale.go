// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func staleChecks() []check {
	return []check{
		{"stale/writers", checkStaleWriters},
		{"stale/readers", checkStaleReaders},
		{"stale/writers while it changes", checkStaleRace},
		{"stale/deleting", checkDeletingRefuses},
		{"stale/re-created", checkRecreated},
		{"stale/dropped under writers", checkDropRace},
	}
}

// checkStaleWriters: Decide runs with the definition that holds, whatever
// the caller had.
func checkStaleWriters(e *env) {
	old := e.create(rich("t"))
	a, b := item("pk", "p", "sk", "a", "g", "G"), item("pk", "p", "sk", "b")
	e.put(old, b)
	now := e.touch(e.touch(old))
	var last *storage.Table
	seen := func(w storage.Write) storage.Write {
		derive := w.Decide
		w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
			last = t
			return derive(t, cur)
		}
		return w
	}
	for _, blind := range []bool{false, true} {
		w := seen(putWrite(old, a))
		w.Blind = blind
		r, err := e.e.Write(e.ctx, w)
		e.ok(err)
		same(e, last, now)
		same(e, r.Table, now)
		now = e.touch(now)
	}
	r := e.e.WriteEach(e.ctx, []storage.Write{seen(putWrite(old, a))})[0]
	e.ok(r.Err)
	same(e, last, now)
	same(e, r.Table, now)
	now = e.touch(now)
	rs, err := e.e.WriteAll(e.ctx, []storage.Write{seen(putWrite(old, a)), deleteWrite(old, b)}, nil)
	e.ok(err)
	same(e, last, now)
	same(e, rs[0].Table, now)
	// A refusal counts when it is that of the current definition.
	now = e.touch(now)
	_, err = e.e.Write(e.ctx, storage.Write{Table: old, Key: keyOf(old, a), Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		if t.Version != now.Version {
			return nil, errors.New("refused with an outdated definition")
		}
		return nil, &refusal{1}
	}})
	var refused *refusal
	if !errors.As(err, &refused) {
		e.Fatalf("error %v, want the refusal", err)
	}
	e.holds(now, a)
	e.consistent(now)
}

// readers calls every way of reading.
func (e *env) readers(t *storage.Table, it ddb.Item) map[string]error {
	e.Helper()
	k := keyOf(t, it)
	errs := map[string]error{}
	_, errs["Get"] = e.e.Get(e.ctx, t, k)
	_, errs["GetAll"] = e.e.GetAll(e.ctx, []storage.TableKey{{Table: t, Key: k}}, 0)
	_, errs["Range"] = e.collect(t, storage.Range{}, 0)
	_, errs["Range of a partition"] = e.collect(t, storage.Range{P: k.PK, Want: storage.Sizes}, 0)
	for _, ix := range t.Indexes {
		_, errs["Range of "+ix.Name] = e.collect(t, storage.Range{Index: ix.ID, Want: storage.Keys}, 0)
	}
	_, errs["Sample"] = e.e.Sample(e.ctx, t, 0, e.now)
	return errs
}

func checkStaleReaders(e *env) {
	old := e.create(rich("t"))
	it := item("pk", "p", "sk", "s", "g", "G", "h", 1)
	e.put(old, it)
	now := e.touch(old)
	for range 2 {
		for call, err := range e.readers(old, it) {
			if !errors.Is(err, storage.ErrStale) {
				e.Fatalf("%s with an outdated definition: %v", call, err)
			}
		}
		for call, err := range e.readers(now, it) {
			if err != nil {
				e.Fatalf("%s with the current definition: %v", call, err)
			}
		}
		e.reopen()
	}
	other := e.create(define("other", "pk:S"))
	_, err := e.e.GetAll(e.ctx, []storage.TableKey{{Table: other, Key: keyOf(other, it)}, {Table: old, Key: keyOf(old, it)}}, 0)
	e.fails(err, storage.ErrStale)
}

// checkStaleRace: no write is lost or kept with the entries of another
// definition while the definition changes all the time.
func checkStaleRace(e *env) {
	old := e.create(rich("t"))
	it := item("pk", "p", "sk", "s", "g", "G")
	e.together(workers, func(i int) error {
		for n := range repeats {
			if i == 0 {
				if _, err := e.e.UpdateTable(e.ctx, account, "t", toggle); err != nil {
					return err
				}
				continue
			}
			w := add(old, it, 1)
			derive := w.Decide
			w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
				if t.Version < old.Version {
					return nil, fmt.Errorf("version %d is older than that of the caller", t.Version)
				}
				return derive(t, cur)
			}
			var err error
			if n%3 == 0 {
				_, err = e.e.WriteAll(e.ctx, []storage.Write{w}, nil)
			} else {
				_, err = e.e.Write(e.ctx, w)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	now, _, err := e.e.Describe(e.ctx, account, "t")
	e.ok(err)
	equal(e, "version", now.Version-old.Version >= repeats, true)
	e.holds(now, with(it, "n", (workers-1)*repeats))
	e.consistent(now)
}

// writers calls every way of writing.
func (e *env) writers(t *storage.Table, it ddb.Item) map[string]error {
	e.Helper()
	errs := map[string]error{}
	_, errs["Write"] = e.e.Write(e.ctx, putWrite(t, it))
	blind := putWrite(t, it)
	blind.Blind = true
	_, errs["blind Write"] = e.e.Write(e.ctx, blind)
	_, errs["Write that deletes"] = e.e.Write(e.ctx, deleteWrite(t, it))
	errs["WriteEach"] = e.e.WriteEach(e.ctx, []storage.Write{putWrite(t, it)})[0].Err
	_, errs["WriteAll"] = e.e.WriteAll(e.ctx, []storage.Write{putWrite(t, it)}, nil)
	return errs
}

func (e *env) allGone(t *storage.Table, it ddb.Item) {
	e.Helper()
	for _, errs := range []map[string]error{e.readers(t, it), e.writers(t, it)} {
		for call, err := range errs {
			if !errors.Is(err, storage.ErrTableNotFound) {
				e.Fatalf("%s of a table that is gone: %v", call, err)
			}
		}
	}
}

func checkDeletingRefuses(e *env) {
	t, other := e.create(rich("t")), e.create(define("other", "pk:S"))
	it, o := item("pk", "p", "sk", "s", "g", "G", "h", 1), item("pk", "o")
	e.put(t, it)
	deleting := e.drop(t)
	for range 2 {
		e.allGone(t, it)
		e.allGone(deleting, it)
		_, err := e.e.WriteAll(e.ctx, []storage.Write{putWrite(other, o), putWrite(t, it)}, nil)
		e.fails(err, storage.ErrTableNotFound)
		rs := e.e.WriteEach(e.ctx, []storage.Write{putWrite(t, it), putWrite(other, o)})
		e.fails(rs[0].Err, storage.ErrTableNotFound)
		e.ok(rs[1].Err)
		e.holds(other, o)
		e.delete(other, o)
		e.reopen()
	}
	e.absent(other, o) // the transaction left nothing
	e.finish(storage.TableDrop, "t")
	e.allGone(t, it)
	e.allGone(deleting, it)
}

// checkRecreated: a table of the same name is another one.
func checkRecreated(e *env) {
	old := e.create(rich("t"))
	it := item("pk", "p", "sk", "s", "g", "G", "h", 1)
	e.put(old, it)
	e.drop(old)
	e.finish(storage.TableDrop, "t")
	fresh := e.create(rich("t"))
	if fresh.ID == old.ID || fresh.UUID == old.UUID || fresh.Indexes[0].ID == old.Indexes[0].ID {
		e.Fatalf("re-created table has old ids: %+v", fresh)
	}
	e.allGone(old, it)
	e.absent(fresh, it)
	e.consistent(fresh)
	e.put(fresh, with(it, "x", "fresh"))
	e.allGone(old, it)
	e.holds(fresh, with(it, "x", "fresh"))
	e.consistent(fresh)
	w := storage.Work{Kind: storage.TableDrop, Table: old.ID, Account: account, Name: "t"}
	_, err := e.e.Claim(e.ctx, w)
	e.fails(err, storage.ErrNoWork)
}

// checkDropRace: writers of a table that is dropped under them are told so,
// and whatever was acknowledged came before the drop.
func checkDropRace(e *env) {
	for round := range repeats / 5 {
		t := e.create(rich("t"))
		e.together(4, func(i int) error {
			if i == 0 {
				_, err := e.e.DropTable(e.ctx, account, "t", agree)
				return err
			}
			for n := range 20 {
				it := item("pk", "p", "sk", fmt.Sprint(i, n), "g", "G")
				if _, err := e.e.Write(e.ctx, putWrite(t, it)); errors.Is(err, storage.ErrTableNotFound) {
					return nil
				} else if err != nil {
					return err
				}
			}
			return nil
		})
		e.finish(storage.TableDrop, "t")
		_, err := e.e.Table(e.ctx, account, "t")
		if !errors.Is(err, storage.ErrTableNotFound) {
			e.Fatalf("round %d: table is still there: %v", round, err)
		}
	}
}
