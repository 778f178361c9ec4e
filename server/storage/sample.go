// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"fmt"
)

// maxSampleBytes bounds the keys of a sample: they can be 2.7 KB each, and some
// hundreds are enough then.
const maxSampleBytes = 1 << 20

// Thinner keeps an even sample of a walk whose length nobody knows: every n-th
// position, n doubling when there are too many. The zero value is ready.
type Thinner struct {
	every, seen int
	bytes       int // of kept
	kept        []Position
}

// Add takes the next row of the walk, which may be changed afterwards.
func (n *Thinner) Add(row *Row) {
	n.every = max(n.every, 1)
	if n.seen%n.every == 0 {
		if len(n.kept) == maxSample || n.bytes >= maxSampleBytes {
			n.halve()
		}
		if n.seen%n.every == 0 {
			p := row.Clone().Position()
			n.kept = append(n.kept, p)
			n.bytes += p.size()
		}
	}
	n.seen++
}

// Sample returns the positions kept, in the order they were added.
func (n *Thinner) Sample() []Position { return n.kept }

func (n *Thinner) halve() {
	n.bytes = 0
	half := n.kept[:0]
	for i := 0; i < len(n.kept); i += 2 {
		half = append(half, n.kept[i])
		n.bytes += n.kept[i].size()
	}
	clear(n.kept[len(half):])
	n.kept = half
	n.every *= 2
}

func (p Position) size() int { return len(p.P) + len(p.S) + len(p.PK) + len(p.SK) }

// EncodeSample packs positions for the catalog: the length of each part, then
// the part.
func EncodeSample(ps []Position) []byte {
	var b []byte
	for _, p := range ps {
		for _, part := range [...][]byte{p.P, p.S, p.PK, p.SK} {
			b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
		}
	}
	return b
}

// DecodeSample unpacks the positions of an index, or of the table, whose P and
// S are nil. They share memory with b. ErrCorrupt.
func DecodeSample(b []byte, index bool) ([]Position, error) {
	var ps []Position
	for len(b) > 0 {
		var parts [4][]byte
		for i := range parts {
			n, k := binary.Uvarint(b)
			if k <= 0 || n > uint64(len(b)-k) {
				return nil, fmt.Errorf("%w: a sample cannot be read", ErrCorrupt)
			}
			parts[i], b = b[k:k+int(n):k+int(n)], b[k+int(n):]
		}
		p := Position{P: parts[0], S: parts[1], PK: parts[2], SK: parts[3]}
		if !index {
			p.P, p.S = nil, nil
		}
		ps = append(ps, p)
	}
	return ps, nil
}
