// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/test/need"
	"github.com/extenddb/extenddb/test/proc"
)

// small mounts a file system of so many MiB; grow makes it larger.
func small(t *testing.T, dir string, mib int) (grow func(mib int)) {
	t.Helper()
	need.Root(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	size := fmt.Sprintf("size=%dm", mib)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", size, "extenddb-test", dir).CombinedOutput(); err != nil {
		need.Missing(t, "mount", fmt.Sprintf("cannot mount a tmpfs: %s", out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return func(mib int) {
		if out, err := exec.Command("mount", "-o", fmt.Sprintf("remount,size=%dm", mib), dir).CombinedOutput(); err != nil {
			t.Fatalf("remount: %s", out)
		}
	}
}

// says fails unless a command said all that.
func says(t *testing.T, c *child, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(c.String(), text) {
			t.Errorf("%q is not said: %v", text, c)
		}
	}
}

// TestBackupFullStore: the store's disk is full.
func TestBackupFullStore(t *testing.T) {
	need.Root(t)
	m, db := source(t, proc.SQLite(), killItems)
	disk := m.path("disk")
	grow := small(t, disk, 2)
	m.store = filepath.Join(disk, "store")
	m.ok(t, "store", "init", m.url())
	full := func() {
		t.Helper()
		c := m.run(t, m.backup(db)...)
		if c.end() != 1 {
			t.Fatalf("a full store: %v", c)
		}
		says(t, c, "no space left on device", format.DataDir+"/")
		complete, unfinished, temps := m.prefixes(t)
		if len(complete)+len(unfinished)+len(temps)+len(m.list(t)) > 0 {
			t.Errorf("something is left: %v %v %v", complete, unfinished, temps)
		}
	}
	full()
	srv := proc.Start(t, m.bin, db)
	full()
	sameTable(t, srv.Client(), table, killItems)
	grow(64)
	onlyOne(t, m.ok(t, m.backup(db)...))
	m.sound(t, newReader(t), killItems)
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	checkFile(t, db)
}

// TestRestoreFullDatabase: the database's disk is full.
func TestRestoreFullDatabase(t *testing.T) {
	need.Root(t)
	m, ref, base := target(t, proc.SQLite(), restoreItems)
	disk := m.path("disk")
	grow := small(t, disk, 12)
	db := filepath.Join(disk, "data.db")
	copyFile(t, base, db)
	full := func() {
		t.Helper()
		c := m.run(t, m.restore(db, ref.ID, restored)...)
		if c.end() != 1 {
			t.Fatalf("a full disk: %v", c)
		}
		says(t, c, "full")
		noLoads(t, db)
	}
	full()
	grow(256)
	if m.stands(t, db, ref, restoreItems) {
		t.Fatal("a restore that failed left a table")
	}

	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(db + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	grow(12)
	copyFile(t, base, db)
	srv := proc.Start(t, m.bin, db)
	client := srv.Client()
	c := m.start(t, begun, m.restore(db, ref.ID, restored)...)
	reads := 0
	for reading := true; reading; reads++ {
		sameTable(t, client, table, bystander)
		reading = !c.endsWithin(0)
	}
	if c.end() != 1 {
		t.Fatalf("a full disk under a server: %v", c)
	}
	says(t, c, "full")
	sameTable(t, client, table, bystander)
	noLoads(t, db)
	grow(256)
	if settled(t, client, restored, false) {
		t.Fatal("a restore that failed left a table")
	}
	m.again(t, client, db, ref, restoreItems, false)
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	checkFile(t, db)
	t.Logf("%d reads of the other table while the disk was full", reads)
}

// as runs a command as a user with no rights of its own.
func (m *machine) as(t *testing.T, args ...string) *child {
	t.Helper()
	cmd := exec.Command(m.bin, args...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	c := m.startCmd(t, cmd, nil)
	<-c.over
	return c
}

const nobody = 65534

// handOver gives everything below the machine's directory to nobody.
func (m *machine) handOver(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	for dir := m.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(m.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStoreDenied: files and directories of the store that may not be read or
// written.
func TestStoreDenied(t *testing.T) {
	m, ref, base := target(t, proc.SQLite(), 5000)
	m.handOver(t)
	before := tree(t, m.store)
	for name, mode := range map[string]fs.FileMode{
		format.ManifestName: 0, format.DataFileKey(2): 0, format.FilesName: 0, "": 0, // the backup itself
	} {
		path := m.object(ref, name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			m.restore(base, ref.Prefix(), restored),
			{"backup", "verify", ref.Prefix(), "--store", m.url(), "--output", "json"},
		} {
			c := m.as(t, args...)
			if c.end() != 12 {
				t.Errorf("%q may not be read: %v", name, c)
			}
			says(t, c, strings.TrimSuffix(ref.Key(name), "/"), "permission denied")
		}
		if err := os.Chmod(path, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(m.store, ref.Account, ref.Table)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	c := m.as(t, m.backup(base)...)
	if c.end() != 12 {
		t.Errorf("nothing may be written: %v", c)
	}
	says(t, c, ref.Account+"/"+ref.Table, "permission denied")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, m.store); !slices.Equal(keysOf(got), keysOf(before)) {
		t.Errorf("the store holds %v, before it was %v", keysOf(got), keysOf(before))
	}
	if got := tablesOf(t, base); len(got) != 1 {
		t.Errorf("tables %v", got)
	}
	checkFile(t, base)
}

// TestStoreRemoved takes the store away in the middle of the work.
func TestStoreRemoved(t *testing.T) {
	m, db := source(t, proc.SQLite(), killItems)
	for _, through := range []string{"the command", "a server"} {
		var srv *proc.Server
		if through == "a server" {
			srv = proc.Start(t, m.bin, db)
		}
		away := func(args []string, when func(progress.Event) bool) *child {
			c := m.start(t, when, args...)
			pid := c.cmd.Process.Pid
			if srv != nil {
				pid = srv.Pid()
			}
			<-c.seen
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatalf("%v: %v", err, c)
			}
			if err := os.RemoveAll(m.store); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if code := c.end(); code != 1 && code != 10 {
				t.Errorf("the store was removed under %s: %v", through, c)
			}
			if _, err := os.Stat(m.store); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("somebody made the store again: %v", err)
			}
			return c
		}
		away(m.backup(db), under)
		m.want(t, 10, m.backup(db)...)
		m.ok(t, "store", "init", m.url())
		b := onlyOne(t, m.ok(t, m.backup(db)...))
		away(m.restore(db, b.ID, restored), func(e progress.Event) bool { return e.Phase == "load" })
		m.ok(t, "store", "init", m.url())
		onlyOne(t, m.ok(t, m.backup(db)...))
		if srv != nil {
			settled(t, srv.Client(), restored, false)
			if err := srv.Stop(); err != nil {
				t.Errorf("%v\n%s", err, srv.Logs())
			}
		}
		if got := tablesOf(t, db); len(got) != 1 {
			t.Errorf("tables %v", got)
		}
		noLoads(t, db)
		checkFile(t, db)
	}
}

// busyItems make a backup that still goes on when something was done since it
// was well under way.
const busyItems = 80_000

// TestTableDeletedDuringBackup: the backup has the table as it was, the table
// goes, and another of its name is another.
func TestTableDeletedDuringBackup(t *testing.T) {
	m, db := source(t, proc.SQLite(), busyItems)
	srv := proc.Start(t, m.bin, db)
	client := srv.Client()
	c := m.start(t, under, m.backup(db)...)
	<-c.seen
	if _, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String(table)}); err != nil {
		t.Fatal(err)
	}
	if c.endsWithin(0) {
		t.Fatalf("the backup was over too early for this test: %v", c)
	}
	meanwhile := true
	var over time.Time // of the backup
	soon(t, time.Minute, "a table of the same name", func() bool {
		if meanwhile && c.endsWithin(0) {
			meanwhile, over = false, time.Now()
		}
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("pk"), AttributeType: "S"}, {AttributeName: aws.String("sk"), AttributeType: "N"}},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}, {AttributeName: aws.String("sk"), KeyType: "RANGE"}},
		})
		var used *types.ResourceInUseException
		if err != nil && !errors.As(err, &used) {
			t.Fatal(err)
		}
		return err == nil
	})
	if gone := time.Since(over); !meanwhile {
		t.Logf("the deletion took %v after the backup", gone)
	}
	for i := range 50 {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes{"pk": s("p000000"), "sk": n(i), "new": n(i)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := onlyOne(t, c.must(t))
	m.sound(t, newReader(t), busyItems)
	m.ok(t, m.restore(db, b.ID, restored)...)
	sameTable(t, client, restored, busyItems)
	if got, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), Select: types.SelectCount}); err != nil || got.Count != 50 {
		t.Errorf("the new table: %v, %v", got, err)
	}
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	checkFile(t, db)
	t.Logf("a table of the same name was made while the backup was being made: %t", meanwhile)
}

