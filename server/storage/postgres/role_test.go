// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/test/servers"
)

// manualText is docs/postgresql.md.
func manualText(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/postgresql.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manual returns the statements of the manual, block by block. Its other blocks
// are commands, of which this test knows.
func manual(t testing.TB) []string {
	t.Helper()
	var blocks, commands []string
	for _, m := range regexp.MustCompile("(?s)```(.*?)\n(.*?)```").FindAllStringSubmatch(manualText(t), -1) {
		if m[1] == "sql" {
			blocks = append(blocks, m[2])
			continue
		}
		word, _, _ := strings.Cut(m[2], " ")
		commands = append(commands, word)
	}
	// The first one is for a database in another place: those of package cli serve.
	if want := []string{"extenddb", "pg_dump", "pg_restore", "pg_basebackup"}; !slices.Equal(commands, want) {
		t.Errorf("the manual has the commands %q, and these are tested: %q", commands, want)
	}
	if len(blocks) < 9 || !strings.Contains(blocks[0], "CREATE ROLE") || !strings.Contains(blocks[1], "CREATE SCHEMA") {
		t.Fatalf("the manual has the blocks %q", blocks)
	}
	return blocks
}

// The role of the manual can serve, and nothing else; the manual's statements
// are right; and what pg_dump saves can be served.
func TestManual(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	blocks := manual(t)
	admin := mustConnect(t, s.URL("postgres"))
	for _, stmt := range strings.SplitAfter(strings.TrimSpace(blocks[0]), ";\n") { // CREATE DATABASE stands alone
		mustExec(t, admin, stmt)
	}
	mustExec(t, mustConnect(t, s.URL("extenddb")), blocks[1])
	url := strings.Replace(s.URL("extenddb"), servers.Superuser+"@", "extenddb:change%20this@", 1)

	db := mustOpen(t, Options{URL: url})
	def := hashTable("T")
	def.GlobalSecondaryIndexes = []ddb.IndexDefinition{{IndexName: "i", KeySchema: def.KeySchema, Projection: ddb.Projection{ProjectionType: "ALL"}}}
	made, err := db.CreateTable(t.Context(), "a", def, db.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := made.KeyOf(ddb.Item{"k": ddb.String("x")})
	if err != nil {
		t.Fatal(err)
	}
	put := func(cur *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(cur, ddb.Item{"k": ddb.String("x")})
	}
	if _, err := db.Write(t.Context(), storage.Write{Table: made, Key: key, Blind: true, Decide: put}); err != nil {
		t.Fatal(err)
	}
	if row, err := db.Get(t.Context(), made, key); err != nil || row == nil {
		t.Fatalf("%v, %v", row, err)
	}
	theirs := mustConnect(t, url)
	var copying []string // another test's
	for _, block := range blocks[2:] {
		if strings.HasPrefix(block, "CREATE DATABASE") || strings.HasPrefix(block, "DO ") {
			copying = append(copying, block)
			continue
		}
		as := theirs
		if strings.HasPrefix(block, "GRANT") {
			as = admin
		}
		mustExec(t, as, block)
	}
	holderIsNamed(t, s, theirs, blocks)
	for _, forbidden := range []string{"CREATE SCHEMA more", "CREATE ROLE more", "CREATE DATABASE more", "CREATE EXTENSION pg_trgm"} {
		if _, err := theirs.Exec(t.Context(), forbidden); codeOf(err) != codePrivilege {
			t.Errorf("%s: %v", forbidden, err)
		}
	}
	t.Run("dump", func(t *testing.T) { dumped(t, s, url, copying) })
	t.Run("base backup", func(t *testing.T) { copiedWhole(t, s, admin) })
	if _, err := db.DropTable(t.Context(), "a", "T", agree); err != nil {
		t.Fatal(err)
	}
	lease, err := db.Claim(t.Context(), storage.Work{Kind: storage.TableDrop, Table: made.ID, Account: "a", Name: "T"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		p, err := lease.Step(t.Context(), db.Clock().Now())
		if err != nil {
			t.Fatal(err)
		}
		if p.Finished {
			break
		}
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	if _, err := db.Table(t.Context(), "a", "T"); !errors.Is(err, storage.ErrTableNotFound) {
		t.Error(err)
	}
}

// holderIsNamed: the statement about streams names who holds their records
// back, in any database.
func holderIsNamed(t *testing.T, s *servers.PostgreSQL, c *pgx.Conn, blocks []string) {
	t.Helper()
	holder := mustConnect(t, s.URL("postgres"))
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "SELECT pg_current_xact_id()")
	i := slices.IndexFunc(blocks, func(b string) bool { return strings.Contains(b, "pg_prepared_xacts") })
	if i < 0 {
		t.Fatal("the manual does not tell who holds streams back")
	}
	rows, err := c.Query(t.Context(), blocks[i])
	if err != nil {
		t.Fatal(err)
	}
	who, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values[:2]), err
	})
	if want := fmt.Sprintf("[postgres %d]", holder.PgConn().PID()); err != nil || !slices.Contains(who, want) {
		t.Errorf("%q hold records back, want %s (%v)", who, want, err)
	}
	mustExec(t, holder, "ROLLBACK")
}

