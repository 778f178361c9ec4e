// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/test/servers"
)

// further makes a program of a later version, with more steps.
func further(sql ...string) func([]migrate.Step) []migrate.Step {
	return func(steps []migrate.Step) []migrate.Step {
		steps = slices.Clone(steps)
		for _, text := range sql {
			steps = append(steps, migrate.Step{
				Version: len(steps) + 1, Name: "further", SQL: text, Digest: sha256.Sum256([]byte(text)),
			})
		}
		return steps
	}
}

const (
	addColumn = "ALTER TABLE extenddb.tables ADD COLUMN extra integer"
	addTable  = "CREATE TABLE extenddb.extra (x integer); INSERT INTO extenddb.extra VALUES (1)"
)

// made makes a database of this version that nobody has open.
func made(t *testing.T) string {
	t.Helper()
	url := servers.Database(t)
	db, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return url
}

func wantVersion(t *testing.T, url string, want int) {
	t.Helper()
	var got int
	if err := mustConnect(t, url).QueryRow(t.Context(), "SELECT max(version) FROM extenddb.migrations").Scan(&got); err != nil || got != want {
		t.Errorf("version %d (%v), want %d", got, err, want)
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

// TestPlan tells what there is to do, and does nothing of it.
func TestPlan(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	for range 2 {
		p, err := Plan(t.Context(), Options{URL: url})
		if err != nil || p.From != 0 || p.To != newest(t) || len(p.Steps) != p.To {
			t.Fatalf("plan %+v (%v)", p, err)
		}
	}
	mustOpen(t, Options{URL: url})
	p, err := Plan(t.Context(), Options{URL: url}) // a server that is there is no obstacle
	if err != nil || p.From != newest(t) || len(p.Steps) != 0 {
		t.Errorf("plan from %d in %d steps (%v)", p.From, len(p.Steps), err)
	}
	p, err = Plan(t.Context(), Options{URL: url, hooks: hooks{steps: further(addColumn, addTable)}})
	if err != nil || p.From != newest(t) || len(p.Steps) != 2 || p.Steps[0].SQL != addColumn {
		t.Errorf("plan from %d in %d steps (%v)", p.From, len(p.Steps), err)
	}
	wantVersion(t, url, newest(t))
}

// TestMigrate of an empty database, and of an older one.
func TestMigrate(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	var told []string
	m := migrate.Options{Report: func(s migrate.Step, i, n int) { told = append(told, s.Name) }, Waiting: func(h string) { t.Error("waits for", h) }}
	for i, c := range []struct {
		steps func([]migrate.Step) []migrate.Step
		names string
	}{
		{nil, "initial"},
		{nil, ""},
		{further(addColumn), "further"},
		{further(addColumn, addTable), "further"},
		{further(addColumn, addTable), ""},
	} {
		told = nil
		done, err := Migrate(t.Context(), Options{URL: url, hooks: hooks{steps: c.steps}}, m)
		if err != nil || strings.Join(told, " ") != c.names || done.Copy != "" || len(done.Plan.Steps) != len(told) {
			t.Fatalf("%d: told %q, done %+v (%v)", i, told, done, err)
		}
	}
	wantVersion(t, url, newest(t)+2)
}

// TestOpenRefuses what is not of this version, or not ours, and leaves it alone.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		make  func(t *testing.T, c *pgx.Conn, url string)
		steps func([]migrate.Step) []migrate.Step
		want  error
		says  string
		too   bool // Plan and Migrate refuse it too
	}{
		{"older", func(t *testing.T, _ *pgx.Conn, url string) { mustClose(t, url) }, further(addColumn),
			migrate.ErrPending, "its catalog has version 1, this program needs 2", false},
		{"newer", func(t *testing.T, c *pgx.Conn, url string) {
			mustClose(t, url)
			mustExec(t, c, "INSERT INTO extenddb.migrations VALUES (7, 'later', 'x')")
		}, nil, migrate.ErrNewer, "its catalog has version 7, this program knows 1", true},
		{"edited", func(t *testing.T, c *pgx.Conn, url string) {
			mustClose(t, url)
			mustExec(t, c, "UPDATE extenddb.migrations SET digest = 'x'")
		}, nil, migrate.ErrEdited, "step 1 (initial)", true},
		{"half there", func(t *testing.T, c *pgx.Conn, url string) {
			mustClose(t, url)
			mustExec(t, c, "DROP TABLE extenddb.tables")
		}, nil, ErrForeign, "not all of it is there", true},
		{"notes lost", func(t *testing.T, c *pgx.Conn, url string) {
			mustClose(t, url)
			mustExec(t, c, "TRUNCATE extenddb.migrations")
		}, nil, ErrForeign, "not all of it is there", true},
		{"catalog lost", func(t *testing.T, c *pgx.Conn, _ string) {
			mustExec(t, c, "CREATE SCHEMA extenddb_data; CREATE TABLE extenddb_data.t_1 (x integer)")
		}, nil, ErrForeign, "holds something else", true},
		{"another program's", func(t *testing.T, c *pgx.Conn, _ string) {
			mustExec(t, c, "CREATE SCHEMA extenddb; CREATE TABLE extenddb.settings (x integer)")
		}, nil, ErrForeign, "holds something else", true},
		{"another program's migrations", func(t *testing.T, c *pgx.Conn, _ string) {
			mustExec(t, c, "CREATE SCHEMA extenddb; CREATE TABLE extenddb.migrations (x integer)")
		}, nil, ErrForeign, "holds something else", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := Options{URL: servers.Database(t), hooks: hooks{steps: c.steps}}
			conn := mustConnect(t, o.URL)
			c.make(t, conn, o.URL)
			before := relations(t, conn)
			_, err := Open(t.Context(), o)
			check := func(what string, err error) {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("%s: error %v, want %v with %q", what, err, c.want, c.says)
				}
			}
			check("open", err)
			if c.too {
				_, err = Plan(t.Context(), o)
				check("plan", err)
				_, err = Migrate(t.Context(), o, migrate.Options{})
				check("migrate", err)
			}
			if after := relations(t, conn); after != before {
				t.Errorf("relations %s, before %s", after, before)
			}
		})
	}
}

