// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// loadBench is a bench with a load under way.
type loadBench struct {
	*bench
	l    storage.Loading          // checked
	stub *storagetest.StubLoading // what it wraps
}

func newLoadBench(t *testing.T) *loadBench {
	t.Helper()
	b := &loadBench{bench: newBench(t)}
	b.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
		l, err := b.Engine.Load(ctx, account, def, at)
		b.stub = &storagetest.StubLoading{Loading: l}
		return b.stub, err
	}
	def := definition()
	def.TableName = "loaded"
	var err error
	if b.l, err = b.c.Load(t.Context(), "0", def, now); err != nil {
		t.Fatal(err)
	}
	return b
}

// row is a row to load, changed.
func (b *loadBench) row(sk string, changes ...func(*storage.LoadRow)) storage.LoadRow {
	next, err := storage.Derive(b.l.Table(), row(sk))
	if err != nil {
		panic(err)
	}
	r := storage.LoadRow{Key: b.key(sk), Next: next}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func (b *loadBench) add(rows ...storage.LoadRow) error { return b.l.Add(context.Background(), rows) }

// TestCheckedLoadRefusesCallers: an invalid call is told of, and does not
// reach the engine.
func TestCheckedLoadRefusesCallers(t *testing.T) {
	t.Parallel()
	entry := func(change func(*storage.Entry)) func(b *loadBench) error {
		return func(b *loadBench) error {
			return b.add(b.row("1"), b.row("2", func(r *storage.LoadRow) {
				r.Next.Entries = slices.Clone(r.Next.Entries)
				change(&r.Next.Entries[0])
			}))
		}
	}
	for name, do := range map[string]func(b *loadBench) error{
		"without account": func(b *loadBench) error { _, err := b.c.Load(t.Context(), "", definition(), now); return err },
		"without instant": func(b *loadBench) error { _, err := b.c.Load(t.Context(), "0", definition(), time.Time{}); return err },
		"without keys": func(b *loadBench) error {
			_, err := b.c.Load(t.Context(), "0", ddb.TableDefinition{TableName: "x"}, now)
			return err
		},
		"no key":      func(b *loadBench) error { return b.add(b.row("1", func(r *storage.LoadRow) { r.Key.PK = nil })) },
		"no sort key": func(b *loadBench) error { return b.add(b.row("1", func(r *storage.LoadRow) { r.Key.SK = nil })) },
		"no row":      func(b *loadBench) error { return b.add(b.row("1", func(r *storage.LoadRow) { r.Next = nil })) },
		"unchanged": func(b *loadBench) error {
			return b.add(b.row("1", func(r *storage.LoadRow) { r.Next = storage.Unchanged }))
		},
		"no item":                func(b *loadBench) error { return b.add(b.row("1", func(r *storage.LoadRow) { r.Next.Item = nil })) },
		"no size":                func(b *loadBench) error { return b.add(b.row("1", func(r *storage.LoadRow) { r.Next.Size = 0 })) },
		"entry of another index": entry(func(e *storage.Entry) { e.Index = 77 }),
		"entry of the table":     entry(func(e *storage.Entry) { e.Index = 0 }),
		"entry without P":        entry(func(e *storage.Entry) { e.P = nil }),
		"entry without S":        entry(func(e *storage.Entry) { e.S = nil }),
		"entry without size":     entry(func(e *storage.Entry) { e.Size = 0 }),
		"two entries": func(b *loadBench) error {
			return b.add(b.row("1", func(r *storage.LoadRow) { r.Next.Entries = append(r.Next.Entries, r.Next.Entries[0]) }))
		},
		"add after finish": func(b *loadBench) error { return errors.Join(b.l.Finish(t.Context(), nil), b.add(b.row("1"))) },
		"add after abort":  func(b *loadBench) error { return errors.Join(b.l.Abort(), b.add(b.row("1"))) },
		"finish after finish": func(b *loadBench) error {
			return errors.Join(b.l.Finish(t.Context(), nil), b.l.Finish(t.Context(), nil))
		},
		"finish after abort": func(b *loadBench) error { return errors.Join(b.l.Abort(), b.l.Finish(t.Context(), nil)) },
		"add after an error": func(b *loadBench) error {
			if err := b.add(b.row("1"), b.row("1")); !errors.As(err, new(*storage.DuplicateKey)) {
				return err
			}
			return b.add(b.row("2"))
		},
		"finish after an error": func(b *loadBench) error {
			b.stub.OnAdd = func(context.Context, []storage.LoadRow) error { return storage.ErrUnavailable }
			if err := b.add(b.row("1")); !errors.Is(err, storage.ErrUnavailable) {
				return err
			}
			return b.l.Finish(t.Context(), nil)
		},
		"two goroutines": func(b *loadBench) (err error) {
			b.stub.OnAdd = func(context.Context, []storage.LoadRow) error {
				err = b.l.Finish(t.Context(), nil)
				return nil
			}
			return errors.Join(b.add(b.row("1")), err)
		},
		"abort by another goroutine": func(b *loadBench) (err error) {
			b.stub.OnAdd = func(context.Context, []storage.LoadRow) error {
				err = b.l.Abort()
				return nil
			}
			return errors.Join(b.add(b.row("1")), err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLoadBench(t)
			if err := do(b); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			if len(b.told) != 1 || !strings.Contains(b.told[0], "invalid call") {
				t.Errorf("reported %q", b.told)
			}
			if err := b.l.Abort(); err != nil {
				t.Errorf("abort: %v", err)
			}
		})
	}
}

// TestCheckedLoadFindsEngines: what an engine does wrong in a load is told of.
func TestCheckedLoadFindsEngines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(b *loadBench) error
		want string
	}{
		"table exists, but which": {func(b *loadBench) error {
			b.OnLoad = func(context.Context, string, ddb.TableDefinition, time.Time) (storage.Loading, error) {
				return nil, storage.ErrTableExists
			}
			_, err := b.c.Load(t.Context(), "0", definition(), now)
			return err
		}, "Load: ErrTableExists without the table"},
		"unlisted error of Load": {func(b *loadBench) error {
			b.OnLoad = func(context.Context, string, ddb.TableDefinition, time.Time) (storage.Loading, error) {
				return nil, errStrange
			}
			_, err := b.c.Load(t.Context(), "0", definition(), now)
			return err
		}, "Load: unlisted error: strange"},
		"table is ACTIVE": {func(b *loadBench) error {
			b.stub.OnTable = func() *storage.Table { return b.t }
			b.l.Table()
			return nil
		}, "Loading.Table: table is not CREATING"},
		"another table": {func(b *loadBench) error {
			b.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
				return b.stub, nil
			}
			def := definition()
			def.TableName = "third"
			l, err := b.c.Load(t.Context(), "0", def, now)
			return errors.Join(err, l.Abort())
		}, "Load: "},
		"unlisted error of Add": {func(b *loadBench) error {
			b.stub.OnAdd = func(context.Context, []storage.LoadRow) error { return storage.ErrTooManyTables }
			return b.add(b.row("1"))
		}, "Add: unlisted error: too many tables"},
		"duplicate of nothing": {func(b *loadBench) error {
			b.stub.OnAdd = func(context.Context, []storage.LoadRow) error { return &storage.DuplicateKey{Row: 1} }
			return b.add(b.row("1"))
		}, "Add: duplicate 1 of 1 rows"},
		"unlisted error of Finish": {func(b *loadBench) error {
			b.stub.OnFinish = func(context.Context, func(done, total int64)) error { return errStrange }
			return b.l.Finish(t.Context(), nil)
		}, "Finish: unlisted error: strange"},
		"progress goes back": {func(b *loadBench) error {
			b.stub.OnFinish = func(_ context.Context, progress func(done, total int64)) error {
				progress(2, 3)
				progress(1, 3)
				return nil
			}
			return b.l.Finish(t.Context(), nil)
		}, "Finish: progress 1 of 3 after 2"},
		"progress beyond": {func(b *loadBench) error {
			b.stub.OnFinish = func(_ context.Context, progress func(done, total int64)) error {
				progress(4, 3)
				return nil
			}
			return b.l.Finish(t.Context(), nil)
		}, "Finish: progress 4 of 3"},
		"progress afterwards": {func(b *loadBench) error {
			var late func(done, total int64)
			b.stub.OnFinish = func(_ context.Context, progress func(done, total int64)) error {
				late = progress
				return nil
			}
			err := b.l.Finish(t.Context(), nil)
			late(1, 1)
			return err
		}, "Finish: progress 1 of 1"},
		"unlisted error of Abort": {func(b *loadBench) error {
			b.stub.OnAbort = func() error { return errStrange }
			return b.l.Abort()
		}, "Abort: unlisted error: strange"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLoadBench(t)
			if err := c.do(b); errors.Is(err, errStrange) || errors.Is(err, storage.ErrTooManyTables) {
				t.Errorf("unlisted error gets out: %v", err)
			}
			if !slices.ContainsFunc(b.told, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("reported %q, want %q", b.told, c.want)
			}
		})
	}
}

