// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"math"

	"github.com/klauspost/compress/gzip"
)

// Why a data file is refused, wrapped in a *FileError.
var (
	ErrSizeMismatch     = errors.New("data file size mismatch")
	ErrChecksumMismatch = errors.New("checksum mismatch")
	ErrItemCount        = errors.New("item count mismatch")
	ErrPlainCount       = errors.New("uncompressed byte count mismatch")
	ErrOverLimit        = errors.New("refusing to decompress further to bound memory") // a line or a file beyond ReadLimits
	ErrBlankLine        = errors.New("blank line")
)

// readBuffer is how many bytes of a file are read at once.
const readBuffer = 64 << 10

// FileError is an error of a data file.
type FileError struct {
	Key  string // of the file
	Line int64  // the first is 1; 0 when it is the file as a whole
	Err  error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("%s, line %d: %v", e.Key, e.Line, e.Err)
}

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// Expect is what a manifest says of a data file.
type Expect struct {
	Key    string // names the file in errors
	Items  int64
	Bytes  int64  // compressed
	SHA256 string // of the compressed bytes, hex; empty: only MD5 is checked
	MD5    string // the same in base64, as exports have it; empty: not checked
	Plain  int64  // uncompressed bytes; 0: unknown
}

// FileReader reads one data file as a stream and trusts none of it: memory is
// bounded by the longest line allowed, and reading stops where the file first
// exceeds what it may be. It reads no more than Expect.Bytes + 1 bytes of its
// source.
type FileReader struct {
	src    source
	want   Expect
	limits ReadLimits

	z          *gzip.Reader
	buf        []byte // buf[start:end] is plain text not handed out yet
	start, end int
	seen       int // of it, bytes that hold no newline
	eof        bool
	line       int64 // handed out
	plain      int64
}

// NewFileReader returns a reader of the data file that r yields.
func NewFileReader(r io.Reader, want Expect, l ReadLimits) *FileReader {
	f := &FileReader{want: want, limits: ReadLimits{
		MaxLine:  cmp.Or(l.MaxLine, DefaultMaxLine),
		MaxPlain: cmp.Or(l.MaxPlain, DefaultMaxPlain),
	}}
	f.src = source{r: r, want: want.Bytes, sha: sha256.New()}
	if want.MD5 != "" {
		f.src.md5 = md5.New()
	}
	return f
}

// source passes the compressed bytes on, digested, until there are more than
// expected.
type source struct {
	r        io.Reader
	want, n  int64
	sha, md5 hash.Hash
	err      error // of r, other than its end
}

