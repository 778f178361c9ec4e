// SPDX-License-Identifier: Apache-2.0

package format

import (
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
)

// MaxItemSize is the largest item, in bytes as DynamoDB counts them.
const MaxItemSize = 400 << 10

// maxItemMemory bounds what a line may become in memory. An item of MaxItemSize
// stays below it: what costs most is a list of empty strings, at 112 bytes for
// each byte of size.
const maxItemMemory = 64 << 20

// Why a line is refused.
var (
	// ErrItemTooLarge has the text of PutItem.
	ErrItemTooLarge = errors.New("Item size has exceeded the maximum allowed size") //nolint:staticcheck // the service's text
	ErrIncremental  = errors.New("the line is of an incremental export, and incremental exports cannot be restored; use a full export")
	ErrNoItem       = errors.New("the line has no member Item")
	ErrTwoItems     = errors.New("the line has more than one member Item")
)

// ParseLine reads a line of a data file, {"Item":{…}}, without its newline.
// Members beside Item are ignored, except those of incremental exports, which
// are refused. Errors are those above, *ddb.SyntaxError and *ddb.ValueError.
func ParseLine(line []byte) (ddb.Item, error) {
	s := ddb.NewScanner(line)
	s.Bound(maxItemMemory, func(int) (int, error) { return 0, ErrItemTooLarge })
	switch t, err := s.Peek(); {
	case err != nil:
		return nil, fmt.Errorf("read line: %w", err)
	case t == ddb.TokenEnd:
		return nil, ErrBlankLine
	}
	item, err := scanLine(s)
	if err != nil {
		return nil, err
	}
	if err := s.End(); err != nil {
		return nil, fmt.Errorf("read line: %w", err)
	}
	switch {
	case item == nil:
		return nil, ErrNoItem
	case item.Size() > MaxItemSize:
		return nil, ErrItemTooLarge
	}
	return item, nil
}

// scanLine reads the object of a line; item is nil when it holds none.
func scanLine(s *ddb.Scanner) (item ddb.Item, err error) {
	if err := s.Open(ddb.TokenObject); err != nil {
		return nil, fmt.Errorf("read line: %w", err)
	}
	for first := true; ; first = false {
		key, ok, err := s.NextKey(first)
		if err != nil {
			return nil, fmt.Errorf("read line: %w", err)
		}
		if !ok {
			return item, nil
		}
		switch string(key) {
		case "Item":
			if item != nil {
				return nil, ErrTwoItems
			}
			var bad *ddb.ValueError
			if item, bad, err = ddb.ScanItemStrict(s); err == nil && bad != nil {
				err = bad
			}
		case "Keys", "NewImage", "OldImage":
			return nil, ErrIncremental
		default:
			err = s.Skip()
		}
		if errors.Is(err, ErrItemTooLarge) {
			return nil, ErrItemTooLarge
		}
		if err != nil {
			return nil, fmt.Errorf("read line: %w", err)
		}
	}
}
