// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// manual returns the statements of docs/postgresql.md, block by block.
func manual(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/postgresql.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
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
	for _, block := range blocks[2:] {
		as := theirs
		if strings.HasPrefix(block, "GRANT") {
			as = admin
		}
		mustExec(t, as, block)
	}
	for _, forbidden := range []string{"CREATE SCHEMA more", "CREATE ROLE more", "CREATE DATABASE more", "CREATE EXTENSION pg_trgm"} {
		if _, err := theirs.Exec(t.Context(), forbidden); codeOf(err) != codePrivilege {
			t.Errorf("%s: %v", forbidden, err)
		}
	}
	dumped(t, s, url)
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

// dumped restores a dump of the database into another one and opens that.
func dumped(t *testing.T, s *servers.PostgreSQL, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	run := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), filepath.Join(servers.Binaries(t), program), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	run("pg_dump", "-Fc", "-d", url, "-f", file)
	copied := s.Database(t)
	run("pg_restore", "--no-owner", "-d", copied, file)
	db := mustOpen(t, Options{URL: copied})
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
}

// A role that may not do it gets the reason and the remedy.
func TestRoleWithoutRights(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	mustExec(t, mustConnect(t, s.URL("postgres")), "CREATE ROLE poor LOGIN")
	_, err := Open(t.Context(), Options{URL: strings.Replace(s.URL("postgres"), servers.Superuser+"@", "poor@", 1)})
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "permission denied for database postgres") || !strings.Contains(refused.Remedy, "docs/postgresql.md") {
		t.Error(err)
	}
}
