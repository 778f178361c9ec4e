// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// stress lets several servers, none of which hears of any change, write to one
// table while indexes are added to it and dropped, and compares all entries
// with the rows after each.
type stress struct {
	length  time.Duration
	pause   time.Duration // the longest of a writer between reading and writing
	workers int
	// Faults, each of which is to be seen.
	noBarrier, guardApart, repeatableRead, noVersions, noFill bool
}

const (
	stressServers = 3
	stressHot     = 30
	stressKeys    = 500
	stressLive    = 3 // indexes at a time
)

// run returns how often an index was added, and what was found to be wrong
// with the entries. It ends early when something is.
func (s stress) run(t *testing.T) (adds int, problems []string) {
	t.Helper()
	url := servers.Database(t)
	b := &builder{TB: t, s: s, c: mustConnect(t, url), lock: mustConnect(t, url), building: map[int64]storage.IndexID{}}
	dbs := make([]*DB, stressServers)
	for i := range dbs {
		dbs[i] = s.server(t, url, b)
	}
	tab := create(t, dbs[0], hashTable("t"))
	b.id = tab.ID
	var fill []storage.Write
	for i := range stressKeys {
		fill = append(fill, put(tab, item(fmt.Sprint("k", i), "a", fmt.Sprint(i%50), "b", fmt.Sprint(i%7))))
	}
	for _, r := range dbs[0].WriteEach(t.Context(), fill) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	var working sync.WaitGroup
	var writes, failures atomic.Int64
	for i := range s.workers {
		working.Go(func() {
			for ctx.Err() == nil {
				err := stressWrite(ctx, dbs[i%len(dbs)], tab, i%4 == 0)
				writes.Add(1)
				if err != nil && ctx.Err() == nil {
					failures.Add(1)
					if !s.faulty() && !errors.Is(err, storage.ErrConflict) {
						t.Errorf("write: %v", err)
					}
				}
			}
		})
	}
	limit, cancel := context.WithTimeout(ctx, s.length)
	defer cancel()
	for limit.Err() == nil && len(problems) == 0 && !t.Failed() {
		b.round(ctx)
		adds++
		problems = b.check(ctx)
	}
	stop()
	working.Wait()
	if len(problems) == 0 {
		problems = b.check(context.WithoutCancel(ctx))
	}
	t.Logf("%d indexes added, %d writes, %d of them failed, %d problems", adds, writes.Load(), failures.Load(), len(problems))
	return adds, problems
}

func (s stress) faulty() bool {
	return s.noBarrier || s.guardApart || s.repeatableRead || s.noVersions || s.noFill
}

// server opens one with its faults.
func (s stress) server(t *testing.T, url string, b *builder) *DB {
	t.Helper()
	o := Options{URL: url, MaxConns: 16}
	o.hooks.heard = func(string) bool { return false }
	o.hooks.write.building = func(t *storage.Table, ix storage.IndexID) bool { return !s.noFill && b.isBuilding(t.Version, ix) }
	o.hooks.write.general = func(*storage.Table) bool { return rand.IntN(2) == 0 }
	var db *DB
	o.hooks.write.before = func(ctx context.Context, cs ...*change) error {
		if s.guardApart {
			for _, c := range cs {
				t, err := db.Table(ctx, acct, "t") // what is known is what was decided by, or newer
				if err != nil || t.Version != c.t.Version || !b.current(ctx, c.t.Version) {
					return storage.ErrStale
				}
			}
		}
		var d time.Duration
		switch n := rand.IntN(20); {
		case n == 0:
			d = rand.N(s.pause)
		case n < 6:
			d = rand.N(15 * time.Millisecond)
		default:
			return nil
		}
		wait, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		<-wait.Done()
		return ctx.Err()
	}
	if s.guardApart {
		o.hooks.write.text = func(sql string) string { return strings.Replace(sql, "version = $1::bigint", "$1::bigint > 0", 1) }
	}
	db = mustOpen(t, o)
	if s.repeatableRead {
		repeatableRead(t, db)
	}
	return db
}

// stressWrite puts, puts if absent, changes the key of an index, or deletes;
// with many, three rows in a transaction.
func stressWrite(ctx context.Context, db *DB, tab *storage.Table, many bool) error {
	n := 1
	if many {
		n = 3
	}
	var ws []storage.Write
	used := map[string]bool{}
	for len(ws) < n {
		k := fmt.Sprint("k", rand.IntN(stressKeys))
		if rand.IntN(2) == 0 {
			k = fmt.Sprint("k", rand.IntN(stressHot))
		}
		if used[k] {
			continue
		}
		used[k] = true
		ws = append(ws, stressChange(tab, k))
	}
	if many {
		_, err := db.WriteAll(ctx, ws, nil)
		return err
	}
	_, err := db.Write(ctx, ws[0])
	return err
}

