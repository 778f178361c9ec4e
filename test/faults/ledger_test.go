// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// outcome is what the client knows of a write.
type outcome uint8

const (
	acked   outcome = iota + 1 // applied once
	refused                    // not applied
	doubt                      // applied once or not at all
)

func (o outcome) String() string { return [...]string{"?", "acknowledged", "refused", "in doubt"}[o] }

// op is a write that leaves its id in the lists of some journals, one of all
// or, in a transaction, several.
type op struct {
	keys    []string
	outcome outcome
}

// absent is the value of an owned item that is not there.
const absent = -1

// ledger is what clients know of the writes they made.
type ledger struct {
	mu       sync.Mutex
	ops      map[string]op       // by id
	done     map[string]int      // journal to how many writes it had
	acks     map[string][]string // journal to ids of acknowledged writes
	owned    map[string][]int
	counts   [4]int // by outcome
	slowest  time.Duration
	problems []error
	lossy    bool // what is acknowledged now will be lost
}

func newLedger() *ledger {
	return &ledger{ops: map[string]op{}, done: map[string]int{}, acks: map[string][]string{}, owned: map[string][]int{}}
}

// maxProblems bounds what is told of what went wrong.
const maxProblems = 20

func (l *ledger) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, fmt.Errorf(format, args...))
	}
}

// hopeless reports whether more problems would not be told.
func (l *ledger) hopeless() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.problems) >= maxProblems
}

// record notes what became of a write of journals.
func (l *ledger) record(id string, keys []string, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[o]++
	if l.lossy {
		o = refused
	}
	l.ops[id] = op{keys, o}
	for _, key := range keys {
		if o != refused {
			l.done[key]++
		}
		if o == acked {
			l.acks[key] = append(l.acks[key], id)
		}
	}
}

// recordOwned notes what became of a write of an item that one client owns.
func (l *ledger) recordOwned(key string, value int, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[o]++
	if l.lossy {
		return
	}
	switch o {
	case acked:
		l.owned[key] = []int{value}
	case doubt: // its client leaves it alone from now on
		if len(l.owned[key]) == 0 {
			l.owned[key] = []int{absent}
		}
		l.owned[key] = append(l.owned[key], value)
	}
}

// usable reports whether it is known what an owned item holds.
func (l *ledger) usable(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owned[key]) < 2
}

// ackedIn returns the ids that were acknowledged in a journal up to now.
func (l *ledger) ackedIn(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.acks[key])
}

func (l *ledger) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[acked]
}

// checkJournals compares the lists that were read with the ledger: each
// acknowledged write is in all its journals, each refused one in none, one in
// doubt in all or none, nothing twice, and the writes of one client in the
// order it made them.
func (l *ledger) checkJournals(journals map[string][]string) {
	where := map[string][]string{} // id to journals
	for key, ids := range journals {
		last := map[string]int{}
		for _, id := range ids {
			where[id] = append(where[id], key)
			var client string
			var n int
			if _, err := fmt.Sscanf(id, "%s %d", &client, &n); err != nil {
				l.problem("journal %s holds %q: %w", key, id, err)
				continue
			}
			if n <= last[client] {
				l.problem("journal %s: write %d of client %s comes after its write %d", key, n, client, last[client])
			}
			last[client] = n
		}
	}
	l.mu.Lock()
	ops := maps.Clone(l.ops)
	l.mu.Unlock()
	for id, o := range ops {
		got := slices.Sorted(slices.Values(where[id]))
		want := slices.Sorted(slices.Values(o.keys))
		switch {
		case o.outcome != refused && slices.Equal(got, want):
		case o.outcome != acked && len(got) == 0:
		default:
			l.problem("write %s of journals %v was %s, and is in %v", id, want, o.outcome, got)
		}
		delete(where, id)
	}
	for id, keys := range where {
		l.problem("write %s, which nobody made, is in %v", id, keys)
	}
}

// checkOwned compares the owned items with the ledger, and learns from them how
// writes in doubt went.
func (l *ledger) checkOwned(found map[string]int) {
	l.mu.Lock()
	owned := maps.Clone(l.owned)
	l.mu.Unlock()
	for key, may := range owned {
		got, ok := found[key]
		if !ok {
			got = absent
		}
		if !slices.Contains(may, got) {
			l.problem("item %s: one of %v was acknowledged, %d is there", key, may, got)
		}
		l.mu.Lock()
		l.owned[key] = []int{got}
		l.mu.Unlock()
		delete(found, key)
	}
	for key, got := range found {
		l.problem("item %s: %d is there, nothing was acknowledged", key, got)
	}
}
