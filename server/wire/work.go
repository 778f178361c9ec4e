// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/extenddb/extenddb/server/api"

// work is the api.Work of a call: its part of the share for what operations work
// with. Who waits there holds nothing of it, and those who ask for little are
// served first; nobody who holds some of it waits for anything but storage.
type work struct{ c *call }

// Try implements api.Work.
func (w work) Try(n int) bool {
	if !w.c.h.working.tryTake(int64(n)) {
		return false
	}
	w.c.work += int64(n)
	return true
}

// Await implements api.Work.
func (w work) Await(n int) (whole bool, err error) {
	w.Keep(0)
	s := w.c.h.working
	most := s.size - 2*s.spare // small ones always find some
	if int64(n) >= most {
		n, whole = int(most), true
	}
	if err := s.take(w.c.r.Context(), nil, int64(n)); err != nil {
		return false, api.Unavailable()
	}
	w.c.work += int64(n)
	return whole, nil
}

// Keep implements api.Work.
func (w work) Keep(n int) {
	if more := w.c.work - int64(n); more > 0 {
		w.c.h.working.give(nil, more)
		w.c.work = int64(n)
	}
}
