// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	// maxTransaction is how many actions a transaction may have.
	maxTransaction = 100
	// maxTransactionBytes bounds the items of a transaction together, as the
	// service counts them.
	maxTransactionBytes = 4 << 20
	// transactionFactor is what an item costs in a transaction, in times of
	// what it costs alone.
	transactionFactor = 2
	// maxSizeTries bounds how often a transaction is run again because it was
	// too large only with items of an earlier try.
	maxSizeTries = 5

	transactionTooBig = "Collection size of items exceeded, which can also be caused by the aggregate size of the items in the transaction exceeding the 4MB limit"
	severalActions    = "TransactItems can only contain one of Check, Put, Update or Delete"
	sameItemTwice     = "Transaction request cannot include multiple operations on one item"
)

// TransactWriteItems carries out all of its actions or none.
func (e *Engine) TransactWriteItems(ctx context.Context, id auth.Identity, in *api.TransactWriteItemsInput, out *api.Body) error {
	if err := checkTransactWrite(in); err != nil {
		return err
	}
	tx := &transactWrite{detail: capacityWanted(in.ReturnConsumedCapacity), split: unitsWrite, load: load{work: out.Work}}
	for i := range in.TransactItems {
		a, err := e.readAction(id, &in.TransactItems[i], tx.detail)
		if err != nil {
			return err
		}
		a.state().shared = &tx.shown
		tx.actions = append(tx.actions, a)
		tx.fixed += a.target().Size()
	}
	if tx.fixed > maxTransactionBytes {
		return api.Validation(transactionTooBig)
	}
	if in.ClientRequestToken != nil {
		tx.token = &storage.Token{Account: id.Account, Token: *in.ClientRequestToken, Digest: digestTransaction(in)}
	}
	if err := e.withTables(ctx, id, func(find finder) error { return e.transactWrite(ctx, tx, find) }); err != nil {
		return err
	}
	metrics := in.ReturnItemCollectionMetrics != nil && *in.ReturnItemCollectionMetrics == "SIZE"
	return e.respondTransaction(ctx, id, tx, metrics, out)
}

// transactWrite is a TransactWriteItems on its way.
type transactWrite struct {
	detail  capacityDetail
	split   unitSplit // of what it consumed: reading when it was done before
	actions []*action
	token   *storage.Token
	shown   shownItems
	load    load
	fixed   int // bytes of what is put and of the keys of the other actions

	mu    sync.Mutex
	grown map[int]int // bytes that the updates make of their items, by action
	again bool        // some ran more than once: others may have seen older items
}

// action is one action of a transaction.
type action struct {
	mutation
	put   *put // the mutation, when it is one
	name  string
	table *storage.Table
	key   storage.Key
}

// transactWrite is the part of TransactWriteItems that needs the tables.
func (e *Engine) transactWrite(ctx context.Context, tx *transactWrite, find finder) error {
	if err := tx.prepare(find); err != nil {
		return err
	}
	ws := make([]storage.Write, len(tx.actions))
	for i, a := range tx.actions {
		decide := a.decide
		if u, ok := a.mutation.(*update); ok {
			decide = tx.weigh(i, u)
		}
		ws[i] = storage.Write{Table: a.table, Key: a.key, Blind: a.blind(a.table), Decide: tx.load.decide(a, decide), Change: e.change()}
	}
	for try := 1; ; try++ {
		tx.forget()
		if tx.token != nil {
			tx.token.Now = e.clock.Now()
		}
		results, err := e.store.WriteAll(ctx, ws, tx.token)
		switch {
		case errors.Is(err, storage.ErrReplayed):
			return tx.replayed(ctx, e.store)
		case errors.Is(err, storage.ErrTokenMismatch):
			return api.TokenMismatch()
		case err != nil && tx.load.lacked():
			tx.drop()
			if err := tx.load.await(len(ws), tx.shows()); err != nil {
				return err
			}
			try--
			continue
		case err != nil && blamesSize(err) && !tx.surelyTooBig() && try < maxSizeTries:
			continue
		case err != nil:
			return cancellation(err, len(ws))
		}
		for i, res := range results {
			tx.actions[i].table = res.Table
		}
		return nil
	}
}

