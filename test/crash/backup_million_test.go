// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/klauspost/compress/gzip"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/test/proc"
)

// What a backup and a restore may take of memory, above an idle process, at any
// size of the table.
const (
	backupMemory  = 64 << 20
	restoreMemory = 128 << 20
	readMemory    = 32 << 20 // what requests leave for the collector when they are served meanwhile
)

// TestMillion backs a table up that is being served, reads the backup with the
// independent reader, and restores it. Memory is the same at 10 thousand and
// at a million items.
func TestMillion(t *testing.T) {
	for _, items := range []int{10_000, 1_000_000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) { million(t, items) })
	}
}

func million(t *testing.T, items int) {
	m := newMachine(t)
	m.configure(t, "") // data files of the usual size
	empty := proc.Start(t, m.bin, m.path("idle.db"))
	idle, err := empty.AnonymousRSS()
	if err != nil {
		t.Fatal(err)
	}
	empty.Kill()

	began := time.Now()
	ref := m.synthetic(t, items, format.DefaultTarget)
	t.Logf("wrote a backup of %d items in %v", items, time.Since(began))
	db := m.path("data.db")
	c, used := m.measured(t, m.restore(db, ref.ID, table)...)
	report(t, "restore", c, used.anonymous-idle, restoreMemory)

	srv := proc.Start(t, m.bin, db)
	client := srv.Client()
	sampled(t, client, items) // now the server has all that it keeps for reading
	c, grown := m.grown(t, srv, m.backup(db)...)
	report(t, "backup by a server", c, grown, backupMemory)
	m.forget(t, []backup.Summary{onlyOne(t, c)})

	quit := served(t, client, items)
	c, grown = m.grown(t, srv, m.backup(db)...)
	requests := quit()
	report(t, fmt.Sprintf("backup beside %d reads", requests), c, grown, backupMemory+readMemory)
	b := onlyOne(t, c)
	if err := srv.Stop(); err != nil {
		t.Fatalf("%v\n%s", err, srv.Logs())
	}
	m.equal(t, ref, format.Ref{Account: b.Account, Table: b.Table, ID: b.ID}, items)

	c, used = m.measured(t, m.backup(db)...)
	report(t, "backup by the command", c, used.anonymous-idle, backupMemory)
	m.forget(t, []backup.Summary{onlyOne(t, c)})
	checkFile(t, db)
}

// grown runs a command that a server carries out, and tells by how much the
// server's memory grew.
func (m *machine) grown(t *testing.T, srv *proc.Server, args ...string) (*child, int64) {
	t.Helper()
	before, err := srv.AnonymousRSS()
	if err != nil {
		t.Fatal(err)
	}
	stop := watchMemory(srv.Pid())
	c := m.run(t, args...)
	used := stop()
	return c.must(t), used.anonymous - before
}

func report(t *testing.T, what string, c *child, used, limit int64) {
	t.Helper()
	t.Logf("%s: %v, %d MiB of anonymous memory above idle", what, c.took, used>>20)
	if used > limit {
		t.Errorf("%s takes %d MiB, %d are allowed", what, used>>20, limit>>20)
	}
}

// sampled compares counts, items here and there, and the indexes.
func sampled(t *testing.T, db *dynamodb.Client, items int) {
	t.Helper()
	d, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToInt64(d.Table.ItemCount); got != int64(items) {
		t.Errorf("the table has %d items", got)
	}
	if size := aws.ToInt64(d.Table.TableSizeBytes) / int64(items); size < itemSize-5 || size > itemSize+5 {
		t.Errorf("an item has %d bytes; this test is about %d", size, itemSize)
	}
	for _, ix := range d.Table.GlobalSecondaryIndexes {
		if got := aws.ToInt64(ix.ItemCount); got != int64(items) {
			t.Errorf("index %s has %d items", *ix.IndexName, got)
		}
	}
	for i := 0; i < items; i += items / 1999 {
		if got := itemOf(t, db, i); !sameItem(t, got, i) {
			t.Fatalf("item %d is %v", i, got)
		}
	}
	sameIndex(t, db, table, items)
}

func itemOf(t *testing.T, db *dynamodb.Client, i int) attributes {
	t.Helper()
	at := attributesOf(t, i)
	got, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: attributes{"pk": at["pk"], "sk": at["sk"]}})
	if err != nil {
		t.Error(err)
		return nil
	}
	return got.Item
}

// served reads items until quit, which tells how many.
func served(t *testing.T, db *dynamodb.Client, items int) (quit func() int) {
	t.Helper()
	var over atomic.Bool
	var reading sync.WaitGroup
	count := 0
	reading.Go(func() {
		for ; !over.Load(); count++ {
			if i := count * 7919 % items; !sameItem(t, itemOf(t, db, i), i) {
				t.Errorf("item %d is another while a backup is made", i)
				return
			}
		}
	})
	return func() int { over.Store(true); reading.Wait(); return count }
}

// equal fails unless the independent reader accepts a backup and its lines are
// those of another one, byte for byte.
func (m *machine) equal(t *testing.T, want, got format.Ref, items int) {
	t.Helper()
	r := newReader(t)
	began := time.Now()
	out, err := exec.Command(r.python, r.script, m.object(got, ".")).Output()
	if err != nil {
		t.Fatalf("the independent reader: %v: %s", err, out)
	}
	var read struct{ Items, Files int }
	if err := json.Unmarshal(out, &read); err != nil || read.Items != items {
		t.Errorf("the independent reader counts %d items: %s, %v", read.Items, out, err)
	}
	t.Logf("the independent reader took %v: %s", time.Since(began), bytes.TrimSpace(out))
	if a, b := m.lines(t, want), m.lines(t, got); a != b {
		t.Error("the backup of the restored table has other lines than what it was restored from")
	}
}

// lines is the digest of all lines of a backup.
func (m *machine) lines(t *testing.T, ref format.Ref) [sha256.Size]byte {
	t.Helper()
	sum := sha256.New()
	for i := 1; ; i++ {
		f, err := os.Open(m.object(ref, format.DataFileKey(i)))
		if os.IsNotExist(err) {
			return [sha256.Size]byte(sum.Sum(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bufio.NewReader(f))
		if err == nil {
			_, err = io.Copy(sum, z)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}
