// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/test/servers"
)

// updating: files of expectations that are not there are written.
func updating() bool { return os.Getenv("EXTENDDB_TEST_UPDATE") != "" }

// catalogItems is what each dump under testdata/catalogs holds in the tables
// "indexed" and "streamed".
func catalogItems() []ddb.Item {
	items := []ddb.Item{item(strings.Repeat("long", 400), "a", "a1", "b", "b1"), item("\x00", "a", "\x00")}
	for i := range 10 {
		items = append(items, item(fmt.Sprintf("k%d", i), "a", fmt.Sprintf("a%d", i%3), "n", fmt.Sprint(i)))
	}
	return items
}

// makeCatalog makes a database with something of everything that a dump is to
// hold.
func makeCatalog(t *testing.T, url string) {
	t.Helper()
	db, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	for _, def := range []ddb.TableDefinition{
		indexed("indexed", "a", "b"), streaming(indexed("streamed", "a"), ddb.ViewBoth), indexed("gone", "a"),
	} {
		putAll(t, db, create(t, db, def), catalogItems())
	}
	markDropped(t, db, "gone") // what is left of it is to be removed
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, mustConnect(t, url), "INSERT INTO extenddb.tokens VALUES ('a', 't', 'd', '2100-01-01')")
}

func putAll(t *testing.T, db *DB, tab *storage.Table, items []ddb.Item) {
	t.Helper()
	for _, it := range items {
		w := put(tab, it)
		w.Change.At = instant()
		if _, err := db.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
}

// checkCatalog finds what makeCatalog made.
func checkCatalog(t *testing.T, db *DB, url string) {
	t.Helper()
	c := mustConnect(t, url)
	items := catalogItems()
	for _, name := range []string{"indexed", "streamed"} {
		tab, err := db.Table(t.Context(), acct, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			row, err := db.Get(t.Context(), tab, key(tab, it["k"].Str()))
			if err != nil || row == nil {
				t.Fatalf("table %s: item %.20q: %v, %v", name, it["k"].Str(), row, err)
			}
		}
		if n := selectInt(t, c, "SELECT count(*) FROM "+rowsOf(tab.ID)); n != int64(len(items)) {
			t.Errorf("table %s has %d rows, want %d", name, n, len(items))
		}
		if n := selectInt(t, c, "SELECT count(*) FROM "+entriesOf(tab.Indexes[0].ID)); n != int64(len(items)) {
			t.Errorf("table %s: index %s has %d entries, want %d", name, tab.Indexes[0].Name, n, len(items))
		}
		if n := selectInt(t, c, "SELECT count(*) FROM extenddb.changes WHERE t = $1", int64(tab.ID)); tab.HasStream() && n != int64(len(items)) {
			t.Errorf("table %s has %d change records, want %d", name, n, len(items))
		}
		putAll(t, db, tab, items) // it works as any other
	}
	if n := selectInt(t, c, "SELECT count(*) FROM extenddb.tokens WHERE digest = 'd'"); n != 1 {
		t.Error("the token is gone")
	}
	if tab, _, err := db.Describe(t.Context(), acct, "gone"); err != nil || tab.Status != storage.Deleting {
		t.Errorf("the table that is being deleted: %+v (%v)", tab, err)
	}
	putAll(t, db, create(t, db, indexed("new", "a", "b")), items)
}

// TestEveryCatalogIsMigrated: a dump of each version is kept for ever, and ends
// as a database of the newest. EXTENDDB_TEST_UPDATE=1 writes that of a new one.
func TestEveryCatalogIsMigrated(t *testing.T) {
	t.Parallel()
	for version := 1; version <= newest(t); version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Parallel()
			dump := fmt.Sprintf("testdata/catalogs/v%d.sql", version)
			text, err := os.ReadFile(dump)
			if errors.Is(err, fs.ErrNotExist) && version == newest(t) && updating() {
				url := servers.Database(t)
				makeCatalog(t, url)
				text = dumpOf(t, url)
				err = os.WriteFile(dump, text, 0o600)
			}
			if err != nil {
				t.Fatalf("each version needs a dump, see EXTENDDB_TEST_UPDATE: %v", err)
			}
			url := servers.Database(t)
			mustExec(t, mustConnect(t, url), string(text))
			o := Options{URL: url}
			p, err := Plan(t.Context(), o)
			if err != nil || p.From != version || p.To != newest(t) {
				t.Fatalf("plan from %d to %d (%v)", p.From, p.To, err)
			}
			if version < newest(t) {
				if _, err := Open(t.Context(), o); !errors.Is(err, migrate.ErrPending) {
					t.Errorf("opened an older one (%v)", err)
				}
			}
			if _, err := Migrate(t.Context(), o, migrate.Options{}); err != nil {
				t.Fatal(err)
			}
			wantVersion(t, url, newest(t))
			checkCatalog(t, mustOpen(t, o), url)
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
func dumpOf(t *testing.T, url string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(servers.Binaries(t), "pg_dump"), "--inserts", "--no-owner", "--no-privileges", "--no-toast-compression",
		"--dbname", url)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(out)) {
		if line != "\n" && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, `\`) { // of psql
			text.WriteString(line)
		}
	}
	return []byte(text.String())
}
