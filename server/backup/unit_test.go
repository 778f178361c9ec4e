// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/storage"
)

func TestDefaultName(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.FixedZone("", 3600))
	if got := defaultName("Music", at); got != "Music-20260314-140926.535" {
		t.Errorf("got %q", got)
	}
	for n := 3; n <= 255; n++ {
		if name := defaultName(strings.Repeat("x", n), at); !isName(name) || !strings.HasSuffix(name, "-20260314-140926.535") {
			t.Errorf("table of %d characters: %q", n, name)
		}
	}
}

func TestIsName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"abc": true, "A.z-_9": true, "...": true, strings.Repeat("x", 255): true,
		"": false, "ab": false, strings.Repeat("x", 256): false, "a b": false, "a/b": false, "abé": false, "ab\x00": false,
	} {
		if isName(name) != want {
			t.Errorf("isName(%q) is not %v", name, want)
		}
	}
}

func TestTargetOf(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for i, want := range map[int]int64{
		0: 64 * mib, 9_999: 64 * mib, 10_000: 128 * mib, 19_999: 128 * mib, 20_000: 256 * mib, 30_000: 512 * mib, 40_000: 1024 * mib, 999_999: 1024 * mib,
	} {
		if got := targetOf(64*mib, i); got != want {
			t.Errorf("file %d: %d MiB, want %d", i, got/mib, want/mib)
		}
	}
	if got := targetOf(3*1024*mib, 10_000); got != 3*1024*mib { // as configured
		t.Errorf("got %d MiB", got/mib)
	}
}

func TestETag(t *testing.T) {
	t.Parallel()
	const sum = "9f31d3bef7da331ec00141a57f009236"
	for s, want := range map[string]bool{
		sum: true, sum + "-1": true, sum + "-10000": true,
		"": false, sum[1:]: false, sum + "-": false, sum + "-x": false, sum + "-0": false, sum[:31] + "g": false, "207-1757500000": false,
	} {
		if isS3ETag(s) != want {
			t.Errorf("isS3ETag(%q) is not %v", s, want)
		}
		f := &dataFile{put: backupstore.PutResult{ETag: s}, sums: format.FileSums{MD5: [16]byte{15: 1}}}
		wantTag := s
		if !want {
			wantTag = "00000000000000000000000000000001"
		}
		if got := etag(f); got != wantTag {
			t.Errorf("etag of %q is %q", s, got)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		code Code
		hint bool
	}{
		"cancelled":                       {over, errFault, Interrupted, false},
		"known":                           {t.Context(), fmt.Errorf("more: %w", errorf(Busy, "x").hint("y")), Busy, true},
		"newer":                           {t.Context(), fmt.Errorf("read: %w", &format.VersionError{Found: 2}), Refused, true},
		"no space":                        {t.Context(), &backupstore.IOError{Op: "write", Err: syscall.ENOSPC}, Failed, true},
		"quota":                           {t.Context(), fmt.Errorf("write: %w", syscall.EDQUOT), Failed, true},
		"no table":                        {t.Context(), fmt.Errorf("open: %w", storage.ErrTableNotFound), NotFound, true},
		"creating table":                  {t.Context(), storage.ErrTableNotActive, Busy, true},
		"no store":                        {t.Context(), &backupstore.UnusableError{Text: "x"}, NotFound, true},
		"no rights":                       {t.Context(), fmt.Errorf("put: %w", backupstore.ErrPermission), Denied, true},
		"locked":                          {t.Context(), &storage.Locked{}, Busy, true},
		"bad key":                         {t.Context(), backupstore.ErrInvalidKey, Invalid, false},
		"other":                           {t.Context(), errFault, Failed, false},
		"end of context of somebody else": {t.Context(), context.DeadlineExceeded, Failed, false},
	} {
		e := Classify(c.ctx, c.err)
		if e.Code != c.code || (e.Hint != "") != c.hint || e.Error() != c.err.Error() || !errors.Is(e, c.err) ||
			e.JobCode() != string(c.code) || e.JobHint() != e.Hint {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A backup is the same however many goroutines make it.
func TestWorkersDoNotShow(t *testing.T) {
	t.Parallel()
	var first []byte
	for _, workers := range []int{1, 2, 5} {
		r := newRig(t)
		r.rich(3000)
		r.env.Limits = Limits{Workers: workers}
		s := r.create("source")
		data, err := readObject(t.Context(), r.env.withDefaults(), s.ref().Key(format.DataFileKey(1)))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if s.Items != 3000 || !bytes.Equal(data, first) {
			t.Errorf("%d workers: %d items, %d bytes instead of %d", workers, s.Items, len(data), len(first))
		}
	}
}

// A backup rests after so many bytes of items, not between the rows of them.
func TestBackupRests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(3000)
	rests := 0
	r.env.Rest = func() { rests++ }
	s := r.create("source")
	_, m, err := Show(t.Context(), r.env, s.ref())
	if err != nil {
		t.Fatal(err)
	}
	if least := int(m.Table.SizeBytes) / restBytes; rests < max(least, 10) || rests > 4*least { // JSON is longer
		t.Errorf("%d rests with %d bytes of items", rests, m.Table.SizeBytes)
	}
}

// What is decoded ahead is bounded in bytes, however few lines that is.
func TestReadingIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		const files, line = 12, 3 << 20
		var texts []string
		for i := range files {
			texts = append(texts, fmt.Sprintf(`{"Item":{"pk":{"S":"%06d"},"sk":{"N":"1"}},"x":"%s"}`+"\n", i, strings.Repeat("x", line)))
		}
		h := newHandmade(texts...)
		ref := h.store(r, nil)
		used := 0
		e := r.env.withDefaults()
		e.Limits.Workers = 8
		in := reading[int]{
			e: e, ref: ref, m: h.m,
			decode: func(lines [][]byte) int { return len(lines) },
			each: func(c *chunk[int]) error {
				synctest.Wait() // the reader is as far ahead as it gets
				// One more is read and waits for its turn.
				if ahead := r.store.Calls("Get") - used; ahead > aheadBytes/line+1 {
					r.Errorf("%d files are read ahead", ahead)
				}
				used++
				if c.out != 1 || c.first != 1 || c.file != used-1 || c.end == nil || c.end.err != nil {
					r.Errorf("chunk %d: %d lines of file %d, %+v", used, c.out, c.file, c.end)
				}
				return nil
			},
		}
		if err := in.run(r.Context()); err != nil || used != files {
			r.Errorf("%d chunks, %v", used, err)
		}
	})
}

