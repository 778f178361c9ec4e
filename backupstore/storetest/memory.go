// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// Memory is the reference store: it keeps objects in memory.
type Memory struct {
	// Now, when set, tells the time of a put. Otherwise time starts in 2026
	// and goes on by a millisecond with each put.
	Now func() time.Time

	mu      sync.Mutex
	objects map[string]object
	puts    int
}

type object struct {
	body []byte
	meta backupstore.ObjectMeta
}

var _ backupstore.Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{objects: map[string]object{}} }

// Put implements backupstore.Store.
func (m *Memory) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	var none backupstore.PutResult
	if err := errors.Join(backupstore.CheckKey(key), o.Check(), ctx.Err()); err != nil {
		return none, err
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return none, fmt.Errorf("put %s: read body: %w", key, err)
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, found := m.objects[key]
	switch {
	case o.IfAbsent && found:
		return none, fmt.Errorf("%w: %s", backupstore.ErrExists, key)
	case o.IfMatch != "" && o.IfMatch != old.meta.ETag:
		return none, fmt.Errorf("%w: %s", backupstore.ErrConflict, key)
	}
	m.puts++
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(m.puts) * time.Millisecond)
	if m.Now != nil {
		at = m.Now()
	}
	meta := backupstore.ObjectMeta{Key: key, ETag: strconv.Itoa(m.puts), Size: int64(len(b)), LastModified: at}
	m.objects[key] = object{b, meta}
	return backupstore.PutResult{ETag: meta.ETag, Size: meta.Size}, nil
}

// Get implements backupstore.Store.
func (m *Memory) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := errors.Join(backupstore.CheckKey(key), ctx.Err()); err != nil {
		return nil, err
	}
	o, found := m.object(key)
	if !found {
		return nil, fmt.Errorf("%w: %s", backupstore.ErrNotFound, key)
	}
	return io.NopCloser(&untilDone{bytes.NewReader(o.body), ctx.Err}), nil
}

// untilDone reads until a context ends.
type untilDone struct {
	r   io.Reader
	end func() error
}

// Read implements io.Reader.
func (u *untilDone) Read(b []byte) (int, error) {
	if err := u.end(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

func (m *Memory) object(key string) (object, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, found := m.objects[key]
	return o, found
}

// Head implements backupstore.Store.
func (m *Memory) Head(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
	if err := errors.Join(backupstore.CheckKey(key), ctx.Err()); err != nil {
		return nil, err
	}
	o, found := m.object(key)
	if !found {
		return nil, nil
	}
	return &o.meta, nil
}

// keys returns the keys under a clean prefix, in order.
func (m *Memory) keys(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.objects)),
		func(key string) bool { return !backupstore.HasPrefix(key, prefix) })
}

// List implements backupstore.Store.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
	return func(yield func(backupstore.ObjectMeta, error) bool) {
		clean, err := backupstore.CleanPrefix(prefix)
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(backupstore.ObjectMeta{}, err)
			return
		}
		for _, key := range m.keys(clean) {
			if err := ctx.Err(); err != nil {
				yield(backupstore.ObjectMeta{}, err)
				return
			}
			if o, found := m.object(key); found && !yield(o.meta, nil) {
				return
			}
		}
	}
}

// DeletePrefix implements backupstore.Store.
func (m *Memory) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	clean, err := backupstore.CleanPrefix(prefix)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.objects)
	maps.DeleteFunc(m.objects, func(key string, _ object) bool { return backupstore.HasPrefix(key, clean) })
	return before - len(m.objects), nil
}

// Validate implements backupstore.Store.
func (m *Memory) Validate(ctx context.Context) error { return ctx.Err() }

// Tamper changes the bytes of an object behind the back of its readers; it
// reports whether there is such an object. The size is that of the new bytes.
func (m *Memory) Tamper(key string, change func(body []byte) []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, found := m.objects[key]
	if found {
		o.body = change(slices.Clone(o.body))
		o.meta.Size = int64(len(o.body))
		m.objects[key] = o
	}
	return found
}
