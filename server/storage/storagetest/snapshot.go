// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Snapshots says what the snapshots of an engine are like, and lets the suite
// stand in them. A check that needs a member that is zero is left out.
type Snapshots struct {
	// Probe is what the engine under test calls; see its methods.
	Probe *SnapshotProbe
	// Bound is how many snapshots may be open.
	Bound int
	// Damage makes the stored item of a row unreadable.
	Damage func(t *storage.Table, k storage.Key)
	// Unordered: rows never come in key order.
	Unordered bool
	// Digits is how many digits of a number the engine keeps, when those are
	// not all 38: it then refuses others.
	Digits int
	// UpdateWaits: an UpdateTable waits for a snapshot of the table that is
	// being opened and has read the definition.
	UpdateWaits bool
	// DropWaits: the drop of a table waits for its open snapshots, its steps end
	// in ErrHeld meanwhile.
	DropWaits bool
	// Unsupported: the engine has no snapshots, and says so.
	Unsupported bool
}

// SnapshotProbe stands in the snapshots of an engine under test, which calls
// its methods as they say. The zero value lets everything pass.
type SnapshotProbe struct {
	size    atomic.Int64
	fetches atomic.Int64
	pauses  [2]atomic.Pointer[func()]
}

// FetchSize is the number of rows to read at a time, 0 for the engine's own.
func (p *SnapshotProbe) FetchSize() int { return int(p.size.Load()) }

// Fetched is called with each read of rows, once per round trip.
func (p *SnapshotProbe) Fetched() { p.fetches.Add(1) }

// AfterDefinition is called in the opening of a snapshot, within what makes it
// one instant, after the definition is read.
func (p *SnapshotProbe) AfterDefinition() { p.pause(0) }

// BeforeItems is called there too, as its last step.
func (p *SnapshotProbe) BeforeItems() { p.pause(1) }

func (p *SnapshotProbe) pause(i int) {
	if f := p.pauses[i].Load(); f != nil {
		(*f)()
	}
}

func snapshotChecks() []check {
	checks := []check{
		{"snapshot/consistency", checkSnapshotConsistency},
		{"snapshot/one instant", checkSnapshotInstant},
		{"snapshot/changed together", checkSnapshotTogether},
		{"snapshot/dropped meanwhile", checkSnapshotDropped},
		{"snapshot/key shapes", checkSnapshotKeys},
		{"snapshot/long keys", checkSnapshotLongKeys},
		{"snapshot/large items", checkSnapshotLarge},
		{"snapshot/refusals", checkSnapshotRefusals},
		{"snapshot/freed", checkSnapshotFreed},
		{"snapshot/open fails", checkSnapshotOpenFails},
		{"snapshot/closed from elsewhere", checkSnapshotClosedElsewhere},
		{"snapshot/bound", checkSnapshotBound},
		{"snapshot/unreadable", checkSnapshotUnreadable},
		{"snapshot/engine is closed", checkSnapshotEngineClosed},
	}
	for i, c := range checks {
		checks[i].run = func(e *env) {
			if e.h.Snapshots.Unsupported {
				checkSnapshotUnsupported(e)
				return
			}
			c.run(e)
		}
	}
	return checks
}

// checkSnapshotUnsupported: an engine that has no snapshots says so before it
// looks at the table.
func checkSnapshotUnsupported(e *env) {
	e.create(define("t", "id:S"))
	for _, name := range []string{"t", "missing"} {
		_, err := e.e.Snapshot(e.ctx, account, name)
		e.fails(err, storage.ErrUnsupported)
	}
}

// probe is that of the engine. Rows are read n at a time from now on.
func (e *env) probe(n int) *SnapshotProbe {
	e.Helper()
	p := e.h.Snapshots.Probe
	if p == nil {
		e.Skip("this engine was opened without a probe in its snapshots")
	}
	p.size.Store(int64(n))
	return p
}