func (s *source) Read(p []byte) (int, error) {
	room := s.want + 1 - s.n
	if room <= 0 {
		return 0, ErrSizeMismatch
	}
	n, err := s.r.Read(p[:min(int64(len(p)), room)])
	s.sha.Write(p[:n])
	if s.md5 != nil {
		s.md5.Write(p[:n])
	}
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Plain is the number of uncompressed bytes read so far.
func (f *FileReader) Plain() int64 { return f.plain }

// Fail makes err, found in the line that was read last, name the file and that
// line.
func (f *FileReader) Fail(err error) error { return &FileError{f.want.Key, f.line, err} }

// Lines yields every line without its line end, valid until the next. What it
// has yielded is only to be trusted when it ends without an error: after the last line
// it checks size, digests and counts. Every error is a *FileError and the last
// thing yielded. It can be ranged over once.
func (f *FileReader) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			line, err := f.next()
			if errors.Is(err, io.EOF) {
				if err := f.check(); err != nil {
					yield(nil, err)
				}
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

// next returns the next line; io.EOF, bare, after the last one.
func (f *FileReader) next() ([]byte, error) {
	for {
		rest := f.buf[f.start:f.end]
		if i := bytes.IndexByte(rest[f.seen:], '\n'); i >= 0 {
			return f.take(f.seen + i + 1)
		}
		f.seen = len(rest)
		switch {
		case int64(len(rest)) > f.limits.MaxLine:
			return nil, f.tooLong()
		case f.eof && len(rest) == 0:
			return nil, io.EOF
		case f.eof:
			return f.take(len(rest))
		}
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
}

// take hands out the line in the next n bytes.
func (f *FileReader) take(n int) ([]byte, error) {
	if int64(n) > f.limits.MaxLine {
		return nil, f.tooLong()
	}
	line := f.buf[f.start : f.start+n]
	f.start += n
	f.seen = 0
	f.line++
	if f.line > f.want.Items {
		return nil, f.damage(f.countError())
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return nil, f.damage(ErrBlankLine)
	}
	return line, nil
}

// fill reads more plain text.
func (f *FileReader) fill() error {
	if f.z == nil {
		z, err := gzip.NewReader(bufio.NewReaderSize(&f.src, readBuffer))
		if err != nil {
			return f.decodeError(err)
		}
		f.z = z
	}
	f.makeRoom()
	n, err := f.z.Read(f.buf[f.end:])
	f.end += n
	f.plain += int64(n)
	switch {
	case f.plain > f.limits.MaxPlain:
		return f.failNext(fmt.Errorf("data file exceeded the %d-byte maximum uncompressed size; %w", f.limits.MaxPlain, ErrOverLimit))
	case f.want.Plain > 0 && f.plain > f.want.Plain:
		return f.failNext(f.plainError())
	case errors.Is(err, io.EOF):
		f.eof = true
	case err != nil:
		return f.decodeError(err)
	}
	return nil
}

// makeRoom makes room behind the plain text. The buffer doubles up to the
// longest line a sound file has, and then takes what the default allows at once:
// the garbage of doubling on would be as large as the buffer.
func (f *FileReader) makeRoom() {
	if f.end < len(f.buf) {
		return
	}
	rest := f.buf[f.start:f.end]
	if f.start == 0 {
		size := max(2*len(f.buf), readBuffer)
		if size > MaxPortableLine {
			size = max(size, DefaultMaxLine+1)
		}
		longest := int(min(f.limits.MaxLine, math.MaxInt-1))
		f.buf = make([]byte, min(size, max(longest+1, readBuffer))) // one more, so that a line that is too long shows
	}
	f.end = copy(f.buf, rest)
	f.start = 0
}

// failNext is Fail for the line that comes next.
func (f *FileReader) failNext(err error) error { return &FileError{f.want.Key, f.line + 1, err} }

func (f *FileReader) tooLong() error {
	return f.failNext(fmt.Errorf("data file line exceeded the %d-byte maximum length; %w", f.limits.MaxLine, ErrOverLimit))
}

func (f *FileReader) countError() error {
	return fmt.Errorf("%w: expected %d, decoded %d", ErrItemCount, f.want.Items, f.line)
}

func (f *FileReader) plainError() error {
	return fmt.Errorf("%w: expected %d, decoded %d", ErrPlainCount, f.want.Plain, f.plain)
}

// decodeError says why the file cannot be decompressed: because it cannot be
// read, because it is not the file that was written, or because it was written
// wrong.
func (f *FileReader) decodeError(err error) error {
	if err := f.checkRest(); err != nil {
		return err
	}
	if errors.Is(err, io.EOF) { // of a file without a single byte
		err = io.ErrUnexpectedEOF
	}
	return f.failNext(fmt.Errorf("decompress data file: %w", err))
}

// damage is Fail for a line that no sound file has. That the file is not the one
// that was written says more than the line, if it is so.
func (f *FileReader) damage(err error) error {
	if err := f.checkRest(); err != nil {
		return err
	}
	return f.Fail(err)
}

// checkRest reads the compressed bytes to their end, without decompressing them,
// and checks them.
func (f *FileReader) checkRest() error {
	if f.src.err == nil {
		_, _ = io.Copy(io.Discard, &f.src) // an error is in src, or a wrong size
	}
	if f.src.err != nil {
		return f.failNext(fmt.Errorf("read data file: %w", f.src.err))
	}
	return f.checkBytes()
}

// check compares the file, read to its end, with what was expected.
func (f *FileReader) check() error {
	err := f.checkBytes()
	switch {
	case err != nil:
		return err
	case f.line != f.want.Items:
		err = f.countError()
	case f.want.Plain > 0 && f.plain != f.want.Plain:
		err = f.plainError()
	default:
		return nil
	}
	return &FileError{Key: f.want.Key, Err: err}
}

// checkBytes compares the compressed bytes, read to their end.
func (f *FileReader) checkBytes() error {
	var err error
	switch {
	case f.src.n > f.want.Bytes:
		err = fmt.Errorf("%w: expected %d bytes, found more", ErrSizeMismatch, f.want.Bytes)
	case f.src.n < f.want.Bytes:
		err = fmt.Errorf("%w: expected %d bytes, found %d", ErrSizeMismatch, f.want.Bytes, f.src.n)
	default:
		err = f.src.checkDigests(f.want)
	}
	if err != nil {
		return &FileError{Key: f.want.Key, Err: err}
	}
	return nil
}

func (s *source) checkDigests(want Expect) error {
	if sum := hex.EncodeToString(s.sha.Sum(nil)); sum != want.SHA256 && (want.SHA256 != "" || want.MD5 == "") {
		return fmt.Errorf("data file sha256 %w: expected %s, computed %s", ErrChecksumMismatch, want.SHA256, sum)
	}
	if s.md5 == nil {
		return nil
	}
	if sum := base64.StdEncoding.EncodeToString(s.md5.Sum(nil)); sum != want.MD5 {
		return fmt.Errorf("data file md5 %w: expected %s, computed %s", ErrChecksumMismatch, want.MD5, sum)
	}
	return nil
}
