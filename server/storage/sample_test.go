// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

// TestSegmentsAreEven for any number of rows: none has more than twice the
// mean.
func TestSegmentsAreEven(t *testing.T) {
	t.Parallel()
	const segments = 16
	for rows, size := range map[int]int{
		16: 8, 100: 8, 4095: 8, 4096: 8, 4097: 8, 8191: 8, 10_000: 8, 1_000_000: 8, 99_999: 2700, 777: 2700,
	} {
		var n Thinner
		row := Row{Key: Key{PK: make([]byte, size)}}
		for i := range rows {
			binary.BigEndian.PutUint64(row.Key.PK, uint64(i))
			n.Add(&row)
		}
		kept := n.Sample()
		if most := min(maxSample, maxSampleBytes/size+1); len(kept) > most || len(kept) < min(rows, most/2) {
			t.Errorf("%d rows: sample of %d, at most %d", rows, len(kept), most)
		}
		last := 0
		for i := 1; i <= segments; i++ {
			end := rows
			if i < segments {
				end = int(binary.BigEndian.Uint64(kept[i*len(kept)/segments].PK))
			}
			if got := end - last; got*segments > 2*rows {
				t.Errorf("%d rows: segment %d has %d", rows, i, got)
			}
			last = end
		}
	}
}

func FuzzSample(f *testing.F) {
	f.Add(EncodeSample([]Position{{PK: []byte("a\x00"), SK: []byte{}}, {P: []byte("p"), S: []byte("s"), PK: []byte("b")}}))
	f.Add([]byte{0, 0, 1})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := DecodeSample(b, true)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		again, err := DecodeSample(EncodeSample(ps), true)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(ps) {
			t.Errorf("%v reads back as %v (%v)", ps, again, err)
		}
	})
}
