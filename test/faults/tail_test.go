// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/postgres"
)

// streamed are the tables whose streams are read.
func streamed() []string { return []string{"journal", "owned"} }

// tail reads the streams of the tables at the horizon while servers write, as
// one more server would.
type tail struct {
	db     *postgres.DB
	ledger *ledger
	stop   context.CancelFunc
	over   sync.WaitGroup

	tables []*storage.Table
	state  []map[string]string // key to item, as the records tell it
	seen   []int64             // of each table: up to where it was read
	top    int64               // the greatest horizon so far
	count  int
}

// follow gives the tables streams of both images and begins to read.
func follow(t *testing.T, url string, l *ledger) *tail {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Options{URL: url, MaxConns: 4, Clock: clock.Real{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	f := &tail{db: db, ledger: l, stop: stop}
	for _, name := range streamed() {
		tab, err := db.UpdateTable(ctx, auth.DefaultAccount, name, func(tab *storage.Table) (ddb.TableDefinition, error) {
			def := tab.Def
			def.StreamViewType = "NEW_AND_OLD_IMAGES"
			return def, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f.tables, f.state, f.seen = append(f.tables, tab), append(f.state, map[string]string{}), append(f.seen, 0)
	}
	f.over.Go(func() {
		for ctx.Err() == nil {
			f.step(ctx)
			rest(20 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); f.over.Wait() })
	return f
}

// step reads what has come below the horizon. A database that is away is what
// the test is about.
func (f *tail) step(ctx context.Context) {
	horizon, err := f.db.Horizon(ctx)
	if err == nil && horizon < f.top {
		f.ledger.problem("the horizon falls from %d to %d", f.top, horizon)
	}
	f.top = max(f.top, horizon)
	for i, tab := range f.tables {
		for err == nil && f.seen[i] < horizon {
			var records []storage.Record
			if records, err = f.db.Records(ctx, tab.ID, f.seen[i], horizon, 500, 4<<20); err != nil {
				break
			}
			for _, r := range records {
				f.take(i, r, horizon)
			}
			if len(records) == 0 {
				f.seen[i] = horizon
			}
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, storage.ErrUnavailable) {
		f.ledger.problem("read the stream: %w", err)
	}
}

// take applies a record: its number is new, and its old image is what the
// records before it left.
func (f *tail) take(i int, r storage.Record, horizon int64) {
	name := f.tables[i].Name()
	if r.Seq <= f.seen[i] || r.Seq > horizon {
		f.ledger.problem("stream of %s: record %d comes after %d, at horizon %d", name, r.Seq, f.seen[i], horizon)
	}
	f.seen[i] = r.Seq
	key := string(r.Key.PK) + "\x00" + string(r.Key.SK)
	if was := f.state[i][key]; was != string(r.Old) {
		f.ledger.problem("stream of %s: record %d replaces %.200q where %.200q is: one is missing, twice there or out of order", name, r.Seq, r.Old, was)
	}
	f.count++
	if f.state[i][key] = string(r.New); len(r.New) == 0 {
		delete(f.state[i], key)
	}
}

// finish reads the rest and compares what the records add up to with the
// tables. Nobody may write any more.
func (f *tail) finish(t *testing.T) {
	t.Helper()
	f.stop()
	f.over.Wait()
	difference := ""
	for began := time.Now(); time.Since(began) < 30*time.Second; rest(20 * time.Millisecond) {
		f.step(t.Context())
		if difference = f.difference(t); difference == "" {
			t.Logf("%d change records", f.count)
			return
		}
	}
	f.ledger.problem("the streams are not what the tables are: %s", difference)
}

func (f *tail) difference(t *testing.T) string {
	t.Helper()
	for i, tab := range f.tables {
		rows := 0
		for row, err := range f.db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
			if got := f.state[i][string(row.Key.PK)+"\x00"+string(row.Key.SK)]; got != string(row.Item) {
				return fmt.Sprintf("%s: the records leave %.200q, the table holds %.200q", tab.Name(), got, row.Item)
			}
		}
		if rows != len(f.state[i]) {
			return fmt.Sprintf("%s: the records leave %d items, the table holds %d", tab.Name(), len(f.state[i]), rows)
		}
	}
	return ""
}