// Nothing goes on when reading has ended, also with an error.
func TestReadingEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		h := newHandmade(lineA, lineB)
		ref := h.store(r, nil)
		gate, ended := make(chan struct{}), false
		in := reading[int]{
			e: r.env.withDefaults(), ref: ref, m: h.m,
			decode: func(lines [][]byte) int {
				if strings.Contains(string(lines[0]), `"b"`) {
					<-gate
					ended = true
				}
				return 0
			},
			each: func(*chunk[int]) error {
				synctest.Wait() // the second file is being decoded
				go func() {
					synctest.Wait() // until run can do nothing but wait
					close(gate)
				}()
				return errFault
			},
		}
		if err := in.run(r.Context()); !errors.Is(err, errFault) || !ended {
			r.Errorf("decoding has ended: %v, %v", ended, err)
		}
	})
}

// Chunks come in order, are cut by lines and bytes, and the first error ends it.
func TestReadingChunks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHandmade(strings.Repeat(lineA, 2*chunkLines+201), "", lineB)
	ref := h.store(r, nil)
	var got []string
	in := reading[int]{
		e: r.env.withDefaults(), ref: ref, m: h.m, decode: func(lines [][]byte) int { return len(lines) },
		each: func(c *chunk[int]) error {
			got = append(got, fmt.Sprint(c.file, " ", c.first, " ", c.out, " ", c.end != nil))
			return nil
		},
	}
	if err := in.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"0 1 2000 false", "0 2001 2000 false", "0 4001 201 true", "1 1 0 true", "2 1 1 true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = nil
	in.each = func(*chunk[int]) error { got = append(got, "x"); return errFault }
	if err := in.run(t.Context()); !errors.Is(err, errFault) || len(got) != 1 {
		t.Errorf("%d chunks, %v", len(got), err)
	}
}

// sources keep the errors of reading apart from what was read.
func TestSource(t *testing.T) {
	t.Parallel()
	n := 0
	s := &source{r: io.MultiReader(strings.NewReader("abc"), &failing{}), count: func(k int) { n += k }}
	if _, err := io.ReadAll(s); !errors.Is(err, errFault) || !errors.Is(s.err, errFault) || n != 3 {
		t.Errorf("%d bytes, %v, %v", n, err, s.err)
	}
	s = &source{r: strings.NewReader("abc")}
	if _, err := io.ReadAll(s); err != nil || s.err != nil {
		t.Errorf("%v, %v", err, s.err)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errFault }

// TestAbout: an object is named once, whoever names it.
func TestAbout(t *testing.T) {
	t.Parallel()
	const key = "000000000000/t/1/_started"
	for _, err := range []error{syscall.ENOSPC, &backupstore.IOError{Op: "write " + key, Err: syscall.ENOSPC}} {
		got := about("write", key, err)
		if want := "write " + key + ": " + syscall.ENOSPC.Error(); got.Error() != want || !errors.Is(got, syscall.ENOSPC) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
