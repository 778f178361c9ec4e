// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestLoadIsWhole: over many transactions, rows, entries, statistics and
// samples are there when the table is ACTIVE, and every other server knows.
func TestLoadIsWhole(t *testing.T) {
	t.Parallel()
	const rows = 2*loadRows + 100
	db := mustOpen(t, Options{})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	l := beginLoad(t, db, "t")
	_, err := other.Table(t.Context(), jobAccount, "t") // it is in the other's cache
	must(t, err)
	must(t, l.Add(t.Context(), jobRows(t, l.table, jobItems(0, rows)...)))
	var told []int64
	must(t, l.Finish(t.Context(), func(done, total int64) { told = append(told, done, total) }))
	const g, h = rows, (rows + 2) / 3
	if want := []int64{0, g + h, g, g + h, g + h, g + h}; !slices.Equal(told, want) {
		t.Errorf("progress %v, want %v", told, want)
	}
	for relation, want := range map[string]int64{
		rowsOf(l.table.ID): rows, entriesOf(l.table.Indexes[0].ID): g, entriesOf(l.table.Indexes[1].ID): h,
	} {
		if n := selectInt(t, c, "SELECT count(*) FROM "+relation); n != want {
			t.Errorf("%s has %d rows, want %d", relation, n, want)
		}
		if n := selectInt(t, c, "SELECT reltuples::bigint FROM pg_class WHERE oid = $1::regclass", relation); n != want {
			t.Errorf("%s is planned with %d rows, want %d", relation, n, want)
		}
		if n := selectInt(t, c, "SELECT count(*) FROM pg_index WHERE indrelid = $1::regclass AND indisprimary", relation); n != 1 {
			t.Errorf("%s has no primary key", relation)
		}
	}
	if n := selectInt(t, c, "SELECT count(DISTINCT ver) FROM "+rowsOf(l.table.ID)+" WHERE ver > 0"); n != rows {
		t.Errorf("%d versions", n)
	}
	for i, want := range []int{rows, g, h} {
		ix := storage.IndexID(0)
		if i > 0 {
			ix = l.table.Indexes[i-1].ID
		}
		var b []byte
		must(t, c.QueryRow(t.Context(), "SELECT positions FROM extenddb.samples WHERE t = $1 AND ix = $2", int64(l.table.ID), int64(ix)).Scan(&b))
		sample, err := storage.DecodeSample(b, ix != 0)
		must(t, err)
		if len(sample) < min(want, 2000) || !slices.IsSortedFunc(sample, storage.Position.Compare) {
			t.Errorf("sample of %d", len(sample))
		}
	}
	if ws := due(t, db, storage.Statistics, jobNow().Add(time.Hour)); len(ws) != 0 {
		t.Errorf("due at once: %+v", ws)
	}
	tab, stats, err := other.Describe(t.Context(), jobAccount, "t")
	must(t, err)
	if tab.Status != storage.Active || tab.Version != 2 || stats.Items != rows || stats.Indexes[tab.Indexes[1].ID].Items != h {
		t.Errorf("%s, version %d, %+v", tab.Status, tab.Version, stats)
	}
	checkOrphans(t, c)
}

// TestLoadOfKilledServer: wherever a server dies in a load, no other touches it
// before, and the next one that looks removes it.
func TestLoadOfKilledServer(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for point, exists := range map[string]bool{"begin": false, "rows": true, "page": true, "key": true, "publish": true, "idle": true} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := Options{}
			o.hooks.loading = func(at string) error {
				if at == point {
					return killed
				}
				return nil
			}
			db := mustOpen(t, o)
			other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
			l, err := db.Load(t.Context(), jobAccount, jobTable("t"), jobNow())
			if !exists {
				wantIs(t, err, killed)
				checkOrphans(t, c)
				if n := selectInt(t, c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND "+here); n != 0 {
					t.Errorf("%d locks are left", n)
				}
				return
			}
			must(t, err)
			err = l.Add(t.Context(), jobRows(t, l.Table(), jobItems(0, 300)...))
			if err == nil && point != "idle" {
				err = l.Finish(t.Context(), nil)
			}
			if point != "idle" {
				wantIs(t, err, killed)
			}
			for _, server := range []*DB{db, other} {
				if ws := due(t, server, storage.TableDrop, jobNow()); len(ws) > 0 {
					t.Fatalf("due while it is owned: %+v", ws)
				}
			}
			terminate(t, c, lockKey{lockLoad, int64(l.Table().ID)})
			lease := claimed(t, other, storage.TableDrop, jobNow())
			tab, _, err := other.Describe(t.Context(), jobAccount, "t")
			must(t, err)
			if tab.Status != storage.Deleting || tab.Version != 2 {
				t.Errorf("%s, version %d", tab.Status, tab.Version)
			}
			complete(t, lease, jobNow())
			checkOrphans(t, c)
			lost(t, db, l.(*loading).own)
			must(t, l.Abort())
			checkOrphans(t, c)
		})
	}
}