func stressChange(tab *storage.Table, k string) storage.Write {
	kind, a, b, pad := rand.IntN(6), fmt.Sprint(rand.IntN(50)), fmt.Sprint(rand.IntN(7)), strings.Repeat("p", rand.IntN(3))
	fresh := item(k, "a", a, "b", b, "pad", pad)
	return storage.Write{Table: tab, Key: key(tab, k), Blind: kind == 0, Decide: func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		switch {
		case kind <= 1 || cur == nil:
			return storage.Derive(t, fresh)
		case kind == 2:
			return nil, nil
		case kind == 3:
			return storage.Unchanged, nil // it is there already
		}
		it, err := ddb.ParseItem(cur.Item)
		if err != nil {
			return nil, err
		}
		it["pad"] = ddb.String(pad) // b stays, and its entry with it
		if kind == 4 {
			it["a"] = ddb.String(a)
		}
		return storage.Derive(t, it)
	}}
}

// builder adds and drops indexes of a table as a job of a server would, by
// statements of its own.
type builder struct {
	testing.TB
	s       stress
	c, lock *pgx.Conn
	id      storage.TableID
	n       int
	live    []storage.IndexID

	mu       sync.RWMutex
	building map[int64]storage.IndexID // by version of the definition
	versions *pgx.Conn
}

func (b *builder) isBuilding(version int64, ix storage.IndexID) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.building[version] == ix
}

// current looks whether a version is the current one, as a guard must not.
func (b *builder) current(ctx context.Context, version int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.versions == nil {
		b.versions = mustConnect(b, b.c.Config().ConnString())
	}
	var found bool
	err := b.versions.QueryRow(ctx, "SELECT count(*) = 1 FROM extenddb.tables WHERE id = $1 AND version = $2", int64(b.id), version).Scan(&found)
	return err == nil && found
}

func (b *builder) exec(ctx context.Context, c *pgx.Conn, sql string, args ...any) {
	b.Helper()
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// again runs a transaction until it meets no lock.
func (b *builder) again(ctx context.Context, c *pgx.Conn, f func(tx pgx.Tx) error) {
	b.Helper()
	for n := 0; ; n++ {
		err := pgx.BeginFunc(ctx, c, f)
		if err == nil {
			return
		}
		if !isConflict(err) {
			b.Fatal(err)
		}
		if err := pause(ctx, n); err != nil {
			b.Fatal(err)
		}
	}
}

// define changes the definition, and tells which index is being built with it.
func (b *builder) define(ctx context.Context, ix storage.IndexID, change func(def *ddb.TableDefinition, tx pgx.Tx) error) {
	b.Helper()
	b.again(ctx, b.c, func(tx pgx.Tx) error {
		var version int64
		var text []byte
		err := tx.QueryRow(ctx, "SELECT version, definition FROM extenddb.tables WHERE id = $1 FOR UPDATE", int64(b.id)).Scan(&version, &text)
		if err != nil {
			return err
		}
		var def ddb.TableDefinition
		if err := json.Unmarshal(text, &def); err != nil {
			return err
		}
		if err := change(&def, tx); err != nil {
			return err
		}
		if text, err = json.Marshal(def); err != nil {
			return err
		}
		b.mu.Lock()
		b.building[version+1] = ix
		b.mu.Unlock()
		_, err = tx.Exec(ctx, "UPDATE extenddb.tables SET version = version + 1, definition = $2 WHERE id = $1", int64(b.id), text)
		return err
	})
}

// round adds an index and, when there are enough, drops the oldest.
func (b *builder) round(ctx context.Context) {
	b.Helper()
	b.n++
	var id storage.IndexID
	if err := b.c.QueryRow(ctx, "SELECT nextval('extenddb.ids')").Scan(&id); err != nil {
		b.Fatal(err)
	}
	b.exec(ctx, b.c, createEntries(id))
	name, attr := fmt.Sprint("ix", id), string("ab"[b.n%2])
	define := func() {
		b.define(ctx, id, func(def *ddb.TableDefinition, tx pgx.Tx) error {
			if def.AttributeKind(attr) == 0 {
				def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: attr, AttributeType: "S"})
			}
			def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ddb.IndexDefinition{
				IndexName: name, KeySchema: []ddb.KeySchemaElement{{AttributeName: attr, KeyType: ddb.Hash}},
				Projection: ddb.Projection{ProjectionType: ddb.ProjectAll},
			})
			_, err := tx.Exec(ctx, "INSERT INTO extenddb.indexes (id, t, name) VALUES ($1, $2, $3)", int64(id), int64(b.id), name)
			return err
		})
	}
	b.barrier(ctx, define)
	b.fill(ctx, id)
	b.define(ctx, 0, func(*ddb.TableDefinition, pgx.Tx) error { return nil }) // ACTIVE
	if b.live = append(b.live, id); len(b.live) > stressLive {
		b.drop(ctx, b.live[0])
		b.live = b.live[1:]
	}
}

