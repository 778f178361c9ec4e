// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/extenddb/extenddb/backupstore"
)

// Fault is something that goes wrong in calls of one method of a store.
type Fault struct {
	Method string // "Put", "Get", "Head", "List", "DeletePrefix", "Validate"
	Key    string // only calls whose key or prefix contains it
	Err    error  // nil: the call goes through, but counts
	Skip   int    // calls that go through first
	Times  int    // calls that fail then; 0 is once, negative is for ever
	// After is how much goes well before Err: bytes of the body in Put, bytes
	// read in Get, objects in List.
	After int
	// Lost: the call is carried out and its answer is lost; Err is returned.
	// Not of Get and List.
	Lost bool
	// Flip, of Get: the byte at offset After is read wrong.
	Flip bool
	// Truncate, of Get: the object ends at offset After.
	Truncate bool
	// Before, when set, runs in the call before anything else happens.
	Before func()
}

// Faulty wraps a store and makes calls fail as told. It is safe for concurrent
// use.
type Faulty struct {
	store backupstore.Store

	mu     sync.Mutex
	faults []*Fault
	calls  map[string]int
	open   int
}

var _ backupstore.Store = (*Faulty)(nil)

// NewFaulty returns a wrapper of s without faults.
func NewFaulty(s backupstore.Store) *Faulty { return &Faulty{store: s, calls: map[string]int{}} }

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

// Open tells how many objects that Get opened are not closed.
func (f *Faulty) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// next takes the fault of a call; the zero Fault when there is none.
func (f *Faulty) next(method, key string) Fault {
	f.mu.Lock()
	f.calls[method]++
	i := slices.IndexFunc(f.faults, func(x *Fault) bool {
		return x.Method == method && x.Times != 0 && strings.Contains(key, x.Key)
	})
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

// inject runs a call under a fault.
func inject[T any](hit Fault, call func() (T, error)) (T, error) {
	var zero T
	switch {
	case hit.Err == nil:
		return call()
	case hit.Lost:
		if _, err := call(); err != nil {
			return zero, err
		}
	}
	return zero, hit.Err
}

// Put implements backupstore.Store.
func (f *Faulty) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	hit := f.next("Put", key)
	if hit.Err != nil && hit.After > 0 && !hit.Lost {
		body, hit.Err = &spoiled{r: body, fault: hit}, nil
	}
	return inject(hit, func() (backupstore.PutResult, error) { return f.store.Put(ctx, key, body, o) })
}

// Get implements backupstore.Store.
func (f *Faulty) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	hit := f.next("Get", key)
	now := hit
	now.Lost = false // nobody would close what was opened
	if hit.After > 0 {
		now.Err = nil
	}
	r, err := inject(now, func() (io.ReadCloser, error) { return f.store.Get(ctx, key) })
	if err != nil {
		return nil, err
	}
	f.opened(1)
	return &reading{spoiled{r: r, fault: hit}, r, sync.OnceFunc(func() { f.opened(-1) })}, nil
}

func (f *Faulty) opened(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
}

// Head implements backupstore.Store.
func (f *Faulty) Head(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
	return inject(f.next("Head", key), func() (*backupstore.ObjectMeta, error) { return f.store.Head(ctx, key) })
}

// List implements backupstore.Store.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
	return func(yield func(backupstore.ObjectMeta, error) bool) {
		hit := f.next("List", prefix)
		n := 0
		if hit.Err == nil || hit.After > 0 {
			for meta, err := range f.store.List(ctx, prefix) {
				if !yield(meta, err) || err != nil {
					return
				}
				if n++; hit.Err != nil && n == hit.After {
					break
				}
			}
		}
		if hit.Err != nil {
			yield(backupstore.ObjectMeta{}, hit.Err)
		}
	}
}

// DeletePrefix implements backupstore.Store.
func (f *Faulty) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	return inject(f.next("DeletePrefix", prefix), func() (int, error) { return f.store.DeletePrefix(ctx, prefix) })
}

// Validate implements backupstore.Store.
func (f *Faulty) Validate(ctx context.Context) error {
	_, err := inject(f.next("Validate", ""), func() (any, error) { return nil, f.store.Validate(ctx) })
	return err
}

// spoiled is a reader under a fault.
type spoiled struct {
	r     io.Reader
	fault Fault
	n     int // bytes read
}

// Read implements io.Reader.
func (s *spoiled) Read(b []byte) (int, error) {
	ends := s.fault.Err != nil || s.fault.Truncate
	left := s.fault.After - s.n
	if ends && left <= 0 {
		if s.fault.Truncate {
			return 0, io.EOF
		}
		return 0, s.fault.Err
	}
	if ends && len(b) > left {
		b = b[:left]
	}
	n, err := s.r.Read(b)
	if s.fault.Flip && left >= 0 && left < n {
		b[left] ^= 1
	}
	s.n += n
	if s.fault.Err != nil && errors.Is(err, io.EOF) { // shorter than After: fails all the same
		err = s.fault.Err
	}
	return n, err
}

type reading struct {
	spoiled
	io.Closer
	closed func()
}

// Close implements io.Closer.
func (o *reading) Close() error {
	o.closed()
	return o.Closer.Close()
}