// TestLoadAcrossCrashOfDatabase: a database that was down for a moment ends
// the loads; none of them goes on as if nothing had been.
func TestLoadAcrossCrashOfDatabase(t *testing.T) {
	t.Parallel()
	s := servers.Private(t, "fsync=on")
	db := mustOpen(t, Options{URL: s.Database(t), AcquireTimeout: 500 * time.Millisecond})
	l, kept := beginLoad(t, db, "t"), loadedTable(t, db, "kept", 50)
	must(t, l.Add(t.Context(), jobRows(t, l.table, jobItems(0, 50)...)))
	must(t, s.Crash())
	if err := l.Abort(); err == nil {
		t.Error("aborted in a database that is down")
	}
	must(t, s.Start())
	lost(t, db, l.own)
	wantIs(t, l.Finish(t.Context(), nil), storage.ErrInvalid)
	other := mustOpen(t, Options{URL: db.o.URL})
	complete(t, claimed(t, other, storage.TableDrop, jobNow()), jobNow())
	c := mustConnect(t, db.o.URL)
	checkOrphans(t, c)
	if n := selectInt(t, c, "SELECT count(*) FROM "+rowsOf(kept.ID)); n != 50 {
		t.Errorf("%d rows of a load that was finished", n)
	}
}

// TestLoadWithoutOwnership: a load that lost its owner's connection ends with
// the next call, even before anybody has noticed.
func TestLoadWithoutOwnership(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l *loading) error{
		"add":    func(l *loading) error { return l.Add(t.Context(), jobRows(t, l.table, jobItem(7))) },
		"finish": func(l *loading) error { return l.Finish(t.Context(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			c := mustConnect(t, db.o.URL)
			l := beginLoad(t, db, "t")
			terminate(t, c, lockKey{lockLoad, int64(l.table.ID)})
			lost(t, db, l.own)
			wantIs(t, end(l), storage.ErrUnavailable)
			wantIs(t, end(l), storage.ErrInvalid)
			must(t, l.Abort())
			complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow())
			checkOrphans(t, c)
		})
	}
}

// TestLoadOfDroppedTable: a drop by another server ends a load, wherever it is.
func TestLoadOfDroppedTable(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		for _, point := range []string{"rows", "page", "key", "publish"} {
			o := Options{}
			var drop func()
			o.hooks.loading = func(at string) error {
				if at == point && drop != nil {
					drop()
					drop = nil
				}
				return nil
			}
			db := mustOpen(t, o)
			other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
			l := beginLoad(t, db, "t")
			must(t, l.Add(t.Context(), jobRows(t, l.table, jobItem(1))))
			if point == "publish" { // there it is too late to wait for: the table is ACTIVE when the drop comes
				must(t, l.Finish(t.Context(), nil))
				markDropped(t, other, "t")
			} else {
				drop = func() {
					markDropped(t, other, "t")
					if gone && point != "rows" {
						complete(t, claimed(t, other, storage.TableDrop, jobNow()), jobNow())
					}
				}
				var err error
				for n := 2; err == nil && n < 9; n++ {
					if err = l.Add(t.Context(), jobRows(t, l.table, jobItem(n))); err == nil && point != "rows" {
						err = l.Finish(t.Context(), nil)
					} else if err == nil && gone && drop == nil {
						complete(t, claimed(t, other, storage.TableDrop, jobNow()), jobNow())
					}
				}
				wantIs(t, err, storage.ErrTableNotFound)
			}
			must(t, l.Abort())
			for _, w := range due(t, other, storage.TableDrop, jobNow()) {
				lease, err := other.Claim(t.Context(), w)
				must(t, err)
				complete(t, lease, jobNow())
			}
			checkOrphans(t, c)
			if n := selectInt(t, c, "SELECT count(*) FROM extenddb.tables"); n != 0 {
				t.Errorf("%s: %d tables are left", point, n)
			}
		}
	}
}