// TestCheckedLoadPasses: listed errors and good calls go through without a
// report, and progress is told on.
func TestCheckedLoadPasses(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t)
	if _, err := b.c.Load(t.Context(), "0", definition(), now); !errors.Is(err, storage.ErrTableExists) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(b.add(b.row("1"), b.row("2")), b.add()); err != nil {
		t.Fatal(err)
	}
	told := 0
	if err := b.l.Finish(t.Context(), func(int64, int64) { told++ }); err != nil || told == 0 {
		t.Fatalf("error %v, progress told %d times", err, told)
	}
	if err := errors.Join(b.l.Abort(), b.l.Abort()); err != nil {
		t.Error(err)
	}
	for _, listed := range []error{storage.ErrTableNotFound, storage.ErrUnavailable, storage.ErrCorrupt, storage.ErrClosed} {
		b := newLoadBench(t)
		b.stub.OnFinish = func(context.Context, func(done, total int64)) error { return listed }
		if err := b.l.Finish(t.Context(), nil); !errors.Is(err, listed) {
			t.Errorf("error %v, want %v", err, listed)
		}
		if err := b.l.Abort(); err != nil || len(b.told) != 0 {
			t.Errorf("abort: %v, reported %q", err, b.told)
		}
	}
	if len(b.told) != 0 {
		t.Errorf("reported %q", b.told)
	}
}

