// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// oldest makes a database of version 1 and returns its path.
func oldest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/catalogs/v1.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "it's a.db")
	script(t, path, string(text))
	return path
}

// filesIn maps the names in a directory to what is in the files.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func wantFiles(t *testing.T, path string, suffixes ...string) {
	t.Helper()
	for i, s := range suffixes {
		suffixes[i] = filepath.Base(path) + s
	}
	if got := slices.Sorted(maps.Keys(filesIn(t, filepath.Dir(path)))); !slices.Equal(got, slices.Sorted(slices.Values(suffixes))) {
		t.Errorf("files %q, want %q", got, suffixes)
	}
}

func wantVersion(t *testing.T, path string, want int) {
	t.Helper()
	if p, err := Plan(t.Context(), Options{Path: path}, migrate.Options{}); err != nil || p.From != want {
		t.Errorf("%s is of version %d, want %d (%v)", filepath.Base(path), p.From, want, err)
	}
}

// wantKept wants a copy of version 1 that nobody migrates where it is; a copy of
// it is a database like any other.
func wantKept(t *testing.T, path string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Plan(t.Context(), Options{Path: path}, migrate.Options{})
	if !errors.Is(err, ErrKept) || p.From != 1 {
		t.Errorf("plan from %d (%v)", p.From, err)
	}
	_, err = Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrKept)
	wantErr(t, err, migrate.ErrPending)
	_, err = Migrate(t.Context(), Options{Path: path}, migrate.Options{NoCopy: true})
	wantErr(t, err, ErrKept)
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the copy was changed (%v)", err)
	}
	back := filepath.Join(t.TempDir(), "back.db")
	if err := os.WriteFile(back, before, 0o600); err != nil {
		t.Fatal(err)
	}
	checkCatalog(t, mustOpen(t, Options{Path: back}))
}

