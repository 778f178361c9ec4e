// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

// bomb is a data file that repeats what one deflate block of 1 MiB says, times
// over, and then breaks off; it is made while it is read.
type bomb struct {
	block, rest []byte
	times       int
}

func newBomb(t *testing.T, line string, times int) (*bomb, Expect) {
	t.Helper()
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, 9)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(strings.Repeat(line, (1<<20)/len(line)))); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	b := bomb{block: out.Bytes(), rest: []byte(gzipHeader), times: times}
	same, sum := b, sha256.New()
	n, err := io.Copy(sum, &same)
	if err != nil {
		t.Fatal(err)
	}
	return &b, Expect{Key: "data/000001.json.gz", Items: 1 << 40, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}
}

func (b *bomb) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.times == 0 {
			return 0, io.EOF
		}
		b.times--
		b.rest = b.block
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// TestBombs reads files that would be far larger than they look. Each must be
// refused early and in little memory; what is allocated, garbage included, is
// counted.
//
//nolint:paralleltest // counts the memory of the process
func TestBombs(t *testing.T) {
	const short = "{}\n"
	for name, c := range map[string]struct {
		line   string
		mib    int // the whole file, plain
		change func(*Expect)
		l      ReadLimits
		is     error
		plain  int64 // at most read
		memory int64 // at most allocated
	}{
		"line of 64 MiB, portable cap":          {"\x00", 64, nil, ReadLimits{MaxLine: MaxPortableLine}, ErrOverLimit, 8 << 20, 16 << 20},
		"line of 64 MiB":                        {"\x00", 64, nil, ReadLimits{}, ErrOverLimit, 33 << 20, 48 << 20},
		"line of 10 GiB":                        {"x", 10 << 10, nil, ReadLimits{}, ErrOverLimit, 33 << 20, 48 << 20},
		"10 GiB of lines":                       {short, 10 << 10, nil, ReadLimits{MaxPlain: 64 << 20}, ErrOverLimit, 64<<20 + 64<<10, 1 << 20},
		"10 GiB of lines for 1,000,000 items":   {short, 10 << 10, func(w *Expect) { w.Items = 1_000_000 }, ReadLimits{}, ErrItemCount, 3_000_003 + 64<<10, 1 << 20},
		"10 GiB of lines for 10 MB of them":     {short, 10 << 10, func(w *Expect) { w.Plain = 10e6 }, ReadLimits{}, ErrPlainCount, 10e6 + 64<<10, 1 << 20},
		"10 GiB of blank lines":                 {"\n", 10 << 10, nil, ReadLimits{}, ErrBlankLine, 64 << 10, 1 << 20},
		"10 GiB of lines, more than the object": {short, 10 << 10, func(w *Expect) { w.Bytes = 30_000 }, ReadLimits{}, ErrSizeMismatch, 101 << 20, 1 << 20},
		"10 GiB of nothing, in empty blocks":    {"", 10 << 10, nil, ReadLimits{}, io.ErrUnexpectedEOF, 0, 1 << 20},
	} {
		line := c.line
		if line == "" {
			line = strings.Repeat("y", 2<<20) // more than a block has: none
		}
		r, want := newBomb(t, line, c.mib)
		if want.Bytes > 12<<20 {
			t.Errorf("%s: is no bomb, %d bytes", name, want.Bytes)
		}
		if c.change != nil {
			c.change(&want)
		}
		var f *FileReader
		var err error
		grown := allocated(func() {
			f = NewFileReader(r, want, c.l)
			for _, err = range f.Lines() { //nolint:revive // only the end matters
			}
		})
		var fe *FileError
		if !errors.As(err, &fe) || !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", name, err, c.is)
		}
		if f.Plain() > c.plain || grown > c.memory {
			t.Errorf("%s: read %d KiB and took %d KiB", name, f.Plain()>>10, grown>>10)
		}
	}
}
