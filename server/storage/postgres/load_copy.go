// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"encoding/binary"
	"io"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/extenddb/extenddb/server/storage"
)

// copyHeader begins a stream of COPY in binary: signature, no flags, nothing
// more.
const copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// copyStream is what COPY reads. The driver may go on reading for a while when
// the connection is lost: stop ends that, so that the rows are the caller's
// again. It is made by hand because pgx encodes by column types that it
// remembers per connection.
type copyStream struct {
	mu   sync.Mutex
	next func() ([]byte, bool)
	end  func()
	buf  []byte
	over error // why there is no more; nil: there may be
}

// newCopyStream streams tuples, each valid until the next.
func newCopyStream(tuples iter.Seq[[]byte]) *copyStream {
	s := &copyStream{buf: []byte(copyHeader)}
	s.next, s.end = iter.Pull(tuples)
	return s
}

// Read implements io.Reader.
func (s *copyStream) Read(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(b) {
		if len(s.buf) == 0 {
			if s.over != nil {
				return n, s.over
			}
			var more bool
			if s.buf, more = s.next(); !more {
				s.buf, s.over = []byte{0xff, 0xff}, io.EOF // the trailer
			}
		}
		m := copy(b[n:], s.buf)
		s.buf = s.buf[m:]
		n += m
	}
	return n, nil
}

// stop ends the stream, wherever it is.
func (s *copyStream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.buf = errOver, nil // not io.EOF, which would complete it
	s.end()
}

// Columns of the relations, as rowTuples and entryTuples write them.
const (
	rowColumns   = " (ver, size, flags, pk, sk, item)"
	entryColumns = " (size, p, s, pk, sk)"
)

// rowTuples are the tuples of rows.
func rowTuples(rows []storage.LoadRow) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		for i := range rows {
			r := &rows[i]
			b = binary.BigEndian.AppendUint16(b[:0], 6)
			b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(rand.Int64N(1<<63-1)+1))
			b = appendSize(b, r.Next.Size)
			b = append(b, 0, 0, 0, 2, 0, r.Next.Flags)
			for _, f := range [...][]byte{r.Key.PK, r.Key.SK, r.Next.Item} {
				b = appendField(b, f)
			}
			if !yield(b) {
				return
			}
		}
	}
}

// entryTuples are the tuples of the entries that rows have in an index.
func entryTuples(rows []storage.LoadRow, ix storage.IndexID) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		for i := range rows {
			for _, e := range rows[i].Next.Entries {
				if e.Index != ix {
					continue
				}
				b = appendSize(binary.BigEndian.AppendUint16(b[:0], 5), e.Size)
				for _, f := range [...][]byte{e.P, e.S, rows[i].Key.PK, rows[i].Key.SK} {
					b = appendField(b, f)
				}
				if !yield(b) {
					return
				}
			}
		}
	}
}

func appendSize(b []byte, size int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(size))
}

func appendField(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}
