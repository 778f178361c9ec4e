// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// patient does again what met a conflict, but only while the suite does several
// things at once: one alone never meets any.
type patient struct {
	storage.Engine
	busy *atomic.Int32 // how many times over
}

// maxConflicts is how often one call may meet others.
const maxConflicts = 1000

// again calls f until it meets no conflict.
func (p patient) again(f func() error) {
	for range maxConflicts {
		if err := f(); p.busy.Load() == 0 || !errors.Is(err, storage.ErrConflict) {
			return
		}
		runtime.Gosched()
	}
}

// Write implements storage.Writer.
func (p patient) Write(ctx context.Context, w storage.Write) (r storage.Result, err error) {
	p.again(func() error {
		r, err = p.Engine.Write(ctx, w)
		return err
	})
	return r, err
}

// WriteEach implements storage.Writer.
func (p patient) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	results := p.Engine.WriteEach(ctx, ws)
	for i := range results {
		if errors.Is(results[i].Err, storage.ErrConflict) && p.busy.Load() > 0 {
			results[i], _ = p.Write(ctx, ws[i])
		}
	}
	return results
}

// WriteAll implements storage.Writer.
func (p patient) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) (rs []storage.Result, err error) {
	p.again(func() error {
		rs, err = p.Engine.WriteAll(ctx, ws, token)
		return err
	})
	return rs, err
}

// CreateTable implements storage.Catalog.
func (p patient) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (t *storage.Table, err error) {
	p.again(func() error {
		t, err = p.Engine.CreateTable(ctx, account, def, at)
		return err
	})
	return t, err
}

// UpdateTable implements storage.Catalog.
func (p patient) UpdateTable(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (t *storage.Table, err error) {
	p.again(func() error {
		t, err = p.Engine.UpdateTable(ctx, account, name, change)
		return err
	})
	return t, err
}

// DropTable implements storage.Catalog.
func (p patient) DropTable(ctx context.Context, account, name string, check func(*storage.Table) error) (t *storage.Table, err error) {
	p.again(func() error {
		t, err = p.Engine.DropTable(ctx, account, name, check)
		return err
	})
	return t, err
}

// soon calls f again and again until it is done; false when that takes longer
// than what others do for a moment.
func (e *env) soon(f func() bool) bool {
	timeout, stop := clock.Real{}.After(cmp.Or(e.h.moment, 20*time.Second))
	defer stop()
	for {
		if f() {
			return true
		}
		next, stop := clock.Real{}.After(time.Millisecond)
		select {
		case <-next:
		case <-timeout:
			stop()
			return f()
		}
		stop()
	}
}
