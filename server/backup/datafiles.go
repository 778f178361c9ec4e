// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	filesInFlight  = 2 // one being written while the one before becomes durable
	filesPerTarget = 10_000
	maxTarget      = 1 << 30
)

// targetOf is the size at which data file i, from 0, is full. It doubles every
// 10,000 files, so that no backup has more than the 50,000 that DynamoDB
// imports.
func targetOf(base int64, i int) int64 {
	for range i / filesPerTarget {
		if base >= maxTarget {
			break
		}
		base = min(2*base, maxTarget)
	}
	return base
}

// dataFile is a data file on its way to the store.
type dataFile struct {
	key         string
	w           *format.FileWriter
	pipe        *io.PipeWriter
	sums        format.FileSums
	put         backupstore.PutResult // once its Put has ended
	first, last ddb.Item              // keys
}

// dataWriter spreads rows over data files: each is compressed into a pipe that
// a Put of the store reads from. It is for one goroutine; end must be called.
type dataWriter struct {
	c      *creation
	ctx    context.Context // of the rows and the Puts; ends with the first failure, its cause
	cancel context.CancelCauseFunc
	slots  chan struct{}
	puts   sync.WaitGroup
	now    *dataFile   // being written
	row    storage.Row // the last one, kept
	warned bool        // of a long line
}

func newDataWriter(ctx context.Context, c *creation) *dataWriter {
	w := &dataWriter{c: c, slots: make(chan struct{}, filesInFlight)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w
}

// write adds a row; item is what goes into its line.
func (w *dataWriter) write(row *storage.Row, item []byte) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if w.now != nil && !w.now.w.Fits(len(item)) {
		if err := w.close(); err != nil {
			return err
		}
	}
	begins := w.now == nil
	if begins {
		if err := w.open(); err != nil {
			return err
		}
	}
	if err := w.now.w.Write(item); err != nil {
		return fmt.Errorf("write %s: %w", w.now.key, err)
	}
	k := &w.row.Key
	k.PK, k.SK = append(k.PK[:0], row.Key.PK...), append(k.SK[:0], row.Key.SK...)
	w.row.Item = append(w.row.Item[:0], row.Item...)
	if begins {
		var err error
		w.now.first, err = w.c.keysOf(&w.row)
		return err
	}
	return nil
}

// open begins the next data file, once no more than one is in flight.
func (w *dataWriter) open() error {
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	i, l := len(w.c.files), &w.c.e.Limits
	target := targetOf(l.TargetBytes, i)
	if i > 0 && i%filesPerTarget == 0 {
		w.c.e.Log.InfoContext(w.ctx, "backup has many data files: the next ones are larger",
			"backup", w.c.arn(), "files", i, "target_bytes", target)
	}
	body, pipe := io.Pipe()
	f := &dataFile{key: format.DataFileKey(i + 1), pipe: pipe}
	f.w = format.NewFileWriter(&countingWriter{w: pipe, c: w.c}, format.WriterOptions{Workers: l.Workers - 1, TargetBytes: target})
	w.now, w.c.files = f, append(w.c.files, f)
	// A Put that hangs does not hear of the end of its context. Writing must: the
	// snapshot is held as long as it waits.
	stop := context.AfterFunc(w.ctx, func() { _ = pipe.CloseWithError(context.Cause(w.ctx)) })
	w.puts.Go(func() {
		defer func() { <-w.slots }()
		defer stop()
		var err error
		if f.put, err = w.c.e.Store.Put(w.ctx, w.c.ref.Key(f.key), body, backupstore.PutOptions{}); err != nil {
			err = about("write", w.c.ref.Key(f.key), err)
			w.cancel(err) // only the first one counts
		}
		_ = body.CloseWithError(err) // writing must not wait for a reader that is gone
	})
	return nil
}

// close ends the data file being written; its Put goes on.
func (w *dataWriter) close() (err error) {
	f := w.now
	if f.sums, err = f.w.Close(); err != nil {
		return fmt.Errorf("write %s: %w", f.key, err)
	}
	if f.sums.Items > 0 {
		if f.last, err = w.c.keysOf(&w.row); err != nil {
			return err
		}
	}
	if f.sums.Long > 0 && !w.warned {
		w.warned = true
		w.c.e.Log.WarnContext(w.ctx, "backup has lines that other programs may not be able to read",
			"backup", w.c.arn(), "file", f.key, "lines", f.sums.Long, "limit", format.MaxPortableLine)
	}
	w.now = nil
	return f.pipe.Close()
}

// end ends the last data file, the first one too when there was no row, and
// waits for the Puts. With an error, or when one of them fails, all are cut
// short, and a Put that has not got its whole body leaves nothing behind. It
// returns what failed first.
func (w *dataWriter) end(err error) error {
	defer w.cancel(nil)
	if err == nil && len(w.c.files) == 0 {
		err = w.open()
	}
	if err == nil && w.now != nil {
		err = w.close()
	}
	if err != nil {
		w.cancel(err)
	}
	if f := w.now; f != nil {
		_ = f.pipe.CloseWithError(context.Cause(w.ctx))
		f.w.Abort()
	}
	w.puts.Wait()
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	for _, f := range w.c.files {
		if f.put.Size != f.sums.Bytes {
			return fmt.Errorf("write %s: the store has %d bytes of %d", w.c.ref.Key(f.key), f.put.Size, f.sums.Bytes)
		}
	}
	return nil
}

// countingWriter reports compressed bytes as progress.
type countingWriter struct {
	w io.Writer
	c *creation
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.c.meter.Add(0, 0, int64(n))
	return n, err
}
