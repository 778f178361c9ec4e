// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// words gives synthetic items the repetition that real ones have.
var words = strings.Fields("order customer shipped pending returned north south street invoice priority gold silver blue parcel express weekly")

// testItem returns the JSON of an item of about 400 bytes.
func testItem(r *rand.Rand, n int) []byte {
	word := func() string { return words[r.IntN(len(words))] }
	var note []string
	for range 12 {
		note = append(note, word())
	}
	return ddb.AppendItem(nil, ddb.Item{
		"pk":      ddb.String(fmt.Sprintf("customer#%016x", r.Uint64())),
		"sk":      ddb.String(fmt.Sprintf("order#%012d", n)),
		"status":  ddb.String(word()),
		"total":   ddb.Int(r.Int64N(1_000_000)),
		"created": ddb.Int(1_757_500_000_000 + r.Int64N(1e9)),
		"note":    ddb.String(strings.Join(note, " ")),
		"tags":    ddb.StringSet(words[r.IntN(8)], words[8+r.IntN(8)]),
		"active":  ddb.Bool(n%3 == 0),
		"address": ddb.Map(ddb.Item{"city": ddb.String(word()), "zip": ddb.Int(int64(10000 + r.IntN(89999)))}),
	})
}

func testItems(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	items := make([][]byte, n)
	for i := range items {
		items[i] = testItem(r, i)
	}
	return items
}

// writeFile writes a data file of the items.
func writeFile(t testing.TB, o WriterOptions, items ...[]byte) ([]byte, FileSums) {
	t.Helper()
	var out bytes.Buffer
	f := NewFileWriter(&out, o)
	defer f.Abort()
	for _, item := range items {
		if err := f.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := f.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), sums
}

// gunzip is the other implementation.
func gunzip(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" || z.Comment != "" || len(z.Extra) != 0 || z.OS != 255 {
		t.Errorf("header %+v", z.Header)
	}
	return plain
}

func TestEmptyFileIsGolden(t *testing.T) {
	t.Parallel()
	want := golden(t, "A/data/000001.json.gz")
	for _, workers := range []int{-1, 0, 1, 2, 8} {
		got, sums := writeFile(t, WriterOptions{Workers: workers})
		if !bytes.Equal(got, want) || base64.StdEncoding.EncodeToString(got) != "H4sIAAAAAAAA/wMAAAAAAAAAAAA=" {
			t.Errorf("%d workers: %x, want %x", workers, got, want)
		}
		about := FileSums{Bytes: 20, SHA256: "ac73670af3abed54ac6fb4695131f4099be9fbe39d6076c5d0264a6bbdae9d83"}
		sum, _ := base64.StdEncoding.DecodeString("FjvgqIxwymKf1RbbqtrZag==")
		copy(about.MD5[:], sum)
		if sums != about {
			t.Errorf("%+v, want %+v", sums, about)
		}
	}
}

func TestFileDoesNotDependOnWorkers(t *testing.T) {
	t.Parallel()
	items := testItems(6000) // five blocks
	plain := []byte(`{"Item":` + string(bytes.Join(items, []byte("}\n{\"Item\":"))) + "}\n")
	var first []byte
	for _, workers := range []int{0, 1, 2, 3, 7} {
		for range 3 {
			data, sums := writeFile(t, WriterOptions{Workers: workers}, items...)
			if first == nil {
				first = data
			}
			if !bytes.Equal(data, first) {
				t.Fatalf("%d workers: another file", workers)
			}
			sha := sha256.Sum256(data)
			want := FileSums{
				Items: 6000, Bytes: int64(len(data)), Plain: int64(len(plain)),
				SHA256: hex.EncodeToString(sha[:]), MD5: md5.Sum(data),
			}
			if sums != want {
				t.Fatalf("%+v, want %+v", sums, want)
			}
		}
	}
	if got := gunzip(t, first); !bytes.Equal(got, plain) {
		t.Error("decompresses to something else")
	}
}

