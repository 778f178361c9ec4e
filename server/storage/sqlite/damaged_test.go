// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestDamagedDefinitions: a definition that cannot be read takes its own table
// away, and no other. The table can be dropped, unless nobody knows whether it
// is protected; then an operator can.
func TestDamagedDefinitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage, why string
		drops       bool
		asks        bool // check
	}{
		"index renamed":    {"UPDATE indexes SET name = x'79' WHERE t = 1", `index "by-g" of the definition is not in the catalog`, true, true},
		"index of nobody":  {"INSERT INTO indexes (t, name) VALUES (1, x'79')", "the definition has 1 indexes, the catalog 2", true, true},
		"no keys":          {`UPDATE tables SET definition = CAST('{"TableName":"bad"}' AS BLOB) WHERE id = 1`, "the catalog 1", true, true},
		"protected":        {`UPDATE tables SET definition = CAST('{"TableName":"bad","DeletionProtectionEnabled":true}' AS BLOB) WHERE id = 1`, "", false, true},
		"no JSON":          {"UPDATE tables SET definition = x'7b' WHERE id = 1", "decode definition", false, false},
		"of another table": {"UPDATE tables SET definition = (SELECT definition FROM tables WHERE id = 2) WHERE id = 1", `of a table "good"`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Path: filepath.Join(t.TempDir(), "a.db")}
			db := mustOpen(t, o)
			for _, table := range []string{"bad", "good"} {
				mustPut(t, db, create(t, db, definition(table)), many(10, 10)...)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			script(t, o.Path, c.damage+"; UPDATE table_stats SET at = 0") // both are to be counted
			var log bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			db = mustOpen(t, o)

			wantDamaged(t, db, c.why)
			for range 3 {
				claimDamaged(t, db)
			}
			if n := strings.Count(log.String(), "a table cannot be used"); n != 1 || !strings.Contains(log.String(), acct) {
				t.Errorf("told %d times: %s", n, log.String())
			}
			asked := false
			made, err := db.DropTable(t.Context(), acct, "bad", func(tab *storage.Table) error {
				if asked = true; tab.Def.DeletionProtection {
					return errors.New("protected")
				}
				return nil
			})
			if asked != c.asks || (err == nil) != c.drops || c.drops && (made.Status != storage.Deleting || made.Name() != "bad") {
				t.Fatalf("drop: asked %v, %+v, %v", asked, made, err)
			}
			if !c.asks && (!errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "not known whether the table is protected")) {
				t.Error(err)
			}
			if !c.drops {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				script(t, o.Path, "UPDATE tables SET status = 2 WHERE account = CAST('"+acct+"' AS BLOB) AND name = CAST('bad' AS BLOB);"+
					"INSERT INTO leftovers SELECT id, 0, 0 FROM tables WHERE status = 2 AND id NOT IN (SELECT t FROM leftovers)")
				db = mustOpen(t, o)
			}
			finish(t, db, storage.TableDrop, instant())
			check(t, db) // nothing is left over
			mustPut(t, db, create(t, db, definition("bad")), many(10, 10)...)
			check(t, db)
		})
	}
}

// wantDamaged finds the table "bad" unusable and named, and "good" as it was.
func wantDamaged(t *testing.T, db *DB, why string) {
	t.Helper()
	_, byName := db.Table(t.Context(), acct, "bad")
	_, _, described := db.Describe(t.Context(), acct, "bad")
	_, created := db.CreateTable(t.Context(), acct, definition("bad"), instant())
	_, snapped := db.Snapshot(t.Context(), acct, "bad")
	checked := db.Check(t.Context())
	for _, err := range []error{byName, described, created, snapped, checked} {
		if want := `table "bad" of account "` + acct + `": `; !errors.Is(err, storage.ErrCorrupt) ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), why) {
			t.Errorf("error %v", err)
		}
	}
	if names, _, err := db.Tables(t.Context(), acct, "", 10); err != nil || len(names) != 2 {
		t.Errorf("tables %v (%v)", names, err)
	}
	good, err := db.Table(t.Context(), acct, "good")
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, good, item("p", "s"))
}

// claimDamaged claims all statistics that are due: those of "bad" cannot be taken.
func claimDamaged(t *testing.T, db *DB) {
	t.Helper()
	ws, err := db.Pending(t.Context(), instant())
	if err != nil || len(ws) != 2 {
		t.Fatalf("due: %+v (%v)", ws, err)
	}
	for _, w := range ws {
		l, err := db.Claim(t.Context(), w)
		if w.Name == "bad" {
			wantErr(t, err, storage.ErrNoWork)
			continue
		}
		if err := errors.Join(err, l.Release()); err != nil {
			t.Fatal(err)
		}
	}
}
