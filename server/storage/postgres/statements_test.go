// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// TestTexts: statements are built once per version of a table, a late one does
// not drive out the newer, and what is kept is bounded.
func TestTexts(t *testing.T) {
	t.Parallel()
	var x texts
	tab := func(id storage.TableID, version int64) *storage.Table {
		return &storage.Table{ID: id, Version: version}
	}
	two := x.of(tab(1, 2))
	if x.of(tab(1, 2)) != two || x.of(tab(1, 1)) == two || x.of(tab(1, 2)) != two {
		t.Error("the statements of a version are not kept")
	}
	if three := x.of(tab(1, 3)); three == two || x.of(tab(1, 2)) == two || x.of(tab(1, 3)) != three {
		t.Error("the statements of a newer version do not take the place of the older")
	}
	many := &storage.Table{ID: 1, Version: 3, Indexes: make([]*storage.Index, 10)}
	for i := range many.Indexes {
		many.Indexes[i] = &storage.Index{ID: storage.IndexID(i + 1)}
	}
	three := x.of(many)
	for n := range 8 * maxShapes {
		ops := make([]byte, len(many.Indexes))
		for i := range ops {
			ops[i] = byte(n >> i & 1)
		}
		s := shape{op: opUpdate, entries: string(ops)}
		text, made := three.statement(many, s, false)
		if general := made != s; general != (n > maxShapes) || made.general != general || text != statement(many, made) {
			t.Fatalf("shape %d is made by %+v", n, made)
		}
	}
	if n := len(three.shapes); n != maxShapes+2 {
		t.Errorf("%d shapes are kept", n)
	}
	if x.forget(1); x.of(many) == three {
		t.Error("the statements of a table that was dropped are kept")
	}
	for id := range storage.TableID(3 * maxTextBytes / (len(three.hold) + len(three.place))) {
		x.of(tab(id, 1))
	}
	if n := len(x.tables) * len(three.hold); n > maxTextBytes {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestManyShapes: what writes do to the entries of many indexes differs each
// time, and yet the database prepares few statements, and all are right.
func TestManyShapes(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	c := mustConnect(t, db.o.URL)
	tab := create(t, db, indexed("t", attributes(20)...))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 150 {
		if err := writeShape(t.Context(), db, tab, r, i, i%3 == 0); err != nil {
			t.Fatal(err)
		}
	}
	checkTable(t, c, tab)
	prepared, _ := sessions(t, db)
	if limit := maxShapes + 20; prepared > limit {
		t.Errorf("a connection has prepared %d statements, want %d at most", prepared, limit)
	}
	for i := range 20 {
		mustWrite(t, db, remove(tab, fmt.Sprint("k", i)))
	}
	checkTable(t, c, tab)
}

func attributes(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("a%02d", i))
	}
	return names
}

// writeShape overwrites a row with one in which each attribute that an index
// has may be gone, come, kept or changed.
func writeShape(ctx context.Context, db *DB, tab *storage.Table, r *rand.Rand, i int, all bool) error {
	more := []string{"pad", strings.Repeat("x", r.IntN(3))}
	for _, ix := range tab.Indexes {
		switch r.IntN(3) {
		case 0:
			more = append(more, strings.TrimPrefix(ix.Name, "by-"), "v")
		case 1:
			more = append(more, strings.TrimPrefix(ix.Name, "by-"), fmt.Sprint("v", i))
		}
	}
	w := put(tab, item(fmt.Sprint("k", i%20), more...))
	if all {
		_, err := db.WriteAll(ctx, []storage.Write{w}, nil)
		return err
	}
	_, err := db.Write(ctx, w)
	return err
}

// sessions returns how many statements the sessions of an idle pool have
// prepared at most, and how many bytes they take in all.
func sessions(t testing.TB, db *DB) (prepared int, bytes int64) {
	t.Helper()
	for _, c := range db.pool.AcquireAllIdle(t.Context()) {
		var n int
		var b int64
		if err := c.QueryRow(t.Context(), "SELECT count(*), (SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts) FROM pg_prepared_statements",
			pgx.QueryExecModeDescribeExec).Scan(&n, &b); err != nil {
			t.Fatal(err)
		}
		prepared, bytes = max(prepared, n), max(bytes, b)
		c.Release()
	}
	return prepared, bytes
}

