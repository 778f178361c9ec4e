// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// updating: files of expectations that are not there are written.
func updating() bool { return os.Getenv("EXTENDDB_TEST_UPDATE") != "" }

// catalogItems is what each dump under testdata/catalogs holds in the tables
// "indexed" and "plain".
func catalogItems() []ddb.Item {
	return append(many(10, 20), item(strings.Repeat("long", 400), "s", "g", "g1"), item("\x00", "\x00\x01"))
}

// makeCatalog makes a database with something of everything that a dump is to
// hold.
func makeCatalog(t *testing.T, path string) {
	t.Helper()
	db := mustOpen(t, Options{Path: path})
	for _, def := range []ddb.TableDefinition{definition("indexed"), streaming("plain"), definition("gone")} {
		mustPut(t, db, create(t, db, def), catalogItems()...)
	}
	if _, err := db.DropTable(t.Context(), acct, "gone", func(*storage.Table) error { return nil }); err != nil { // what is left of it is to be removed
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, path, "INSERT INTO tokens VALUES (x'30', x'31', x'32', 4102444800000)")
}

// checkCatalog finds what makeCatalog made.
func checkCatalog(t *testing.T, db *DB) {
	t.Helper()
	check(t, db)
	for _, name := range []string{"indexed", "plain"} {
		tab, err := db.Table(t.Context(), acct, name)
		if err != nil {
			t.Fatal(err)
		}
		if tab.HasStream() && len(recordsOf(t, db, tab.ID)) != len(catalogItems()) {
			t.Errorf("table %s lacks change records", name)
		}
		for _, it := range catalogItems() {
			k, err := tab.KeyOf(it)
			if err != nil {
				t.Fatal(err)
			}
			row, err := db.Get(t.Context(), tab, k)
			if err != nil || row == nil {
				t.Fatalf("table %s: item %x: %v, %v", name, k.PK, row, err)
			}
		}
	}
	if err := db.read(t.Context(), func(s *session) error {
		n, err := s.c.queryInt("SELECT count(*) FROM tokens WHERE digest = x'32'")
		if err == nil && n != 1 {
			err = errors.New("the token is gone")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	mustPut(t, db, create(t, db, definition("new")), catalogItems()...)
	check(t, db)
}

// TestEveryCatalogIsMigrated: a dump of each version is kept for ever, and ends
// as a database of the newest. EXTENDDB_TEST_UPDATE=1 writes that of a new one.
func TestEveryCatalogIsMigrated(t *testing.T) {
	t.Parallel()
	steps, err := migrate.Load(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= len(steps); version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Parallel()
			dump := fmt.Sprintf("testdata/catalogs/v%d.sql", version)
			text, err := os.ReadFile(dump)
			if errors.Is(err, fs.ErrNotExist) && version == len(steps) && updating() {
				path := filepath.Join(t.TempDir(), "made.db")
				makeCatalog(t, path)
				text = []byte(dumpOf(t, path))
				err = os.WriteFile(dump, text, 0o600)
			}
			if err != nil {
				t.Fatalf("each version needs a dump, see EXTENDDB_TEST_UPDATE: %v", err)
			}
			path := filepath.Join(t.TempDir(), "a.db")
			script(t, path, string(text))
			p, err := Plan(t.Context(), Options{Path: path}, migrate.Options{})
			if err != nil || p.From != version || p.To != len(steps) || len(p.Steps) != len(steps)-version {
				t.Fatalf("plan from %d to %d in %d steps (%v)", p.From, p.To, len(p.Steps), err)
			}
			db := mustOpen(t, Options{Path: path})
			if p, err = planned(t.Context(), db.w.s.c); err != nil || p.From != len(steps) {
				t.Errorf("migrated to %d (%v)", p.From, err)
			}
			checkCatalog(t, db)
		})
	}
}

// TestStepsStayAsTheyWere: databases remember the digest of each step, so one
// that was released must never change.
func TestStepsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	steps, err := migrate.Load(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&text, "%x  %04d_%s.sql\n", s.Digest, s.Version, s.Name)
	}
	const file = "testdata/catalogs/SHA256SUMS"
	have, err := os.ReadFile(file)
	if updating() && (errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(text.String(), string(have))) { // it only grows
		have, err = []byte(text.String()), os.WriteFile(file, []byte(text.String()), 0o600)
	}
	if err != nil || string(have) != text.String() {
		t.Errorf("the steps are\n%sand not, as in %s,\n%s(%v)", text.String(), file, have, err)
	}
}

// dumpOf is a database as statements.
func dumpOf(t *testing.T, path string) string {
	t.Helper()
	c, err := openConn(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "PRAGMA application_id = %d;\n", applicationID)
	query := func(sql string) (list []string) {
		s, err := c.prepare(sql)
		if err != nil {
			t.Fatal(err)
		}
		defer s.finalize()
		for {
			found, err := s.step()
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				return list
			}
			list = append(list, string(s.colBlob(0)))
		}
	}
	for _, sql := range query("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid") {
		fmt.Fprintf(&out, "%s;\n", sql)
	}
	for _, table := range query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid") {
		columns := query("SELECT name FROM pragma_table_info('" + table + "')")
		for _, row := range query("SELECT " + "quote(" + strings.Join(columns, ") || ', ' || quote(") + ") FROM " + table) {
			fmt.Fprintf(&out, "INSERT INTO %s VALUES (%s);\n", table, row)
		}
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
