// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestDamagedDefinitions: a definition that cannot be read takes its own table
// away, and no other. The table can be dropped, unless nobody knows whether it
// is protected; then an operator can.
func TestDamagedDefinitions(t *testing.T) {
	t.Parallel()
	const of = " WHERE t = (SELECT id FROM extenddb.tables WHERE name = 'bad')"
	for name, c := range map[string]struct {
		damage, why string
		drops       bool
		asks        bool // check
	}{
		"index renamed":   {"UPDATE extenddb.indexes SET name = 'y'" + of, `index "by-a" of the definition is not in the catalog`, true, true},
		"index of nobody": {"INSERT INTO extenddb.indexes SELECT 99, id, 'y' FROM extenddb.tables WHERE name = 'bad'", "the definition has 1 indexes, the catalog 2", true, true},
		"no keys":         {`UPDATE extenddb.tables SET definition = '{"TableName":"bad"}' WHERE name = 'bad'`, "the catalog 1", true, true},
		"protected":       {`UPDATE extenddb.tables SET definition = '{"TableName":"bad","DeletionProtectionEnabled":true}' WHERE name = 'bad'`, "", false, true},
		"no JSON":         {"UPDATE extenddb.tables SET definition = '{' WHERE name = 'bad'", "decode definition", false, false},
		"of another table": {"UPDATE extenddb.tables SET definition = (SELECT definition FROM extenddb.tables WHERE name = 'good') WHERE name = 'bad'",
			`of a table "good"`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := servers.Database(t)
			before := mustOpen(t, Options{URL: url})
			var bad *storage.Table
			for _, table := range []string{"good", "bad"} {
				bad = create(t, before, indexed(table, "a"))
				putAll(t, before, bad, catalogItems())
			}
			must(t, before.Close())
			c2 := mustConnect(t, url)
			mustExec(t, c2, c.damage)
			mustExec(t, c2, "UPDATE extenddb.table_stats SET counted = NULL")
			var log bytes.Buffer
			db := mustOpen(t, Options{URL: url, Log: slog.New(slog.NewTextHandler(&log, nil))})

			wantDamaged(t, db, bad, c.why)
			for range 3 {
				claimDamaged(t, db)
			}
			if n := strings.Count(log.String(), "a table cannot be used"); n != 1 {
				t.Errorf("told %d times: %s", n, log.String())
			}
			asked := false
			made, err := db.DropTable(t.Context(), acct, "bad", func(tab *storage.Table) error {
				if asked = true; tab.Def.DeletionProtection {
					return errors.New("protected")
				}
				return nil
			})
			if asked != c.asks || (err == nil) != c.drops || c.drops && (made.Status != storage.Deleting || made.Name() != "bad" || made.Version != 2) {
				t.Fatalf("drop: asked %v, %+v, %v", asked, made, err)
			}
			if !c.asks && (!errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "not known whether the table is protected")) {
				t.Error(err)
			}
			if !c.drops {
				mustExec(t, c2, dropByHand(t))
			}
			if _, err := db.Get(t.Context(), bad, key(bad, "k1")); !errors.Is(err, storage.ErrTableNotFound) {
				t.Errorf("read of a table being dropped: %v", err)
			}
			complete(t, claimed(t, db, storage.TableDrop, instant()), instant())
			checkOrphans(t, c2)
			putAll(t, db, create(t, db, indexed("bad", "a")), catalogItems())
		})
	}
}

// dropByHand is what the manual tells an operator to run.
func dropByHand(t *testing.T) string {
	t.Helper()
	for _, block := range manual(t) {
		if strings.HasPrefix(block, "UPDATE extenddb.tables SET status = 2") {
			return strings.Replace(block, "NAME", "bad", 1)
		}
	}
	t.Fatal("the manual does not tell how to drop a table by hand")
	return ""
}

// wantDamaged finds the table "bad" unusable and named, and "good" as it was.
func wantDamaged(t *testing.T, db *DB, bad *storage.Table, why string) {
	t.Helper()
	_, byName := db.Table(t.Context(), acct, "bad")
	_, _, described := db.Describe(t.Context(), acct, "bad")
	_, created := db.CreateTable(t.Context(), acct, hashTable("bad"), instant())
	_, snapped := db.Snapshot(t.Context(), acct, "bad")
	outdated := *bad
	outdated.Version = 99
	_, read := db.Get(t.Context(), &outdated, key(bad, "k1"))
	for _, err := range []error{byName, described, created, snapped, read} {
		if want := `table "bad" of account "` + acct + `": `; !errors.Is(err, storage.ErrCorrupt) ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), why) {
			t.Errorf("error %v", err)
		}
	}
	if names, _, err := db.Tables(t.Context(), acct, "", 10); err != nil || len(names) != 2 {
		t.Errorf("tables %v (%v)", names, err)
	}
	good, err := db.Table(t.Context(), acct, "good")
	must(t, err)
	putAll(t, db, good, catalogItems())
}

// claimDamaged claims all statistics that are due: those of "bad" cannot be taken.
func claimDamaged(t *testing.T, db *DB) {
	t.Helper()
	ws := due(t, db, storage.Statistics, instant().Add(time.Hour))
	if len(ws) != 2 {
		t.Fatalf("due: %+v", ws)
	}
	for _, w := range ws {
		l, err := db.Claim(t.Context(), w)
		if w.Name == "bad" {
			wantIs(t, err, storage.ErrNoWork)
			continue
		}
		must(t, errors.Join(err, l.Release()))
	}
}
