// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func workChecks() []check {
	return []check{
		{"work/claims", checkClaims},
		{"work/drop", checkDropWork},
		{"work/drop resumed", checkDropResumed},
		{"work/drop of an empty table", checkDropEmpty},
		{"work/statistics", checkStatistics},
		{"work/statistics of a dropped table", checkStatisticsDropped},
		{"work/sample", checkSample},
		{"work/sample is held", checkSampleHeld},
		{"work/first sample waits", checkFirstSampleWaits},
		{"work/cancelled step", checkCancelledStep},
	}
}

func checkClaims(e *env) {
	t := e.create(define("t", "pk:S"))
	equal(e, "drop work before the drop", e.pending(storage.TableDrop, "t"), storage.Work{})
	_, err := e.e.Claim(e.ctx, storage.Work{Kind: storage.TableDrop, Table: t.ID, Account: account, Name: "t"})
	e.fails(err, storage.ErrNoWork)
	e.drop(t)
	w := e.pending(storage.TableDrop, "t")
	equal(e, "work", w, storage.Work{Kind: storage.TableDrop, Table: t.ID, Account: account, Name: "t"})
	equal(e, "statistics of a table being deleted", e.pending(storage.Statistics, "t"), storage.Work{})
	for range 3 {
		l, err := e.e.Claim(e.ctx, w)
		e.ok(err)
		_, err = e.e.Claim(e.ctx, w)
		e.fails(err, storage.ErrClaimed)
		e.ok(l.Release())
		e.ok(l.Release())
	}
	// One of many gets it.
	var leases = make([]storage.Lease, workers)
	e.together(workers, func(i int) error {
		l, err := e.e.Claim(e.ctx, w)
		if errors.Is(err, storage.ErrClaimed) {
			return nil
		}
		leases[i] = l
		return err
	})
	leases = slices.DeleteFunc(leases, func(l storage.Lease) bool { return l == nil })
	equal(e, "owners", len(leases), 1)
	e.complete(leases[0])
	e.ok(leases[0].Release())
	_, err = e.e.Claim(e.ctx, w)
	e.fails(err, storage.ErrNoWork)
	equal(e, "work after the work", e.pending(storage.TableDrop, "t"), storage.Work{})
}

// checkDropWork: the rows go in bounded steps, other tables are written in
// between, nothing is left.
func checkDropWork(e *env) {
	t, _ := e.filled(manyRows)
	other := e.create(rich("other"))
	e.drop(t)
	l := e.claim(storage.TableDrop, t.Name())
	var last storage.Progress
	n := 0
	for !last.Finished {
		p := e.step(l)
		if p.Done < last.Done {
			e.Fatalf("progress goes from %+v to %+v", last, p)
		}
		last = p
		it := item("pk", "p", "sk", fmt.Sprint(n), "g", "G", "h", n)
		e.put(other, it)
		e.holds(other, it)
		if n++; n > maxSteps {
			e.Fatalf("not finished after %d steps", n)
		}
	}
	e.ok(l.Release())
	_, err := e.e.Table(e.ctx, account, t.Name())
	e.fails(err, storage.ErrTableNotFound)
	_, _, err = e.e.Describe(e.ctx, account, t.Name())
	e.fails(err, storage.ErrTableNotFound)
	names, _, err := e.e.Tables(e.ctx, account, "", 10)
	e.ok(err)
	equal(e, "tables", fmt.Sprint(names), "[other]")
	equal(e, "rows of the other table", len(e.rows(other, storage.Range{})), n)
	e.consistent(other)
	fresh, items := e.filled(3)
	equal(e, "rows of the new table", len(e.rows(fresh, storage.Range{})), len(items))
	e.consistent(fresh)
}