// mustClose makes a database of this version and leaves it.
func mustClose(t *testing.T, url string) {
	t.Helper()
	db, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func relations(t *testing.T, c *pgx.Conn) (names string) {
	t.Helper()
	err := c.QueryRow(t.Context(), `SELECT coalesce(string_agg(relname || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid), ' ' ORDER BY relname), '')
		FROM pg_class c WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'extenddb%')`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSchemasMadeBefore by an administrator, for a role that may not make any.
func TestSchemasMadeBefore(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	c := mustConnect(t, url)
	role := "role_" + c.Config().Database
	mustExec(t, c, "CREATE ROLE "+role+" LOGIN; CREATE SCHEMA extenddb; CREATE SCHEMA extenddb_data")
	t.Cleanup(func() { mustExecLate(t, c, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	theirs := strings.Replace(url, "postgres@", role+"@", 1)
	_, err := Open(t.Context(), Options{URL: theirs})
	var refused *Refused
	if !errors.As(err, &refused) || !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	mustExec(t, c, "GRANT ALL ON SCHEMA extenddb, extenddb_data TO "+role)
	mustClose(t, theirs)
}

func mustExecLate(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// TestStartAtOnce: of servers that start on an empty database one makes the
// catalog, and the others find it.
func TestStartAtOnce(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			db, err := Open(t.Context(), Options{URL: url, MaxConns: 2})
			if err == nil {
				err = db.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	wantVersion(t, url, newest(t))
}

// TestTwoMigrations: one works, the other waits, or says who works.
func TestTwoMigrations(t *testing.T) {
	t.Parallel()
	url := made(t)
	ran, goOn := make(chan struct{}), make(chan struct{})
	o := Options{URL: url, hooks: hooks{steps: further(addColumn), migration: func(at string) {
		if at == "ran" {
			close(ran)
			<-goOn
		}
	}}}
	first := make(chan error, 1)
	go func() {
		_, err := Migrate(t.Context(), o, migrate.Options{LockWait: time.Minute})
		first <- err
	}()
	<-ran
	o.hooks.migration = nil
	for _, wait := range []time.Duration{0, time.Millisecond} {
		_, err := Migrate(t.Context(), o, migrate.Options{LockWait: wait})
		var locked *storage.Locked
		if !errors.As(err, &locked) || !strings.Contains(locked.Holder, "(extenddb migrate, process ") ||
			!strings.Contains(locked.Holder, " of 127.0.0.1 since 2") || strings.Contains(err.Error(), "lock file") {
			t.Errorf("waited %s: error %v", wait, err)
		}
	}
	waits := make(chan string, 1)
	second := make(chan error, 1)
	go func() {
		done, err := Migrate(t.Context(), o, migrate.Options{LockWait: time.Minute, Waiting: func(h string) { waits <- h }})
		if err == nil && len(done.Plan.Steps) != 0 {
			err = errors.New("it found something to do")
		}
		second <- err
	}()
	if holder := <-waits; !strings.Contains(holder, "extenddb migrate") {
		t.Errorf("waits for %s", holder)
	}
	close(goOn)
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	wantVersion(t, url, newest(t)+1)
	db, err := Open(t.Context(), Options{URL: url, hooks: hooks{steps: further(addColumn)}}) // the lock is free
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestServersAreNamed, and waited for: they would go on with the old catalog.
func TestServersAreNamed(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Program: "1.2.3"})
	o := Options{URL: db.o.URL, hooks: hooks{steps: further(addColumn)}}
	_, err := Migrate(t.Context(), o, migrate.Options{})
	var locked *storage.Locked
	if !errors.As(err, &locked) || !strings.Contains(locked.Holder, " (extenddb 1.2.3) since 2") {
		t.Fatalf("error %v", err)
	}
	waits := make(chan string, 1)
	over := make(chan error, 1)
	go func() {
		_, err := Migrate(t.Context(), o, migrate.Options{LockWait: time.Minute, Waiting: func(h string) { waits <- h }})
		over <- err
	}()
	if holder := <-waits; holder != locked.Holder {
		t.Errorf("waits for %q, not %q", holder, locked.Holder)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	wantVersion(t, o.URL, newest(t)+1)
	// One that died is none, although its heartbeat is still fresh.
	mustExec(t, mustConnect(t, o.URL), "INSERT INTO extenddb.servers VALUES (gen_random_uuid(), 'h', 1, 'p', now(), now())")
	o.hooks.steps = further(addColumn, addTable)
	if _, err := Migrate(t.Context(), o, migrate.Options{}); err != nil {
		t.Error(err)
	}
}

// TestServerThatStandsStill has the database, although its heartbeats are
// missing.
func TestServerThatStandsStill(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	mustExec(t, mustConnect(t, db.o.URL), "UPDATE extenddb.servers SET heartbeat = now() - interval '1 day'")
	_, err := Migrate(t.Context(), Options{URL: db.o.URL, hooks: hooks{steps: further(addColumn)}}, migrate.Options{})
	var locked *storage.Locked
	if !errors.As(err, &locked) || !strings.Contains(locked.Holder, "database process ") || !strings.Contains(locked.Holder, " (extenddb) of 127.0.0.1 since 2") {
		t.Errorf("error %v", err)
	}
	wantVersion(t, db.o.URL, newest(t))
}

// TestServerThatComesBack to a database that was migrated while it was cut off,
// or that is one from before a migration, as a standby or a copy may be, does
// not use it any more.
func TestServerThatComesBack(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		change, back string
		want         error
	}{
		"newer": {"INSERT INTO extenddb.migrations VALUES (1000, 'further', 'x')", "DELETE FROM extenddb.migrations WHERE version = 1000", migrate.ErrNewer},
		"older": {
			"CREATE TABLE kept AS SELECT * FROM extenddb.migrations; DELETE FROM extenddb.migrations WHERE name = 'further'",
			"INSERT INTO extenddb.migrations SELECT * FROM kept WHERE name = 'further'", migrate.ErrPending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comesBack(t, x.change, x.back, x.want)
		})
	}
}

func comesBack(t *testing.T, change, back string, want error) {
	t.Helper()
	log := make(logLines, 100)
	db := mustOpen(t, Options{Log: slog.New(slog.NewTextHandler(log, nil)), hooks: hooks{steps: further(addTable)}})
	var pid int64
	must(t, db.session.do(t.Context(), func(_ context.Context, c *pgx.Conn) error { pid = int64(c.PgConn().PID()); return nil }, nil))
	c := mustConnect(t, db.o.URL)
	mustExec(t, c, change)
	mustExec(t, c, "SELECT pg_terminate_backend($1::int)", pid)
	log.await("database was changed by another version")
	for range 2 {
		if err := db.Ping(t.Context()); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, want) {
			t.Errorf("error %v", err)
		}
	}
	mustExec(t, c, back)
	log.await("database connection that owns and listens is back")
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// logLines is a log that can be waited for.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default: // nobody waits
	}
	return len(p), nil
}

func (l logLines) await(text string) {
	for !strings.Contains(<-l, text) {
	}
}

// TestTablesHeld: who holds a table is not waited for without end.
func TestTablesHeld(t *testing.T) {
	t.Parallel()
	url := made(t)
	c := mustConnect(t, url)
	mustExec(t, c, "BEGIN; LOCK TABLE extenddb.tables IN ACCESS SHARE MODE")
	o := Options{URL: url, hooks: hooks{steps: further(addTable, addColumn)}}
	_, err := Migrate(t.Context(), o, migrate.Options{LockWait: time.Millisecond})
	if !errors.Is(err, storage.ErrConflict) || !strings.Contains(err.Error(), "migration 3 (further)") {
		t.Errorf("error %v", err)
	}
	mustExec(t, c, "COMMIT")
	wantVersion(t, url, newest(t)+1)
	done, err := Migrate(t.Context(), o, migrate.Options{})
	if err != nil || len(done.Plan.Steps) != 1 {
		t.Errorf("done %+v (%v)", done, err)
	}
}

// TestStepThatFails leaves nothing of itself, and what was before it.
func TestStepThatFails(t *testing.T) {
	t.Parallel()
	url := made(t)
	bad := "CREATE TABLE extenddb.more (x integer); SELECT 1/0"
	o := Options{URL: url, hooks: hooks{steps: further(addColumn, bad)}}
	_, err := Migrate(t.Context(), o, migrate.Options{})
	if err == nil || !strings.Contains(err.Error(), "migration 3 (further)") || !strings.Contains(err.Error(), "division by zero") {
		t.Fatalf("error %v", err)
	}
	wantVersion(t, url, newest(t)+1)
	if names := relations(t, mustConnect(t, url)); strings.Contains(names, "more") {
		t.Errorf("relations %s", names)
	}
}

// TestKilledMigration: the next run completes what kill -9 left.
func TestKilledMigration(t *testing.T) {
	t.Parallel()
	steps := further(addColumn, addTable)
	if url := os.Getenv("EXTENDDB_TEST_MIGRATE"); url != "" { // this is the process to kill
		point := os.Getenv("EXTENDDB_TEST_KILL")
		h := hooks{steps: steps, migration: func(at string) {
			if at == point {
				p, err := os.FindProcess(os.Getpid())
				if err == nil {
					err = p.Kill()
				}
				t.Error("killing:", err)
				select {}
			}
			if at == "noted" {
				point = strings.TrimPrefix(point, "later ") // in the step after
			}
		}}
		_, err := Migrate(t.Context(), Options{URL: url, hooks: h}, migrate.Options{})
		t.Fatal("it was not killed:", err)
	}
	for point, left := range map[string]int{"ran": 1, "noted": 1, "later ran": 2, "later noted": 2} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			url := made(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledMigration$")
			cmd.Env = append(os.Environ(), "EXTENDDB_TEST_MIGRATE="+url, "EXTENDDB_TEST_KILL="+point)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.Exited() && os.PathSeparator == '/' {
				t.Fatalf("it was not killed (%v):\n%s", err, out)
			}
			done, err := Migrate(t.Context(), Options{URL: url, hooks: hooks{steps: steps}}, migrate.Options{LockWait: time.Minute})
			if err != nil || done.Plan.From != left {
				t.Fatalf("done %+v (%v)", done, err)
			}
			wantVersion(t, url, newest(t)+2)
		})
	}
}

// TestLockTimeout: no wait is none, and not one without limit.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{0: "lock_timeout = 10", time.Minute: "lock_timeout = 60000"} {
		if got := lockTimeout(wait); got != want {
			t.Errorf("%s: %s, want %s", wait, got, want)
		}
	}
}
