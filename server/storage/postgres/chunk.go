// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"encoding/binary"
	"fmt"

	"github.com/extenddb/extenddb/server/storage"
)

// A chunk is not larger than this but for its last row.
const (
	chunkRows  = 512
	chunkBytes = 256 << 10
)

// rowOf reads a row of a range within partition p, if v says so: the columns
// that v shows, in binary. It is valid as long as they are.
func (v variant) rowOf(p []byte, cols [][]byte, row *storage.Row) error {
	*row = storage.Row{}
	parts := [...]*[]byte{&row.P, &row.S, &row.Key.PK, &row.Key.SK}
	keys := parts[:]
	if !v.index {
		keys = keys[2:]
	}
	if v.part {
		*keys[0], keys = p, keys[1:]
	}
	for i, k := range keys {
		*k = cols[i]
	}
	cols = cols[len(keys):]
	if v.want == storage.Items && cols[3] == nil {
		return fmt.Errorf("%w: an index entry has no row", storage.ErrCorrupt)
	}
	if v.want != storage.Keys || !v.index {
		row.Size, cols = int(int32Of(cols[0])), cols[1:]
	}
	if v.want == storage.Items {
		row.Ver, row.Flags, cols = int64Of(cols[0]), uint8(int16Of(cols[1])), cols[2:]
	}
	if v.want != storage.Sizes {
		row.Item = cols[0]
	}
	return nil
}

// Numbers in binary.
func int64Of(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
func int32Of(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
func int16Of(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) }