func checkDropResumed(e *env) {
	t, _ := e.filled(manyRows)
	e.drop(t)
	for range 3 {
		l := e.claim(storage.TableDrop, t.Name())
		p := e.step(l)
		e.ok(l.Release())
		if p.Finished {
			break
		}
		e.reopen()
		e.allGone(t, item("pk", "p", "sk", 1))
	}
	if w := e.pending(storage.TableDrop, t.Name()); w.Kind != 0 {
		e.finish(storage.TableDrop, t.Name())
	}
	e.reopen()
	_, err := e.e.Table(e.ctx, account, t.Name())
	e.fails(err, storage.ErrTableNotFound)
	fresh, _ := e.filled(3)
	e.consistent(fresh)
}

func checkDropEmpty(e *env) {
	for range 2 {
		e.drop(e.create(rich("t")))
		e.reopen()
		e.finish(storage.TableDrop, "t")
	}
}

// counts are the statistics of a table computed from its items.
func counts(t *storage.Table, items []ddb.Item) storage.Stats {
	s := storage.Stats{Indexes: map[storage.IndexID]storage.IndexStats{}}
	for _, ix := range t.Indexes {
		s.Indexes[ix.ID] = storage.IndexStats{}
	}
	for _, it := range items {
		next, err := storage.Derive(t, it)
		if err != nil {
			panic("storagetest: " + err.Error()) // a mistake in the suite
		}
		s.Items++
		s.Bytes += int64(next.Size)
		for _, entry := range next.Entries {
			ix := s.Indexes[entry.Index]
			s.Indexes[entry.Index] = storage.IndexStats{Items: ix.Items + 1, Bytes: ix.Bytes + int64(entry.Size)}
		}
	}
	return s
}

func (e *env) counted(t *storage.Table, want storage.Stats) {
	e.Helper()
	_, got, err := e.e.Describe(e.ctx, account, t.Name())
	e.ok(err)
	if got.Items != want.Items || got.Bytes != want.Bytes {
		e.Fatalf("statistics of %s: %+v, want %+v", t.Name(), got, want)
	}
	for _, ix := range t.Indexes {
		equal(e, "statistics of index "+ix.Name, got.Indexes[ix.ID], want.Indexes[ix.ID])
	}
}

func checkStatistics(e *env) {
	t := e.create(rich("t"))
	empty := e.create(rich("empty"))
	e.counted(t, storage.Stats{})
	var items []ddb.Item
	for i := range manyRows / 2 {
		it := item("pk", fmt.Sprint(i%9), "sk", fmt.Sprint(i), "x", long(i%200+1, i))
		if i%2 == 0 {
			it = with(it, "g", "G", "h", i)
		}
		if i%3 == 0 {
			it = with(it, "l", i, "m", long(i+1, i), "a", "A", "b", 1, "c", []byte{1}, "d", "D", "e", i)
		}
		items = append(items, it)
	}
	e.put(t, items...)
	e.count("t")
	e.counted(t, counts(t, items))
	for _, it := range items[:manyRows/4] {
		e.delete(t, it)
	}
	e.counted(t, counts(t, items)) // as last seen
	e.reopen()
	e.counted(t, counts(t, items))
	e.count("t")
	e.counted(t, counts(t, items[manyRows/4:]))
	e.counted(empty, storage.Stats{})
	equal(e, "work that was just done", e.pending(storage.Statistics, "t"), storage.Work{})
	e.count("empty")
	e.counted(empty, counts(empty, nil))
	now := e.touch(t)
	e.counted(now, counts(t, items[manyRows/4:]))
}

// checkStatisticsDropped: the table goes away while it is counted.
func checkStatisticsDropped(e *env) {
	t, _ := e.filled(50)
	e.now = e.now.Add(statisticsDue)
	w := e.pending(storage.Statistics, t.Name())
	l, err := e.e.Claim(e.ctx, w)
	e.ok(err)
	e.drop(t)
	_, err = l.Step(e.ctx, e.now)
	e.fails(err, storage.ErrNoWork)
	e.ok(l.Release())
	e.finish(storage.TableDrop, t.Name())
	_, err = e.e.Claim(e.ctx, w)
	e.fails(err, storage.ErrNoWork)
}

// segments is what a parallel Scan of that many makes of a sample.
const segments = 16

