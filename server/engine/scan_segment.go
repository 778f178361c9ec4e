// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// checkSegments checks the two members of a parallel Scan against each other.
func checkSegments(segment, total *int32) error {
	switch {
	case segment != nil && total == nil:
		return api.Validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case segment == nil && total != nil:
		return api.Validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case segment != nil && *segment >= *total:
		return api.Validation("The Segment parameter is zero-based and must be less than parameter TotalSegments")
	}
	return nil
}

// segment is what one worker of a parallel Scan reads: start <= position <
// end, nil unbounded.
type segment struct {
	start, end *storage.Position
	empty      bool
}

// segmentOf returns segment k of total. Bounds are quantiles of the sample: any
// fixed bounds partition the key space, so that every row is in one segment
// whatever is written meanwhile. Segments that the sample is too small for are
// empty; without one the first has everything.
func segmentOf(sample []storage.Position, k, total int) segment {
	parts := min(total, len(sample)+1)
	if k >= parts {
		return segment{empty: true}
	}
	bound := func(i int) *storage.Position {
		if i == 0 || i == parts {
			return nil
		}
		return &sample[i*(len(sample)+1)/parts-1]
	}
	return segment{start: bound(k), end: bound(k + 1)}
}

// holds reports whether pos is in the segment.
func (s segment) holds(pos storage.Position) bool {
	return !s.empty && (s.start == nil || pos.Compare(*s.start) >= 0) && (s.end == nil || pos.Compare(*s.end) < 0)
}

// startKeyOutside is the answer to an ExclusiveStartKey of another segment.
func startKeyOutside(segment, total int32) error {
	return api.Validation(fmt.Sprintf("%s: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d",
		startKeyInvalid, total, segment))
}
