// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"unicode/utf8"
)

// maxNesting is how deep the objects and arrays of a manifest may lie within
// each other.
const maxNesting = 32

// wellFormed returns an error unless data is one JSON value in UTF-8. Nothing
// is allocated for it, whatever data is; the rest of the reading relies on it.
func wellFormed(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	if json.Valid(data) {
		return nil
	}
	err := json.Unmarshal(data, new(struct{})) // fails before it decodes anything
	if at := new(json.SyntaxError); errors.As(err, &at) {
		return fmt.Errorf("not JSON at byte %d: %w", at.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// nested returns an error when well-formed data nests too deep.
func nested(data []byte) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case '{', '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("nested deeper than %d levels at byte %d", maxNesting, i)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// cursor walks over the parts of one well-formed object or array: the elements,
// or names and values in turn. At position 0 of a document it finds the one
// value of it.
type cursor struct {
	data []byte
	pos  int
}

// inside returns a cursor over what the object or array raw holds.
func inside(raw []byte) cursor { return cursor{data: raw, pos: 1} }

// next returns the next part as it is spelled; nil at the end.
func (c *cursor) next() []byte {
	for c.pos < len(c.data) {
		switch c.data[c.pos] {
		case ' ', '\t', '\n', '\r', ',', ':':
			c.pos++
			continue
		case '}', ']':
			return nil
		}
		from := c.pos
		c.pos = valueEnd(c.data, from)
		return c.data[from:c.pos]
	}
	return nil
}

// count is the number of parts that are left.
func (c cursor) count() int {
	n := 0
	for c.next() != nil {
		n++
	}
	return n
}

// valueEnd is the end of the value that begins at data[from].
func valueEnd(data []byte, from int) int {
	depth := 0
	for i := from; i < len(data); {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			for i++; i < len(data) && !delimiter(data[i]); i++ {
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(data)
}

func delimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}

// stringEnd is the end of the string whose opening quote is data[from].
func stringEnd(data []byte, from int) int {
	for i := from + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// rawDigest is the hexadecimal SHA-256 of data without the white space between
// tokens and with the value "" at data[from:to], that of manifest_sha256. It
// covers members this program does not know, as they are spelled.
func rawDigest(data []byte, from, to int) string {
	h := sha256.New()
	compact(h, data[:from])
	h.Write([]byte(`""`))
	compact(h, data[to:])
	return hex.EncodeToString(h.Sum(nil))
}

// compact writes data without the white space between its tokens.
func compact(h hash.Hash, data []byte) {
	from := 0
	for i := 0; i < len(data); {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case ' ', '\t', '\n', '\r':
			h.Write(data[from:i])
			i++
			from = i
		default:
			i++
		}
	}
	h.Write(data[from:])
}