func checkSample(e *env) {
	t, items := e.filled(manyRows)
	for _, ix := range []storage.IndexID{0, t.Indexes[0].ID, t.Indexes[1].ID} {
		sample, err := e.e.Sample(e.ctx, t, ix, e.now)
		e.ok(err)
		equal(e, "sample that was not taken", len(sample), 0)
	}
	e.now = e.now.Add(time.Hour)
	e.count(t.Name())
	for _, ix := range append([]*storage.Index{nil}, t.Indexes...) {
		rd := reading{ix, nil}
		sample, err := e.e.Sample(e.ctx, t, rd.rng().Index, e.now)
		e.ok(err)
		if len(sample) < segments {
			e.Fatalf("%s: sample of %d", rd.name(), len(sample))
		}
		all := rd.expect(t, items, rd.rng())
		total := 0
		for i := range segments {
			r := rd.rng()
			if i > 0 {
				r.Start = &sample[i*len(sample)/segments]
			}
			if i < segments-1 {
				r.End = &sample[(i+1)*len(sample)/segments]
			}
			n := len(e.rows(t, r))
			if n > 2*len(all)/segments {
				e.Fatalf("%s: segment %d of %d has %d of %d rows", rd.name(), i, segments, n, len(all))
			}
			total += n
		}
		equal(e, rd.name()+" rows of all segments", total, len(all))
	}
}

// checkSampleHeld: a sample stays while somebody uses it, across a restart
// too, and is renewed after an hour without use.
func checkSampleHeld(e *env) {
	t, _ := e.filled(40)
	e.count(t.Name())
	sample := func() []storage.Position {
		e.Helper()
		s, err := e.e.Sample(e.ctx, t, 0, e.now)
		e.ok(err)
		return s
	}
	first := sample()
	var more []ddb.Item
	for i := range 40 {
		more = append(more, item("pk", "q", "sk", i))
	}
	e.put(t, more...)
	e.now = e.now.Add(statisticsDue - time.Hour/2)
	if !samePositions(sample(), first) {
		e.Fatal("sample changes by itself")
	}
	e.now = e.now.Add(-(statisticsDue - time.Hour/2))
	e.count(t.Name()) // half an hour after its last use
	if got := sample(); !samePositions(got, first) {
		e.Fatalf("sample in use is replaced: %d positions, were %d", len(got), len(first))
	}
	e.reopen()
	if !samePositions(sample(), first) {
		e.Fatal("sample is lost when reopened")
	}
	e.count(t.Name())
	renewed := sample()
	q := keyOf(t, more[0]).PK
	if samePositions(renewed, first) || !slices.ContainsFunc(renewed, func(p storage.Position) bool { return string(p.PK) == string(q) }) {
		e.Fatal("unused sample is not renewed")
	}
}

// checkFirstSampleWaits: a parallel scan that began without a sample has
// everything in its first segment, and goes on so.
func checkFirstSampleWaits(e *env) {
	t, _ := e.filled(40)
	e.now = e.now.Add(statisticsDue)
	sample := func() int {
		e.Helper()
		s, err := e.e.Sample(e.ctx, t, 0, e.now)
		e.ok(err)
		return len(s)
	}
	equal(e, "sample that was not taken", sample(), 0)
	e.finish(storage.Statistics, t.Name())
	equal(e, "sample in the middle of a scan", sample(), 0)
	e.count(t.Name())
	if sample() == 0 {
		e.Fatal("no sample is taken after the scan")
	}
}

// checkCancelledStep: a step that is cancelled did something or nothing; the
// work goes on afterwards.
func checkCancelledStep(e *env) {
	t, items := e.filled(50)
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	e.now = e.now.Add(statisticsDue)
	l := e.claim(storage.Statistics, t.Name())
	_, err := l.Step(done, e.now)
	e.fails(err, context.Canceled)
	e.complete(l)
	e.ok(l.Release())
	e.counted(t, counts(t, items))
	e.drop(t)
	l = e.claim(storage.TableDrop, t.Name())
	_, err = l.Step(done, e.now)
	e.fails(err, context.Canceled)
	e.complete(l)
	e.ok(l.Release())
}
