// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// chain follows the records of a table: of each key, each begins where the one
// before it ended.
type chain struct {
	last  int64             // number
	items map[string]string // by key; "" and absent are the same
	n     int
}

func (c *chain) add(r storage.Record) error {
	if r.Seq <= c.last {
		return fmt.Errorf("number %d comes after %d", r.Seq, c.last)
	}
	c.last = r.Seq
	c.n++
	k := place(tablePosition(r.Key))
	if c.items[k] != string(r.Old) {
		return fmt.Errorf("record %d of key %s goes from %q, but the one before it left %q", r.Seq, r.Keys, r.Old, c.items[k])
	}
	if (r.Old == nil) != (r.Kind == storage.RecordInsert) || (r.New == nil) != (r.Kind == storage.RecordRemove) || string(r.Old) == string(r.New) {
		return fmt.Errorf("record %d is of kind %d: from %q to %q", r.Seq, r.Kind, r.Old, r.New)
	}
	c.items[k] = string(r.New)
	return nil
}

// follow reads what is new up to the horizon, in small pages.
func (c *chain) follow(ctx context.Context, e storage.Engine, id storage.TableID) error {
	h, err := e.Horizon(ctx)
	if err != nil {
		return err
	}
	for after := c.last; ; {
		rs, err := e.Records(ctx, id, after, h, 7, 0)
		if err != nil || len(rs) == 0 {
			return err
		}
		for _, r := range rs {
			if err := c.add(r); err != nil {
				return err
			}
		}
		after = c.last
	}
}

// checkStreamsAtOnce: readers at the horizon miss nothing, see nothing twice
// and nothing of one row in another order, whoever writes meanwhile.
func checkStreamsAtOnce(e *env) {
	t := e.create(streaming(define("t", "pk:S", index{"g", "g:S", ddb.ProjectKeysOnly}), ddb.ViewBoth))
	e.horizon() // its table is there before the race
	const readers = 2
	chains := make([]*chain, readers)
	changed := make([]int, workers) // rows, by whom
	ctx, stop := context.WithCancel(e.ctx)
	var reading sync.WaitGroup
	failed := make([]error, readers)
	for i := range chains {
		chains[i] = &chain{items: map[string]string{}}
		reading.Go(func() {
			for ctx.Err() == nil && failed[i] == nil {
				failed[i] = chains[i].follow(e.ctx, e.e, t.ID)
				runtime.Gosched()
			}
		})
	}
	e.together(workers, func(i int) error {
		rnd := rand.New(rand.NewPCG(uint64(i), 7))
		for n := range repeats {
			done, err := e.stir(t, rnd, fmt.Sprint(i, " ", n))
			if err != nil {
				stop()
				return err
			}
			changed[i] += done
		}
		return nil
	})
	stop()
	reading.Wait()
	e.ok(errors.Join(failed...))
	e.horizon()
	want := 0
	for _, n := range changed {
		want += n
	}
	for i, c := range chains {
		e.ok(c.follow(e.ctx, e.e, t.ID))
		equal(e, fmt.Sprint("records that reader ", i, " saw"), c.n, want)
		for _, row := range e.rows(t, storage.Range{}) {
			k := place(tablePosition(row.Key))
			equal(e, "item after its last record", c.items[k], string(row.Item))
			delete(c.items, k)
		}
		for k, it := range c.items {
			equal(e, "item of absent row "+k, it, "")
		}
	}
	e.consistent(t)
}

// stir changes some of a few rows in one of many ways and tells how many.
func (e *env) stir(t *storage.Table, rnd *rand.Rand, tag string) (changed int, err error) {
	const rows = 5
	did := make([]bool, rows)
	change := func(k int) storage.Write {
		it := item("pk", fmt.Sprint(k), "g", fmt.Sprint(rnd.IntN(2)))
		w, kind := putWrite(t, with(it, "x", tag)), rnd.IntN(5)
		derive := w.Decide
		w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
			did[k] = cur != nil || kind != 0
			switch {
			case kind == 0: // delete
				return nil, nil
			case kind == 1 && cur != nil: // leave it
				did[k] = false
				return storage.Unchanged, nil
			case kind == 2:
				did[k] = false
				return nil, &refusal{k}
			}
			return derive(t, cur)
		}
		return w
	}
	refused := func(err error) error {
		if errors.As(err, new(*refusal)) {
			return nil
		}
		return err
	}
	perm := rnd.Perm(rows)
	switch rnd.IntN(4) {
	case 0:
		if _, err = e.e.WriteAll(e.ctx, []storage.Write{change(perm[0]), change(perm[1]), change(perm[2])}, nil); err != nil {
			clear(did) // nothing of it was done
			err = refusedOrDone(err)
		}
	case 1:
		for _, r := range e.e.WriteEach(e.ctx, []storage.Write{change(perm[0]), change(perm[1])}) {
			err = errors.Join(err, refused(r.Err))
		}
	default:
		_, err = e.e.Write(e.ctx, change(perm[0]))
		err = refused(err)
	}
	for _, d := range did {
		if d {
			changed++
		}
	}
	return changed, err
}

// checkViewSwitched: the definition that a write ran with says what is
// recorded of it, while streams are switched off and on.
func checkViewSwitched(e *env) {
	t := e.create(streaming(define("t", "pk:S/sk:N"), ddb.ViewBoth))
	e.horizon()
	kinds := append(views(), "")
	var written sync.Map // the view of each item's write, by item
	var switched, made atomic.Int64
	e.together(workers, func(i int) error {
		for n := range repeats {
			if i == 0 {
				_, err := e.e.UpdateTable(e.ctx, account, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
					return streaming(t.Def, kinds[n%len(kinds)]), nil
				})
				if err != nil {
					return err
				}
				switched.Add(1)
				for made.Load() < int64(n*(workers-1)/2) { // some of each kind
					runtime.Gosched()
				}
				continue
			}
			made.Add(1)
			it := item("pk", fmt.Sprint(i), "sk", n)
			w := putWrite(t, it)
			w.Blind = n%2 == 0
			var r storage.Result
			var err error
			if n%3 == 0 {
				var rs []storage.Result
				if rs, err = e.e.WriteAll(e.ctx, []storage.Write{w}, nil); err == nil {
					r = rs[0]
				}
			} else {
				r, err = e.e.Write(e.ctx, w)
			}
			if err != nil {
				made.Store(math.MaxInt32)
				return err
			}
			written.Store(string(ddb.AppendItem(nil, it)), r.Table.Def.StreamViewType)
		}
		return nil
	})
	equal(e, "changes of the definition", switched.Load(), repeats)
	got := map[string]storage.Record{}
	for _, r := range e.records(t.ID, e.horizon()) {
		if _, twice := got[string(r.Keys)]; twice {
			e.Fatalf("two records of %s", r.Keys)
		}
		got[string(r.Keys)] = r
	}
	written.Range(func(k, v any) bool {
		it, view := k.(string), v.(string) // of key attributes alone: both are the same text
		r, there := got[it]
		image := view == ddb.ViewNew || view == ddb.ViewBoth
		if there != (view != "") || there && (r.Kind != storage.RecordInsert || (r.New != nil) != image || r.Old != nil) {
			e.Fatalf("the write of %s ran with view %q, its record is %+v (there: %v)", it, view, r, there)
		}
		return true
	})
}
