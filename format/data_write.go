// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/extenddb/extenddb/format/ddb"
)

// MaxPortableLine is the longest line, newline included, that every program
// which knows the format can read. No item of at most 400 KB makes a longer one.
const MaxPortableLine = 4 << 20

const (
	lineStart = `{"Item":`
	lineEnd   = "}\n"
)

// WriterOptions say how a data file is written. None of them changes its bytes.
type WriterOptions struct {
	Workers     int   // blocks compressed at once beside the caller; 0: the caller compresses
	TargetBytes int64 // of the plain lines, at which Fits says no; 0: DefaultTarget
}

// FileSums describe a finished data file.
type FileSums struct {
	Items  int64
	Bytes  int64    // compressed
	Plain  int64    // of the lines, newlines included
	Long   int64    // lines beyond MaxPortableLine
	SHA256 string   // of the compressed bytes, 64 lower-case hex digits
	MD5    [16]byte // of the compressed bytes
}

var errFileClosed = errors.New("data file is already closed")

// FileWriter writes one data file: an item a line, gzipped as one member. The
// bytes of the file depend on the items alone. Its memory does not grow: about 5 MiB,
// and 2 MiB for each worker. It is for one goroutine; the destination is
// written to within Write and Close only.
type FileWriter struct {
	w        io.Writer
	gz       *gzipper
	sha, md5 hash.Hash
	target   int64
	sums     FileSums
	err      error // the first failure, or errFileClosed
}

// NewFileWriter returns a writer of a data file to w. It must be closed or
// aborted.
func NewFileWriter(w io.Writer, o WriterOptions) *FileWriter {
	f := &FileWriter{w: w, sha: sha256.New(), md5: md5.New(), target: o.TargetBytes}
	if f.target <= 0 {
		f.target = DefaultTarget
	}
	f.gz = newGzipper(o.Workers, f.put)
	return f
}

// put writes compressed bytes to the destination.
func (f *FileWriter) put(p []byte) error {
	n, err := f.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write data file: %w", err)
	}
	f.sha.Write(p)
	f.md5.Write(p)
	f.sums.Bytes += int64(n)
	return nil
}

// Fits reports whether an item of so many bytes of JSON still belongs into this
// file: whether the file stays within its target, or is empty, since a single
// line may exceed the target alone.
func (f *FileWriter) Fits(item int) bool {
	return f.sums.Items == 0 || f.sums.Plain+lineBytes(item) <= f.target
}

func lineBytes(item int) int64 { return int64(len(lineStart) + item + len(lineEnd)) }

// Write adds the line of an item: its attribute map in compact DynamoDB JSON, as
// AppendItem writes it, or BackupItem where it holds long numbers. After an
// error, which is kept, the file is lost.
func (f *FileWriter) Write(item []byte) error {
	if f.err != nil {
		return f.err
	}
	for _, part := range [][]byte{[]byte(lineStart), item, []byte(lineEnd)} {
		if err := f.gz.write(part); err != nil {
			f.fail(err)
			return err
		}
	}
	n := lineBytes(len(item))
	f.sums.Items++
	f.sums.Plain += n
	if n > MaxPortableLine {
		f.sums.Long++
	}
	return nil
}

// Close ends the file and returns what the manifests say of it. It does not
// close the destination.
func (f *FileWriter) Close() (FileSums, error) {
	if f.err != nil {
		return FileSums{}, f.err
	}
	if err := f.gz.close(); err != nil {
		f.fail(err)
		return FileSums{}, err
	}
	f.fail(errFileClosed)
	f.sums.SHA256 = hex.EncodeToString(f.sha.Sum(nil))
	f.md5.Sum(f.sums.MD5[:0])
	return f.sums, nil
}

// Abort gives the file up: the destination keeps what it has, nothing runs any
// more. After Close, or again, it does nothing.
func (f *FileWriter) Abort() {
	if f.err == nil {
		f.fail(errFileClosed)
	}
}

// fail ends writing, whatever comes.
func (f *FileWriter) fail(err error) {
	f.err = err
	f.gz.abort()
	f.gz = nil
}

// BackupItem appends to dst the form in which a stored item that holds long
// numbers goes into a line: numbers of more than 40 plain characters get
// exponents, or an item of 400 KB could fill a line of 27 MB.
func BackupItem(dst, stored []byte) ([]byte, error) {
	it, err := ddb.ParseItem(stored)
	if err != nil {
		return dst, fmt.Errorf("read stored item: %w", err)
	}
	return ddb.AppendBackupItem(dst, it), nil
}