// TestStatementText: what is decided by a guard is, and columns are named.
func TestStatementText(t *testing.T) {
	t.Parallel()
	tab := &storage.Table{ID: 7, Indexes: []*storage.Index{{ID: 8}}}
	for o := opPut; o <= opDelete; o++ {
		for e := entryKeep; e <= entryFill+1; e++ { // the last stands for any
			for _, held := range []bool{false, true} {
				s := shape{op: o, held: held, record: true, entries: string([]byte{byte(e)})}
				if e == entryFill+1 {
					s.entries, s.general = "", true
				}
				text := statement(tab, s)
				if !strings.HasPrefix(text, "WITH guard AS MATERIALIZED (SELECT 1 FROM extenddb.tables WHERE id = 7 AND version = $1::bigint AND status = 1)") ||
					strings.Contains(text, "*)") && strings.Count(text, "*") != strings.Count(text, "count(*)") {
					t.Errorf("operation %d, entry %d: %s", o, e, text)
				}
			}
		}
	}
}

// TestCallerKnowsMore: a caller's definition that is newer than the one known
// here is not written behind.
func TestCallerKnowsMore(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	o := Options{URL: one.o.URL}
	o.hooks.heard = func(string) bool { return false }
	two := mustOpen(t, o)
	old := create(t, one, hashTable("t"))
	mustWrite(t, two, put(old, item("x")))
	now, err := one.UpdateTable(t.Context(), acct, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
		def := t.Def
		def.DeletionProtection = true
		return def, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var versions []int64
	w := put(now, item("x"))
	derive := w.Decide
	w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		versions = append(versions, t.Version)
		return derive(t, cur)
	}
	mustWrite(t, two, w)
	if fmt.Sprint(versions) != fmt.Sprint([]int64{now.Version}) {
		t.Errorf("decided by versions %v, want %d", versions, now.Version)
	}
}

// TestUsedTokenOfMissingTable: a request that was carried out stays so.
func TestUsedTokenOfMissingTable(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, hashTable("t"))
	token := &storage.Token{Account: acct, Token: "used", Now: instant()}
	all := func(token storage.Token) error {
		_, err := db.WriteAll(t.Context(), []storage.Write{put(tab, item("x"))}, &token)
		return err
	}
	if err := all(*token); err != nil {
		t.Fatal(err)
	}
	if _, err := db.DropTable(t.Context(), acct, "t", agree); err != nil {
		t.Fatal(err)
	}
	other, unused, late := *token, *token, *token
	other.Digest[0], unused.Token, late.Now = 1, "unused", token.Now.Add(tokenLife)
	for _, tc := range []struct {
		token storage.Token
		want  error
	}{{*token, storage.ErrReplayed}, {other, storage.ErrTokenMismatch}, {unused, storage.ErrTableNotFound}, {late, storage.ErrTableNotFound}} {
		if err := all(tc.token); !errors.Is(err, tc.want) {
			t.Errorf("error %v, want %v", err, tc.want)
		}
	}
}

// TestGivenUpBeforeItBegins: who waits for another writer of this process, or
// for a moment between two attempts, can give up.
func TestGivenUpBeforeItBegins(t *testing.T) {
	t.Parallel()
	var cancel context.CancelFunc
	o := Options{}
	o.hooks.write.before = func(context.Context, ...*change) error {
		cancel()
		return storage.ErrConflict
	}
	db := mustOpen(t, o)
	tab := create(t, db, hashTable("t"))
	ctx, stop := context.WithCancel(t.Context())
	cancel = stop
	if _, err := db.WriteAll(ctx, []storage.Write{put(tab, item("x"))}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("between two attempts: %v", err)
	}
	unlock, err := db.lockKeys(t.Context(), &change{w: put(tab, item("x"))})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := db.Write(ctx, put(tab, item("x"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Write behind another: %v", err)
	}
	if _, err := db.WriteAll(ctx, []storage.Write{put(tab, item("x"))}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("WriteAll behind another: %v", err)
	}
}

// TestRelationsOfIndexes: an index costs a relation and its key, no more, and
// takes the longest keys there are.
func TestRelationsOfIndexes(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	tab := create(t, db, indexed("t", "a"))
	if n := selectInt(t, c, "SELECT count(*) FROM pg_class WHERE oid = $1::text::regclass AND reltoastrelid <> 0", entriesOf(tab.Indexes[0].ID)); n != 0 {
		t.Error("an index has a TOAST relation")
	}
	if n := selectInt(t, c, "SELECT count(*) FROM pg_class WHERE oid = $1::text::regclass AND reltoastrelid = 0", rowsOf(tab.ID)); n != 0 {
		t.Error("a table has no TOAST relation")
	}
	r := rand.New(rand.NewPCG(1, 2))
	wide := make([]byte, 2048)
	for i := range wide {
		wide[i] = byte('0' + r.IntN(75))
	}
	mustWrite(t, db, put(tab, item(string(wide), "a", string(wide))))
	checkTable(t, c, tab)
}
