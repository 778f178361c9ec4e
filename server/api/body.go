// SPDX-License-Identifier: Apache-2.0

package api

import "encoding/json"

// Body is a response under construction. Operations append to it; on an error
// the wire throws away what was written. The zero Body is ready for use.
type Body struct {
	// B is the JSON so far; append to it freely.
	B []byte
	// Grow asks for n more bytes of the process's byte budget before they are
	// appended; false means that the page has to end here. nil allows all.
	Grow func(n int) bool
	// Work counts what an operation holds of stored items beside the response
	// under construction; nil counts nothing.
	Work Work
}

// Work is an operation's part of the process's byte budget for what it works
// with: rows, decoded items, what is to be written. It is given back with the
// response. Not safe for concurrent use.
type Work interface {
	// Try takes n bytes more, if they are there and nobody waits for as much.
	Try(n int) bool
	// Await gives back all there is, waits in line and takes n bytes. whole: n
	// was more than anybody can get, and the operation has the place for those;
	// it may take what it needs. The error is an *Error.
	Await(n int) (whole bool, err error)
	// Keep gives back all but n bytes.
	Keep(n int)
}

// Room reports whether n more bytes may be appended.
func (b *Body) Room(n int) bool { return b.Grow == nil || b.Grow(n) }

// JSON appends v as encoding/json writes it, for shapes that are not hot.
func (b *Body) JSON(v any) error {
	j, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.B = append(b.B, j...)
	return nil
}

// Raw appends s as it is.
func (b *Body) Raw(s string) { b.B = append(b.B, s...) }