// TestBlocksReferBack repeats, across the end of a block, what does not compress
// by itself.
func TestBlocksReferBack(t *testing.T) {
	t.Parallel()
	noise := make([]byte, dictSize/2)
	for i, r := 0, rand.New(rand.NewPCG(5, 6)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	item := append(bytes.Repeat([]byte("x"), blockSize-len(noise)-len(lineStart)), noise...)
	once, _ := writeFile(t, WriterOptions{}, item)
	twice, sums := writeFile(t, WriterOptions{}, append(item, noise...))
	if sums.Plain < blockSize+int64(len(noise)) || len(once) < len(noise) || len(twice) > len(once)+2000 {
		t.Errorf("%d bytes once, %d twice", len(once), len(twice))
	}
}

// TestCompressorsForget compresses what a fresh compressor and one with a past
// must compress to the same bytes.
func TestCompressorsForget(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	items := testItems(4000)
	var all []byte
	for _, item := range items {
		all = append(all, item...)
	}
	reused := newGzipper(1, func([]byte) error { return nil })
	for range 12 {
		from := r.IntN(len(all) / 2)
		text := all[from : from+r.IntN(blockSize)]
		var first, again bytes.Buffer
		for out, g := range map[*bytes.Buffer]*gzipper{
			&first: newGzipper(1, nil),
			&again: {workers: 1, writers: reused.writers, current: reused.next(nil)},
		} {
			g.put = func(p []byte) error { out.Write(p); return nil }
			if err := g.write(text); err != nil {
				t.Fatal(err)
			}
			if err := g.close(); err != nil {
				t.Fatal(err)
			}
			reused.writers = g.writers
		}
		if !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Fatalf("%d bytes from %d on are compressed in two ways", len(text), from)
		}
	}
}

