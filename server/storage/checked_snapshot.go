// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// Snapshot implements Snapshotter.
func (c *checked) Snapshot(ctx context.Context, account, table string) (Snapshot, error) {
	const call = "Snapshot"
	s, err := c.next.Snapshot(ctx, account, table)
	if err != nil {
		return nil, c.filter(ctx, call, err, ErrTableNotFound, ErrTableNotActive, ErrTooManySnapshots, ErrUnsupported)
	}
	t := s.Table()
	if c.checkTable(call, t, account, table); t == nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: no table", ErrCorrupt, call), s.Close())
	}
	w := &checkedSnapshot{next: s, c: c, h: c.hold("snapshot of table " + table)}
	if t.Status != Active {
		c.breach(call, "table is %s", t.Status)
	}
	if kind, _ := s.Marker(); kind == "" {
		c.breach(call, "the marker has no kind")
	}
	return w, nil
}

// checkedSnapshot is a snapshot under observation.
type checkedSnapshot struct {
	next Snapshot
	c    *checked
	h    *handle
	read atomic.Bool
}

// Table implements Snapshot.
func (s *checkedSnapshot) Table() *Table { return s.next.Table() }

// Marker implements Snapshot.
func (s *checkedSnapshot) Marker() (kind, value string) { return s.next.Marker() }

// KeyOrdered implements Snapshot.
func (s *checkedSnapshot) KeyOrdered() bool { return s.next.KeyOrdered() }

// Close implements Snapshot.
func (s *checkedSnapshot) Close() error {
	s.c.free(s.h)
	return s.c.filter(context.Background(), "Snapshot.Close", s.next.Close())
}

// Rows implements Snapshot.
func (s *checkedSnapshot) Rows(ctx context.Context) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		if !s.read.CompareAndSwap(false, true) {
			yield(nil, s.c.invalid("Rows", "%s is read twice", s.h.what))
			return
		}
		s.iterate(ctx, yield)
	}
}

func (s *checkedSnapshot) iterate(ctx context.Context, yield func(*Row, error) bool) {
	const call = "Rows"
	var last *Position // of the row before
	failed := false
	for row, err := range s.next.Rows(ctx) {
		switch {
		case failed:
			s.c.breach(call, "goes on after an error")
			return
		case err != nil && row != nil:
			s.c.breach(call, "a row and an error: %v", err)
		}
		if err != nil {
			failed = true
			if !yield(nil, s.c.filter(ctx, call, err, ErrSnapshotExpired)) {
				return
			}
			continue
		}
		if problem := s.problem(row, last); problem != "" {
			s.c.breach(call, "row %x: %s", row.Key, problem)
		}
		pos := row.Clone().Position()
		last = &pos
		if s.c.o.Poison {
			row = row.Clone() // the engine's own bytes stay what they are
		}
		more := yield(row, nil)
		if s.c.o.Poison {
			poison(row)
		}
		if !more {
			return
		}
	}
}

// problem says in which way a row is not one of the table, or not the next.
func (s *checkedSnapshot) problem(row *Row, last *Position) string {
	if row.P != nil || row.S != nil || row.Ver == 0 || row.Size <= 0 || len(row.Item) == 0 {
		return "incomplete"
	}
	it, err := ddb.ParseItem(row.Item)
	if err != nil {
		return "the item cannot be read: " + err.Error()
	}
	if k, err := s.next.Table().KeyOf(it); err != nil || !k.Equal(row.Key) {
		return "the key is not that of the item, or not one of the definition"
	}
	switch {
	case !s.next.KeyOrdered():
	case keyenc.IsShortened(row.Key.PK): // encoded keys are in the order of the attributes otherwise
		return "a shortened key tells no order"
	case last != nil && row.Position().Compare(*last) <= 0:
		return "out of order"
	}
	return ""
}
