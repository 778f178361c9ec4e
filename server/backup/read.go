// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"crypto/md5" //nolint:gosec // what DynamoDB exports carry; no protection
	"errors"
	"io"
	"sync"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
)

// Bounds of what is decoded ahead. A chunk is also what is loaded at a time: at
// least one commit each, which the loader divides when clients wait.
const (
	chunkLines  = 2000
	chunkBytes  = 1 << 20 // of text; a longer line is alone
	aheadBytes  = 4 << 20 // of text, in all chunks that are not used up; one chunk always is
	aheadPerCPU = 2       // chunks per worker
)

var errMissing = errors.New("object is missing")

// source passes the body of an object on and keeps its error: that is one of
// reading it, not of what it says.
type source struct {
	r     io.Reader
	err   error
	count func(n int) // of bytes read; may be nil
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	if s.count != nil {
		s.count(n)
	}
	return n, err
}

// chunk is a run of lines of one data file, and what decoding made of them.
type chunk[T any] struct {
	file  int   // index in the manifest
	first int64 // number of the first line, from 1
	lines [][]byte
	end   *fileEnd // not nil on the last chunk of a file, which may have no lines
	out   T

	buf   []byte
	ends  []int
	ready chan struct{} // closed once out is there
}

// fileEnd is what the whole of a data file is like.
type fileEnd struct {
	err   error // why it is not what the manifest says; nil: it is
	plain int64
	md5   [md5.Size]byte
}

// reading reads the data files of a backup, in order, ahead of who uses them.
type reading[T any] struct {
	e      Env
	ref    format.Ref
	m      *format.Manifest
	skip   func(file int) bool
	decode func(lines [][]byte) T // several at a time
	each   func(*chunk[T]) error  // one after another, in order
	count  func(bytes int)        // of compressed text read; may be nil
	md5    bool                   // is wanted in fileEnd

	work     chan *chunk[T]
	order    chan *chunk[T]
	released chan *chunk[T]
	held     int         // bytes of text in chunks
	spare    []*chunk[T] // used up: their memory is used again
}

// run reads all files and returns the first error of each or of the store.
// Everything it started has ended when it returns.
func (r *reading[T]) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := max(r.e.Limits.Workers-1, 1)
	ahead := aheadPerCPU * workers
	r.work, r.order = make(chan *chunk[T], ahead), make(chan *chunk[T], ahead)
	r.released = make(chan *chunk[T], 2*ahead+workers+2) // more than there can be chunks
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for c := range r.work {
				c.out = r.decode(c.lines)
				close(c.ready)
			}
		})
	}
	wg.Go(func() {
		defer close(r.order)
		defer close(r.work)
		if err := r.files(ctx); err != nil {
			cancel(err)
		}
	})
	for c := range r.order {
		if ctx.Err() != nil {
			break // which also ends the reader
		}
		<-c.ready
		if err := r.each(c); err != nil {
			cancel(err)
		}
		r.released <- c
	}
	wg.Wait()
	return context.Cause(ctx)
}

// files reads one data file after another.
func (r *reading[T]) files(ctx context.Context) error {
	for i := range r.m.Files {
		if r.skip != nil && r.skip(i) {
			continue
		}
		if err := r.file(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// file reads one data file. Its error is one of the store or the context; what
// is wrong with the file is in the end of its last chunk.
func (r *reading[T]) file(ctx context.Context, i int) error {
	f := &r.m.Files[i]
	c := r.chunk(i, 1)
	if err := format.CheckDataFileKey(f.Key); err != nil { // again, before it names an object
		c.end = &fileEnd{err: err}
		return r.send(ctx, c)
	}
	body, err := r.e.Store.Get(ctx, r.ref.Key(f.Key))
	switch {
	case errors.Is(err, backupstore.ErrNotFound):
		c.end = &fileEnd{err: errMissing}
		return r.send(ctx, c)
	case err != nil:
		return about("read", r.ref.Key(f.Key), err)
	}
	defer body.Close()                                      //nolint:errcheck // was only read
	src, sum := &source{r: body, count: r.count}, md5.New() //nolint:gosec // see the import
	if r.md5 {
		src.r = io.TeeReader(body, sum)
	}
	fr := format.NewFileReader(src, format.Expect{Key: f.Key, Items: f.Items, Bytes: f.Bytes, SHA256: f.SHA256}, r.e.Limits.Read)
	end := &fileEnd{}
	for line, err := range fr.Lines() {
		if err != nil {
			end.err = err
			break
		}
		if len(c.ends) > 0 && (len(c.ends) == chunkLines || len(c.buf)+len(line) > chunkBytes) {
			first := c.first + int64(len(c.ends))
			if err := r.send(ctx, c); err != nil {
				return err
			}
			c = r.chunk(i, first)
		}
		c.buf = append(c.buf, line...)
		c.ends = append(c.ends, len(c.buf))
	}
	if src.err != nil {
		return about("read", r.ref.Key(f.Key), src.err)
	}
	end.plain = fr.Plain()
	sum.Sum(end.md5[:0])
	c.end = end
	return r.send(ctx, c)
}

// send gives a chunk to the workers and to run, once there is room for it.
func (r *reading[T]) send(ctx context.Context, c *chunk[T]) error {
	start := 0
	for _, end := range c.ends {
		c.lines = append(c.lines, c.buf[start:end:end])
		start = end
	}
	c.ready = make(chan struct{})
	if err := r.admit(ctx, len(c.buf)); err != nil {
		return err
	}
	select {
	case r.work <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case r.order <- c: // a worker has it already: it will be ready
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// chunk returns an empty chunk.
func (r *reading[T]) chunk(file int, first int64) *chunk[T] {
	n := len(r.spare) - 1
	if n < 0 {
		return &chunk[T]{file: file, first: first}
	}
	old := r.spare[n]
	r.spare = r.spare[:n]
	return &chunk[T]{file: file, first: first, lines: old.lines[:0], buf: old.buf[:0], ends: old.ends[:0]}
}

// take takes a chunk back that is used up. A long line's memory is not kept.
func (r *reading[T]) take(c *chunk[T]) {
	r.held -= len(c.buf)
	if cap(c.buf) <= 2*chunkBytes {
		c.out = *new(T)
		r.spare = append(r.spare, c)
	}
}

// admit waits until n more bytes may be held.
func (r *reading[T]) admit(ctx context.Context, n int) error {
	for len(r.released) > 0 {
		r.take(<-r.released)
	}
	for r.held > 0 && r.held+n > aheadBytes {
		select {
		case c := <-r.released:
			r.take(c)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.held += n
	return nil
}
