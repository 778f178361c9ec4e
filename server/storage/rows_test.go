// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
)

func bufferRows() []Row {
	return []Row{
		{Key: Key{PK: []byte("p"), SK: []byte("s")}, Item: []byte(`{"a":{"S":"b"}}`), Size: 2, Ver: 1<<63 - 1, Flags: FlagLongNumber},
		{Key: Key{PK: []byte("p"), SK: []byte{}}, Size: 1 << 20},
		{P: []byte("P"), S: []byte("S"), Key: Key{PK: []byte("p2"), SK: []byte("s2")}, Item: []byte("{}")},
		{P: []byte("P"), S: []byte{}, Key: Key{PK: []byte("p3"), SK: []byte{}}, Ver: 7},
	}
}

// TestRowBuffer: rows come back as they were, whatever becomes of what they were
// made of, and nobody who appends to one of their slices touches another.
func TestRowBuffer(t *testing.T) {
	t.Parallel()
	var b RowBuffer
	for range 3 {
		b.Reset()
		size := 0
		for _, r := range bufferRows() {
			b.Add(&r)
			for _, part := range [][]byte{r.P, r.S, r.Key.PK, r.Key.SK, r.Item} {
				size += len(part)
				clear(part)
			}
		}
		want := bufferRows()
		if b.Len() != len(want) || b.Bytes() != size || b.Cap() < size {
			t.Errorf("%d rows of %d bytes in %d, want %d of %d", b.Len(), b.Bytes(), b.Cap(), len(want), size)
		}
		for range 2 {
			for i := range want {
				var got Row
				if b.Row(i, &got); !reflect.DeepEqual(got, want[i]) {
					t.Errorf("row %d is %+v, want %+v", i, got, want[i])
				}
				for _, part := range [][]byte{got.P, got.S, got.Key.PK, got.Key.SK, got.Item} {
					_ = append(part, "overwritten"...)
				}
			}
		}
	}
}

func TestYield(t *testing.T) {
	t.Parallel()
	var b RowBuffer
	for _, r := range bufferRows() {
		b.Add(&r)
	}
	for name, c := range map[string]struct {
		stop, cancel int // after so many rows; 0: not
		rows         int
		goOn         bool
		err          error
	}{
		"all":       {rows: 4, goOn: true},
		"stopped":   {stop: 2, rows: 2},
		"cancelled": {cancel: 2, rows: 2, err: context.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		rows, failed := 0, error(nil)
		goOn := b.Yield(ctx, func(r *Row, err error) bool {
			if failed = err; err != nil {
				return true
			}
			if want := bufferRows()[rows]; !reflect.DeepEqual(*r, want) {
				t.Errorf("%s: row %d is %+v, want %+v", name, rows, r, want)
			}
			if rows++; rows == c.cancel {
				cancel()
			}
			return rows != c.stop
		})
		cancel()
		if rows != c.rows || goOn != c.goOn || !errors.Is(failed, c.err) {
			t.Errorf("%s: %d rows, %v, %v", name, rows, goOn, failed)
		}
	}
}

// BenchmarkRowBuffer copies a row in and reads it: what each row of a Range
// costs beside storage.
func BenchmarkRowBuffer(b *testing.B) {
	item := bytes.Repeat([]byte("x"), 300)
	r := Row{Key: Key{PK: []byte("partition"), SK: []byte("row")}, Item: item, Size: 300, Ver: 1}
	var buf RowBuffer
	b.ReportAllocs()
	for b.Loop() {
		buf.Reset()
		for range 100 {
			buf.Add(&r)
		}
		var got Row
		for i := range buf.Len() {
			if buf.Row(i, &got); len(got.Item) != len(item) {
				b.Fatal(got)
			}
		}
	}
}
