// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/extenddb/extenddb/server/storage"
)

const (
	spillBytes = 8 << 20  // of entries in memory
	spillFan   = 64       // runs of one size that become one
	runBuffer  = 32 << 10 // for reading or writing a run
)

// record is an entry of a load: the index, the row's id, the size, the lengths
// of P, S, PK and SK, then those.
type record []byte

const recordHead = 3*8 + 4*2

func appendRecord(b []byte, e *storage.Entry, k storage.Key, row int64) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Index))
	b = binary.BigEndian.AppendUint64(b, uint64(row))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Size))
	parts := [...][]byte{e.P, e.S, k.PK, k.SK}
	for _, part := range parts { // of at most 1,048 bytes
		b = binary.BigEndian.AppendUint16(b, uint16(len(part)))
	}
	for _, part := range parts {
		b = append(b, part...)
	}
	return b
}

func (r record) index() int64 { return int64(binary.BigEndian.Uint64(r)) }
func (r record) row() int64   { return int64(binary.BigEndian.Uint64(r[8:])) }
func (r record) size() int64  { return int64(binary.BigEndian.Uint64(r[16:])) }

// len tells how long the record is that begins with r.
func (r record) len() int {
	n := recordHead
	for i := range 4 {
		n += int(binary.BigEndian.Uint16(r[24+2*i:]))
	}
	return n
}

func (r record) position() (p, s, pk, sk []byte) {
	var parts [4][]byte
	rest := r[recordHead:]
	for i := range parts {
		n := int(binary.BigEndian.Uint16(r[24+2*i:]))
		parts[i], rest = rest[:n:n], rest[n:]
	}
	return parts[0], parts[1], parts[2], parts[3]
}

// compare orders records as the table of entries does.
func (r record) compare(o record) int {
	p, s, pk, sk := r.position()
	op, os, opk, osk := o.position()
	return cmp.Or(cmp.Compare(r.index(), o.index()),
		bytes.Compare(p, op), bytes.Compare(s, os), bytes.Compare(pk, opk), bytes.Compare(sk, osk))
}

// place is a record in memory, with what usually decides its order.
type place struct {
	index  int64
	prefix uint64 // of P
	at     int
}

const placeSize = 24

// spill sorts entries with little memory. They are collected, and when there
// are too many, written to a file, sorted: a run. Many runs of one size are
// merged to one, so that never many are open.
type spill struct {
	path   func(n int) string // of the n-th file
	limit  int
	mem    []byte
	places []place
	levels [][]string // files of runs; one of a level holds spillFan of the one before
	files  int        // made so far
	n      int64      // records added
}

func newSpill(path func(n int) string, limit int) *spill {
	if limit == 0 {
		limit = spillBytes
	}
	return &spill{path: path, limit: limit}
}

// add takes an entry down. Errors are ErrUnavailable: a full disk.
func (s *spill) add(e *storage.Entry, k storage.Key, row int64) error {
	if len(s.places) > 0 && len(s.mem)+placeSize*len(s.places) >= s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	var prefix [8]byte
	copy(prefix[:], e.P)
	s.places = append(s.places, place{int64(e.Index), binary.BigEndian.Uint64(prefix[:]), len(s.mem)})
	s.mem = appendRecord(s.mem, e, k, row)
	s.n++
	return nil
}

func (s *spill) record(p place) record {
	r := record(s.mem[p.at:])
	return r[:r.len()]
}

// sort brings the records in memory in order.
func (s *spill) sort() {
	slices.SortFunc(s.places, func(a, b place) int {
		if a.index != b.index || a.prefix != b.prefix {
			return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.prefix, b.prefix))
		}
		return s.record(a).compare(s.record(b))
	})
}

// sorted is a source of the records in memory.
func (s *spill) sorted() source {
	s.sort()
	i := 0
	return source{next: func() (record, error) {
		if i == len(s.places) {
			return nil, nil
		}
		i++
		return s.record(s.places[i-1]), nil
	}}
}

// flush makes a run of the records in memory.
func (s *spill) flush() error {
	m := newMerger([]source{s.sorted()})
	defer m.close()
	if err := s.write(0, m); err != nil {
		return err
	}
	s.mem, s.places = s.mem[:0], s.places[:0]
	for level := 0; level < len(s.levels) && len(s.levels[level]) >= spillFan; level++ {
		if err := s.promote(level); err != nil {
			return err
		}
	}
	return nil
}

// promote merges the runs of a level to one of the next.
func (s *spill) promote(level int) error {
	m, err := openRuns(s.levels[level])
	if err != nil {
		return err
	}
	err = s.write(level+1, m)
	m.close() // before the files are removed
	if err != nil {
		return err
	}
	removeAll(s.levels[level])
	s.levels[level] = nil
	return nil
}