// TestTableAlteredDuringBackup: the backup has definition and items of its
// instant.
func TestTableAlteredDuringBackup(t *testing.T) {
	m, db := source(t, proc.SQLite(), busyItems)
	srv := proc.Start(t, m.bin, db)
	client := srv.Client()
	c := m.start(t, under, m.backup(db)...)
	<-c.seen
	protect := func(on bool) {
		t.Helper()
		_, err := client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table), DeletionProtectionEnabled: aws.Bool(on)})
		if err != nil {
			t.Fatal(err)
		}
	}
	protect(true)
	_, err := client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table),
		TableClass: types.TableClassStandardInfrequentAccess})
	if err == nil {
		_, err = client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table),
			OnDemandThroughput: &types.OnDemandThroughput{MaxReadRequestUnits: aws.Int64(50), MaxWriteRequestUnits: aws.Int64(60)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		last := attributesOf(t, busyItems-1-i)
		_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: attributes{"pk": last["pk"], "sk": last["sk"]}})
		if err == nil {
			_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes{"pk": s("q"), "sk": n(i)}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if c.endsWithin(0) {
		t.Fatalf("the backup was over too early for this test: %v", c)
	}
	b := onlyOne(t, c.must(t))
	m.sound(t, newReader(t), busyItems)
	shown := decode[struct {
		Manifest json.RawMessage `json:"manifest"`
	}](t, m.ok(t, "backup", "show", b.ID, "--store", m.url(), "--output", "json"))
	if doc, err := format.ParseManifest(shown.Manifest); err != nil || doc.Table.TableClass != nil || doc.Table.OnDemand != nil {
		t.Errorf("the backup is of a later definition: %s, %v", shown.Manifest, err)
	}
	m.ok(t, m.restore(db, b.ID, restored)...)
	sameTable(t, client, restored, busyItems)
	protect(false)
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	checkFile(t, db)
}
