// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
)

// CheckOptions say what Checked does beside checking.
type CheckOptions struct {
	// Report is called with every breach of the contract, by the caller (an
	// ErrInvalid) or by the engine. Tests fail in it. nil: breaches show in
	// the returned errors only.
	Report func(breach error)
	// Poison overwrites every buffer once the contract says that it is no
	// longer valid: rows after the next one is yielded, the row of a Decide
	// after it returned.
	Poison bool
}

// Checked wraps an engine in the contract: it refuses invalid calls with
// ErrInvalid, lets only listed errors out (any other becomes an ErrCorrupt
// that hides it), checks what the engine answers, and at Close reports every
// lease that was not released, iterator that was not ended, snapshot that was
// not closed and load that was neither finished nor aborted.
func Checked(e Engine, o CheckOptions) Engine {
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return &checked{next: e, o: o, open: map[*handle]struct{}{}}
}

type checked struct {
	next Engine
	o    CheckOptions

	horizon atomic.Int64 // the greatest seen

	mu   sync.Mutex
	open map[*handle]struct{} // leases, iterators, snapshots, loads
}

// iterator is how the name of one begins.
const iterator = "iterator over "

// handle is something the caller must close.
type handle struct {
	what string
	free chan struct{} // closed when it is
}

func (c *checked) hold(what string) *handle {
	h := &handle{what, make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[h] = struct{}{}
	return h
}

// free notes that h was given back; doing so again changes nothing.
func (c *checked) free(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.open[h]; held {
		delete(c.open, h)
		close(h.free)
	}
}

// invalid reports a mistake of the caller.
func (c *checked) invalid(call, format string, args ...any) error {
	err := fmt.Errorf("%w: %s: %s", ErrInvalid, call, fmt.Sprintf(format, args...))
	c.o.Report(err)
	return err
}

// breach reports a mistake of the engine.
func (c *checked) breach(call, format string, args ...any) {
	c.o.Report(fmt.Errorf("engine breaks the contract: %s: %s", call, fmt.Sprintf(format, args...)))
}

// always may be returned by every call.
func always() []error { return []error{ErrClosed, ErrUnavailable, ErrCorrupt} }

// changing may be returned, in addition, by every call that changes something.
func changing(more ...error) []error { return append(more, ErrConflict, ErrInDoubt) }

// filter lets err pass when it is one of those listed, of the context, or
// passed says so.
func (c *checked) filter(ctx context.Context, call string, err error, listed ...error) error {
	if err == nil {
		return nil
	}
	for _, l := range append(always(), listed...) {
		if errors.Is(err, l) {
			return err
		}
	}
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return err
	}
	c.breach(call, "unlisted error: %v", err)
	return fmt.Errorf("%w: %s: unexpected error: %v", ErrCorrupt, call, err) //nolint:errorlint // what is not listed must not get out
}

// Ping implements Lifecycle.
func (c *checked) Ping(ctx context.Context) error {
	return c.filter(ctx, "Ping", c.next.Ping(ctx))
}

// Close implements Lifecycle.
func (c *checked) Close() error {
	err := c.next.Close() // waits for iterators that others still run
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range c.open {
		c.o.Report(fmt.Errorf("%w: Close: %s was not closed", ErrInvalid, h.what))
	}
	clear(c.open)
	return c.filter(context.Background(), "Close", err)
}

// settle waits for iterators that the engine has seen to their end, but that
// are not yet out of here. One that the engine did not wait for is not, either.
func (c *checked) settle() {
	c.mu.Lock()
	iterators := slices.DeleteFunc(slices.Collect(maps.Keys(c.open)), func(h *handle) bool { return !strings.HasPrefix(h.what, iterator) })
	c.mu.Unlock()
	timeout, stop := clock.Real{}.After(time.Second)
	defer stop()
	for _, h := range iterators {
		select {
		case <-h.free:
		case <-timeout:
			return
		}
	}
}

