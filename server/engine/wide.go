// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strconv"

	"github.com/extenddb/extenddb/server/api"
)

// wide is what a read ends with that must answer something whole and has no room
// for it: that many bytes. It leaves no operation.
type wide int

func (w wide) Error() string { return "no room for an answer of " + strconv.Itoa(int(w)) + " bytes" }

// whole runs a read that answers at least one item, or all of them, whatever
// their size. Where there is no room for that, it gives up all it has read, waits
// in line for more, and starts again: otherwise clients that are slow to read
// would make the process hold as many large items as there are connections.
func whole(out *api.Body, read func(room *room) error) error {
	start := len(out.B)
	err := read(&room{out: out})
	var lack wide
	if !errors.As(err, &lack) {
		return err
	}
	out.B = out.B[:start]
	// What is read, and the answer.
	if _, err := out.Work.Await(2 * int(lack)); err != nil {
		return err
	}
	return read(&room{out: out, waited: true})
}

// room is the room for an answer.
type room struct {
	out    *api.Body
	waited bool // there is some
}

// must makes sure that there is room for n bytes, of which nothing can be left
// out; if there is none, the read ends with the error.
func (r *room) must(n int) error {
	if r.out.Room(n) || r.waited || r.out.Work == nil {
		return nil
	}
	return wide(n)
}
