// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// tempSpill sorts in a directory of its own.
func tempSpill(t *testing.T, limit int) (s *spill, dir string) {
	t.Helper()
	dir = t.TempDir()
	return newSpill(loadFiles(filepath.Join(dir, "a.db"), 7), limit), dir
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// randomKey has few values, so that all parts of a position come to matter.
func randomKey(rnd *rand.Rand) []byte {
	k := make([]byte, rnd.IntN(12))
	for i := range k {
		k[i] = [...]byte{0, 1, 'a', 0xFF}[rnd.IntN(4)]
	}
	return k
}

// TestSpillSorts: whatever comes is yielded in the order of the table of
// entries, with as many runs as there may be, and nothing stays behind.
func TestSpillSorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, limit int }{{0, 1}, {1, 1}, {50, 1}, {spillFan * spillFan * 2, 1}, {5000, 4 << 10}, {5000, 0}} {
		t.Run(fmt.Sprintf("%d entries, %d bytes", c.n, c.limit), func(t *testing.T) {
			t.Parallel()
			s, dir := tempSpill(t, c.limit)
			rnd := rand.New(rand.NewPCG(uint64(c.n), uint64(c.limit)))
			var want []record
			for i := range c.n {
				e := &storage.Entry{Index: storage.IndexID(rnd.IntN(3) + 1), P: randomKey(rnd), S: randomKey(rnd), Size: rnd.IntN(1 << 20)}
				k := storage.Key{PK: randomKey(rnd), SK: fmt.Append(nil, i)}
				if err := s.add(e, k, int64(i)); err != nil {
					t.Fatal(err)
				}
				want = append(want, appendRecord(nil, e, k, int64(i)))
			}
			for level, paths := range s.levels {
				if len(paths) >= spillFan {
					t.Errorf("level %d has %d runs", level, len(paths))
				}
			}
			slices.SortFunc(want, record.compare)
			m, err := s.merge()
			if err != nil {
				t.Fatal(err)
			}
			var batch entryBatch
			i := 0
			for {
				if err := m.take(&batch, 100); err != nil {
					t.Fatal(err)
				}
				if len(batch.ends) == 0 {
					break
				}
				for j := range batch.ends {
					if !bytes.Equal(batch.at(j), want[i]) {
						t.Fatalf("record %d is %x, want %x", i, batch.at(j), want[i])
					}
					i++
				}
			}
			if i != c.n || s.n != int64(c.n) {
				t.Errorf("%d records of %d added, want %d", i, s.n, c.n)
			}
			m.close()
			s.discard()
			if names := fileNames(t, dir); len(names) != 0 {
				t.Errorf("files left: %q", names)
			}
		})
	}
}

