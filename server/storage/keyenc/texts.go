// SPDX-License-Identifier: Apache-2.0

package keyenc

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/extenddb/extenddb/format/ddb"
)

// Texts decodes keys into memory that is used again: values as ddb.Value.Str
// tells them, one after another. The zero value is ready.
type Texts struct {
	list [][]byte
	mem  []byte // of texts that are not in the key as they are
}

// Reset forgets all texts; those that were returned are not valid any more.
func (t *Texts) Reset() { t.list, t.mem = t.list[:0], t.mem[:0] }

// At returns text i. It is valid as long as the key it was decoded from.
func (t *Texts) At(i int) []byte { return t.list[i] }

// AddHash adds the values of p as DecodeHash decodes them; errors are the same.
func (t *Texts) AddHash(kinds []ddb.Kind, p []byte) error {
	b, err := whole(p)
	if err != nil {
		return err
	}
	return t.add(kinds, b)
}

// AddSort adds the values of s as DecodeSort decodes them; errors are the same.
func (t *Texts) AddSort(kinds []ddb.Kind, s []byte) error {
	if err := fits(s); err != nil {
		return err
	}
	return t.add(kinds, s)
}

func (t *Texts) add(kinds []ddb.Kind, b []byte) error {
	for i, k := range kinds {
		var text []byte
		var err error
		from := len(t.mem)
		switch {
		case k == ddb.KindN:
			t.mem, b, err = cutNumber(t.mem, b)
			text = t.mem[from:]
		case i == len(kinds)-1:
			text, b = b, nil
		default:
			t.mem, b, err = cutEscaped(t.mem, b)
			text = t.mem[from:]
		}
		if err != nil {
			return err
		}
		if k == ddb.KindS && !utf8.Valid(text) {
			return fmt.Errorf("%w: string is not UTF-8", ErrMalformed)
		}
		t.list = append(t.list, text)
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrMalformed, len(b))
	}
	return nil
}

// cutEscaped takes an escaped and terminated text off the front of b and
// appends it to dst.
func cutEscaped(dst, b []byte) (text, rest []byte, err error) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 || i+1 == len(b) {
			return dst, nil, fmt.Errorf("%w: text without end", ErrMalformed)
		}
		switch b[i+1] {
		case terminator:
			return append(dst, b[:i]...), b[i+2:], nil
		case escaped:
			dst = append(dst, b[:i+1]...)
			b = b[i+2:]
		default:
			return dst, nil, fmt.Errorf("%w: unknown escape", ErrMalformed)
		}
	}
}
