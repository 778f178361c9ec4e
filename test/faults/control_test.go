// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestLedgerSees: what the checks are for makes them fail.
func TestLedgerSees(t *testing.T) {
	t.Parallel()
	const a, b, c, d = "c1 1", "c1 2", "c2 1", "c2 2"
	for _, tc := range []struct {
		name     string
		journals map[string][]string
		wrong    bool
	}{
		{"all", map[string][]string{"j": {a, b, c}, "k": {c}}, false},
		{"one in doubt was applied", map[string][]string{"j": {a, c, b}, "k": {c, d}}, false},
		{"lost", map[string][]string{"j": {a, c}, "k": {c}}, true},
		{"all lost", nil, true},
		{"twice", map[string][]string{"j": {a, b, b, c}, "k": {c}}, true},
		{"inverted", map[string][]string{"j": {b, a, c}, "k": {c}}, true},
		{"half of a transaction", map[string][]string{"j": {a, b, c}}, true},
		{"a transaction in another journal", map[string][]string{"j": {a, b, c}, "l": {c}}, true},
		{"one in doubt twice", map[string][]string{"j": {a, b, c}, "k": {c, d, d}}, true},
		{"refused and applied", map[string][]string{"j": {a, b, c, "c1 3"}, "k": {c}}, true},
		{"nobody's", map[string][]string{"j": {a, b, c, "c9 1"}, "k": {c}}, true},
		{"no id", map[string][]string{"j": {a, b, c, "x"}, "k": {c}}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.record(a, []string{"j"}, acked)
			l.record(b, []string{"j"}, acked)
			l.record(c, []string{"k", "j"}, acked)
			l.record(d, []string{"k"}, doubt)
			l.record("c1 3", []string{"j"}, refused)
			l.checkJournals(tc.journals)
			if wrong := len(l.problems) > 0; wrong != tc.wrong {
				t.Errorf("problems %v", l.problems)
			}
		})
	}
}

func TestLedgerSeesOwned(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		found map[string]int
		wrong bool
	}{
		{"as acknowledged", map[string]int{"x": 2}, false},
		{"in doubt and applied", map[string]int{"x": 2, "y": 3}, false},
		{"lost", map[string]int{}, true},
		{"the value before", map[string]int{"x": 1}, true},
		{"deleted, and there", map[string]int{"x": 2, "z": 4}, true},
		{"refused and applied", map[string]int{"x": 5}, true},
		{"nobody's", map[string]int{"x": 2, "w": 9}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.recordOwned("x", 1, acked)
			l.recordOwned("x", 2, acked)
			l.recordOwned("x", 5, refused)
			l.recordOwned("y", 3, doubt)
			l.recordOwned("z", 4, acked)
			l.recordOwned("z", absent, acked)
			if !l.usable("x") || l.usable("y") {
				t.Error("the item in doubt is not the one that is left alone")
			}
			l.checkOwned(tc.found)
			if wrong := len(l.problems) > 0; wrong != tc.wrong {
				t.Errorf("problems %v", l.problems)
			}
			if !l.usable("y") {
				t.Error("the doubt outlives the look")
			}
		})
	}
}

// TestTailSees: a record that is missing, twice there or out of order is told.
func TestTailSees(t *testing.T) {
	t.Parallel()
	rec := func(seq int64, was, is string) storage.Record {
		return storage.Record{Seq: seq, Key: storage.Key{PK: []byte("p")}, Old: []byte(was), New: []byte(is)}
	}
	one, two, three := rec(1, "", "a"), rec(2, "a", "b"), rec(3, "b", "")
	for _, tc := range []struct {
		name    string
		records []storage.Record
		wrong   bool
	}{
		{"all", []storage.Record{one, two, three, rec(4, "", "c")}, false},
		{"skipped", []storage.Record{one, three}, true},
		{"twice", []storage.Record{one, two, rec(3, "a", "b")}, true},
		{"the same number", []storage.Record{one, two, rec(2, "b", "c")}, true},
		{"inverted", []storage.Record{two, one}, true},
		{"beyond the horizon", []storage.Record{one, rec(11, "a", "b")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &tail{ledger: newLedger(), tables: []*storage.Table{{}}, state: []map[string]string{{}}, seen: []int64{0}}
			for _, r := range tc.records {
				f.take(0, r, 10)
			}
			if wrong := len(f.ledger.problems) > 0; wrong != tc.wrong {
				t.Errorf("problems %v", f.ledger.problems)
			}
		})
	}
}
