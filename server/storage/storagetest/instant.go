// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func instantChecks() []check {
	return []check{
		{"instant/pairs", checkPairs},
		{"instant/index and row", checkIndexAndRow},
		{"instant/acknowledged is visible", checkReadYourWrites},
	}
}

// during runs write again and again while read runs a number of times. What
// meets a conflict is done again.
func (e *env) during(write func(ctx context.Context, n int) error, read func() error) {
	e.Helper()
	e.busy.Add(1)
	defer e.busy.Add(-1)
	ctx, stop := context.WithCancel(e.ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := write(e.ctx, n); err != nil {
				failed = fmt.Errorf("write %d: %w", n, err)
				return
			}
		}
	})
	var err error
	for range repeats {
		if err = read(); err != nil {
			break
		}
	}
	stop()
	wg.Wait()
	e.ok(errors.Join(err, failed))
}

// checkPairs: two rows always change together; no reader sees one changed
// and the other not.
func checkPairs(e *env) {
	t := e.create(define("t", "pk:S/sk:N", index{"g", "g:S/n:N", ddb.ProjectAll}))
	const pairs = 8
	row := func(i, n int) ddb.Item { return item("pk", fmt.Sprint("p", i%4), "sk", i, "g", "G", "n", n) }
	var ks []storage.TableKey
	for i := range 2 * pairs {
		e.put(t, row(i, 0))
		ks = append(ks, storage.TableKey{Table: t, Key: keyOf(t, row(i, 0))})
	}
	agreeing := func(rows []*storage.Row) error {
		if len(rows) != 2*pairs {
			return fmt.Errorf("%d rows, want %d", len(rows), 2*pairs)
		}
		byPair := map[string]string{}
		for _, r := range rows {
			it, err := ddb.ParseItem(r.Item)
			if err != nil {
				return err
			}
			sk := it["sk"].Number()
			if sk.Cmp(ddb.NumberFromInt(pairs)) >= 0 {
				sk, _ = sk.Sub(ddb.NumberFromInt(pairs))
			}
			n := it["n"].Str()
			if other, ok := byPair[sk.String()]; ok && other != n {
				return fmt.Errorf("one of pair %s is %s, the other %s", sk, other, n)
			}
			byPair[sk.String()] = n
		}
		return nil
	}
	e.during(func(ctx context.Context, n int) error {
		i := n % pairs
		_, err := e.e.WriteAll(ctx, []storage.Write{putWrite(t, row(i, n)), putWrite(t, row(i+pairs, n))}, nil)
		return err
	}, func() error {
		all, err := e.e.GetAll(e.ctx, ks, 0)
		if err == nil {
			err = agreeing(all)
		}
		for _, r := range []storage.Range{{}, {Reverse: true, Rows: 1}, {Index: t.Indexes[0].ID}, {Index: t.Indexes[0].ID, Reverse: true, Bytes: 1}} {
			if err == nil {
				all, err = e.collect(t, r, 0)
			}
			if err == nil {
				err = agreeing(all)
			}
		}
		return err
	})
	e.consistent(t)
}

// checkIndexAndRow: what an index yields is the row of the same instant.
func checkIndexAndRow(e *env) {
	t := e.create(rich("t"))
	row := func(n int) ddb.Item {
		return item("pk", "p", "sk", fmt.Sprint(n%3), "g", fmt.Sprint("G", n%2), "h", n, "l", -n, "m", fmt.Sprint(n))
	}
	e.during(func(ctx context.Context, n int) error {
		w := putWrite(t, row(n))
		if n%7 == 6 {
			w = deleteWrite(t, row(n))
		}
		_, err := e.e.Write(ctx, w)
		return err
	}, func() error {
		for _, ix := range t.Indexes {
			rows, err := e.collect(t, storage.Range{Index: ix.ID}, 0)
			if err != nil {
				return err
			}
			for _, r := range rows {
				it, err := ddb.ParseItem(r.Item)
				if err != nil {
					return err
				}
				if pos, err := t.PositionOf(ix, it); err != nil || pos.Compare(r.Position()) != 0 {
					return fmt.Errorf("index %s yields %s at %x (%w)", ix.Name, r.Item, r.Position(), err)
				}
			}
			if len(rows) > 3 {
				return fmt.Errorf("index %s yields %d entries of three rows", ix.Name, len(rows))
			}
		}
		return nil
	})
	e.consistent(t)
}

// checkReadYourWrites: what was acknowledged is seen by every read that
// begins afterwards.
func checkReadYourWrites(e *env) {
	t := e.create(rich("t"))
	e.together(workers, func(i int) error {
		for n := range repeats {
			it := item("pk", fmt.Sprint(i), "sk", "s", "g", fmt.Sprint("G", i), "h", n)
			if _, err := e.e.Write(e.ctx, putWrite(t, it)); err != nil {
				return err
			}
			want := string(ddb.AppendItem(nil, it))
			row, err := e.e.Get(e.ctx, t, keyOf(t, it))
			if err != nil {
				return err
			}
			pos, err := t.PositionOf(t.Index("g-all"), it)
			if err != nil {
				return err
			}
			for _, r := range []storage.Range{{P: pos.PK}, {Index: t.Index("g-all").ID, P: pos.P}} {
				rows, err := e.collect(t, r, 0)
				if err != nil {
					return err
				}
				if row == nil || len(rows) != 1 || string(rows[0].Item) != want || string(row.Item) != want {
					return fmt.Errorf("worker %d does not see its write %d: %v %v", i, n, row, rows)
				}
			}
		}
		return nil
	})
}
