// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// reader follows the records of a table. next says up to where it reads.
type reader struct {
	name    string
	missing bool         // it is known to miss records
	end     func() int64 // where it gets to at last; nil: it reads until nothing comes
	next    func(ctx context.Context, c *pgx.Conn, last int64) ([]storage.Record, int64, error)

	records []storage.Record
}

// faults counts what a reader missed, got twice, or saw in the wrong order of
// a row, compared with all records there are.
func (r *reader) faults(all []storage.Record) (missed, twice, inverted int) {
	seen, latest := map[int64]bool{}, map[string]int64{}
	for _, x := range r.records {
		if seen[x.Seq] {
			twice++
		}
		seen[x.Seq] = true
		if x.Seq < latest[string(x.Key.PK)] {
			inverted++
		}
		latest[string(x.Key.PK)] = x.Seq
	}
	for _, x := range all {
		if !seen[x.Seq] {
			missed++
		}
	}
	return missed, twice, inverted
}

const selectRecords = "SELECT seq, pk FROM extenddb.changes WHERE "

func readRecords(ctx context.Context, c *pgx.Conn, where string, args ...any) ([]storage.Record, error) {
	rows, err := c.Query(ctx, selectRecords+where+" ORDER BY seq", args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r storage.Record, err error) {
		err = row.Scan(&r.Seq, &r.Key.PK)
		return r, err
	})
}

func after(records []storage.Record, last int64) int64 {
	if len(records) > 0 {
		return records[len(records)-1].Seq
	}
	return last
}

// TestHorizonReader: a reader at the horizon gets each record once, those of a
// row in their order. Readers that believe the sequence, or the ids of
// transactions, do not.
func TestHorizonReader(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	o := Options{URL: one.o.URL}
	o.hooks.write.before = func(ctx context.Context, _ ...*change) error {
		if rand.IntN(4) == 0 {
			return pause(ctx, 3)
		}
		return nil
	}
	two := mustOpen(t, o)
	tab := create(t, one, streaming(indexed("t", "n"), ddb.ViewKeysOnly))
	mustExec(t, mustConnect(t, one.o.URL), "ALTER TABLE extenddb.changes ADD COLUMN xid xid8 DEFAULT pg_current_xact_id()")
	var end atomic.Int64
	readers := []*reader{
		{name: "horizon", end: end.Load, next: func(ctx context.Context, _ *pgx.Conn, last int64) ([]storage.Record, int64, error) {
			h, err := one.Horizon(ctx)
			if err != nil || h == last {
				return nil, last, err
			}
			records, err := one.Records(ctx, tab.ID, last, h, 1<<20, 0)
			return records, h, err
		}},
		{name: "sequence", missing: true, next: func(ctx context.Context, c *pgx.Conn, last int64) ([]storage.Record, int64, error) {
			records, err := readRecords(ctx, c, "seq > $1", last)
			return records, after(records, last), err
		}},
		{name: "oldest transaction", missing: true, next: func(ctx context.Context, c *pgx.Conn, last int64) ([]storage.Record, int64, error) {
			records, err := readRecords(ctx, c, "seq > $1 AND xid < pg_snapshot_xmin(pg_current_snapshot())", last)
			return records, after(records, last), err
		}},
		{name: "window of transactions", next: windowReader},
	}
	loaded := make(chan struct{})
	var reading sync.WaitGroup
	for _, r := range readers {
		c := mustConnect(t, one.o.URL)
		reading.Go(func() {
			if err := r.follow(t.Context(), c, loaded); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		})
	}
	c := mustConnect(t, one.o.URL)
	err := streamLoad(t.Context(), t, []*DB{one, two}, tab)
	if err == nil {
		err = allEnded(t.Context(), c)
	}
	var last int64
	if err == nil {
		err = c.QueryRow(t.Context(), lastSeq).Scan(&last)
	}
	end.Store(last)
	close(loaded)
	reading.Wait()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readRecords(t.Context(), c, "true")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readers {
		missed, twice, inverted := r.faults(all)
		t.Logf("%s: of %d records %d missed, %d twice, %d inverted", r.name, len(all), missed, twice, inverted)
		switch sound := missed+twice+inverted == 0; {
		case r.name == "horizon" && !sound:
			t.Error("the reader at the horizon has faults")
		case r.name != "horizon" && sound && r.missing:
			t.Errorf("the reader by %s has no fault: the test sees nothing", r.name)
		}
	}
}

