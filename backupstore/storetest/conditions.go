// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/backupstore"
)

func conditionChecks() []check {
	return []check{
		{"condition/if absent", ifAbsent},
		{"condition/if match", ifMatch},
		{"condition/tags never return", tagsNeverReturn},
		{"condition/both", bothConditions},
		{"condition/judged at the end", judgedAtTheEnd},
	}
}

func raceChecks() []check {
	return []check{
		{"race/if absent", raceIfAbsent},
		{"race/if match", raceIfMatch},
		{"race/readers see whole objects", raceReaders},
		{"race/put and delete", racePutDelete},
	}
}

func ifAbsent(e *env) {
	o := backupstore.PutOptions{IfAbsent: true}
	res, err := e.try("d/k", "first", o)
	e.ok(err)
	equal(e, "ETag", e.head("d/k").ETag, res.ETag)
	_, err = e.try("d/k", "second", o)
	e.fails(err, backupstore.ErrExists)
	e.holds("d/k", "first")
	e.lists("", "d/k")
	e.deletes("d/k", 1)
	_, err = e.try("d/k", "third", o)
	e.ok(err)
	e.holds("d/k", "third")
}

func ifMatch(e *env) {
	_, err := e.try("d/k", "none", backupstore.PutOptions{IfMatch: `"0123456789abcdef0123456789abcdef"`})
	e.fails(err, backupstore.ErrConflict)
	e.absent("d/k")
	first := e.put("d/k", "first")
	second, err := e.try("d/k", "second", backupstore.PutOptions{IfMatch: first.ETag})
	e.ok(err)
	e.holds("d/k", "second")
	equal(e, "ETag", e.head("d/k").ETag, second.ETag)
	_, err = e.try("d/k", "third", backupstore.PutOptions{IfMatch: first.ETag})
	e.fails(err, backupstore.ErrConflict)
	e.holds("d/k", "second")
	e.deletes("d", 1)
	_, err = e.try("d/k", "fourth", backupstore.PutOptions{IfMatch: second.ETag})
	e.fails(err, backupstore.ErrConflict)
	e.absent("d/k")
	e.lists("")
}

// tagsNeverReturn: versions of one size, as fast as can be, differ.
func tagsNeverReturn(e *env) {
	seen := map[string]int{}
	for i := range 40 {
		tag := e.put("k", fmt.Sprintf("%04d", i)).ETag
		if before, twice := seen[tag]; twice {
			e.Fatalf("versions %d and %d have the ETag %s", before, i, tag)
		}
		seen[tag] = i
	}
}

func bothConditions(e *env) {
	res := e.put("k", "x")
	if _, err := e.try("k", "y", backupstore.PutOptions{IfAbsent: true, IfMatch: res.ETag}); err == nil {
		e.Fatal("a put that must and must not find an object succeeded")
	}
	e.holds("k", "x")
}

// judgedAtTheEnd: what others put while the body is read counts.
func judgedAtTheEnd(e *env) {
	between := func(key string) io.Reader {
		return &hooked{strings.NewReader("late"), sync.OnceValue(func() error {
			_, err := e.try(key, "quick", backupstore.PutOptions{})
			return err
		})}
	}
	_, err := e.s.Put(e.ctx, "d/new", between("d/new"), backupstore.PutOptions{IfAbsent: true})
	e.fails(err, backupstore.ErrExists)
	e.holds("d/new", "quick")
	tag := e.put("d/old", "old").ETag
	_, err = e.s.Put(e.ctx, "d/old", between("d/old"), backupstore.PutOptions{IfMatch: tag})
	e.fails(err, backupstore.ErrConflict)
	e.holds("d/old", "quick")
	e.lists("", "d/new", "d/old")
}

// racers is how many do the same at once.
const racers = 12

// race runs do that many times at once. do must not end the test.
func race(do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		wg.Go(func() { <-start; do(i) })
	}
	close(start)
	wg.Wait()
}

func raceIfAbsent(e *env) {
	for round := range 5 {
		key := fmt.Sprintf("d/%d/k", round)
		var winners atomic.Int32
		var winner atomic.Value
		race(func(i int) {
			body := strings.Repeat(strconv.Itoa(i)+";", 100+i)
			switch _, err := e.try(key, body, backupstore.PutOptions{IfAbsent: true}); {
			case err == nil:
				winners.Add(1)
				winner.Store(body)
			case !errors.Is(err, backupstore.ErrExists):
				e.Errorf("loser: %v", err)
			}
		})
		equal(e, "winners", winners.Load(), 1)
		e.holds(key, winner.Load().(string))
	}
}

// raceIfMatch: a counter that all increment loses nothing.
func raceIfMatch(e *env) {
	e.put("n", "0")
	const each = 3
	race(func(int) {
		for done := 0; done < each; {
			meta, err := e.s.Head(e.ctx, "n")
			if err != nil || meta == nil {
				e.Errorf("head: %v, %v", meta, err)
				return
			}
			text, err := e.read("n") // perhaps newer than meta: then the put fails
			if err != nil {
				e.Errorf("read: %v", err)
				return
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				e.Errorf("counter: %v", err)
				return
			}
			switch _, err := e.try("n", strconv.Itoa(n+1), backupstore.PutOptions{IfMatch: meta.ETag}); {
			case err == nil:
				done++
			case !errors.Is(err, backupstore.ErrConflict):
				e.Errorf("put: %v", err)
				return
			}
		}
	})
	e.holds("n", strconv.Itoa(racers*each))
}

func raceReaders(e *env) {
	body := func(i int) string { return strings.Repeat(string(rune('a'+i)), 200_000+i) }
	e.put("k", body(0))
	race(func(i int) {
		for range 5 {
			if i%2 == 0 {
				if _, err := e.try("k", body(i), backupstore.PutOptions{}); err != nil {
					e.Errorf("put: %v", err)
				}
				continue
			}
			got, err := e.read("k")
			if err != nil {
				e.Errorf("get: %v", err)
			} else if got == "" || got != body(int(got[0]-'a')) {
				e.Errorf("read a mixture of %d bytes", len(got))
			}
		}
	})
	got, err := e.read("k")
	e.ok(err)
	e.holds("k", body(int(got[0]-'a')))
	e.lists("", "k")
}

// racePutDelete: puts succeed while others empty the place around them.
func racePutDelete(e *env) {
	race(func(i int) {
		for j := range 5 {
			var err error
			if i%3 == 0 {
				_, err = e.s.DeletePrefix(e.ctx, "d/gone")
			} else {
				_, err = e.try(fmt.Sprintf("d/%d-%d/k", i, j), "x", backupstore.PutOptions{})
				if err == nil {
					_, err = e.s.DeletePrefix(e.ctx, fmt.Sprintf("d/%d-%d", i, j))
				}
			}
			if err != nil {
				e.Errorf("racer %d: %v", i, err)
			}
		}
	})
	e.lists("")
}
