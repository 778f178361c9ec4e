// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"slices"
)

// Interval returns what r selects as an interval lower <= key < upper over the
// columns that it leaves open, which it is ordered by: P, S, PK and SK of an
// index, PK and SK of the table, without the first within a partition. upper is
// nil without bound.
func (r *Range) Interval() (lower, upper [][]byte) {
	lower = r.columns(new(Position))
	if r.P != nil {
		lower[0] = r.From
		if r.To != nil {
			upper = r.columns(new(Position))
			upper[0] = r.To
		}
	} else {
		if r.Start != nil {
			lower = r.columns(r.Start)
		}
		if r.End != nil {
			upper = r.columns(r.End)
		}
	}
	if r.After == nil {
		return lower, upper
	}
	after := r.columns(r.After)
	if r.Reverse {
		if upper == nil || slices.CompareFunc(after, upper, bytes.Compare) < 0 {
			upper = after
		}
		return lower, upper
	}
	last := len(after) - 1
	after[last] = append(slices.Clip(after[last]), 0) // the next key after this one
	if slices.CompareFunc(after, lower, bytes.Compare) > 0 {
		lower = after
	}
	return lower, upper
}

// columns returns the values of a position in the columns that r leaves open.
func (r *Range) columns(p *Position) [][]byte {
	vals := [][]byte{p.PK, p.SK}
	if r.Index != 0 {
		vals = [][]byte{p.P, p.S, p.PK, p.SK}
	}
	if r.P != nil {
		vals = vals[1:]
	}
	return vals
}
