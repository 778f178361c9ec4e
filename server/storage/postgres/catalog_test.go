// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// protect is a change of a definition.
func protect(on bool) func(*storage.Table) (ddb.TableDefinition, error) {
	return func(t *storage.Table) (ddb.TableDefinition, error) {
		def := t.Def
		def.DeletionProtection = on
		return def, nil
	}
}

func createHashTable(t testing.TB, db *DB, name string) *storage.Table {
	t.Helper()
	made, err := db.CreateTable(t.Context(), "a", hashTable(name), db.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestCreateOnTwoServersAtOnce(t *testing.T) {
	t.Parallel()
	dbs := []*DB{mustOpen(t, Options{})}
	dbs = append(dbs, mustOpen(t, Options{URL: dbs[0].o.URL}))
	for round := range 5 {
		var group sync.WaitGroup
		made, errs := make([]*storage.Table, 4), make([]error, 4)
		for i := range made {
			group.Go(func() {
				made[i], errs[i] = dbs[i%2].CreateTable(t.Context(), "a", hashTable(fmt.Sprint("T", round)), time.Now())
			})
		}
		group.Wait()
		done := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		if done < 0 {
			t.Fatal(errs)
		}
		for i, err := range errs {
			var there *storage.TableExists
			if i != done && (!errors.As(err, &there) || there.Table.UUID != made[done].UUID) {
				t.Errorf("beside table %s: %v", made[done].UUID, err)
			}
		}
	}
}

func TestLimitOfTablesOnTwoServers(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxTables: 3})
	other := mustOpen(t, Options{URL: db.o.URL, MaxTables: 3})
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() {
			_, errs[i] = []*DB{db, other}[i%2].CreateTable(t.Context(), "a", hashTable(fmt.Sprint("T", i)), time.Now())
		})
	}
	group.Wait()
	full := 0
	for _, err := range errs {
		if errors.Is(err, storage.ErrTooManyTables) {
			full++
		} else if err != nil {
			t.Error(err)
		}
	}
	if full != 5 {
		t.Errorf("%d of 8 refused", full)
	}
}

func TestDefinitionChangedElsewhere(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string]hooks{"heard": {}, "lost": deaf()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			other := mustOpen(t, Options{URL: db.o.URL, hooks: hooks})
			createHashTable(t, db, "T")
			if _, err := other.Table(t.Context(), "a", "T"); err != nil { // now it is cached
				t.Fatal(err)
			}
			wake, woken := signal()
			other.OnWork(wake)
			made, err := db.UpdateTable(t.Context(), "a", "T", protect(true))
			if err != nil || made.Version != 2 || !made.Def.DeletionProtection {
				t.Fatalf("%+v, %v", made, err)
			}
			want := int64(2)
			if name == "heard" {
				<-woken
			} else {
				want = 1 // statements find out
			}
			if seen, err := other.Table(t.Context(), "a", "T"); err != nil || seen.Version != want {
				t.Errorf("version %d, %v", seen.Version, err)
			}
			if seen, _, err := other.Describe(t.Context(), "a", "T"); err != nil || seen.Version != 2 {
				t.Errorf("described as of version %d, %v", seen.Version, err)
			}
			if seen, err := other.Table(t.Context(), "a", "T"); err != nil || seen.Version != 2 {
				t.Errorf("version %d after it was described, %v", seen.Version, err)
			}
			if _, err := db.DropTable(t.Context(), "a", "T", agree); err != nil {
				t.Fatal(err)
			}
			if seen, _, err := other.Describe(t.Context(), "a", "T"); err != nil || seen.Status != storage.Deleting || seen.Version != 3 {
				t.Errorf("a dropped table: %+v, %v", seen, err)
			}
		})
	}
}

// A table that clients cannot use is never taken from the cache.
func TestTableOfAnotherLife(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other := mustOpen(t, Options{URL: db.o.URL, hooks: deaf()})
	old := createHashTable(t, db, "T")
	if _, err := db.DropTable(t.Context(), "a", "T", agree); err != nil {
		t.Fatal(err)
	}
	if seen, err := other.Table(t.Context(), "a", "T"); err != nil || seen.Status != storage.Deleting {
		t.Fatalf("%+v, %v", seen, err)
	}
	mustExec(t, mustConnect(t, db.o.URL), "DELETE FROM extenddb.tables WHERE id = $1", int64(old.ID))
	if _, err := other.Table(t.Context(), "a", "T"); !errors.Is(err, storage.ErrTableNotFound) {
		t.Errorf("a table that is gone: %v", err)
	}
	made := createHashTable(t, db, "T")
	if seen, err := other.Table(t.Context(), "a", "T"); err != nil || seen.UUID != made.UUID {
		t.Errorf("%+v, %v", seen, err)
	}
}

