// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
)

// goldenB is the data file of the golden backup B and what its manifest says.
func goldenB(t testing.TB) ([]byte, Expect) {
	t.Helper()
	return golden(t, "B/data/000001.json.gz"), Expect{
		Key: "data/000001.json.gz", Items: 2, Bytes: 207, Plain: 274,
		SHA256: "73d810d8c472b50053c08efdfa3b9221d0ba37354a572ca9db4fe9db6db5e510",
		MD5:    "nzHTvvfaMx7AAUGlfwCSNg==",
	}
}

// member is one gzip member of the text.
func member(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.StatelessCompression) // needs little memory
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// expect is what a manifest would say of the file.
func expect(data []byte, items int64) Expect {
	sum := sha256.Sum256(data)
	return Expect{Key: "data/7.json.gz", Items: items, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

// readAll reads a data file to its end.
func readAll(r io.Reader, want Expect, l ReadLimits) (lines []string, err error) {
	for line, err := range NewFileReader(r, want, l).Lines() {
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
	return lines, nil
}

func TestGoldenFile(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	plain := golden(t, "B/data-000001.ndjson")
	f := NewFileReader(bytes.NewReader(data), want, ReadLimits{})
	var text []byte
	size := 0
	for line, err := range f.Lines() {
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
		item, err := ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		size += item.Size()
	}
	if !bytes.Equal(text, plain) {
		t.Errorf("decodes to\n%s\nwant\n%s", text, plain)
	}
	if f.Plain() != 274 || size != 73 {
		t.Errorf("%d plain bytes, items of %d bytes", f.Plain(), size)
	}

	lines := strings.SplitAfter(string(plain), "\n")
	var items [][]byte
	for _, line := range lines[:2] {
		items = append(items, []byte(strings.TrimSuffix(strings.TrimPrefix(line, lineStart), lineEnd)))
	}
	ours, sums := writeFile(t, WriterOptions{}, items...)
	if got := gunzip(t, ours); !bytes.Equal(got, plain) {
		t.Errorf("our file of the same items has\n%s", got)
	}
	if sums.Items != 2 || sums.Plain != 274 {
		t.Errorf("%+v", sums)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	empty := member(t, "")
	for name, c := range map[string]struct {
		data  []byte
		lines []string
	}{
		"no line":                   {empty, nil},
		"one":                       {member(t, "a\n"), []string{"a"}},
		"no newline at the end":     {member(t, "a\nb"), []string{"a", "b"}},
		"CRLF":                      {member(t, "a\r\nb\r\n"), []string{"a", "b"}},
		"CR at the end":             {member(t, "a\nb\r"), []string{"a", "b"}},
		"CR within":                 {member(t, "a\rb\r\r\n"), []string{"a\rb\r"}},
		"two members":               {slices.Concat(member(t, "a\nb"), member(t, "c\nd\n")), []string{"a", "bc", "d"}},
		"empty members":             {slices.Concat(empty, member(t, "a\n"), empty, empty, member(t, "b\n"), empty), []string{"a", "b"}},
		"100,000 members":           {append(bytes.Repeat(empty, 100_000), member(t, "a\n")...), []string{"a"}},
		"lines as long as a buffer": {member(t, strings.Repeat(strings.Repeat("x", 64<<10-1)+"\n", 3)), slices.Repeat([]string{strings.Repeat("x", 64<<10-1)}, 3)},
		"lines beyond a buffer":     {member(t, "a\n"+strings.Repeat("y", 300_000)+"\nb\n"), []string{"a", strings.Repeat("y", 300_000), "b"}},
	} {
		for kind, r := range map[string]io.Reader{
			"at once":       bytes.NewReader(c.data),
			"with EOF":      iotest.DataErrReader(bytes.NewReader(c.data)),
			"byte for byte": iotest.OneByteReader(bytes.NewReader(c.data)),
		} {
			got, err := readAll(r, expect(c.data, int64(len(c.lines))), ReadLimits{})
			if err != nil || !slices.Equal(got, c.lines) {
				t.Errorf("%s, %s: %d lines, %v, want %d", name, kind, len(got), err, len(c.lines))
			}
		}
	}
}

// badFile is one that must not be read to an end.
type badFile struct {
	data []byte
	want Expect
	l    ReadLimits
	is   error
	text string // of the whole error
	read int    // lines before it
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	with := func(change func(*Expect)) Expect {
		w := want
		change(&w)
		return w
	}
	const key, sum = "data/000001.json.gz", "73d810d8c472b50053c08efdfa3b9221d0ba37354a572ca9db4fe9db6db5e510"
	zero := strings.Repeat("0", 64)
	ten := member(t, strings.Repeat("123456789\n", 10))
	for name, c := range map[string]badFile{
		"wrong sha256": {data, with(func(w *Expect) { w.SHA256 = zero }), ReadLimits{}, ErrChecksumMismatch,
			key + ": data file sha256 checksum mismatch: expected " + zero + ", computed " + sum, 2},
		"no digest at all": {data, with(func(w *Expect) { w.SHA256, w.MD5 = "", "" }), ReadLimits{}, ErrChecksumMismatch,
			key + ": data file sha256 checksum mismatch: expected , computed " + sum, 2},
		"wrong md5": {data, with(func(w *Expect) { w.MD5 = "FjvgqIxwymKf1RbbqtrZag==" }), ReadLimits{}, ErrChecksumMismatch,
			key + ": data file md5 checksum mismatch: expected FjvgqIxwymKf1RbbqtrZag==, computed nzHTvvfaMx7AAUGlfwCSNg==", 2},
		"wrong md5 alone": {data, with(func(w *Expect) { w.SHA256, w.MD5 = "", "x" }), ReadLimits{}, ErrChecksumMismatch,
			key + ": data file md5 checksum mismatch: expected x, computed nzHTvvfaMx7AAUGlfwCSNg==", 2},
		"fewer items": {data, with(func(w *Expect) { w.Items = 3 }), ReadLimits{}, ErrItemCount,
			key + ": item count mismatch: expected 3, decoded 2", 2},
		"more items": {data, with(func(w *Expect) { w.Items = 1 }), ReadLimits{}, ErrItemCount,
			key + ", line 2: item count mismatch: expected 1, decoded 2", 1},
		"items in an empty file": {data, with(func(w *Expect) { w.Items = 0 }), ReadLimits{}, ErrItemCount,
			key + ", line 1: item count mismatch: expected 0, decoded 1", 0},
		"fewer plain bytes": {data, with(func(w *Expect) { w.Plain = 275 }), ReadLimits{}, ErrPlainCount,
			key + ": uncompressed byte count mismatch: expected 275, decoded 274", 2},
		"more plain bytes": {data, with(func(w *Expect) { w.Plain = 273 }), ReadLimits{}, ErrPlainCount,
			key + ", line 1: uncompressed byte count mismatch: expected 273, decoded 274", 0},
		"fewer bytes": {data, with(func(w *Expect) { w.Bytes = 208 }), ReadLimits{}, ErrSizeMismatch,
			key + ": data file size mismatch: expected 208 bytes, found 207", 2},
		"more bytes": {data, with(func(w *Expect) { w.Bytes = 206 }), ReadLimits{}, ErrSizeMismatch,
			key + ": data file size mismatch: expected 206 bytes, found more", 0},
		"negative size": {data, with(func(w *Expect) { w.Bytes = -1 }), ReadLimits{}, ErrSizeMismatch,
			key + ": data file size mismatch: expected -1 bytes, found more", 0},
		"no byte": {nil, expect(nil, 0), ReadLimits{}, io.ErrUnexpectedEOF,
			"data/7.json.gz, line 1: decompress data file: unexpected EOF", 0},
		"not gzip": {[]byte("{}\n"), expect([]byte("{}\n"), 1), ReadLimits{}, io.ErrUnexpectedEOF,
			"data/7.json.gz, line 1: decompress data file: unexpected EOF", 0},
		"not gzip, longer": {[]byte("{\"Item\":{}}\n"), expect([]byte("{\"Item\":{}}\n"), 1), ReadLimits{}, gzip.ErrHeader,
			"data/7.json.gz, line 1: decompress data file: gzip: invalid header", 0},
		"plain cap": {ten, expect(ten, 10), ReadLimits{MaxPlain: 99}, ErrOverLimit,
			"data/7.json.gz, line 1: data file exceeded the 99-byte maximum uncompressed size; refusing to decompress further to bound memory", 0},
		"line cap": {ten, expect(ten, 10), ReadLimits{MaxLine: 9}, ErrOverLimit,
			"data/7.json.gz, line 1: data file line exceeded the 9-byte maximum length; refusing to decompress further to bound memory", 0},
	} {
		lines, err := readAll(bytes.NewReader(c.data), c.want, c.l)
		c.checkError(t, name, lines, err)
	}
	if _, err := readAll(bytes.NewReader(ten), expect(ten, 10), ReadLimits{MaxLine: 10, MaxPlain: 100}); err != nil {
		t.Errorf("a file at its limits: %v", err)
	}
	if _, err := readAll(bytes.NewReader(data), with(func(w *Expect) { w.SHA256 = "" }), ReadLimits{}); err != nil {
		t.Errorf("a file with an MD5 only: %v", err)
	}
}

func (c badFile) checkError(t *testing.T, name string, lines []string, err error) {
	t.Helper()
	var fe *FileError
	if !errors.As(err, &fe) || !errors.Is(err, c.is) || (c.text != "" && err.Error() != c.text) {
		t.Errorf("%s:\n got %v\nwant %s", name, err, c.text)
	}
	if len(lines) != c.read {
		t.Errorf("%s: %d lines before the error, want %d", name, len(lines), c.read)
	}
}

func TestBlankLines(t *testing.T) {
	t.Parallel()
	for text, line := range map[string]int64{"\n": 1, "\r\n": 1, "\r": 1, "a\n\nb\n": 2, "a\n\r\nb\n": 2, "a\nb\n\n": 3} {
		data := member(t, text)
		_, err := readAll(bytes.NewReader(data), expect(data, 9), ReadLimits{})
		var fe *FileError
		if !errors.As(err, &fe) || !errors.Is(err, ErrBlankLine) || fe.Line != line {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLineCap reads lines about the cap, which counts the newline.
func TestLineCap(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{3, 100, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, MaxPortableLine, MaxPortableLine + 1, 5 << 20} {
		for n, ok := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
			for _, before := range []string{"", "a\n"} {
				for end, length := range map[string]int{"\n": n - 1, "": n} {
					line := strings.Repeat("x", length)
					data := member(t, before+line+end)
					lines, err := readAll(bytes.NewReader(data), expect(data, int64(1+len(before)/2)), ReadLimits{MaxLine: int64(limit)})
					if ok && (err != nil || lines[len(lines)-1] != line) {
						t.Errorf("cap %d, %d bytes ending in %q: %v", limit, n, end, err)
					}
					if !ok && (!errors.Is(err, ErrOverLimit) || len(lines) != len(before)/2) {
						t.Errorf("cap %d, %d bytes ending in %q: %v", limit, n, end, err)
					}
				}
			}
		}
	}
}

// TestNoLineCap reads a line beyond every default with limits that are none.
func TestNoLineCap(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 2*DefaultMaxLine+1)
	data := member(t, line+"\nb\n")
	lines, err := readAll(bytes.NewReader(data), expect(data, 2), ReadLimits{MaxLine: math.MaxInt64, MaxPlain: math.MaxInt64})
	if err != nil || lines[0] != line || lines[1] != "b" {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	for n := range data {
		lines, err := readAll(bytes.NewReader(data[:n]), want, ReadLimits{})
		badFile{is: ErrSizeMismatch, text: fmt.Sprintf("%s: data file size mismatch: expected 207 bytes, found %d", want.Key, n), read: len(lines)}.
			checkError(t, fmt.Sprint(n, " bytes"), lines, err)

		// The same when the manifest was made of the truncated file.
		lines, err = readAll(bytes.NewReader(data[:n]), expect(data[:n], 2), ReadLimits{})
		badFile{is: io.ErrUnexpectedEOF, read: len(lines)}.checkError(t, fmt.Sprint(n, " bytes, agreed"), lines, err)
	}
}

// TestDamagedFile flips every bit of a file.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	undamaged, err := readAll(bytes.NewReader(data), want, ReadLimits{})
	if err != nil {
		t.Fatal(err)
	}
	want.Plain = 0
	for i := range data {
		for bit := range 8 {
			name := fmt.Sprintf("bit %d of byte %d", bit, i)
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			lines, err := readAll(bytes.NewReader(bad), want, ReadLimits{})
			var fe *FileError
			if !errors.As(err, &fe) || !errors.Is(err, ErrChecksumMismatch) {
				t.Errorf("%s: %d lines, %v", name, len(lines), err)
			}

			// With a digest made of the damaged file gzip notices, except where
			// the time, the hints beside it and the system stand, and in what
			// fills up the last byte of the deflate stream.
			lines, err = readAll(bytes.NewReader(bad), expect(bad, 2), ReadLimits{})
			switch harmless := i >= 4 && i < 10 || i == 3 && bit == 0 || i == 198 && bit == 7; {
			case harmless && (err != nil || !slices.Equal(lines, undamaged)):
				t.Errorf("%s: %v", name, err)
			case !harmless && err == nil:
				t.Errorf("%s: not noticed", name)
			}
		}
	}
}

func TestTrailingGarbage(t *testing.T) {
	t.Parallel()
	data, _ := goldenB(t)
	for _, tail := range []string{"\x00", "x", "\x1f\x8b", strings.Repeat("\x00", 512), "{\"Item\":{}}\n"} {
		bad := append(bytes.Clone(data), tail...)
		_, err := readAll(bytes.NewReader(bad), expect(bad, 2), ReadLimits{})
		if !errors.Is(err, gzip.ErrHeader) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", tail, err)
		}
	}
}

// counted counts what is read of it.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func TestReadsOneByteTooMany(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	for tail, sound := range map[int]bool{0: true, 1: false, 1 << 20: false} {
		r := &counted{r: io.MultiReader(bytes.NewReader(data), io.LimitReader(endless{}, int64(tail)))}
		_, err := readAll(r, want, ReadLimits{})
		if sound != (err == nil) || (!sound && !errors.Is(err, ErrSizeMismatch)) {
			t.Errorf("%d bytes more: %v", tail, err)
		}
		if r.n > want.Bytes+1 {
			t.Errorf("%d bytes more: read %d of them", tail, r.n-want.Bytes)
		}
	}
}

// endless yields zeros for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFailingSource(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	for n := range data {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(errDisk))
		lines, err := readAll(r, want, ReadLimits{})
		badFile{is: errDisk, read: len(lines)}.checkError(t, fmt.Sprint(n), lines, err)
		if !strings.Contains(err.Error(), ": read data file: no space left on device") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestLinesCanBeLeft(t *testing.T) {
	t.Parallel()
	data, want := goldenB(t)
	f := NewFileReader(bytes.NewReader(data), want, ReadLimits{})
	for line, err := range f.Lines() {
		if err != nil || len(line) == 0 {
			t.Fatal(err)
		}
		break
	}
	if err := f.Fail(errDisk); err.Error() != "data/000001.json.gz, line 1: no space left on device" || !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

func TestForeignFile(t *testing.T) {
	t.Parallel()
	data := member(t, "a\nb\n")
	sum := md5.Sum(data)
	want := Expect{Key: "k", Items: 2, Bytes: int64(len(data)), MD5: base64.StdEncoding.EncodeToString(sum[:])}
	if lines, err := readAll(bytes.NewReader(data), want, ReadLimits{}); err != nil || len(lines) != 2 {
		t.Errorf("%q, %v", lines, err)
	}
}