// TestBlockBoundaries writes files that end at, before and behind a block's end.
func TestBlockBoundaries(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{1, 2, 3} {
		for _, off := range []int{-1, 0, 1} {
			size := blocks*blockSize + off
			item := bytes.Repeat([]byte("x"), size-int(lineBytes(0)))
			data, sums := writeFile(t, WriterOptions{Workers: 2}, item)
			if sums.Plain != int64(size) || sums.Long != 0 {
				t.Errorf("%+v, want %d plain bytes", sums, size)
			}
			if got := gunzip(t, data); len(got) != size || !bytes.Contains(got, item) {
				t.Errorf("%d bytes come back as %d", size, len(got))
			}
		}
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	f := NewFileWriter(io.Discard, WriterOptions{TargetBytes: 100})
	defer f.Abort()
	if !f.Fits(1000) {
		t.Error("an empty file has no room")
	}
	if err := f.Write(make([]byte, 50)); err != nil { // a line of 60 bytes
		t.Fatal(err)
	}
	if !f.Fits(30) || f.Fits(31) {
		t.Errorf("room for 30: %v, for 31: %v", f.Fits(30), f.Fits(31))
	}
	byDefault := NewFileWriter(io.Discard, WriterOptions{})
	defer byDefault.Abort()
	if err := byDefault.Write(nil); err != nil {
		t.Fatal(err)
	}
	if n := DefaultTarget - 2*int(lineBytes(0)); !byDefault.Fits(n) || byDefault.Fits(n+1) {
		t.Error("the default target is another")
	}
}

func TestLongLinesAreCounted(t *testing.T) {
	t.Parallel()
	room := MaxPortableLine - int(lineBytes(0))
	_, sums := writeFile(t, WriterOptions{}, make([]byte, room), make([]byte, room+1), nil)
	if sums.Long != 1 || sums.Items != 3 {
		t.Errorf("%+v, want 1 long line of 3", sums)
	}
}

// failing takes so many writes, and fails those behind them.
type failing struct {
	writes int
	err    error // nil: a write is short
	n      int
}

func (w *failing) Write(p []byte) (int, error) {
	w.n++
	if w.n <= w.writes {
		return len(p), nil
	}
	if w.err == nil {
		return len(p) - 1, nil
	}
	return 0, w.err
}

var errDisk = errors.New("no space left on device")

// settled waits until no goroutine compresses.
func settled(t *testing.T, what string) {
	t.Helper()
	var stacks []byte
	for range 1000 {
		stacks = make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("(*block).compress")) {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%s: still compressing\n%s", what, stacks)
}

//nolint:paralleltest // looks at all goroutines of the process
func TestFailingDestination(t *testing.T) {
	items := testItems(8000)
	for _, cause := range []error{errDisk, nil} {
		want := cause
		if want == nil {
			want = io.ErrShortWrite
		}
		for writes := range 8 { // header, blocks, trailer
			for _, workers := range []int{0, 1, 4} {
				name := fmt.Sprintf("%v after %d writes, %d workers", want, writes, workers)
				w := &failing{writes: writes, err: cause}
				f := NewFileWriter(w, WriterOptions{Workers: workers})
				var err error
				for _, item := range items {
					if err = f.Write(item); err != nil {
						break
					}
				}
				if err == nil {
					_, err = f.Close()
				}
				if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "write data file: ") {
					t.Fatalf("%s: %v", name, err)
				}
				settled(t, name)
				n := w.n
				if again := f.Write(items[0]); again != err {
					t.Errorf("%s: then Write says %v", name, again)
				}
				if sums, again := f.Close(); again != err || sums != (FileSums{}) {
					t.Errorf("%s: then Close says %+v, %v", name, sums, again)
				}
				f.Abort()
				f.Abort()
				if w.n != n {
					t.Errorf("%s: written to again", name)
				}
			}
		}
	}
}

//nolint:paralleltest // looks at all goroutines of the process
func TestAbort(t *testing.T) {
	items := testItems(8000)
	for _, n := range []int{0, 1, 2000, 8000} {
		w := &failing{writes: 1 << 30}
		f := NewFileWriter(w, WriterOptions{Workers: 4})
		for _, item := range items[:n] {
			if err := f.Write(item); err != nil {
				t.Fatal(err)
			}
		}
		before := w.n
		f.Abort()
		settled(t, "after Abort")
		f.Abort()
		if err := f.Write(items[0]); !errors.Is(err, errFileClosed) {
			t.Errorf("Write after Abort: %v", err)
		}
		if _, err := f.Close(); !errors.Is(err, errFileClosed) {
			t.Errorf("Close after Abort: %v", err)
		}
		if w.n != before {
			t.Error("Abort writes")
		}
	}
	var out bytes.Buffer
	f := NewFileWriter(&out, WriterOptions{})
	if _, err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if _, err := f.Close(); !errors.Is(err, errFileClosed) {
		t.Errorf("second Close: %v", err)
	}
	if out.Len() != 20 {
		t.Errorf("%d bytes of an empty file that was closed, aborted and closed", out.Len())
	}
}

//nolint:paralleltest // counts the memory of the process
func TestWriterMemoryIsFlat(t *testing.T) {
	items := testItems(1000)
	for _, workers := range []int64{0, 1, 4} {
		var f *FileWriter
		grown := allocated(func() {
			f = NewFileWriter(io.Discard, WriterOptions{Workers: int(workers)})
			for i := range 50_000 {
				if err := f.Write(items[i%1000]); err != nil {
					t.Fatal(err)
				}
			}
		})
		f.Abort()
		if grown > (5+2*workers)<<20 {
			t.Errorf("20 MB of lines take %d KiB with %d workers", grown>>10, workers)
		}
	}
}

// allocated is how many bytes f allocates, garbage included: an upper bound of
// what it ever holds.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestBackupItem(t *testing.T) {
	t.Parallel()
	tiny, huge := mustNum(t, "1E-130").String(), mustNum(t, "-9.9E125").String()
	const digits = "12345678901234567890123456789012345678" // not long, as numbers go
	stored := `{"a":{"N":"` + tiny + `"},"b":{"L":[{"NS":["` + huge + `","1"]},{"N":"` + digits + `"}]}}`
	want := `x{"a":{"N":"1E-130"},"b":{"L":[{"NS":["-9.9E125","1"]},{"N":"` + digits + `"}]}}`
	if got, err := BackupItem([]byte("x"), []byte(stored)); err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	if got, err := BackupItem([]byte("x"), []byte(`{"a":`)); err == nil || string(got) != "x" {
		t.Errorf("half an item: %s, %v", got, err)
	}
}

func mustNum(t testing.TB, s string) ddb.Number {
	t.Helper()
	n, err := ddb.ParseNumber(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func BenchmarkFileWriter(b *testing.B) {
	items := testItems(10_000)
	for _, workers := range []int{0, 1, 2} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			b.ReportAllocs()
			f := NewFileWriter(io.Discard, WriterOptions{Workers: workers})
			n := 0
			for i := 0; b.Loop(); i++ {
				if err := f.Write(items[i%len(items)]); err != nil {
					b.Fatal(err)
				}
				n += len(items[i%len(items)])
			}
			if _, err := f.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/1e6/b.Elapsed().Seconds(), "MB/s")
		})
	}
}