// barrier waits for every write that may go by the definition before define.
// Whether define is committed before the lock is granted or while it is held
// makes no difference; writers that wait for it must see it.
func (b *builder) barrier(ctx context.Context, define func()) {
	b.Helper()
	wait := "SET LOCAL lock_timeout = '200ms'; LOCK TABLE " + rowsOf(b.id) + " IN SHARE MODE"
	switch {
	case b.s.noBarrier:
		define()
		return
	case b.n%4 < 2:
		define()
		b.again(ctx, b.lock, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, wait); return err })
		return
	}
	b.again(ctx, b.lock, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, wait); err != nil {
			return err
		}
		if err := pause(ctx, 4); err != nil { // let them come
			return err
		}
		define()
		return nil
	})
}

// fill goes through the rows page by page.
func (b *builder) fill(ctx context.Context, id storage.IndexID) {
	b.Helper()
	const page = 64
	tab, err := readTable(ctx, b.c, byID, int64(b.id))
	if err != nil {
		b.Fatal(err)
	}
	for last := []byte{}; ; {
		rows, err := b.c.Query(ctx, "SELECT pk, sk, ver, size, flags, item FROM "+rowsOf(b.id)+" WHERE pk > $1 ORDER BY pk, sk LIMIT $2", last, page)
		if err != nil {
			b.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s stored, err error) {
			err = r.Scan(&s.Key.PK, &s.Key.SK, &s.Ver, &s.Size, &s.Flags, &s.Item)
			return s, err
		})
		if err != nil {
			b.Fatal(err)
		}
		if len(found) == 0 {
			return
		}
		last = found[len(found)-1].Key.PK
		if err := pause(ctx, rand.IntN(5)); err != nil {
			b.Fatal(err)
		}
		b.insert(ctx, tab, id, found)
	}
}

// insert adds the entries of a page, where nobody has changed the row since.
func (b *builder) insert(ctx context.Context, tab *storage.Table, id storage.IndexID, rows []stored) {
	b.Helper()
	var pks, sks, ps, ss [][]byte
	var vers []int64
	var sizes []int32
	for _, r := range rows {
		it, err := ddb.ParseItem(r.Item)
		if err != nil {
			b.Fatal(err)
		}
		next, err := storage.Derive(tab, it)
		if err != nil {
			b.Fatal(err)
		}
		if e := entryIn(next.Entries, id); e != nil {
			pks, sks, ps, ss = append(pks, r.Key.PK), append(sks, r.Key.SK), append(ps, e.P), append(ss, e.S)
			vers, sizes = append(vers, r.Ver), append(sizes, int32(e.Size))
		}
	}
	unchanged := " AND t.ver = u.v"
	if b.s.noVersions {
		unchanged = ""
	}
	b.again(ctx, b.c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '100ms'; LOCK TABLE "+entriesOf(id)+" IN SHARE MODE"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO "+entriesOf(id)+` (p, s, pk, sk, size) SELECT u.gp, u.gs, u.p, u.s, u.z
			FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bytea[], $6::int[]) u(p, s, v, gp, gs, z)
			JOIN `+rowsOf(b.id)+" t ON t.pk = u.p AND t.sk = u.s"+unchanged+" ON CONFLICT DO NOTHING", pks, sks, vers, ps, ss, sizes)
		return err
	})
}

func (b *builder) drop(ctx context.Context, id storage.IndexID) {
	b.Helper()
	b.define(ctx, 0, func(def *ddb.TableDefinition, tx pgx.Tx) error {
		def.GlobalSecondaryIndexes = slices.DeleteFunc(def.GlobalSecondaryIndexes, func(d ddb.IndexDefinition) bool { return d.IndexName == fmt.Sprint("ix", id) })
		_, err := tx.Exec(ctx, "DELETE FROM extenddb.indexes WHERE id = $1", int64(id))
		return err
	})
	b.again(ctx, b.c, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '200ms'; DROP TABLE "+entriesOf(id))
		return err
	})
}

// check compares all entries with the rows, in one snapshot.
func (b *builder) check(ctx context.Context) []string {
	b.Helper()
	tab, err := readTable(ctx, b.c, byID, int64(b.id))
	if err != nil {
		b.Fatal(err)
	}
	problems, err := divergent(ctx, b.c, tab)
	if err != nil {
		b.Fatal(err)
	}
	return problems
}

// TestStress: no entry is ever missing or left over.
func TestStress(t *testing.T) {
	t.Parallel()
	adds, problems := stress{length: stressLength, pause: stressPause, workers: 24}.run(t)
	for _, p := range problems[:min(len(problems), 10)] {
		t.Error(p)
	}
	if adds < 3 {
		t.Errorf("%d indexes were added: too few to tell", adds)
	}
}

// TestStressControls: each rule of the protocol is needed; without it the same
// test fails.
func TestStressControls(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]stress{
		"no barrier": {noBarrier: true}, "guard in an earlier statement": {guardApart: true},
		"repeatable read": {repeatableRead: true}, "no check of versions": {noVersions: true},
		"unchanged entries are left out": {noFill: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.length, s.pause, s.workers = 40*time.Second, 400*time.Millisecond, 24
			if _, problems := s.run(t); len(problems) == 0 {
				t.Error("no fault is seen")
			}
		})
	}
}