// TestWindowInverts: the ids of transactions are not in the order in which they
// got a row, so who reads by windows of ids sees the later change of it first.
// The reader at the horizon does not.
func TestWindowInverts(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, streaming(hashTable("t"), ddb.ViewKeysOnly))
	early, between, c := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	mustExec(t, c, "ALTER TABLE extenddb.changes ADD COLUMN xid xid8 DEFAULT pg_current_xact_id()")
	for _, x := range []*pgx.Conn{early, between} {
		mustExec(t, x, "BEGIN")
		mustExec(t, x, "SELECT pg_current_xact_id()")
	}
	mustWrite(t, db, add(tab, "x", 1))
	w := &change{w: add(tab, "x", 1)}
	row, err := db.Get(t.Context(), tab, key(tab, "x"))
	if err == nil {
		err = w.decide(tab, row)
	}
	if err != nil {
		t.Fatal(err)
	}
	sql, args, err := db.writing(w, true)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, early, sql, args...)
	mustExec(t, early, "COMMIT")
	by := map[string]*reader{"window": {next: windowReader}, "horizon": {next: func(ctx context.Context, _ *pgx.Conn, last int64) ([]storage.Record, int64, error) {
		h, err := db.Horizon(ctx)
		if err != nil {
			return nil, 0, err
		}
		records, err := db.Records(ctx, tab.ID, last, h, 10, 0)
		return records, h, err
	}}}
	last := map[string]int64{}
	read := func() {
		for name, r := range by {
			records, next, err := r.next(t.Context(), c, last[name])
			if err != nil {
				t.Fatal(name, err)
			}
			r.records, last[name] = append(r.records, records...), next
		}
	}
	for len(by["window"].records) == 0 { // other tests delay it
		read()
	}
	mustExec(t, between, "COMMIT")
	for len(by["window"].records) < 2 || len(by["horizon"].records) < 2 {
		read()
	}
	for name, want := range map[string]int{"window": 1, "horizon": 0} {
		if missed, twice, inverted := by[name].faults(by["horizon"].records); missed+twice > 0 || inverted != want {
			t.Errorf("%s: %d missed, %d twice, %d inverted, want %d inverted", name, missed, twice, inverted, want)
		}
	}
}

// windowReader reads what transactions wrote that ended since the last time;
// last is the id they begin at.
func windowReader(ctx context.Context, c *pgx.Conn, last int64) ([]storage.Record, int64, error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var xmin string
	if err := tx.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text").Scan(&xmin); err != nil {
		return nil, 0, err
	}
	records, err := readRecords(ctx, tx.Conn(), "xid >= $1::text::xid8 AND xid < $2::text::xid8", strconv.FormatInt(last, 10), xmin)
	if err != nil {
		return nil, 0, err
	}
	next, err := strconv.ParseInt(xmin, 10, 64)
	return records, next, err
}

// allEnded waits until every transaction that runs now has ended, those of
// other tests on the same server too.
func allEnded(ctx context.Context, c *pgx.Conn) error {
	var limit string
	if err := c.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&limit); err != nil {
		return err
	}
	for ended := false; !ended; {
		err := c.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8", limit).Scan(&ended)
		if err != nil {
			return err
		}
	}
	return nil
}

// follow reads until the load has ended and everything was served.
func (r *reader) follow(ctx context.Context, c *pgx.Conn, loaded chan struct{}) error {
	last := int64(0)
	for quiet := 0; quiet < 3; {
		ended := false
		select {
		case <-loaded:
			ended = true
		default:
		}
		records, next, err := r.next(ctx, c, last)
		if err != nil {
			return err
		}
		r.records, last = append(r.records, records...), next
		if quiet++; !ended || len(records) > 0 || r.end != nil && last < r.end() {
			quiet = 0
		}
		if err := pause(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// streamLoad writes in every way: single rows, transactions of several,
// refused ones, and transactions of somebody else that draw numbers and are
// slow or undone.
func streamLoad(ctx context.Context, t testing.TB, dbs []*DB, tab *storage.Table) error {
	const writers, each, keys = 12, 60, 20
	conns := make([]*pgx.Conn, writers)
	for i := range conns {
		conns[i] = mustConnect(t, dbs[0].o.URL)
	}
	return together(writers, func(i int) error {
		db := dbs[i%len(dbs)]
		for n := range each {
			k := rand.Perm(keys)[:3]
			ws := make([]storage.Write, len(k))
			for j, x := range k {
				ws[j] = add(tab, fmt.Sprint(x), 1)
			}
			var err error
			switch n % 6 {
			case 0:
				_, err = db.WriteAll(ctx, ws, nil)
			case 1:
				ws[1].Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, errors.New("no") }
				if _, err = db.WriteAll(ctx, ws, nil); errors.As(err, new(*storage.Cancelled)) {
					err = nil
				}
			case 2:
				err = slowRecord(ctx, conns[i], tab, n%4 == 0)
			default:
				_, err = db.Write(ctx, ws[0])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// slowRecord writes a record as our statements do, of a row of its own, in a
// transaction that lasts.
func slowRecord(ctx context.Context, c *pgx.Conn, tab *storage.Table, undo bool) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for range 2 {
		_, err := tx.Exec(ctx, `INSERT INTO extenddb.changes (seq, t, pk, sk, kind, service, size, at, keys)
			SELECT nextval('extenddb.change_seq'), $1, convert_to(pg_backend_pid()::text, 'UTF8'), '', 1, false, 0, now(), ''
			WHERE pg_current_xact_id() IS NOT NULL`, int64(tab.ID))
		if err != nil {
			return err
		}
		if err := pause(ctx, 5); err != nil {
			return err
		}
	}
	if undo {
		return nil
	}
	return tx.Commit(ctx)
}
