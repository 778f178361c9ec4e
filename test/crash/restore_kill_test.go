// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/test/proc"
)

const (
	restored     = "copy" // what backups are restored as
	restoreItems = 20_000
	bystander    = 300 // items of the table that was there before
)

// target makes a machine with a backup of the synthetic table and a database
// that holds another table.
func target(t *testing.T, e proc.Engine, items int) (m *machine, ref format.Ref, base string) {
	t.Helper()
	m = newMachine(t)
	base = m.database(t, e, "base.db")
	small := m.synthetic(t, bystander, 1<<20)
	m.ok(t, m.restore(base, small.ID, table)...)
	m.ok(t, "backup", "delete", small.ID, "--yes", "--store", m.url())
	return m, m.synthetic(t, items, 1<<20), base
}

// wholeRestore is how long a complete restore takes.
func (m *machine) wholeRestore(t *testing.T, ref format.Ref, base string) time.Duration {
	t.Helper()
	db := m.copied(t, base, "whole.db")
	return m.ok(t, m.restore(db, ref.ID, restored)...).took
}

// stands fails unless a server shows that the restore is as if it had never
// begun or is complete, and that the same restore then succeeds.
func (m *machine) stands(t *testing.T, db string, ref format.Ref, items int) (complete bool) {
	t.Helper()
	srv := proc.Start(t, m.bin, db)
	client := srv.Client()
	complete = settled(t, client, restored, isFile(db)) // elsewhere others see its end a moment later
	m.again(t, client, db, ref, items, complete)
	if err := srv.Stop(); err != nil {
		t.Fatalf("%v\n%s", err, srv.Logs())
	}
	noLoads(t, db)
	check(t, storageURL(db))
	return complete
}

// again restores once more, unless that was done, and compares.
func (m *machine) again(t *testing.T, client *dynamodb.Client, db string, ref format.Ref, items int, complete bool) {
	t.Helper()
	code := 0
	if complete {
		code = 13
	}
	m.want(t, code, m.restore(db, ref.ID, restored)...)
	sameTable(t, client, restored, items)
	sameTable(t, client, table, bystander)
}

func TestKillRestore(t *testing.T) { eachEngine(t, killRestore) }

func killRestore(t *testing.T, e proc.Engine) {
	m, ref, base := target(t, e, restoreItems)
	whole := m.wholeRestore(t, ref, base)
	complete := 0
	for round := range kills / 2 {
		db := m.copied(t, base, "killed.db")
		c := m.start(t, nil, m.restore(db, ref.ID, restored)...)
		sometime(whole)
		c.signal(t, syscall.SIGKILL)
		c.end()
		if round%2 == 0 { // the next to come is a server
			if m.stands(t, db, ref, restoreItems) {
				complete++
			}
			continue
		}
		again := m.run(t, m.restore(db, ref.ID, restored)...) // or the same command
		switch again.end() {
		case 0:
		case 13: // it was done before the kill
			complete++
		default:
			t.Fatalf("the same restore again: %v", again)
		}
		noLoads(t, db)
		if !m.stands(t, db, ref, restoreItems) {
			t.Fatal("the table is gone that was restored")
		}
	}
	t.Logf("%d restores killed within %v, %d had completed", kills/2, whole, complete)
}

func TestKillServerDuringRestore(t *testing.T) {
	m, ref, base := target(t, proc.SQLite(), restoreItems)
	whole := m.wholeRestore(t, ref, base)
	complete := 0
	for range kills / 2 {
		db := m.copied(t, base, "killed.db")
		srv := proc.Start(t, m.bin, db)
		c := m.start(t, nil, m.restore(db, ref.ID, restored)...)
		sometime(whole)
		srv.Kill()
		code := c.end()
		if code == -1 {
			t.Fatalf("the client died with the server: %v", c)
		}
		done := m.stands(t, db, ref, restoreItems)
		if code == 0 && !done {
			t.Fatalf("the client says that it is done, and there is no table: %v", c)
		}
		if done {
			complete++
		}
	}
	t.Logf("%d servers killed within %v, %d restores had completed", kills/2, whole, complete)
}

// TestKillClientOfRestore: the job ends with its client, and no table is left.
func TestKillClientOfRestore(t *testing.T) {
	m, ref, base := target(t, proc.SQLite(), restoreItems)
	whole := m.wholeRestore(t, ref, base)
	complete := 0
	for range 6 {
		db := m.copied(t, base, "killed.db")
		srv := proc.Start(t, m.bin, db)
		client := srv.Client()
		c := m.start(t, nil, m.restore(db, ref.ID, restored)...)
		sometime(whole)
		c.signal(t, syscall.SIGKILL)
		c.end()
		// It may be that the job has not begun yet: then there is no table now,
		// and one comes. The same restore is refused until that has ended.
		var again *child
		soon(t, time.Minute, "the job of a dead client has ended", func() bool {
			settled(t, client, restored, false)
			again = m.run(t, m.restore(db, ref.ID, restored)...)
			return again.end() != 11
		})
		switch again.end() {
		case 0:
		case 13:
			complete++
		default:
			t.Fatalf("the same restore again: %v", again)
		}
		sameTable(t, client, restored, restoreItems)
		sameTable(t, client, table, bystander)
		if err := srv.Stop(); err != nil {
			t.Errorf("%v\n%s", err, srv.Logs())
		}
		noLoads(t, db)
		check(t, storageURL(db))
	}
	t.Logf("6 clients killed within %v, %d after they had completed", whole, complete)
}

func TestInterruptRestore(t *testing.T) { eachEngine(t, interruptRestore) }

func interruptRestore(t *testing.T, e proc.Engine) {
	m, ref, base := target(t, e, restoreItems)
	whole := m.wholeRestore(t, ref, base)
	complete := 0
	for range 8 {
		db := m.copied(t, base, "stopped.db")
		c := m.start(t, begun, m.restore(db, ref.ID, restored)...)
		<-c.seen
		sometime(whole)
		at := time.Now()
		c.signal(t, syscall.SIGINT)
		done := interrupted(t, c, at)
		if done {
			complete++
		}
		noLoads(t, db)
		if there := slices.Contains(tablesOf(t, db), restored); there != done {
			t.Errorf("the table is there: %t, after %v", there, c)
		}
		if m.stands(t, db, ref, restoreItems) != done {
			t.Errorf("what a server sees is another thing: %v", c)
		}
	}
	t.Logf("8 interrupts within %v, %d after it had completed", whole, complete)
}

func TestInterruptRestoreThroughServer(t *testing.T) {
	m, ref, base := target(t, proc.SQLite(), restoreItems)
	whole := m.wholeRestore(t, ref, base)
	db := m.copied(t, base, "served.db")
	srv := proc.Start(t, m.bin, db)
	client := srv.Client()
	complete := 0
	for round := range 8 {
		as := restored + string(rune('a'+round))
		c := m.start(t, begun, m.restore(db, ref.ID, as)...)
		<-c.seen
		sometime(whole)
		at := time.Now()
		c.signal(t, syscall.SIGINT)
		done := interrupted(t, c, at)
		if there := settled(t, client, as, false); there != done {
			t.Errorf("table %s is there: %t, after %v", as, there, c)
		}
		noLoads(t, db)
		if done {
			complete++
			sameTable(t, client, as, restoreItems)
		}
		sameTable(t, client, table, bystander)
	}
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	check(t, storageURL(db))
	t.Logf("8 interrupts within %v, %d after it had completed", whole, complete)
}
