// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// snapshots lets the engine open changed snapshots.
func (b *bench) snapshots(change func(s *storagetest.StubSnapshot)) {
	b.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
		s, err := b.Engine.Snapshot(ctx, account, table)
		if err != nil {
			return nil, err
		}
		x := &storagetest.StubSnapshot{Snapshot: s}
		change(x)
		return x, nil
	}
}

// read opens a snapshot through the wrapper, reads all of it, also beyond an
// error, and closes it.
func (b *bench) read(ctx context.Context) error {
	s, err := b.c.Snapshot(ctx, "0", "t")
	if err != nil {
		return err
	}
	for row, rerr := range s.Rows(ctx) {
		if rerr != nil {
			err = rerr
		} else if len(row.Item) == 0 {
			err = errors.New("no item")
		}
	}
	return errors.Join(err, s.Close())
}

// TestCheckedSnapshotIsSound: the wrapper finds nothing where nothing is wrong.
func TestCheckedSnapshotIsSound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := b.c.Snapshot(t.Context(), "0", "missing")
	if !errors.Is(err, storage.ErrTableNotFound) {
		t.Error(err)
	}
	for _, listed := range []error{storage.ErrTableNotActive, storage.ErrTooManySnapshots, storage.ErrUnsupported, storage.ErrClosed, storage.ErrCorrupt} {
		b.OnSnapshot = func(context.Context, string, string) (storage.Snapshot, error) { return nil, listed }
		if err := b.read(t.Context()); !errors.Is(err, listed) {
			t.Errorf("%v became %v", listed, err)
		}
	}
	b.snapshots(func(s *storagetest.StubSnapshot) { s.OnRows = failing(storage.ErrSnapshotExpired) })
	if err := b.read(t.Context()); !errors.Is(err, storage.ErrSnapshotExpired) {
		t.Error(err)
	}
	if len(b.told) > 0 {
		t.Errorf("reported %q", b.told)
	}
}

func failing(err error) func(context.Context) iter.Seq2[*storage.Row, error] {
	return func(context.Context) iter.Seq2[*storage.Row, error] {
		return func(yield func(*storage.Row, error) bool) { yield(nil, err) }
	}
}

// yielding is a snapshot of these rows.
func yielding(rows ...*storage.Row) func(*storagetest.StubSnapshot) {
	return func(s *storagetest.StubSnapshot) {
		s.OnRows = func(context.Context) iter.Seq2[*storage.Row, error] {
			return func(yield func(*storage.Row, error) bool) {
				for _, r := range rows {
					if !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// TestCheckedSnapshotBreaches: what an engine may do wrong with snapshots.
func TestCheckedSnapshotBreaches(t *testing.T) {
	t.Parallel()
	changed := func(b *bench, change func(r *storage.Row)) *storage.Row {
		r := b.stored("2")
		change(r)
		return r
	}
	long := ddb.Item{"pk": ddb.String(strings.Repeat("p", 400)), "sk": ddb.String("2")}
	for _, c := range []struct {
		name   string
		damage func(b *bench) func(s *storagetest.StubSnapshot)
		want   string // in the report
		err    error  // that the caller sees
	}{
		{"no table", func(*bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) { s.OnTable = func() *storage.Table { return nil } }
		}, "no table and no error", storage.ErrCorrupt},
		{"deleting", func(b *bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) {
				tab := *b.t
				tab.Status = storage.Deleting
				s.OnTable = func() *storage.Table { return &tab }
			}
		}, "table is DELETING", nil},
		{"no marker", func(*bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) { s.OnMarker = func() (kind, value string) { return "", "x" } }
		}, "marker has no kind", nil},
		{"order", func(b *bench) func(*storagetest.StubSnapshot) { return yielding(b.stored("2"), b.stored("1")) }, "out of order", nil},
		{"twice", func(b *bench) func(*storagetest.StubSnapshot) { return yielding(b.stored("2"), b.stored("2")) }, "out of order", nil},
		{"no version", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) { r.Ver = 0 }))
		}, "incomplete", nil},
		{"no size", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) { r.Size = 0 }))
		}, "incomplete", nil},
		{"an index", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) { r.S = []byte{} }))
		}, "incomplete", nil},
		{"unreadable", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) { r.Item = []byte("{") }))
		}, "cannot be read", nil},
		{"another key", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) { r.Key = b.key("3") }))
		}, "not that of the item", nil},
		{"no key", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) { r.Item = []byte(`{"a":{"S":"b"}}`) }))
		}, "not one of the definition", nil},
		{"a shortened key", func(b *bench) func(*storagetest.StubSnapshot) {
			return yielding(changed(b, func(r *storage.Row) {
				r.Key, _ = b.t.KeyOf(long)
				r.Item = ddb.AppendItem(nil, long)
			}))
		}, "tells no order", nil},
		{"unlisted", func(*bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) { s.OnRows = failing(storage.ErrStale) }
		}, "unlisted error", storage.ErrCorrupt},
		{"a row and an error", func(b *bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) {
				s.OnRows = func(context.Context) iter.Seq2[*storage.Row, error] {
					return func(yield func(*storage.Row, error) bool) { yield(b.stored("1"), storage.ErrCorrupt) }
				}
			}
		}, "a row and an error", storage.ErrCorrupt},
		{"beyond an error", func(b *bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) {
				s.OnRows = func(context.Context) iter.Seq2[*storage.Row, error] {
					return func(yield func(*storage.Row, error) bool) {
						_ = yield(nil, storage.ErrUnavailable) && yield(b.stored("1"), nil)
					}
				}
			}
		}, "goes on after an error", storage.ErrUnavailable},
		{"closing", func(*bench) func(*storagetest.StubSnapshot) {
			return func(s *storagetest.StubSnapshot) { s.OnClose = func() error { return errors.New("odd") } }
		}, "Snapshot.Close: unlisted error: odd", storage.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.snapshots(c.damage(b))
			if err := b.read(t.Context()); !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if len(b.told) != 1 || !strings.Contains(b.told[0], c.want) {
				t.Errorf("reported %q, want %q", b.told, c.want)
			}
		})
	}
}

// TestCheckedSnapshotMistakes: what a caller may do wrong.
func TestCheckedSnapshotMistakes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, err := b.c.Snapshot(t.Context(), "0", "t")
	if err != nil {
		t.Fatal(err)
	}
	rows := s.Rows(t.Context())
	var kept []*storage.Row
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, row)
	}
	if len(kept) != 3 || kept[0].Item[0] != 0xDB || kept[2].Key.PK[0] != 0xDB {
		t.Errorf("%d rows that are still valid: %v", len(kept), kept)
	}
	for _, again := range []iter.Seq2[*storage.Row, error]{rows, s.Rows(t.Context())} {
		for _, err := range again {
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("read twice: %v", err)
			}
		}
	}
	if err := b.c.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"read twice", "read twice", "snapshot of table t was not closed"}
	if len(b.told) != len(want) {
		t.Fatalf("reported %q", b.told)
	}
	for i := range want {
		if !strings.Contains(b.told[i], want[i]) {
			t.Errorf("reported %q, want %q", b.told[i], want[i])
		}
	}
}
