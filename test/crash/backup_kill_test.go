// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/test/proc"
)

// killItems make a backup that takes long enough to be killed anywhere.
const killItems = 25_000

// source makes a machine whose database holds the synthetic table, restored
// from a backup that is then deleted.
func source(t *testing.T, e proc.Engine, items int) (m *machine, db string) {
	t.Helper()
	m = newMachine(t)
	db = m.database(t, e, "data.db")
	ref := m.synthetic(t, items, 1<<20)
	m.ok(t, m.restore(db, ref.ID, table)...)
	m.ok(t, "backup", "delete", ref.ID, "--yes", "--store", m.url())
	return m, db
}

// onlyOne returns what a successful "backup create" made.
func onlyOne(t *testing.T, c *child) backup.Summary {
	t.Helper()
	r := decode[struct {
		Backups []backup.Summary `json:"backups"`
	}](t, c)
	if len(r.Backups) != 1 {
		t.Fatalf("one table was backed up: %v", c)
	}
	return r.Backups[0]
}

// recovered fails unless the store is sound after a crash, what was left in it
// can be told and swept, and the next backup is made.
func (m *machine) recovered(t *testing.T, r *reader, db string, items int) (temps int) {
	t.Helper()
	check(t, storageURL(db))
	_, unfinished := m.sound(t, r, items)
	told := decode[struct {
		Unfinished []string `json:"unfinished"`
	}](t, m.ok(t, "store", "check", m.url(), "--output", "json"))
	for _, prefix := range told.Unfinished {
		if !slices.Contains(unfinished, m.store+"/"+prefix) {
			t.Errorf("store check tells of %s, which is complete or not there", prefix)
		}
	}
	left := m.temps(t)
	aged(t, left)
	srv := proc.Start(t, m.bin, db, "--store", m.url())
	soon(t, 10*time.Second, "stale temporary files are swept", func() bool { return len(m.temps(t)) == 0 })
	onlyOne(t, m.ok(t, m.backup(db)...))
	if err := srv.Stop(); err != nil {
		t.Fatalf("%v\n%s", err, srv.Logs())
	}
	listed, _ := m.sound(t, nil, items)
	m.forget(t, listed)
	return len(left)
}

func TestKillBackup(t *testing.T) { eachEngine(t, killBackup) }

func killBackup(t *testing.T, e proc.Engine) {
	m, db := source(t, e, killItems)
	r := newReader(t)
	whole := m.ok(t, m.backup(db)...).took
	complete, temps := 0, 0
	for range kills / 2 {
		c := m.start(t, nil, m.backup(db)...)
		sometime(whole)
		c.signal(t, syscall.SIGKILL)
		if c.end() == 0 {
			complete++
		}
		temps += m.recovered(t, r, db, killItems)
	}
	t.Logf("%d commands killed within %v: %d had completed, %d temporary files left", kills/2, whole, complete, temps)
}

func TestKillServerDuringBackup(t *testing.T) {
	m, db := source(t, proc.SQLite(), killItems)
	r := newReader(t)
	srv := proc.Start(t, m.bin, db, "--store", m.url())
	whole := m.ok(t, m.backup(db)...).took
	srv.Kill()
	complete, temps := 0, 0
	for range kills / 2 {
		srv := proc.Start(t, m.bin, db, "--store", m.url())
		c := m.start(t, nil, m.backup(db)...)
		sometime(whole)
		srv.Kill()
		switch c.end() {
		case 0:
			complete++
		case -1:
			t.Fatalf("the client died with the server: %v", c)
		}
		temps += m.recovered(t, r, db, killItems)
	}
	t.Logf("%d servers killed within %v: %d backups had completed, %d temporary files left", kills/2, whole, complete, temps)
}

// TestKillClientOfBackup: the job ends with its client, and cleans up.
func TestKillClientOfBackup(t *testing.T) {
	m, db := source(t, proc.SQLite(), killItems)
	r := newReader(t)
	srv := proc.Start(t, m.bin, db, "--store", m.url())
	whole := m.ok(t, m.backup(db)...).took
	complete := 0
	for range 6 {
		before := len(m.list(t))
		c := m.start(t, nil, m.backup(db)...)
		sometime(whole)
		c.signal(t, syscall.SIGKILL)
		if c.end() == 0 {
			complete++
		}
		soon(t, 10*time.Second, "the job of a dead client has ended", func() bool {
			_, unfinished, temps := m.prefixes(t)
			return len(unfinished)+len(temps) == 0
		})
		listed, _ := m.sound(t, r, killItems)
		if len(listed) > before+1 {
			t.Errorf("one backup made %d", len(listed)-before)
		}
	}
	onlyOne(t, m.ok(t, m.backup(db)...))
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	check(t, storageURL(db))
	t.Logf("6 clients killed within %v, %d after they had completed", whole, complete)
}

// interrupted fails unless an interrupted command ended quickly, with 130 or,
// when it was complete before, 0.
func interrupted(t *testing.T, c *child, at time.Time) (done bool) {
	t.Helper()
	code := c.end()
	if took := c.began.Add(c.took).Sub(at); took > 5*time.Second {
		t.Errorf("it took %v to stop: %v", took, c)
	}
	if code != 0 && code != 130 {
		t.Fatalf("interrupted: %v", c)
	}
	return code == 0
}

func TestInterruptBackup(t *testing.T) { eachEngine(t, interruptBackup) }

func interruptBackup(t *testing.T, e proc.Engine) {
	m, db := source(t, e, killItems)
	r := newReader(t)
	for _, through := range []string{"the command", "a server"} {
		var srv *proc.Server
		if through == "a server" {
			srv = proc.Start(t, m.bin, db, "--store", m.url())
		}
		whole := m.ok(t, m.backup(db)...).took
		complete := 0
		for range 8 {
			before := len(m.list(t))
			c := m.start(t, begun, m.backup(db)...)
			<-c.seen
			sometime(whole)
			at := time.Now()
			c.signal(t, syscall.SIGINT)
			want := before
			if interrupted(t, c, at) {
				complete++
				want++
			}
			listed, unfinished := m.sound(t, r, killItems)
			if len(listed) != want || len(unfinished)+len(m.temps(t)) > 0 {
				t.Errorf("%d backups of %d are listed; unfinished %v, temporary %v: %v", len(listed), want, unfinished, m.temps(t), c)
			}
		}
		if srv != nil {
			if err := srv.Stop(); err != nil {
				t.Errorf("%v\n%s", err, srv.Logs())
			}
		}
		check(t, storageURL(db))
		t.Logf("8 interrupts of %s within %v, %d after it had completed", through, whole, complete)
	}
}

// TestSecondInterrupt: a command that waits for a server that hangs is ended
// by the second signal.
func TestSecondInterrupt(t *testing.T) {
	m, db := source(t, proc.SQLite(), killItems)
	srv := proc.Start(t, m.bin, db)
	c := m.start(t, begun, m.backup(db)...)
	<-c.seen
	if err := syscall.Kill(srv.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	signals := 1
	for c.signal(t, syscall.SIGINT); !c.endsWithin(700 * time.Millisecond); signals++ { // two at once count as one
		if signals == 20 {
			t.Fatal("20 signals do not end it")
		}
		c.signal(t, syscall.SIGINT)
	}
	if c.end() != 130 || signals < 2 || signals > 3 { // a machine under load may deliver two at once
		t.Errorf("after %d signals: %v", signals, c)
	}
	srv.Kill()
	check(t, storageURL(db))
}