// CreateTable implements Catalog.
func (c *checked) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*Table, error) {
	const call = "CreateTable"
	if err := c.checkNew(call, account, def, at); err != nil {
		return nil, err
	}
	t, err := c.next.CreateTable(ctx, account, def, at)
	c.checkExists(call, err)
	if err == nil {
		c.checkTable(call, t, account, def.TableName)
	}
	return t, c.filter(ctx, call, err, changing(ErrTableExists, ErrTooManyTables)...)
}

// checkNew checks what is asked of a new table.
func (c *checked) checkNew(call, account string, def ddb.TableDefinition, at time.Time) error {
	n := len(def.GlobalSecondaryIndexes) + len(def.LocalSecondaryIndexes)
	if _, err := NewTable(Table{Account: account, Def: def}, make([]IndexID, n)); err != nil {
		return c.invalid(call, "%v", err)
	}
	if account == "" || def.TableName == "" || at.IsZero() {
		return c.invalid(call, "account %q, table %q, instant %v", account, def.TableName, at)
	}
	return nil
}

// checkExists: an ErrTableExists carries the table.
func (c *checked) checkExists(call string, err error) {
	var exists *TableExists
	if errors.Is(err, ErrTableExists) && (!errors.As(err, &exists) || exists.Table == nil) {
		c.breach(call, "ErrTableExists without the table: %v", err)
	}
}

// checkTable checks a definition the engine returned.
func (c *checked) checkTable(call string, t *Table, account, name string) {
	switch {
	case t == nil:
		c.breach(call, "no table and no error")
	case t.Account != account || t.Name() != name:
		c.breach(call, "table %q of %q instead of %q of %q", t.Name(), t.Account, name, account)
	case t.ID == 0 || t.UUID == "" || t.Version == 0 || t.Created.Location() != time.UTC ||
		(t.Status != Active && t.Status != Deleting && t.Status != Creating):
		c.breach(call, "incomplete table %+v", t)
	}
}

// UpdateTable implements Catalog.
func (c *checked) UpdateTable(ctx context.Context, account, name string, change func(*Table) (ddb.TableDefinition, error)) (*Table, error) {
	const call = "UpdateTable"
	if change == nil {
		return nil, c.invalid(call, "no change")
	}
	var refused error
	t, err := c.next.UpdateTable(ctx, account, name, func(t *Table) (ddb.TableDefinition, error) {
		c.checkTable(call, t, account, name)
		def, err := change(t)
		if err == nil && !sameShape(t.Def, def) {
			err = c.invalid(call, "change alters name, keys or indexes")
		}
		refused = err
		return def, err
	})
	if err == nil {
		c.checkTable(call, t, account, name)
	}
	return t, c.filter(ctx, call, err, changing(ErrTableNotFound, refused)...)
}

// sameShape tells whether an update keeps what it must keep.
func sameShape(a, b ddb.TableDefinition) bool {
	sameIndex := func(x, y ddb.IndexDefinition) bool {
		return x.IndexName == y.IndexName && slices.Equal(x.KeySchema, y.KeySchema)
	}
	return a.TableName == b.TableName && slices.Equal(a.KeySchema, b.KeySchema) &&
		slices.EqualFunc(a.GlobalSecondaryIndexes, b.GlobalSecondaryIndexes, sameIndex) &&
		slices.EqualFunc(a.LocalSecondaryIndexes, b.LocalSecondaryIndexes, sameIndex)
}

// Table implements Catalog.
func (c *checked) Table(ctx context.Context, account, name string) (*Table, error) {
	t, err := c.next.Table(ctx, account, name)
	if err == nil {
		c.checkTable("Table", t, account, name)
	}
	return t, c.filter(ctx, "Table", err, ErrTableNotFound)
}