// write makes a run of what m yields.
func (s *spill) write(level int, m *merger) error {
	s.files++
	path := s.path(s.files)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return spillError(err)
	}
	if level == len(s.levels) {
		s.levels = append(s.levels, nil)
	}
	s.levels[level] = append(s.levels[level], path) // from now on discard removes it
	w := bufio.NewWriterSize(f, runBuffer)
	for {
		var r record
		if r, err = m.next(); r == nil || err != nil {
			break
		}
		if _, err = w.Write(r); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return spillError(err)
	}
	return nil
}

// merge yields all records in order. Nothing may be added any more.
func (s *spill) merge() (*merger, error) {
	m, err := openRuns(slices.Concat(s.levels...))
	if err != nil {
		return nil, err
	}
	return newMerger(append(m.sources, s.sorted())), nil
}

// discard removes the files and frees the memory. Those that merge opened must
// be closed.
func (s *spill) discard() {
	for _, paths := range s.levels {
		removeAll(paths)
	}
	*s = spill{}
}

// removeAll removes files; one that stays is removed when the database is
// opened again.
func removeAll(paths []string) {
	for _, path := range paths {
		_ = os.Remove(path)
	}
}

func spillError(err error) error {
	return fmt.Errorf("%w: sort index entries: %w", storage.ErrUnavailable, err)
}

// source yields records in order, nil at the end. One is valid until the next.
type source struct {
	next  func() (record, error)
	close func() error // nil when there is nothing to close
	cur   record
}

// openRun reads a run.
func openRun(path string) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return source{}, spillError(err)
	}
	in := bufio.NewReaderSize(f, runBuffer)
	var buf record
	next := func() (record, error) {
		buf = slices.Grow(buf[:0], recordHead)[:recordHead]
		if _, err := io.ReadFull(in, buf); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, nil
			}
			return nil, spillError(err)
		}
		n := buf.len()
		buf = slices.Grow(buf, n-recordHead)[:n]
		if _, err := io.ReadFull(in, buf[recordHead:]); err != nil {
			return nil, spillError(err)
		}
		return buf, nil
	}
	return source{next: next, close: f.Close}, nil
}

func openRuns(paths []string) (*merger, error) {
	var sources []source
	for _, path := range paths {
		s, err := openRun(path)
		if err != nil {
			(&merger{sources: sources}).close()
			return nil, err
		}
		sources = append(sources, s)
	}
	return newMerger(sources), nil
}

// merger merges sources. It is a heap of them, the least record first, once
// it has begun.
type merger struct {
	sources []source // all of them: to be closed
	heap    []*source
	begun   bool
}

func newMerger(sources []source) *merger { return &merger{sources: sources} }

// next yields the least record that is left, nil at the end. It is valid until
// the next call.
func (m *merger) next() (record, error) {
	if !m.begun {
		m.begun = true
		for i := range m.sources {
			if err := m.push(&m.sources[i]); err != nil {
				return nil, err
			}
		}
	} else if err := m.advance(); err != nil {
		return nil, err
	}
	if len(m.heap) == 0 {
		return nil, nil
	}
	return m.heap[0].cur, nil
}

// push adds a source that has not begun.
func (m *merger) push(s *source) (err error) {
	if s.cur, err = s.next(); s.cur == nil || err != nil {
		return err
	}
	m.heap = append(m.heap, s)
	for i := len(m.heap) - 1; i > 0 && m.less(i, (i-1)/2); i = (i - 1) / 2 {
		m.swap(i, (i-1)/2)
	}
	return nil
}

// advance drops the least record.
func (m *merger) advance() (err error) {
	if len(m.heap) == 0 {
		return nil
	}
	s := m.heap[0]
	if s.cur, err = s.next(); err != nil {
		return err
	}
	if s.cur == nil {
		last := len(m.heap) - 1
		m.swap(0, last)
		m.heap = m.heap[:last]
	}
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.less(child, least) {
				least = child
			}
		}
		if least == i {
			return nil
		}
		m.swap(i, least)
		i = least
	}
}

func (m *merger) less(i, j int) bool { return m.heap[i].cur.compare(m.heap[j].cur) < 0 }
func (m *merger) swap(i, j int)      { m.heap[i], m.heap[j] = m.heap[j], m.heap[i] }

func (m *merger) close() {
	for _, s := range m.sources {
		if s.close != nil {
			_ = s.close() // was only read
		}
	}
}

// entryBatch is a number of records in a buffer of their own.
type entryBatch struct {
	mem  []byte
	ends []int
}

func (b *entryBatch) at(i int) record {
	from := 0
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.mem[from:b.ends[i]]
}

// take replaces the batch by the next n records, or what is left.
func (m *merger) take(b *entryBatch, n int) error {
	b.mem, b.ends = b.mem[:0], b.ends[:0]
	for len(b.ends) < n {
		r, err := m.next()
		if err != nil || r == nil {
			return err
		}
		b.mem = append(b.mem, r...)
		b.ends = append(b.ends, len(b.mem))
	}
	return nil
}