// TestLoadCommitInDoubt: a COMMIT whose answer is lost is found out about.
func TestLoadCommitInDoubt(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			l := beginLoad(t, db, "t")
			must(t, l.Add(t.Context(), jobRows(t, l.table, jobItems(0, 10)...)))
			db.o.hooks.commit = func(ctx context.Context, tx pgx.Tx) error {
				if committed {
					must(t, tx.Commit(ctx))
				}
				must(t, tx.Conn().Close(ctx))
				return io.ErrUnexpectedEOF
			}
			err := l.Finish(t.Context(), nil)
			want := storage.Active
			if committed {
				must(t, err)
			} else {
				wantIs(t, err, storage.ErrInDoubt)
				want = storage.Deleting
			}
			must(t, l.Abort())
			tab, _, err := db.Describe(t.Context(), jobAccount, "t")
			must(t, err)
			if tab.Status != want {
				t.Errorf("%s", tab.Status)
			}
		})
	}
}

// TestLoadNotesLongKeys once.
func TestLoadNotesLongKeys(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	l := beginLoad(t, db, "t")
	must(t, l.Add(t.Context(), jobRows(t, l.table, jobItem(1))))
	noted := func() int64 {
		return selectInt(t, c, "SELECT count(*) FROM extenddb.tables WHERE long_keys")
	}
	if noted() != 0 {
		t.Error("noted without reason")
	}
	it := jobItem(2)
	it["pk"] = ddb.String(strings.Repeat("x", 301))
	must(t, l.Add(t.Context(), jobRows(t, l.table, it)))
	if noted() != 1 {
		t.Error("not noted")
	}
	must(t, l.Abort())
}

