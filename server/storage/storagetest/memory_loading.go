// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Load implements storage.Loader.
func (m *Memory) Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt, err := m.create(ctx, account, def, at, storage.Creating)
	if err != nil {
		return nil, err
	}
	mt.loader = m
	return &memLoading{m: m, mt: mt, table: mt.def}, nil
}

// dropLoads makes tables DELETING whose load nobody will finish; the lock is
// held.
func (d *disk) dropLoads() {
	for _, mt := range d.all() {
		if mt.def.Status == storage.Creating && mt.loader.closed {
			_ = mt.redefine(storage.Deleting, mt.def.Def) // the definition is sound: it is the old one
		}
	}
}

// errOver is why a load that was finished or aborted does nothing more.
var errOver = errors.New("it was finished or aborted")

// memLoading fills a table that nobody else reads or writes: rows and entries
// go where they belong at once.
type memLoading struct {
	m     *Memory
	mt    *memTable
	table *storage.Table
	over  error // why it can do nothing any more; nil while it can
}

// Table implements storage.Loading.
func (l *memLoading) Table() *storage.Table { return l.table }

// enter is the beginning of every call; the lock is held.
func (l *memLoading) enter(ctx context.Context) error {
	if l.over != nil {
		return fmt.Errorf("%w: only Abort is allowed: %w", storage.ErrInvalid, l.over)
	}
	if err := l.m.enter(ctx); err != nil {
		return err
	}
	if l.mt.def.Status != storage.Creating { // dropped, perhaps gone
		return storage.ErrTableNotFound
	}
	return nil
}

// fail notes how a call failed: only Abort is allowed then.
func (l *memLoading) fail(err *error) {
	if *err != nil && l.over == nil {
		l.over = *err
	}
}

// Add implements storage.Loading.
func (l *memLoading) Add(ctx context.Context, rows []storage.LoadRow) (err error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	defer l.fail(&err)
	if err := l.enter(ctx); err != nil {
		return err
	}
	for i, r := range rows {
		if _, found := l.mt.row(r.Key); found {
			return &storage.DuplicateKey{Row: i}
		}
		l.m.apply(l.mt, r.Key, r.Next)
	}
	return nil
}

// Finish implements storage.Loading.
func (l *memLoading) Finish(ctx context.Context, progress func(done, total int64)) (err error) {
	if progress != nil { // it may call the engine: without the lock
		total := l.entries()
		progress(0, total)
		progress(total, total)
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	defer l.fail(&err)
	if err := l.enter(ctx); err != nil {
		return err
	}
	l.mt.stats, l.over = l.mt.tally(), errOver
	err = l.mt.redefine(storage.Active, l.mt.def.Def)
	l.m.learn(l.mt)
	return err
}

func (l *memLoading) entries() (n int64) {
	l.m.mu.RLock()
	defer l.m.mu.RUnlock()
	for _, entries := range l.mt.entries {
		n += int64(len(entries))
	}
	return n
}

// Abort implements storage.Loading.
func (l *memLoading) Abort() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.over == nil {
		l.over = errOver
	}
	if l.mt.def.Status != storage.Creating {
		return nil
	}
	if l.m.closed {
		return storage.ErrClosed
	}
	err := l.mt.redefine(storage.Deleting, l.mt.def.Def)
	l.m.learn(l.mt)
	return err
}