// TestRefuseKept goes by name and version.
func TestRefuseKept(t *testing.T) {
	t.Parallel()
	pending := migrate.Plan{From: 1, To: 2, Steps: make([]migrate.Step, 1)}
	for path, want := range map[string]bool{
		"/d/a.db.v1-backup": true, "/d/a.db.v1-backup-2": true, "/d/a.db.v1-backup-12": true,
		"/d/a.db": false, "/d/a-backup": false, "/d/a.db.v2-backup": false, "/d/a.db.v1-backup-x": false, "/d/a.db.v1-backup.db": false,
		"/d.v1-backup/a.db": false, "/d/a.db.v11-backup": false,
	} {
		if err := refuseKept(path, pending); errors.Is(err, ErrKept) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := refuseKept("/d/a.db.v1-backup", migrate.Plan{From: 1, To: 1}); err != nil { // the older program serves it
		t.Error(err)
	}
}

func newest(t *testing.T) int {
	t.Helper()
	steps, err := migrate.Load(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	return len(steps)
}

// TestOpenKeepsACopy: complete, for its owner's eyes only, and told of.
func TestOpenKeepsACopy(t *testing.T) {
	t.Parallel()
	path := oldest(t)
	if err := os.WriteFile(path+".v1-backup", []byte("of an earlier time"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".v7-backup.tmp", []byte("of a killed process"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	db := mustOpen(t, Options{Path: path, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	checkCatalog(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, path, "", ".lock", ".v1-backup", ".v1-backup-2")
	kept := path + ".v1-backup-2"
	if !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), `"copy":"`+kept+`"`) {
		t.Errorf("the log does not tell of the copy:\n%s", log.String())
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("copy %v (%v)", info.Mode(), err)
	}
	if text, err := os.ReadFile(path + ".v1-backup"); err != nil || string(text) != "of an earlier time" {
		t.Errorf("an earlier copy was changed to %q (%v)", text, err)
	}
	wantKept(t, kept)
	log.Reset()
	db = mustOpen(t, Options{Path: path, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	wantFiles(t, path, "", "-wal", "-shm", ".lock", ".v1-backup", ".v1-backup-2")
	if strings.Contains(log.String(), "migrated") {
		t.Errorf("migrated twice:\n%s", log.String())
	}
	check(t, db)
}

// TestNewDatabasesAreNotCopied, nor those that are up to date.
func TestNewDatabasesAreNotCopied(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := hooks{free: func(string) (uint64, error) { return 0, nil }} // nor do they need room for one
	for range 2 {
		db := mustOpen(t, Options{Path: path, hooks: full})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, path, "", ".lock")
	}
	mustOpen(t, Options{Path: Memory, hooks: full})
}

// TestTooLittleSpace: the database stays as it was, until it may be migrated
// without a copy.
func TestTooLittleSpace(t *testing.T) {
	t.Parallel()
	path := oldest(t)
	before := filesIn(t, filepath.Dir(path))
	size := uint64(len(before[filepath.Base(path)]))
	for _, c := range []struct {
		name string
		open func(Options) error
	}{
		{"open", func(o Options) error { _, err := Open(t.Context(), o); return err }},
		{"migrate", func(o Options) error { _, err := Migrate(t.Context(), o, migrate.Options{}); return err }},
	} {
		err := c.open(Options{Path: path, hooks: hooks{free: func(string) (uint64, error) { return 2*size - 1, nil }}})
		var none *NoSpace
		if !errors.As(err, &none) || !errors.Is(err, ErrNoSpace) || !errors.Is(err, migrate.ErrPending) ||
			none.Need != 2*size || none.Free != 2*size-1 || none.Dir != filepath.Dir(path) {
			t.Errorf("%s: error %v", c.name, err)
		}
		after := filesIn(t, filepath.Dir(path))
		delete(after, filepath.Base(path)+".lock")
		// Of the file, its log mode may have changed: two bytes of its header.
		if len(after) != 1 || len(after[filepath.Base(path)]) != len(before[filepath.Base(path)]) {
			t.Errorf("%s: files %q", c.name, slices.Collect(maps.Keys(after)))
		}
		wantVersion(t, path, 1)
	}
	none := hooks{free: func(string) (uint64, error) { return 0, nil }}
	done, err := Migrate(t.Context(), Options{Path: path, hooks: none}, migrate.Options{NoCopy: true})
	if err != nil || done.Copy != "" || done.Plan.From != 1 || done.Plan.To != newest(t) {
		t.Fatalf("done %+v (%v)", done, err)
	}
	wantFiles(t, path, "", ".lock")
	checkCatalog(t, mustOpen(t, Options{Path: path, hooks: none}))
}

// TestJustEnoughSpace: twice the size will do, and where nobody knows how much
// there is, it is tried.
func TestJustEnoughSpace(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(size uint64) (uint64, error){
		"enough":    func(size uint64) (uint64, error) { return 2 * size, nil },
		"not known": func(uint64) (uint64, error) { return 0, errors.ErrUnsupported },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := oldest(t)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Path: path, hooks: hooks{free: func(string) (uint64, error) { return free(uint64(info.Size())) }}}
			done, err := Migrate(t.Context(), o, migrate.Options{})
			if err != nil || done.Copy != path+".v1-backup" {
				t.Errorf("copy %s (%v)", done.Copy, err)
			}
		})
	}
}

// TestCopyThatFails: nothing is migrated.
func TestCopyThatFails(t *testing.T) {
	t.Parallel()
	path := oldest(t)
	if err := os.MkdirAll(filepath.Join(path+".v1-backup.tmp", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: path})
	if err == nil || !strings.Contains(err.Error(), ".v1-backup.tmp") {
		t.Fatalf("error %v", err)
	}
	wantVersion(t, path, 1)
}

// TestStepThatFails leaves the database as it was before the step, and no copy of
// what nobody changed.
func TestStepThatFails(t *testing.T) {
	t.Parallel()
	path := oldest(t)
	script(t, path, "ALTER TABLE tables ADD COLUMN long_keys INTEGER")
	for range 2 {
		_, err := Open(t.Context(), Options{Path: path})
		if err == nil || !strings.Contains(err.Error(), "migration 2 (long_keys): ") || !strings.Contains(err.Error(), path) {
			t.Fatalf("error %v", err)
		}
		wantFiles(t, path, "")
		wantVersion(t, path, 1)
	}
}

// TestMigrateReports each step before it runs.
func TestMigrateReports(t *testing.T) {
	t.Parallel()
	path := oldest(t)
	var told []string
	o := migrate.Options{Report: func(s migrate.Step, i, n int) {
		if n != newest(t)-1 || s.Version != i+1 {
			t.Errorf("step %d is %d of %d", s.Version, i, n)
		}
		told = append(told, s.Name)
	}}
	if _, err := Migrate(t.Context(), Options{Path: path}, o); err != nil || len(told) != newest(t)-1 || told[0] != "long_keys" {
		t.Errorf("told %q (%v)", told, err)
	}
	done, err := Migrate(t.Context(), Options{Path: path}, o)
	if err != nil || len(done.Plan.Steps) != 0 || done.Copy != "" || len(told) != newest(t)-1 {
		t.Errorf("migrated twice: %+v, %q (%v)", done, told, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path = oldest(t)
	if _, err := Migrate(ctx, Options{Path: path}, migrate.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a migration that was stopped", err)
	}
	wantVersion(t, path, 1)
}

// TestPlanWritesNothing, whatever it finds.
func TestPlanWritesNothing(t *testing.T) {
	t.Parallel()
	crashed := func(t *testing.T) string {
		db := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "x.db")})
		create(t, db, definition("t"))
		return crashImage(t, db)
	}
	made := func(sql string) func(*testing.T) string {
		return func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "100% #1?.db")
			ours(t, path, sql)
			return path
		}
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T) string
		from int
		want error
	}{
		{"old", oldest, 1, nil},
		{"up to date", made(""), newest(t), nil},
		{"crashed", crashed, newest(t), nil},
		{"newer", made("INSERT INTO migrations VALUES (99, x'00', 0)"), 0, migrate.ErrNewer},
		{"edited", made("UPDATE migrations SET digest = x'00'"), 0, migrate.ErrEdited},
		{"a gap", made("DELETE FROM migrations WHERE version = 1"), 0, migrate.ErrEdited},
		{"without migrations", made("DROP TABLE migrations"), 0, storage.ErrCorrupt},
		{"another program's", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "a.db")
			script(t, path, "CREATE TABLE theirs (x)")
			return path
		}, 0, ErrForeign},
		{"no database", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "a.db")
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, 0, ErrForeign},
		{"nothing", func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") }, 0, fs.ErrNotExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := c.make(t)
			before := filesIn(t, filepath.Dir(path))
			p, err := Plan(t.Context(), Options{Path: path}, migrate.Options{})
			if !errors.Is(err, c.want) || err == nil && p.From != c.from {
				t.Errorf("plan from %d (%v), want %d (%v)", p.From, err, c.from, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not name the file", err)
			}
			after := filesIn(t, filepath.Dir(path))
			delete(after, filepath.Base(path)+"-shm") // the index of a log that a crash left
			if !maps.Equal(before, after) {
				t.Errorf("files %q are now %q, or others", slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
			}
		})
	}
	p, err := Plan(t.Context(), Options{Path: filepath.Join(t.TempDir(), "a.db")}, migrate.Options{})
	if !errors.Is(err, fs.ErrNotExist) || p.To != 0 {
		t.Errorf("plan %+v (%v)", p, err)
	}
}

func TestPlanOfADatabaseInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	mustOpen(t, Options{Path: path})
	_, err := Plan(t.Context(), Options{Path: path}, migrate.Options{})
	wantErr(t, err, storage.ErrLocked)
	_, err = Migrate(t.Context(), Options{Path: path}, migrate.Options{})
	wantErr(t, err, storage.ErrLocked)
}

// TestMigrateWaits for who has the database, as long as it is told to; a plan
// does as well.
func TestMigrateWaits(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(context.Context, Options, migrate.Options) error{
		"plan": func(ctx context.Context, o Options, m migrate.Options) error { _, err := Plan(ctx, o, m); return err },
		"migrate": func(ctx context.Context, o Options, m migrate.Options) error {
			_, err := Migrate(ctx, o, m)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { waits(t, work) })
	}
}

func waits(t *testing.T, work func(context.Context, Options, migrate.Options) error) {
	path := filepath.Join(t.TempDir(), "a.db")
	db := mustOpen(t, Options{Path: path})
	synctest.Test(t, func(t *testing.T) {
		clk := clock.NewFake(instant())
		var told []string
		m := migrate.Options{LockWait: 3 * lockPause, Waiting: func(h string) { told = append(told, h) }}
		working := func() <-chan error {
			over := make(chan error, 1)
			go func() { over <- work(t.Context(), Options{Path: path, Clock: clk}, m) }()
			synctest.Wait()
			return over
		}
		over := working()
		for range 3 {
			if len(over) > 0 {
				t.Fatal("it did not wait")
			}
			clk.Advance(lockPause)
			synctest.Wait()
		}
		if err := <-over; !errors.Is(err, storage.ErrLocked) || len(told) != 1 || !strings.HasPrefix(told[0], "process ") {
			t.Fatalf("told %q (%v)", told, err)
		}
		over = working()
		if err := db.lock.Unlock(); err != nil {
			t.Error(err)
		}
		clk.Advance(lockPause)
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestKilledMigration: the next start completes what kill -9 left, and nothing
// but the database, its lock and complete copies stays.
func TestKilledMigration(t *testing.T) {
	t.Parallel()
	if path := os.Getenv("EXTENDDB_TEST_MIGRATE"); path != "" { // this is the process to kill
		h := hooks{migration: func(at string) {
			if at == os.Getenv("EXTENDDB_TEST_KILL") {
				p, err := os.FindProcess(os.Getpid())
				if err == nil {
					err = p.Kill()
				}
				t.Error("killing:", err)
				select {}
			}
		}}
		mustOpen(t, Options{Path: path, hooks: h})
		t.Fatal("it was not killed")
	}
	for point, c := range map[string]struct {
		left   int // version that the killed one leaves
		copies []string
	}{
		"copied":    {1, []string{".v1-backup"}},
		"ran":       {1, []string{".v1-backup"}},
		"kept":      {1, []string{".v1-backup", ".v1-backup-2"}},
		"committed": {2, []string{".v1-backup"}},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			path := oldest(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledMigration$")
			cmd.Env = append(os.Environ(), "EXTENDDB_TEST_MIGRATE="+path, "EXTENDDB_TEST_KILL="+point)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.Exited() && os.PathSeparator == '/' {
				t.Fatalf("it was not killed (%v):\n%s", err, out)
			}
			wantVersion(t, path, c.left)
			db := mustOpen(t, Options{Path: path})
			checkCatalog(t, db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			want := append([]string{"", ".lock"}, c.copies...)
			if c.left > 1 && newest(t) > c.left {
				want = append(want, ".v2-backup") // of where the rest began
			}
			wantFiles(t, path, want...)
			for _, copied := range c.copies {
				wantKept(t, path+copied)
			}
		})
	}
}
