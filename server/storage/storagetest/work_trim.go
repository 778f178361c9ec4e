// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func trimChecks() []check {
	return []check{
		{"work/token-expiry", checkTokenExpiry},
		{"work/record-trim", checkRecordTrim},
	}
}

// due tells whether work of no table is, at the suite's time.
func (e *env) due(kind storage.WorkKind) bool {
	e.Helper()
	ws, err := e.e.Pending(e.ctx, e.now)
	e.ok(err)
	return slices.Contains(ws, storage.Work{Kind: kind})
}

// trims does work of no table; each is called between two steps.
func (e *env) trims(kind storage.WorkKind, each func()) {
	e.Helper()
	w := storage.Work{Kind: kind}
	equal(e, fmt.Sprintf("%s is due at %s", kind, e.now), e.due(kind), true)
	l, err := e.e.Claim(e.ctx, w)
	e.ok(err)
	_, err = e.e.Claim(e.ctx, w)
	e.fails(err, storage.ErrClaimed)
	for n := 0; !e.step(l).Finished; n++ {
		each()
		if n > maxSteps {
			e.Fatalf("%s is not finished after %d steps", kind, n)
		}
	}
	e.ok(l.Release())
	equal(e, fmt.Sprintf("%s is due when it was done", kind), e.due(kind), false)
}

// checkTokenExpiry: tokens that are over go, those that are not stay, by the
// time that each came with.
func checkTokenExpiry(e *env) {
	const life = 10 * time.Minute
	t := e.create(define("t", "pk:S"))
	use := func(name string) error {
		token := storage.Token{Account: account, Token: name, Now: e.now}
		_, err := e.e.WriteAll(e.ctx, []storage.Write{add(t, item("pk", name), 1)}, &token)
		return err
	}
	equal(e, "expiry of nothing is due", e.due(storage.TokenExpiry), false)
	for i := range 200 {
		e.ok(use(fmt.Sprint("old ", i)))
	}
	e.ok(use("renewed"))
	e.now = start.Add(life - time.Minute)
	equal(e, "expiry is due before the first is over", e.due(storage.TokenExpiry), false)
	e.ok(use("young"))
	e.fails(use("old 1"), storage.ErrReplayed)
	e.now = start.Add(life + time.Minute)
	e.ok(use("renewed"))
	e.reopen()
	e.trims(storage.TokenExpiry, func() { e.fails(use("young"), storage.ErrReplayed) })
	for _, name := range []string{"young", "renewed"} {
		e.fails(use(name), storage.ErrReplayed)
	}
	e.ok(use("old 1"))
	e.reopen()
	equal(e, "expiry is due after it was done", e.due(storage.TokenExpiry), false)
	e.fails(use("old 1"), storage.ErrReplayed)
	e.now = start.Add(3 * life)
	e.trims(storage.TokenExpiry, func() {})
	e.ok(use("young"))
	e.holds(t, item("pk", "young", "n", 2))
}

// checkRecordTrim: records go after RecordLife, in bounded steps, also those of
// tables that are gone; the others stay, and numbers are not given again.
func checkRecordTrim(e *env) {
	const many = 300
	t, gone := e.create(streaming(define("t", "pk:S"), ddb.ViewNew)), e.create(streaming(define("gone", "pk:S"), ddb.ViewNew))
	write := func(t *storage.Table, n int) {
		e.Helper()
		_, err := e.e.Write(e.ctx, dated(putWrite(t, item("pk", fmt.Sprint(n))), e.now))
		e.ok(err)
	}
	equal(e, "a trim of nothing is due", e.due(storage.RecordTrim), false)
	for n := range many {
		write([]*storage.Table{t, gone}[n%2], n)
	}
	e.drop(gone)
	e.finish(storage.TableDrop, "gone")
	e.now = start.Add(storage.RecordLife - time.Minute)
	equal(e, "a trim is due before the first record is old", e.due(storage.RecordTrim), false)
	for n := range 5 {
		write(t, many+n)
	}
	old := e.records(t.ID, e.horizonAt(e.now))
	equal(e, "records", len(old), many/2+5)
	e.now = start.Add(storage.RecordLife + time.Minute)
	between := 0
	e.trims(storage.RecordTrim, func() {
		write(t, 2*many+between)
		between++
	})
	h := e.horizonAt(e.now)
	left := e.records(t.ID, h)
	equal(e, "records left", len(left), 5+between)
	for i, r := range left[:5] {
		equal(e, "record left", told(r), told(old[many/2+i]))
	}
	equal(e, "records of the table that is gone", len(e.records(gone.ID, h)), 0)
	equal(e, "rows", len(e.rows(t, storage.Range{})), many/2+5+between)
	e.now = start.Add(3 * storage.RecordLife)
	e.trims(storage.RecordTrim, func() {})
	equal(e, "records of long ago", len(e.records(t.ID, h)), 0)
	e.reopen()
	after, err := e.e.Horizon(e.ctx)
	e.ok(err)
	if after < left[len(left)-1].Seq {
		e.Fatalf("the horizon falls from %d to %d when all is trimmed", h, after)
	}
	write(t, 0)
	write(t, many)
	e.put(t, with(item("pk", "0"), "x", 1))
	rs := e.records(t.ID, e.horizon())
	if len(rs) != 1 || rs[0].Seq <= h {
		e.Fatalf("records after the trim, beyond %d: %+v", h, rs)
	}
}
