// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"sync"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	// freeLoad is what every operation may hold uncounted: nearly all need no
	// more.
	freeLoad = 64 << 10
	// smallLoads is up to where more is taken in steps that come before those
	// who want much.
	smallLoads = 256 << 10
	// bigStep is what is taken at a time beyond that.
	bigStep = 256 << 10
	// firstWait is the most that an operation waits for the first time.
	firstWait = 8 << 20
	// decoding is what a stored item needs while it is decoded, in times of its
	// bytes.
	decoding = 4
)

// errNoRoom is what a Decide refuses with that finds no room for the item. It
// leaves no operation.
var errNoRoom = storage.Final(errors.New("no room for the item in the byte budget"))

// load counts what an operation holds of stored items. Their sizes are known
// only when they are read, and who has read holds locks and a place in a
// database: nobody may wait there. So the operation takes what is there as it
// goes; where that ends it gives up all it has, waits in line for more, and
// starts again. It is safe for concurrent use.
type load struct {
	work api.Work // nil: nothing is counted

	mu     sync.Mutex
	holds  int  // now
	taken  int  // of the budget
	whole  bool // may hold anything
	want   int  // what there was no room for; 0: there was
	widest int  // of the items seen
}

// add counts n bytes more, or less; false when there is no room.
func (l *load) add(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work == nil || l.whole || n <= 0 {
		l.holds += n
		return true
	}
	for l.holds+n > l.taken+freeLoad {
		step := freeLoad
		if l.taken >= smallLoads || n > smallLoads {
			step = max(bigStep, l.holds+n-l.taken-freeLoad)
		}
		if !l.work.Try(step) {
			l.want = max(l.want, l.holds+n)
			return false
		}
		l.taken += step
	}
	l.holds += n
	return true
}

// lacked reports whether there was no room since the last await.
func (l *load) lacked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want > 0
}

// await waits for room for what mutations make, of which there was none. The
// operation holds nothing that counts meanwhile.
func (l *load) await(items, shown int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	want := max(2*l.want, min(items*l.widest, firstWait), min(2*shown*l.widest, 2*maxStored))
	whole, err := l.work.Await(want)
	if err != nil {
		return err
	}
	l.holds, l.taken, l.whole, l.want = 0, want, whole, 0
	return nil
}

// slot is what one Decide of an operation holds.
type slot struct{ bytes int }

// decide is the Decide of a mutation that refuses with errNoRoom when there is
// no room for what it reads and makes.
func (l *load) decide(m mutation, decide storage.Decide) storage.Decide {
	if l.work == nil {
		return decide
	}
	s := &slot{}
	return func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		l.add(-s.bytes)
		s.bytes = 0
		reading := 0
		if cur != nil {
			reading = decoding * len(cur.Item)
			l.see(len(cur.Item))
		}
		if !l.add(reading) {
			return nil, errNoRoom
		}
		next, err := decide(t, cur)
		l.add(-reading)
		kept := m.state().holds()
		if err == nil && next != nil {
			kept += len(next.Item)
		}
		if cur != nil && t.HasStream() { // engines keep it for the record
			kept += len(cur.Item)
		}
		if !l.add(kept) {
			m.state().drop()
			return nil, errNoRoom
		}
		s.bytes = kept
		return next, err
	}
}

func (l *load) see(bytes int) {
	l.mu.Lock()
	l.widest = max(l.widest, bytes)
	l.mu.Unlock()
}

// holds is what the last run of Decide keeps for the answer, and the answer.
func (w *writing) holds() int { return 2 * (len(w.attributes) + w.shown) }

// drop forgets the last run of Decide and what it kept.
func (w *writing) drop() {
	w.reset()
	w.attributes = nil
}

// drop gives up what a mutation holds beside its request.
func drop(m mutation) {
	m.state().drop()
	if p, ok := m.(*put); ok {
		p.next, p.derived = nil, nil
	}
}

const (
	// pagedRows is how much of stored rows an operation reads that got the room
	// of a page, without asking for more.
	pagedRows = 1 << 20
	// nearlyTooBig is more than the items of a transaction can be in storage
	// unless they hold long numbers.
	nearlyTooBig = 6 << 20
)

// rowsRoom takes room for the rows of a batch, as much as there is: the bytes to
// read. keep is to be called when they are read.
func rowsRoom(work api.Work) (budget int) {
	if work == nil {
		return maxStored
	}
	for n := maxStored; n > pagedRows; n /= 2 {
		if work.Try(n) {
			return n
		}
	}
	return pagedRows
}

// keepRows gives back what rows do not need.
func keepRows(work api.Work, rows []*storage.Row) {
	if work == nil {
		return
	}
	work.Keep(max(storedBytes(rows)-pagedRows, 0))
}

// storedBytes is how many bytes rows have in storage.
func storedBytes(rows []*storage.Row) (n int) {
	for _, r := range rows {
		if r != nil {
			n += len(r.Item)
		}
	}
	return n
}
