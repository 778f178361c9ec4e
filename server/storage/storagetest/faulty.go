// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Fault is an error to be injected into calls of one method of an engine or of
// its leases.
type Fault struct {
	Method string // "Write", "Range", "Step" …
	Err    error  // nil: the call goes through, but counts
	Skip   int    // calls that go through first
	Times  int    // calls that fail then; 0 is once, negative is for ever
	// After, of Range and Rows: rows yielded before the error. Of any other method,
	// when not 0: the call is carried out and its answer is lost.
	After int
	// Before, when set, runs in the call before anything else happens.
	Before func()
}

// Faulty wraps an engine and makes calls fail as told. It is safe for
// concurrent use.
type Faulty struct {
	storage.Engine

	mu     sync.Mutex
	faults []*Fault
	calls  map[string]int
}

// NewFaulty returns a wrapper of e without faults.
func NewFaulty(e storage.Engine) *Faulty { return &Faulty{Engine: e, calls: map[string]int{}} }

// Inject adds faults; the first that fits a call is used.
func (f *Faulty) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range faults {
		if x.Times == 0 {
			x.Times = 1
		}
		f.faults = append(f.faults, &x)
	}
}

// Calls tells how often a method was called.
func (f *Faulty) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Unused lists the methods of faults that have not happened as often as told:
// a test that meant to meet them did not.
func (f *Faulty) Unused() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var methods []string
	for _, x := range f.faults {
		if x.Times > 0 {
			methods = append(methods, x.Method)
		}
	}
	return methods
}

// next takes the fault of a call; the zero Fault when there is none.
func (f *Faulty) next(method string) Fault {
	f.mu.Lock()
	f.calls[method]++
	i := slices.IndexFunc(f.faults, func(x *Fault) bool { return x.Method == method && x.Times != 0 })
	var hit Fault
	if i >= 0 {
		x := f.faults[i]
		if x.Skip > 0 {
			x.Skip--
		} else {
			hit = *x
			if x.Times > 0 {
				x.Times--
			}
		}
	}
	f.mu.Unlock()
	if hit.Before != nil {
		hit.Before()
	}
	return hit
}

// inject runs a call under the fault of its method.
func inject[T any](f *Faulty, method string, call func() (T, error)) (T, error) {
	hit := f.next(method)
	var zero T
	switch {
	case hit.Err == nil:
		return call()
	case hit.After != 0:
		if _, err := call(); err != nil {
			return zero, err
		}
	}
	return zero, hit.Err
}

// Ping implements storage.Lifecycle.
func (f *Faulty) Ping(ctx context.Context) error {
	_, err := inject(f, "Ping", func() (any, error) { return nil, f.Engine.Ping(ctx) })
	return err
}

// Close implements storage.Lifecycle.
func (f *Faulty) Close() error {
	_, err := inject(f, "Close", func() (any, error) { return nil, f.Engine.Close() })
	return err
}

// CreateTable implements storage.Catalog.
func (f *Faulty) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
	return inject(f, "CreateTable", func() (*storage.Table, error) { return f.Engine.CreateTable(ctx, account, def, at) })
}

// UpdateTable implements storage.Catalog.
func (f *Faulty) UpdateTable(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error) {
	return inject(f, "UpdateTable", func() (*storage.Table, error) { return f.Engine.UpdateTable(ctx, account, name, change) })
}

// Table implements storage.Catalog.
func (f *Faulty) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	return inject(f, "Table", func() (*storage.Table, error) { return f.Engine.Table(ctx, account, name) })
}

// Describe implements storage.Catalog.
func (f *Faulty) Describe(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
	var stats storage.Stats
	t, err := inject(f, "Describe", func() (t *storage.Table, err error) {
		t, stats, err = f.Engine.Describe(ctx, account, name)
		return t, err
	})
	return t, stats, err
}

// Tables implements storage.Catalog.
func (f *Faulty) Tables(ctx context.Context, account, after string, limit int) ([]string, bool, error) {
	var more bool
	names, err := inject(f, "Tables", func() (names []string, err error) {
		names, more, err = f.Engine.Tables(ctx, account, after, limit)
		return names, err
	})
	return names, more, err
}