// copiedWhole copies the cluster as the manual says, with the role it says.
func copiedWhole(t *testing.T, s *servers.PostgreSQL, admin *pgx.Conn) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Join(s.Dir, "test.log"), 0o644); err != nil { // ours, in the middle of the server's
		t.Fatal(err)
	}
	mustExec(t, admin, regexp.MustCompile("CREATE ROLE base [^`]*").FindString(manualText(t)))
	command(t, dir, "pg_basebackup", "REPLICATION_URL="+strings.Replace(s.URL("postgres"), servers.Superuser+"@", "base:change%20this@", 1))
	if _, err := os.Stat(filepath.Join(dir, "base", "backup_manifest")); err != nil { // written last
		t.Error(err)
	}
}

// command runs the command of the manual that begins with a word. What it keeps
// under /srv is in dir.
func command(t *testing.T, dir, word string, env ...string) {
	t.Helper()
	line := regexp.MustCompile("(?m)^" + word + " .*$").FindString(manualText(t))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, "/srv/", dir+"/"))
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"PATH=" + servers.ClientPath(t)}, env)
	if out, err := cmd.CombinedOutput(); line == "" || err != nil {
		t.Fatalf("%q: %v\n%s", line, err, out)
	}
}

// dumped restores a dump of the database into others as the manual says, and
// opens them.
func dumped(t *testing.T, s *servers.PostgreSQL, url string, blocks []string) {
	t.Helper()
	dir := t.TempDir()
	command(t, dir, "pg_dump", "URL="+url)
	admin := mustConnect(t, s.URL("postgres"))
	for _, stmt := range strings.SplitAfter(strings.TrimSpace(blocks[0]), ";\n") {
		mustExec(t, admin, stmt)
	}
	copied := strings.Replace(url, "/extenddb?", "/extenddb_copy?", 1)
	command(t, dir, "pg_restore", "NEW_URL="+copied)
	restored(t, copied)

	others := s.Database(t)
	command(t, dir, "pg_restore", "NEW_URL="+others)
	theirs := strings.Replace(others, servers.Superuser+"@", "extenddb:change%20this@", 1)
	_, plan := Plan(t.Context(), Options{URL: theirs})
	_, open := Open(t.Context(), Options{URL: theirs})
	for _, err := range []error{plan, open} {
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), `schema extenddb belongs to role "postgres", and this is "extenddb": connect as postgres, or make extenddb the owner`) {
			t.Errorf("%v", err)
		}
	}
	mustExec(t, mustConnect(t, others), blocks[1])
	restored(t, theirs)
}

// restored opens a copy of the database.
func restored(t *testing.T, url string) {
	t.Helper()
	db := mustOpen(t, Options{URL: url})
	seen, err := db.Table(t.Context(), "a", "T")
	if err != nil {
		t.Fatal(err)
	}
	key, err := seen.KeyOf(ddb.Item{"k": ddb.String("x")})
	if err != nil {
		t.Fatal(err)
	}
	if row, err := db.Get(t.Context(), seen, key); err != nil || row == nil {
		t.Errorf("%v, %v", row, err)
	}
	if _, err := db.CreateTable(t.Context(), "a", hashTable("New"), db.Clock().Now()); err != nil { // takes sequences too
		t.Error(err)
	}
}