// TestCheckedLoadPoisons: an engine that keeps what Add was given keeps
// rubbish; the caller's rows are untouched.
func TestCheckedLoadPoisons(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t)
	var kept []storage.LoadRow
	b.stub.OnAdd = func(_ context.Context, rows []storage.LoadRow) error {
		kept = rows
		return nil
	}
	mine, like := b.row("1"), b.row("1")
	if err := b.add(mine); err != nil {
		t.Fatal(err)
	}
	r := kept[0]
	for _, part := range [][]byte{r.Key.PK, r.Key.SK, r.Next.Item, r.Next.Entries[0].P} {
		if len(part) == 0 || len(bytes.Trim(part, "\xDB")) != 0 {
			t.Errorf("%q is still there", part)
		}
	}
	if !mine.Key.Equal(like.Key) || !bytes.Equal(mine.Next.Item, like.Next.Item) || !bytes.Equal(mine.Next.Entries[0].P, like.Next.Entries[0].P) {
		t.Errorf("the caller's row is %+v", mine)
	}
}

// TestCheckedLoadLeaks: a load that is neither finished nor aborted when the
// engine is closed is told of, one that failed too.
func TestCheckedLoadLeaks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(b *loadBench) error
		leak bool
	}{
		"open":     {func(b *loadBench) error { return b.add(b.row("1")) }, true},
		"failed":   {func(b *loadBench) error { _ = b.add(b.row("1"), b.row("1")); return nil }, true},
		"finished": {func(b *loadBench) error { return b.l.Finish(t.Context(), nil) }, false},
		"aborted":  {func(b *loadBench) error { return b.l.Abort() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLoadBench(t)
			if err := errors.Join(c.do(b), b.c.Close()); err != nil {
				t.Fatal(err)
			}
			if leak := len(b.told) == 1 && strings.Contains(b.told[0], "load of table loaded was not closed"); leak != c.leak || len(b.told) > 1 {
				t.Errorf("reported %q", b.told)
			}
		})
	}
}