func TestUpdateRefused(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	createHashTable(t, db, "T")
	mine := fmt.Errorf("mine: %w", storage.ErrConflict) // which is not tried again
	calls := 0
	_, err := db.UpdateTable(t.Context(), "a", "T", func(*storage.Table) (ddb.TableDefinition, error) {
		calls++
		return ddb.TableDefinition{}, mine
	})
	if err != mine || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if _, err := db.DropTable(t.Context(), "a", "T", func(*storage.Table) error { return mine }); err != mine {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*ddb.TableDefinition){
		"name": func(d *ddb.TableDefinition) { d.TableName = "U" },
		"keys": func(d *ddb.TableDefinition) { d.AttributeDefinitions[0].AttributeType = "N" },
		"index": func(d *ddb.TableDefinition) {
			d.GlobalSecondaryIndexes = []ddb.IndexDefinition{{IndexName: "I", KeySchema: d.KeySchema}}
		},
	} {
		_, err := db.UpdateTable(t.Context(), "a", "T", func(t *storage.Table) (ddb.TableDefinition, error) {
			def := t.Def
			def.AttributeDefinitions = slices.Clone(def.AttributeDefinitions)
			spoil(&def)
			return def, nil
		})
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if seen, _, err := db.Describe(t.Context(), "a", "T"); err != nil || seen.Version != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
}

// The database is lost in COMMIT: before it, or after it.
func TestCommitInDoubt(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"carried out": true, "not carried out": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lose bool
			db := mustOpen(t, Options{hooks: hooks{commit: func(ctx context.Context, tx pgx.Tx) error {
				switch {
				case !lose:
					return tx.Commit(ctx)
				case commits:
					lose = false
					return errors.Join(io.ErrUnexpectedEOF, tx.Commit(ctx))
				}
				lose = false
				return errors.Join(io.ErrUnexpectedEOF, tx.Rollback(ctx))
			}}})
			lose = true
			made := createHashTable(t, db, "T")
			for v := int64(2); v < 5; v++ {
				lose = true
				if got, err := db.UpdateTable(t.Context(), "a", "T", protect(v%2 == 0)); err != nil || got.Version != v {
					t.Fatalf("version %d: %+v, %v", v, got, err)
				}
			}
			lose = true
			if got, err := db.DropTable(t.Context(), "a", "T", agree); err != nil || got.Version != 5 || got.Status != storage.Deleting {
				t.Fatalf("%+v, %v", got, err)
			}
			if seen, _, err := db.Describe(t.Context(), "a", "T"); err != nil || seen.UUID != made.UUID || seen.Version != 5 {
				t.Errorf("%+v, %v", seen, err)
			}
		})
	}
}

// Somebody else changes the table before it is known what became of a change.
func TestCommitStaysInDoubt(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	other := mustOpen(t, Options{URL: url})
	createHashTable(t, other, "T")
	first := true
	db := mustOpen(t, Options{URL: url, hooks: hooks{commit: func(ctx context.Context, tx pgx.Tx) error {
		if !first {
			return tx.Commit(ctx)
		}
		first = false
		err := tx.Rollback(ctx)
		_, changed := other.UpdateTable(ctx, "a", "T", protect(false))
		return errors.Join(io.ErrUnexpectedEOF, err, changed)
	}}})
	if _, err := db.UpdateTable(t.Context(), "a", "T", protect(true)); !errors.Is(err, storage.ErrInDoubt) {
		t.Errorf("%v", err)
	}
}

func TestDescribeStatistics(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	def := hashTable("T")
	def.GlobalSecondaryIndexes = []ddb.IndexDefinition{
		{IndexName: "z", KeySchema: def.KeySchema, Projection: ddb.Projection{ProjectionType: "ALL"}},
		{IndexName: "b", KeySchema: def.KeySchema, Projection: ddb.Projection{ProjectionType: "KEYS_ONLY"}},
	}
	made, err := db.CreateTable(t.Context(), "a", def, db.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, stats, err := db.Describe(t.Context(), "a", "T"); err != nil || stats.Items != 0 || stats.Bytes != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	c := mustConnect(t, db.o.URL)
	mustExec(t, c, "UPDATE extenddb.table_stats SET items = 7, bytes = 70 WHERE t = $1", int64(made.ID))
	for i, ix := range made.Indexes {
		mustExec(t, c, "INSERT INTO extenddb.index_stats (ix, t, items, bytes) VALUES ($1, $2, $3, $4)",
			int64(ix.ID), int64(made.ID), i+1, 10*(i+1))
	}
	seen, stats, err := db.Describe(t.Context(), "a", "T")
	if err != nil || stats.Items != 7 || stats.Bytes != 70 || len(stats.Indexes) != 2 {
		t.Fatalf("%+v, %v", stats, err)
	}
	for i, ix := range seen.Indexes {
		if want := (storage.IndexStats{Items: int64(i + 1), Bytes: int64(10 * (i + 1))}); stats.Indexes[ix.ID] != want || ix.ID != made.Indexes[i].ID {
			t.Errorf("index %s: %+v", ix.Name, stats.Indexes[ix.ID])
		}
	}
}

func TestItemsAreCompressedWithLZ4(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	want := "l"
	if !db.lz4 {
		if os.Getenv(servers.BinEnv) == "" {
			t.Fatal("the server of the tests has no lz4") // Debian's has
		}
		want = "" // a build without
	}
	made := createHashTable(t, db, "T")
	var method string
	if err := mustConnect(t, db.o.URL).QueryRow(t.Context(),
		"SELECT attcompression::text FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'item'", rowsOf(made.ID)).Scan(&method); err != nil || method != want {
		t.Errorf("%q, %v", method, err)
	}
	db.lz4 = false // as a server that was built without
	createHashTable(t, db, "U")
}

func TestCatalogThatContradictsItself(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"no JSON":       "UPDATE extenddb.tables SET definition = 'x'",
		"another name":  "UPDATE extenddb.tables SET name = 'U'",
		"another index": "INSERT INTO extenddb.indexes (id, t, name) SELECT 99, id, 'i' FROM extenddb.tables",
		"no keys":       "UPDATE extenddb.tables SET definition = '{}'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			createHashTable(t, db, "T")
			mustExec(t, mustConnect(t, db.o.URL), spoil)
			found := "T"
			if name == "another name" {
				found = "U"
			}
			if _, _, err := db.Describe(t.Context(), "a", found); !errors.Is(err, storage.ErrCorrupt) {
				t.Error(err)
			}
		})
	}
}
