// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func lifeChecks() []check {
	return []check{
		{"life/closed", checkClosed},
		{"life/close under load", checkCloseUnderLoad},
		{"life/reopen", checkReopen},
	}
}

func checkClosed(e *env) {
	t, items := e.filled(3)
	e.ok(e.e.Ping(e.ctx))
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	e.fails(e.e.Ping(done), context.Canceled)
	e.ok(e.e.Close())
	e.ok(e.e.Close())
	calls := e.readers(t, items[0])
	for call, err := range e.writers(t, items[0]) {
		calls[call] = err
	}
	calls["Ping"] = e.e.Ping(e.ctx)
	_, calls["CreateTable"] = e.e.CreateTable(e.ctx, account, define("new", "id:S"), e.now)
	_, calls["UpdateTable"] = e.e.UpdateTable(e.ctx, account, t.Name(), toggle)
	_, calls["Table"] = e.e.Table(e.ctx, account, t.Name())
	_, _, calls["Describe"] = e.e.Describe(e.ctx, account, t.Name())
	_, _, calls["Tables"] = e.e.Tables(e.ctx, account, "", 1)
	_, calls["DropTable"] = e.e.DropTable(e.ctx, account, t.Name(), agree)
	_, calls["Pending"] = e.e.Pending(e.ctx, e.now)
	_, calls["Horizon"] = e.e.Horizon(e.ctx)
	_, calls["Records"] = e.e.Records(e.ctx, t.ID, 0, 0, 1, 0)
	_, calls["Claim"] = e.e.Claim(e.ctx, storage.Work{Kind: storage.Statistics, Table: t.ID, Account: account, Name: t.Name()})
	for call, err := range calls {
		if !errors.Is(err, storage.ErrClosed) {
			e.Fatalf("%s of a closed engine: %v", call, err)
		}
	}
	e.e = e.checked(e.h.Reopen())
	for _, it := range items {
		e.holds(t, it)
	}
}

// checkCloseUnderLoad: Close waits for running calls; each is done entirely or
// fails with ErrClosed, and what was acknowledged is there afterwards.
func checkCloseUnderLoad(e *env) {
	t := e.create(rich("t"))
	done := make([]int, workers)
	row := func(i int) ddb.Item { return item("pk", "p", "sk", fmt.Sprint(i), "g", "G") }
	written := make(chan struct{}, workers*repeats)
	e.together(workers, func(i int) error {
		if i == 0 {
			<-written
			return e.e.Close()
		}
		for range repeats {
			if _, err := e.e.Write(e.ctx, add(t, row(i), 1)); errors.Is(err, storage.ErrClosed) {
				return nil
			} else if err != nil {
				return err
			}
			done[i]++
			written <- struct{}{}
			if _, err := e.collect(t, storage.Range{}, 0); errors.Is(err, storage.ErrClosed) {
				return nil
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	e.e = e.checked(e.h.Reopen())
	for i, n := range done {
		if n > 0 {
			e.holds(t, with(row(i), "n", n))
		}
	}
	e.consistent(t)
}

// checkReopen: everything is there after each of several restarts.
func checkReopen(e *env) {
	t := e.create(rich("t"))
	for i := range 4 {
		e.put(t, item("pk", "p", "sk", fmt.Sprint(i), "g", "G", "h", i))
		e.reopen()
		got, err := e.e.Table(e.ctx, account, "t")
		e.ok(err)
		same(e, got, t)
		equal(e, "rows", len(e.rows(t, storage.Range{})), i+1)
		e.consistent(t)
		t = e.touch(t)
	}
}
