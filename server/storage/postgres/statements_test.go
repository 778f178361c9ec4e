// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
	for id := range storage.TableID(2 * maxTextTables) {
		x.of(tab(id, 1))
	}
	if n := len(x.tables); n > maxTextTables {
		t.Errorf("statements of %d tables are kept", n)
	}
	many := &storage.Table{ID: 1, Indexes: make([]*storage.Index, 10)}
	for i := range many.Indexes {
		many.Indexes[i] = &storage.Index{ID: storage.IndexID(i + 1)}
	}
	for n := range 2 * maxTextShapes {
		ops := make([]byte, len(many.Indexes))
		for i := range ops {
			ops[i] = byte(n >> i & 1)
		}
		s := shape{op: opUpdate, entries: string(ops)}
		if text := two.statement(many, s); text != statement(many, s) || text != two.statement(many, s) {
			t.Fatal("the statement of another shape")
		}
	}
	if n := len(two.shapes); n > maxTextShapes {
		t.Errorf("%d shapes are kept", n)
	}
}

// TestStatementText: what is decided by a guard is, and columns are named.
func TestStatementText(t *testing.T) {
	t.Parallel()
	tab := &storage.Table{ID: 7, Indexes: []*storage.Index{{ID: 8}}}
	for o := opPut; o <= opDelete; o++ {
		for e := entryKeep; e <= entryFill; e++ {
			for _, held := range []bool{false, true} {
				text := statement(tab, shape{op: o, held: held, record: true, entries: string([]byte{byte(e)})})
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