// TestSpillMemory: it stays the same with any number of entries.
func TestSpillMemory(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	s, _ := tempSpill(t, limit)
	defer s.discard()
	e, k := &storage.Entry{Index: 1, P: make([]byte, 40), S: make([]byte, 20), Size: 1}, storage.Key{PK: make([]byte, 30), SK: make([]byte, 8)}
	for i := range 50 * limit / 100 {
		if err := s.add(e, k, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(s.mem) + placeSize*cap(s.places); n > 3*limit || s.files < 20 {
		t.Errorf("%d bytes in memory, %d files made", n, s.files)
	}
}

// TestSpillRecord: what is put in a record comes out.
func TestSpillRecord(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte{7}, 1048)
	for _, parts := range [][4][]byte{{}, {[]byte("p"), nil, []byte("k"), nil}, {long, long, long, long}} {
		e := storage.Entry{Index: 1 << 40, P: parts[0], S: parts[1], Size: 400 << 10}
		r := record(appendRecord([]byte("before"), &e, storage.Key{PK: parts[2], SK: parts[3]}, 1<<50)[6:])
		p, s, pk, sk := r.position()
		if r.index() != 1<<40 || r.row() != 1<<50 || r.size() != 400<<10 || r.len() != len(r) ||
			!bytes.Equal(p, parts[0]) || !bytes.Equal(s, parts[1]) || !bytes.Equal(pk, parts[2]) || !bytes.Equal(sk, parts[3]) {
			t.Errorf("record %x of %x", r, parts)
		}
	}
}

// spilled is a sort with some runs.
func spilled(t *testing.T) (s *spill, dir string) {
	t.Helper()
	s, dir = tempSpill(t, 1)
	for i := range 10 {
		if err := spillOne(s, i); err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

func spillOne(s *spill, i int) error {
	return s.add(&storage.Entry{Index: 1, P: []byte("partition"), S: fmt.Append(nil, i), Size: 1}, storage.Key{PK: []byte("k")}, int64(i))
}

// TestSpillFaults: files that cannot be made, or are not what they were, end
// the sort, and all of them are removed.
func TestSpillFaults(t *testing.T) {
	t.Parallel()
	merge := func(s *spill) error {
		m, err := s.merge()
		if err != nil {
			return err
		}
		defer m.close()
		var b entryBatch
		return m.take(&b, 100)
	}
	change := func(size int64) func(t *testing.T, s *spill, dir string) error {
		return func(t *testing.T, s *spill, dir string) error {
			t.Helper()
			if err := os.Truncate(s.levels[0][3], size); err != nil {
				t.Fatal(err)
			}
			return merge(s)
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, s *spill, dir string) error
		left int
	}{
		"directory is gone": {func(t *testing.T, s *spill, dir string) error {
			t.Helper()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(spillOne(s, 10), spillOne(s, 11))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			return err
		}, 0},
		"file in the way": {func(t *testing.T, s *spill, _ string) error {
			t.Helper()
			if err := os.WriteFile(s.path(s.files+1), []byte("somebody's"), 0o600); err != nil {
				t.Fatal(err)
			}
			return spillOne(s, 10)
		}, 1},
		"a run is gone": {func(t *testing.T, s *spill, _ string) error {
			t.Helper()
			if err := os.Remove(s.levels[0][5]); err != nil {
				t.Fatal(err)
			}
			return merge(s)
		}, 0},
		"a run is gone before it is merged": {func(t *testing.T, s *spill, _ string) error {
			t.Helper()
			if err := os.Remove(s.levels[0][5]); err != nil {
				t.Fatal(err)
			}
			for i := range spillFan {
				if err := spillOne(s, i); err != nil {
					return err
				}
			}
			return nil
		}, 0},
		"cut in its head": {change(recordHead - 1), 0},
		"cut in its keys": {change(recordHead + 3), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := spilled(t)
			wantErr(t, c.do(t, s, dir), storage.ErrUnavailable)
			s.discard()
			if names := fileNames(t, dir); len(names) != c.left {
				t.Errorf("files left: %q", names)
			}
		})
	}
}

// TestSweepLoads: what a load left is removed, and nothing else.
func TestSweepLoads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "a.db")
	name := loadFiles("a.db", 12)
	gone := []string{name(1), name(345), loadFiles("a.db", 1)(1)}
	kept := []string{
		"a.db", "a.db.lock", "b.db.load-12-1.tmp", "xa.db.load-12-1.tmp", "a.db.load-12-1.tmp.bak", "a.db.load-12.tmp", "a.db.load-x-1.tmp",
		"a.db.load-12-1", "a.db.load-012-1.tmp", "a.db.load-12-1-1.tmp", "a.db.load--1.tmp", "a.db.load-1-.tmp", "a.db.load-+1-1.tmp",
	}
	for _, n := range slices.Concat(gone, kept) {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepLoads(db); err != nil {
		t.Fatal(err)
	}
	slices.Sort(kept)
	if names := fileNames(t, dir); !slices.Equal(names, kept) {
		t.Errorf("left are %q, want %q", names, kept)
	}
	if err := sweepLoads(filepath.Join(dir, "none", "a.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
	full := filepath.Join(dir, name(2))
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name(3)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sweepLoads(db); err == nil {
		t.Error("a directory in the way is no error")
	}
	if names := fileNames(t, dir); slices.Contains(names, name(3)) || !slices.Contains(names, name(2)) {
		t.Errorf("left are %q", names)
	}
}