// A role that may not do it gets the reason and the remedy.
func TestRoleWithoutRights(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	admin := mustConnect(t, s.URL("postgres"))
	mustExec(t, admin, `CREATE ROLE "Poor" LOGIN`)
	url := strings.Replace(s.URL("postgres"), servers.Superuser+"@", "Poor@", 1)
	denied := func(reason, remedy string) {
		t.Helper()
		_, plan := Plan(t.Context(), Options{URL: url})
		_, migration := Migrate(t.Context(), Options{URL: url}, migrate.Options{})
		_, open := Open(t.Context(), Options{URL: url})
		for _, err := range []error{plan, migration, open} {
			var refused *Refused
			if !errors.Is(err, ErrDenied) || !errors.As(err, &refused) || !strings.Contains(refused.Reason, reason) || !strings.Contains(refused.Remedy, remedy) {
				t.Error(err)
			}
		}
	}
	const empty = `the database is empty, and the role "Poor" may not initialise it`
	denied(empty, `GRANT CREATE ON DATABASE postgres TO "Poor"; or make the two schemas for it, as docs/postgresql.md shows`)
	mustExec(t, admin, `CREATE SCHEMA extenddb AUTHORIZATION "Poor"`) // and not the other
	denied(empty, "GRANT CREATE")
	mustExec(t, admin, "CREATE SCHEMA extenddb_data")
	denied(`schema extenddb_data belongs to role "postgres", and this is "Poor"`, "make Poor the owner")
	mustExec(t, admin, `ALTER SCHEMA extenddb_data OWNER TO "Poor"`)
	if db := mustOpen(t, Options{URL: url}); !db.Info().New {
		t.Error("it was empty")
	}
	if db := mustOpen(t, Options{URL: url}); db.Info().New {
		t.Error("it was initialised before")
	}
	mustExec(t, admin, "ALTER SCHEMA extenddb_data OWNER TO postgres")
	denied(`schema extenddb_data belongs to role "postgres", and this is "Poor"`, "make Poor the owner")
	mustExec(t, admin, `GRANT USAGE, CREATE ON SCHEMA extenddb_data TO "Poor"`)
	mustOpen(t, Options{URL: url})
	mustExec(t, admin, `ALTER SCHEMA extenddb_data OWNER TO "Poor"; REVOKE CREATE ON SCHEMA extenddb_data FROM "Poor"`)
	denied(`the role "Poor" may not make relations in schema extenddb_data`, `GRANT USAGE, CREATE ON SCHEMA extenddb_data TO "Poor"`)
	mustExec(t, admin, `GRANT ALL ON SCHEMA extenddb_data TO "Poor"; CREATE TABLE extenddb_data.t_77 ()`)
	denied(`extenddb_data.t_77 belongs to role "postgres", and this is "Poor"`, "make Poor the owner")
	mustExec(t, admin, "DROP TABLE extenddb_data.t_77; ALTER SEQUENCE extenddb.ids OWNER TO postgres")
	denied(`extenddb.ids belongs to role "postgres", and this is "Poor"`, "make Poor the owner")
	mustExec(t, admin, `ALTER SEQUENCE extenddb.ids OWNER TO "Poor"`)
	mustOpen(t, Options{URL: url})
	mustExec(t, admin, "ALTER TABLE extenddb.tables OWNER TO postgres")
	_, err := Open(t.Context(), Options{URL: url})
	if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), `belongs to role "postgres"`) {
		t.Error(err)
	}
}

// TestRightsTakenAway: a server that may not use a table any more says which,
// and what to do, in the log once a minute.
func TestRightsTakenAway(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	admin := mustConnect(t, s.URL("postgres"))
	mustExec(t, admin, "CREATE ROLE server LOGIN; GRANT CREATE ON DATABASE postgres TO server")
	var log bytes.Buffer
	fake := clock.NewFake(time.Unix(1e9, 0))
	db := mustOpen(t, Options{URL: strings.Replace(s.URL("postgres"), servers.Superuser+"@", "server@", 1), Clock: fake,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	tab := create(t, db, hashTable("t"))
	mustExec(t, admin, "REVOKE ALL ON "+rowsOf(tab.ID)+" FROM server")
	told := func(want int) {
		t.Helper()
		for range 3 {
			_, get := db.Get(t.Context(), tab, key(tab, "x"))
			_, write := db.Write(t.Context(), put(tab, item("x")))
			for _, err := range []error{get, write, rangeError(db, t, tab, storage.Range{})} {
				if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprintf("permission denied for table t_%d (SQLSTATE 42501): GRANT", tab.ID)) {
					t.Error(err)
				}
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != want || !strings.Contains(log.String(), fmt.Sprint("for table t_", tab.ID)) {
			t.Errorf("the log tells of it %d times, want %d:\n%s", n, want, log.String())
		}
	}
	told(1)
	fake.Advance(deniedEvery)
	told(2)
}