// prepare looks up all tables, then makes the checks that need them. Keys that
// do not fit the table are reasons to cancel, unlike empty ones and items that
// occur twice.
func (tx *transactWrite) prepare(find finder) error {
	tables := map[string]*storage.Table{}
	for _, a := range tx.actions {
		if tables[a.name] == nil {
			t, err := find(a.name)
			if err != nil {
				return err
			}
			tables[a.name] = t
		}
		a.table = tables[a.name]
	}
	reasons := make([]error, len(tx.actions))
	seen, stored := rowSet{}, 0
	for i, a := range tx.actions {
		a.key, reasons[i] = a.prepare(a.table)
		if reasons[i] == nil && !seen.add(a.table, a.key) {
			return api.Validation(sameItemTwice)
		}
		if a.put != nil && a.put.next != nil {
			stored += len(a.put.next.Item)
		}
	}
	if stored > maxBatchBytes {
		return api.Validation(transactionTooBig)
	}
	return canceled(reasons)
}

// weigh is the Decide of an update that refuses what is too large with the rest
// of the transaction.
func (tx *transactWrite) weigh(i int, u *update) storage.Decide {
	return func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		next, err := u.decide(t, cur)
		if err != nil {
			return nil, err
		}
		size := u.key.Size()
		switch {
		case next == storage.Unchanged && cur != nil:
			size = cur.Size
		case next != storage.Unchanged:
			size = next.Size
		}
		if tx.grow(i, size-u.key.Size()) {
			return nil, storage.Final(&oversize{api.Validation(transactionTooBig)})
		}
		return next, nil
	}
}

// forget forgets what the updates of an earlier run made.
func (tx *transactWrite) forget() {
	tx.mu.Lock()
	clear(tx.grown)
	tx.again = false
	tx.mu.Unlock()
}

// drop gives up what the actions hold beside the request.
func (tx *transactWrite) drop() {
	for _, a := range tx.actions {
		drop(a.mutation)
	}
}

// shows is how many items the answer may show.
func (tx *transactWrite) shows() (n int) {
	for _, a := range tx.actions {
		if a.state().onFail {
			n++
		}
	}
	return n
}

// grow notes what an update makes of its item and reports whether all is too
// large now.
func (tx *transactWrite) grow(i, bytes int) bool {
	tx.mu.Lock()
	if tx.grown == nil {
		tx.grown = map[int]int{}
	}
	_, ran := tx.grown[i]
	tx.again = tx.again || ran
	tx.grown[i] = bytes
	tx.mu.Unlock()
	return tx.tooBig()
}

// tooBig reports whether the items are too large together, with what the last
// run of each update made.
func (tx *transactWrite) tooBig() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	sum := tx.fixed
	for _, n := range tx.grown {
		sum += n
	}
	return sum > maxTransactionBytes
}

// surelyTooBig reports whether the items that were too large together were so at
// one instant: what runs again may leave no time for the others to.
func (tx *transactWrite) surelyTooBig() bool {
	tx.mu.Lock()
	again := tx.again
	tx.mu.Unlock()
	return !again && tx.tooBig()
}

// replayed charges for what was done before: the service reads the items.
func (tx *transactWrite) replayed(ctx context.Context, store storage.Reader) error {
	tx.split = unitsRead
	if tx.detail == capacityNone {
		return nil
	}
	for _, a := range tx.actions {
		row, err := store.Get(ctx, a.table, a.key)
		if err != nil {
			return err
		}
		size := 0
		if row != nil {
			size = row.Size
		}
		a.state().cost = consumed{table: readUnits(size, true)}
	}
	return nil
}

// respondTransaction writes the response of a transaction that was done.
func (e *Engine) respondTransaction(ctx context.Context, id auth.Identity, tx *transactWrite, metrics bool, out *api.Body) (err error) {
	list := make([]touched, len(tx.actions))
	for i, a := range tx.actions {
		cost := &a.state().cost
		cost.scale(transactionFactor)
		list[i] = touched{a.table, a.key, a.target(), cost}
	}
	out.B = append(out.B, '{')
	sep := ""
	if tx.detail != capacityNone {
		out.B = appendCapacities(append(out.B, `"ConsumedCapacity":`...), list, tx.detail, tx.split)
		sep = ","
	}
	if metrics {
		if out.B, err = e.appendCollections(ctx, id, append(out.B, sep+`"ItemCollectionMetrics":`...), list); err != nil {
			return err
		}
	}
	out.B = append(out.B, '}')
	return nil
}