// Describe implements Catalog.
func (c *checked) Describe(ctx context.Context, account, name string) (*Table, Stats, error) {
	t, stats, err := c.next.Describe(ctx, account, name)
	if err == nil {
		c.checkTable("Describe", t, account, name)
	}
	return t, stats, c.filter(ctx, "Describe", err, ErrTableNotFound)
}

// Tables implements Catalog.
func (c *checked) Tables(ctx context.Context, account, after string, limit int) ([]string, bool, error) {
	const call = "Tables"
	if limit < 1 {
		return nil, false, c.invalid(call, "limit %d", limit)
	}
	names, more, err := c.next.Tables(ctx, account, after, limit)
	switch {
	case len(names) > limit, more && len(names) < limit:
		c.breach(call, "%d names for limit %d, more %v", len(names), limit, more)
	case !slices.IsSorted(names), len(names) > 0 && names[0] <= after:
		c.breach(call, "names %q are not in order after %q", names, after)
	}
	return names, more, c.filter(ctx, call, err)
}

// DropTable implements Catalog.
func (c *checked) DropTable(ctx context.Context, account, name string, check func(*Table) error) (*Table, error) {
	const call = "DropTable"
	if check == nil {
		return nil, c.invalid(call, "no check")
	}
	var refused error
	t, err := c.next.DropTable(ctx, account, name, func(t *Table) error {
		c.checkTable(call, t, account, name)
		refused = check(t)
		return refused
	})
	if err == nil {
		c.checkTable(call, t, account, name)
		if t != nil && t.Status != Deleting {
			c.breach(call, "table is %s", t.Status)
		}
	}
	return t, c.filter(ctx, call, err, changing(ErrTableNotFound, refused)...)
}

// Pending implements Maintainer.
func (c *checked) Pending(ctx context.Context, now time.Time) ([]Work, error) {
	ws, err := c.next.Pending(ctx, now)
	for _, w := range ws {
		if !w.complete() {
			c.breach("Pending", "incomplete work %+v", w)
		}
	}
	return ws, c.filter(ctx, "Pending", err)
}

// complete reports whether w names all it needs and no more.
func (w Work) complete() bool {
	switch w.Kind {
	case TableDrop, Statistics:
		return w.Table != 0 && w.Account != "" && w.Name != ""
	case TokenExpiry, RecordTrim:
		return w == Work{Kind: w.Kind}
	}
	return false
}

// Claim implements Maintainer.
func (c *checked) Claim(ctx context.Context, w Work) (Lease, error) {
	if !w.complete() {
		return nil, c.invalid("Claim", "incomplete work %+v", w)
	}
	l, err := c.next.Claim(ctx, w)
	if err != nil {
		return nil, c.filter(ctx, "Claim", err, ErrClaimed, ErrNoWork)
	}
	what := "lease of " + w.Kind.String()
	if w.Table != 0 {
		what += fmt.Sprintf(" on %q", w.Name)
	}
	return &checkedLease{l, c, c.hold(what)}, nil
}

// OnWork implements Maintainer.
func (c *checked) OnWork(wake func()) { c.next.OnWork(wake) }

type checkedLease struct {
	next Lease
	c    *checked
	h    *handle
}

// Step implements Lease.
func (l *checkedLease) Step(ctx context.Context, now time.Time) (Progress, error) {
	l.c.mu.Lock()
	_, held := l.c.open[l.h]
	l.c.mu.Unlock()
	if !held {
		return Progress{}, l.c.invalid("Step", "%s is released", l.h.what)
	}
	p, err := l.next.Step(ctx, now)
	if p.Done < 0 || p.Total != 0 && p.Done > p.Total {
		l.c.breach("Step", "progress %+v", p)
	}
	return p, l.c.filter(ctx, "Step", err, changing(ErrNoWork, ErrHeld)...)
}

// Release implements Lease.
func (l *checkedLease) Release() error {
	l.c.free(l.h)
	return l.c.filter(context.Background(), "Release", l.next.Release())
}
