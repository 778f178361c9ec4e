// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/extenddb/extenddb/backupstore"
)

func listChecks() []check {
	return []check{
		{"list/prefixes", listPrefixes},
		{"list/whole components", listComponents},
		{"list/order", listOrder},
		{"list/more than 1,000", listMany},
		{"list/stopped early", listStopped},
		{"list/while deleting", listDeleting},
	}
}

func deleteChecks() []check {
	return []check{
		{"delete/counts", deleteCounts},
		{"delete/whole components", deleteComponents},
		{"delete/everything", deleteEverything},
		{"delete/one object", deleteOne},
	}
}

func listPrefixes(e *env) {
	e.lists("")
	for _, key := range []string{"d", "ab/4", "a/c/3", "a/b/2", "a/b/1"} {
		e.put(key, key)
	}
	for prefix, want := range map[string][]string{
		"":        {"a/b/1", "a/b/2", "a/c/3", "ab/4", "d"},
		"a":       {"a/b/1", "a/b/2", "a/c/3"},
		"a/":      {"a/b/1", "a/b/2", "a/c/3"},
		"a/b":     {"a/b/1", "a/b/2"},
		"a/b/":    {"a/b/1", "a/b/2"},
		"a/b/1":   {"a/b/1"},
		"d":       {"d"},
		"a/b/1/x": nil,
		"nope":    nil,
		"nope/x":  nil,
	} {
		e.lists(prefix, want...)
	}
	for meta, err := range e.s.List(e.ctx, "a/b/1") {
		e.ok(err)
		head := e.head("a/b/1")
		if meta.Size != head.Size || meta.ETag != "" && meta.ETag != head.ETag || !meta.LastModified.Equal(head.LastModified) {
			e.Fatalf("listed as %+v, head says %+v", meta, head)
		}
	}
}

func listComponents(e *env) {
	e.put("pre/fix/1", "x")
	e.put("pre/fixture", "x")
	e.put("pre/fix-2", "x")
	e.lists("pre/fix", "pre/fix/1")
	e.lists("pre/fi")
	e.lists("pre", "pre/fix-2", "pre/fix/1", "pre/fixture")
}

// listOrder: "a/b" comes after "a-b" and "a.b" but before "a0", as bytes do.
func listOrder(e *env) {
	keys := []string{
		"Z", "a b/c", "a!/z", "a+", "a-b", "a-b2/x", "a.b", "a/!", "a/-", "a/b-c", "a/b.c/x", "a/b/c", "a/b/c-d", "a/b0",
		"a0", "aa", "a\u00df", "b", "\uff5e", "\U0001d11e",
	}
	if !slices.IsSorted(keys) {
		e.Fatal("storetest: keys are not in order") // a mistake in the suite
	}
	for _, i := range []int{7, 3, 19, 0, 12, 5, 1, 16, 9, 14, 2, 18, 11, 4, 17, 6, 8, 13, 10, 15} {
		e.put(keys[i], "x")
	}
	e.lists("", keys...)
	e.lists("a", keys[7:14]...)
}

// many is more than one page of any service's listing.
const many = 1_050

func listMany(e *env) {
	keys := make([]string, many)
	work := make(chan string)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for key := range work {
				if _, err := e.try(key, "", backupstore.PutOptions{}); err != nil {
					e.Errorf("put %s: %v", key, err)
				}
			}
		})
	}
	for i := range keys {
		keys[i] = fmt.Sprintf("m/%d/%06d", i/600, i)
		work <- keys[i]
	}
	close(work)
	wg.Wait()
	e.put("n", "x")
	e.lists("m", keys...)
	e.deletes("m", many)
	e.lists("", "n")
}

func listStopped(e *env) {
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		e.put(key, "x")
	}
	seq := e.s.List(e.ctx, "")
	for n := range 3 {
		var got []string
		for meta, err := range seq {
			e.ok(err)
			if got = append(got, meta.Key); len(got) > n {
				break
			}
		}
		if want := []string{"a/1", "a/2", "b/1"}[:n+1]; !slices.Equal(got, want) {
			e.Fatalf("stopped after %d: %q", n+1, got)
		}
	}
	e.lists("", "a/1", "a/2", "b/1")
	e.deletes("", 3)
}

func listDeleting(e *env) {
	for _, key := range []string{"a/1", "b/1", "c/1", "c/2"} {
		e.put(key, "x")
	}
	seen := 0
	for meta, err := range e.s.List(e.ctx, "") {
		e.ok(err)
		e.deletes(meta.Key, 1)
		seen++
	}
	equal(e, "objects listed while they were deleted", seen, 4)
	e.lists("")
}

func deleteCounts(e *env) {
	for _, key := range []string{"a/b/1", "a/b/2", "a/c/3", "ab/4"} {
		e.put(key, "x")
	}
	e.deletes("a", 3)
	e.deletes("a", 0)
	e.deletes("nope/below", 0)
	e.lists("", "ab/4")
	e.absent("a/b/1")
	e.put("a/b/1", "again")
	e.holds("a/b/1", "again")
}

func deleteComponents(e *env) {
	e.put("pre/fix/1", "x")
	e.put("pre/fixture", "x")
	e.deletes("pre/fi", 0)
	e.deletes("pre/fix/", 1)
	e.lists("", "pre/fixture")
}

func deleteEverything(e *env) {
	e.deletes("", 0)
	e.put("a/1", "x")
	e.put("b", "x")
	e.deletes("", 2)
	e.lists("")
	e.ok(e.s.Validate(e.ctx))
	e.put("a/1", "again")
	e.holds("a/1", "again")
}

func deleteOne(e *env) {
	e.put("a/1", "x")
	e.put("a/2", "x")
	e.deletes("a/1", 1)
	e.deletes("a/1/x", 0)
	e.absent("a/1")
	e.lists("", "a/2")
	e.deletes("a/2/", 1)
	e.lists("")
}