// DropTable implements storage.Catalog.
func (f *Faulty) DropTable(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
	return inject(f, "DropTable", func() (*storage.Table, error) { return f.Engine.DropTable(ctx, account, name, check) })
}

// Write implements storage.Writer.
func (f *Faulty) Write(ctx context.Context, w storage.Write) (storage.Result, error) {
	r, err := inject(f, "Write", func() (storage.Result, error) { return f.Engine.Write(ctx, w) })
	if err != nil && r.Table == nil {
		r = storage.Result{Table: w.Table, Err: err}
	}
	return r, err
}

// WriteEach implements storage.Writer. A fault fails every write of the call.
func (f *Faulty) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	results, err := inject(f, "WriteEach", func() ([]storage.Result, error) { return f.Engine.WriteEach(ctx, ws), nil })
	if err != nil {
		results = make([]storage.Result, len(ws))
		for i, w := range ws {
			results[i] = storage.Result{Table: w.Table, Err: err}
		}
	}
	return results
}

// WriteAll implements storage.Writer.
func (f *Faulty) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
	return inject(f, "WriteAll", func() ([]storage.Result, error) { return f.Engine.WriteAll(ctx, ws, token) })
}

// Get implements storage.Reader.
func (f *Faulty) Get(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
	return inject(f, "Get", func() (*storage.Row, error) { return f.Engine.Get(ctx, t, k) })
}

// GetAll implements storage.Reader.
func (f *Faulty) GetAll(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error) {
	return inject(f, "GetAll", func() ([]*storage.Row, error) { return f.Engine.GetAll(ctx, ks, budget) })
}

// Range implements storage.Reader.
func (f *Faulty) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		f.rows("Range", f.Engine.Range(ctx, t, r), yield)
	}
}

// rows yields the rows of a sequence under the fault of its method.
func (f *Faulty) rows(method string, seq iter.Seq2[*storage.Row, error], yield func(*storage.Row, error) bool) {
	hit := f.next(method)
	n := 0
	if hit.Err == nil || hit.After > 0 {
		for row, err := range seq {
			if !yield(row, err) || err != nil {
				return
			}
			if n++; hit.Err != nil && n == hit.After {
				break
			}
		}
	}
	if hit.Err != nil {
		yield(nil, hit.Err)
	}
}

// Sample implements storage.Reader.
func (f *Faulty) Sample(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) ([]storage.Position, error) {
	return inject(f, "Sample", func() ([]storage.Position, error) { return f.Engine.Sample(ctx, t, ix, now) })
}

// Pending implements storage.Maintainer.
func (f *Faulty) Pending(ctx context.Context, now time.Time) ([]storage.Work, error) {
	return inject(f, "Pending", func() ([]storage.Work, error) { return f.Engine.Pending(ctx, now) })
}

// Claim implements storage.Maintainer. The lease has the faults of Step and
// Release.
func (f *Faulty) Claim(ctx context.Context, w storage.Work) (storage.Lease, error) {
	l, err := inject(f, "Claim", func() (storage.Lease, error) { return f.Engine.Claim(ctx, w) })
	if err != nil {
		return nil, err
	}
	return faultyLease{l, f}, nil
}

// OnWork implements storage.Maintainer. It cannot fail, but counts.
func (f *Faulty) OnWork(wake func()) {
	_ = f.next("OnWork")
	f.Engine.OnWork(wake)
}

type faultyLease struct {
	next storage.Lease
	f    *Faulty
}

// Step implements storage.Lease.
func (l faultyLease) Step(ctx context.Context, now time.Time) (storage.Progress, error) {
	return inject(l.f, "Step", func() (storage.Progress, error) { return l.next.Step(ctx, now) })
}

// Release implements storage.Lease.
func (l faultyLease) Release() error {
	_, err := inject(l.f, "Release", func() (any, error) { return nil, l.next.Release() })
	return err
}