// bound is the number of snapshots that may be open.
func (e *env) bound() int {
	e.Helper()
	n := e.h.Snapshots.Bound
	if n == 0 {
		e.Skip("how many snapshots this engine holds was not said")
	}
	return n
}

// snapshot opens one, which is closed at the end at the latest.
func (e *env) snapshot(name string) storage.Snapshot {
	e.Helper()
	s, err := e.e.Snapshot(e.ctx, account, name)
	e.ok(err)
	e.Cleanup(func() { _ = s.Close() }) // checks that care look at the error
	return s
}

// patience is how long something may take that should take no time.
const patience = 120 * time.Second

// drain reads a snapshot to its end and calls each, when not nil, with the
// number of rows read so far.
func (e *env) drain(stage string, s storage.Snapshot, each func(n int)) []*storage.Row {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	var rows []*storage.Row
	for row, err := range s.Rows(ctx) {
		if err != nil {
			e.Fatalf("%s: error after %d rows: %v", stage, len(rows), err)
		}
		if rows = append(rows, row.Clone()); len(rows) > endless {
			e.Fatalf("%s: no end after %d rows", stage, len(rows))
		}
		if each != nil {
			each(len(rows))
		}
	}
	return rows
}

// shows reads a snapshot to its end and closes it: it has exactly these items,
// in key order if they come in any.
func (e *env) shows(stage string, s storage.Snapshot, items []ddb.Item, each func(n int)) {
	e.Helper()
	t, rows := s.Table(), e.drain(stage, s, each)
	want := map[string]string{}
	for _, it := range items {
		want[place(tablePosition(keyOf(t, it)))] = string(ddb.AppendItem(nil, it))
	}
	got := map[string]string{}
	for _, row := range rows {
		id := place(tablePosition(row.Key))
		if _, twice := got[id]; twice {
			e.Fatalf("%s: row %x comes twice", stage, row.Key)
		}
		got[id] = string(row.Item)
		if item, ok := want[id]; !ok || item != string(row.Item) {
			e.Fatalf("%s: row %x is %s, want %q", stage, row.Key, row.Item, item)
		}
	}
	equal(e, stage+": rows", len(got), len(want))
	if s.KeyOrdered() {
		e.ascending(stage, t, rows)
	}
	e.ok(s.Close())
}

// ascending compares the key attributes themselves, hash before range.
func (e *env) ascending(stage string, t *storage.Table, rows []*storage.Row) {
	e.Helper()
	var last ddb.Item
	for i, row := range rows {
		it, err := ddb.ParseItem(row.Item)
		e.ok(err)
		c := -1
		for _, a := range t.KeyAttrs() {
			if last == nil {
				break
			}
			if c, _ = ddb.Compare(last[a.Name], it[a.Name]); c != 0 {
				break
			}
		}
		if c >= 0 {
			e.Fatalf("%s: row %d is out of order: %s", stage, i, row.Item)
		}
		last = it
	}
}

// endsWith reads the rest of a snapshot, which must end with an error, at once.
func (e *env) endsWith(stage string, want error, rows func(yield func(*storage.Row, error) bool)) {
	e.Helper()
	var last error
	n := 0
	for _, err := range rows {
		if last != nil {
			e.Fatalf("%s: goes on after the error %v", stage, last)
		}
		if last = err; err == nil {
			n++
		}
	}
	if !errors.Is(last, want) {
		e.Fatalf("%s: ends after %d rows with %v, want %v", stage, n, last, want)
	}
}

// versions are the items of a table "t" with the key pk/sk, as they are when
// each was written so often.
func versions(from, to, version int) []ddb.Item {
	var items []ddb.Item
	for i := from; i < to; i++ {
		items = append(items, item("pk", fmt.Sprint("p", i%7), "sk", i, "g", fmt.Sprint("g", i%3), "n", version))
	}
	return items
}

// versioned is the table of versions.
func (e *env) versioned() *storage.Table {
	e.Helper()
	return e.create(define("t", "pk:S/sk:N", index{"g", "g:S/n:N", ddb.ProjectAll}))
}