// TestLoadHoldsNobody: while entries are sorted into their index, there is no
// transaction that streams would wait for, nor does it wait for snapshots.
func TestLoadHoldsNobody(t *testing.T) {
	t.Parallel()
	var pages int
	var look func()
	o := Options{}
	o.hooks.loading = func(at string) error {
		if at == "page" {
			pages++
			look()
		}
		return nil
	}
	db := mustOpen(t, o)
	c, reader := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	look = func() {
		if n := selectInt(t, c, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid NOT IN ($1, $2)
			AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)`, c.PgConn().PID(), reader.PgConn().PID()); n != 0 {
			t.Errorf("%d transactions are open", n)
		}
	}
	mustExec(t, reader, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	mustExec(t, reader, "SELECT count(*) FROM extenddb.tables")
	const rows = 3*countPage + 1
	if tab := loadedTable(t, db, "t", rows); pages != 4+2 || len(tab.Indexes) != 2 { // every third row is in the other
		t.Errorf("%d pages", pages)
	}
	checkOrphans(t, c)
}

// TestLoadOfFrozenServer: another server ends the COPY of one that sends
// nothing more, but not before it has had its time, nor that of anybody else.
func TestLoadOfFrozenServer(t *testing.T) {
	t.Parallel()
	calm := mustOpen(t, Options{})
	o := Options{URL: calm.o.URL}
	o.hooks.frozen = time.Microsecond
	strict := mustOpen(t, o)
	tab, err := calm.CreateTable(t.Context(), jobAccount, jobTable("t"), jobNow())
	must(t, err)
	frozen, restore, c := outsider(t, calm, "extenddb"), outsider(t, calm, "pg_restore"), mustConnect(t, calm.o.URL)
	pid, unfreeze := frozen.PgConn().PID(), make(chan struct{})
	freeze := func(c *pgx.Conn, from, to int) <-chan error {
		ended, rows := make(chan error, 1), jobRows(t, tab, jobItems(from, to)...)
		go func() {
			ended <- copyIn(t.Context(), c, rowsOf(tab.ID)+rowColumns, newCopyStream(func(yield func([]byte) bool) {
				for tuple := range rowTuples(rows) {
					if !yield(tuple) {
						return
					}
				}
				<-unfreeze
			}))
		}()
		return ended
	}
	ended, restored := freeze(frozen, 0, 3000), freeze(restore, 3000, 6000)
	for selectInt(t, c, `SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1) AND backend_xid IS NOT NULL AND wait_event = 'ClientRead'`,
		[]uint32{pid, restore.PgConn().PID()}) < 2 {
		must(t, t.Context().Err())
	}
	must(t, calm.session.do(t.Context(), calm.session.others, nil))
	if selectInt(t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0 {
		t.Error("ended at once")
	}
	must(t, strict.session.do(t.Context(), strict.session.others, nil))
	for selectInt(t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) != 0 {
		must(t, t.Context().Err())
	}
	close(unfreeze)
	if err := <-ended; codeOf(err) != "57P01" && !errors.As(err, new(net.Error)) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("its COPY ended with %v", err)
	}
	must(t, <-restored)
}

// TestLoadDuplicates names the first row of a key that is there twice, whichever
// transaction that falls into.
func TestLoadDuplicates(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	for name, k := range map[string]struct {
		at   map[int]int // place: the item that is there instead
		want int
	}{
		"of-another-call":             {map[int]int{7: -1}, 7},
		"here-before-another-call":    {map[int]int{5: 3, 7: -1}, 5},
		"another-call-before-here":    {map[int]int{5: -1, 7: 3}, 5},
		"of-the-transaction-before":   {map[int]int{loadRows + 10: 3}, loadRows + 10},
		"the-first-of-three":          {map[int]int{20: 3, 10: 3}, 10},
		"here-and-before-in-one-call": {map[int]int{loadRows + 5: loadRows + 4, loadRows + 9: 2}, loadRows + 5},
	} {
		l := beginLoad(t, db, name)
		items := jobItems(0, loadRows+20)
		for at, i := range k.at {
			items[at] = jobItem(max(i, 0))
			if i < 0 {
				items[at] = jobItem(90_000)
			}
		}
		must(t, l.Add(t.Context(), jobRows(t, l.table, jobItem(90_000))))
		err := l.Add(t.Context(), jobRows(t, l.table, items...))
		var d *storage.DuplicateKey
		if !errors.As(err, &d) || d.Row != k.want {
			t.Errorf("%s: error %v, want row %d", name, err, k.want)
		}
		must(t, l.Abort())
	}
	checkOrphans(t, c)
}

// TestLoadWaitsForConnections that snapshots and loads may hold, and leaves the
// others to requests.
func TestLoadWaitsForConnections(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 4})
	var held []func()
	for {
		release, ok := db.longs.try()
		if !ok {
			break
		}
		held = append(held, release)
	}
	if len(held) != 2 {
		t.Errorf("%d may be held", len(held))
	}
	l := beginLoad(t, db, "t")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantIs(t, l.Add(ctx, jobRows(t, l.table, jobItem(1))), context.DeadlineExceeded)
	must(t, l.Abort())
	l = beginLoad(t, db, "u")
	held[0]()
	held[0]()
	must(t, l.Add(t.Context(), jobRows(t, l.table, jobItem(1))))
	must(t, l.Finish(t.Context(), nil))
	if _, ok := db.longs.try(); !ok {
		t.Error("the load keeps what it held")
	}
	if _, ok := db.longs.try(); ok {
		t.Error("a permit that was given back twice counts twice")
	}
}

// TestCopyStream: any size of buffer gives the same bytes; after its stop
// nothing is read any more.
func TestCopyStream(t *testing.T) {
	t.Parallel()
	tuples := [][]byte{{0, 1, 0, 0, 0, 1, 7}, bytes.Repeat([]byte("x"), 1000), {1}}
	want := []byte(copyHeader + string(tuples[0]) + string(tuples[1]) + string(tuples[2]) + "\xff\xff")
	for _, size := range []int{1, 2, 19, 20, 999, 5000} {
		s := newCopyStream(slices.Values(tuples))
		var got []byte
		b := make([]byte, size)
		for {
			n, err := s.Read(b)
			got = append(got, b[:n]...)
			if err != nil {
				wantIs(t, err, io.EOF)
				break
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes at a time: %q", size, got)
		}
		s.stop()
		s.stop()
	}
	s := newCopyStream(func(func([]byte) bool) { t.Error("read after its stop") })
	s.stop()
	if n, err := s.Read(make([]byte, 100)); n != 0 || err == nil {
		t.Errorf("%d bytes after its stop, %v", n, err)
	}
}

// TestLoadSurvivesNothingOfItsConnection: one that is lost in the middle of a
// COPY fails the load, which can be aborted.
func TestLoadSurvivesNothingOfItsConnection(t *testing.T) {
	t.Parallel()
	o := Options{}
	var kill func()
	o.hooks.loading = func(at string) error {
		if at == "rows" && kill != nil {
			kill()
		}
		return nil
	}
	db := mustOpen(t, o)
	c := mustConnect(t, db.o.URL)
	l := beginLoad(t, db, "t")
	kill = func() {
		mustExec(t, c, `SELECT pg_terminate_backend(a.pid, 10000) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
			WHERE l.relation = $1::regclass AND l.mode = 'RowExclusiveLock' AND `+here, rowsOf(l.table.ID))
	}
	err := l.Add(t.Context(), jobRows(t, l.table, jobItems(0, 50)...))
	wantIs(t, err, storage.ErrUnavailable)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code[:2] != "57" {
		t.Errorf("error %v", err)
	}
	must(t, l.Abort())
	complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow())
	checkOrphans(t, c)
}
