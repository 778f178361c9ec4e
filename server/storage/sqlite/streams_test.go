// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// streaming is a table whose changes are recorded with both images.
func streaming(name string) ddb.TableDefinition {
	def := plain(name)
	def.StreamViewType = ddb.ViewBoth
	return def
}

func recordsOf(t *testing.T, db *DB, id storage.TableID) []storage.Record {
	t.Helper()
	h, err := db.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rs, err := db.Records(t.Context(), id, 0, h, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// TestBlindWritesAreRecorded with what was there before, which nobody but the
// record needs.
func TestBlindWritesAreRecorded(t *testing.T) {
	t.Parallel()
	noon := instant().Add(time.Hour)
	db := mustOpen(t, Options{Path: Memory, Clock: clock.NewFake(noon)})
	tab := create(t, db, streaming("t"))
	for _, v := range []string{"1", "2"} {
		w := put(t, tab, item("p", "s", "x", v))
		w.Blind = true
		if _, err := db.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	rs := recordsOf(t, db, tab.ID)
	if len(rs) != 2 || rs[1].Kind != storage.RecordModify || string(rs[1].Old) != string(rs[0].New) || !rs[1].At.Equal(noon) {
		t.Errorf("records are %+v", rs)
	}
}

// TestRecordsAfterACrash: numbers go on beyond what was acknowledged, and so
// does the horizon.
func TestRecordsAfterACrash(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "a.db")})
	tab := create(t, db, streaming("t"))
	mustPut(t, db, tab, many(20, 1)...)
	before := recordsOf(t, db, tab.ID)
	horizon, err := db.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, Options{Path: crashImage(t, db)})
	after, err := db.Horizon(t.Context())
	if err != nil || after < horizon {
		t.Errorf("the horizon falls from %d to %d (%v)", horizon, after, err)
	}
	if got := recordsOf(t, db, tab.ID); len(got) != len(before) {
		t.Errorf("%d records of %d are left", len(got), len(before))
	}
	tab, err = db.Table(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, tab, item("new", "s"))
	if rs := recordsOf(t, db, tab.ID); len(rs) != len(before)+1 || rs[len(rs)-1].Seq <= after {
		t.Errorf("the record of a new change is none of %+v", rs)
	}
}

// TestNoRecordWithoutItsRow: what makes the row fail takes the record along,
// of one write or of a transaction, and a record that cannot be made the row.
func TestNoRecordWithoutItsRow(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab, second := create(t, db, streaming("t")), create(t, db, streaming("u"))
	mustPut(t, db, tab, item("p", "s"))
	broken := put(t, tab, item("p", "s"))
	broken.Key.PK = []byte("?") // no encoding of anything
	_, err := db.WriteAll(t.Context(), []storage.Write{put(t, second, item("q", "s")), broken}, nil)
	wantErr(t, err, storage.ErrCorrupt)
	fails := db.change(t.Context(), false, func(tx *tx) error {
		if err := tx.write(&change{w: put(t, second, item("r", "s"))}); err != nil {
			return err
		}
		return &damage{"made up"}
	})
	wantErr(t, fails, storage.ErrCorrupt)
	if rs := recordsOf(t, db, second.ID); len(rs) != 0 {
		t.Errorf("records without rows: %+v", rs)
	}
	for row, err := range db.Range(t.Context(), second, storage.Range{Want: storage.Keys}) {
		t.Errorf("a row without its record: %v, %v", row, err)
	}
	mustPut(t, db, second, item("q", "s"))
	if rs := recordsOf(t, db, second.ID); len(rs) != 1 {
		t.Errorf("records are %+v", rs)
	}
}

// TestTrimsAreBounded: no step removes all of a long trail, and clients get in
// between.
func TestTrimsAreBounded(t *testing.T) {
	t.Parallel()
	for _, kind := range []storage.WorkKind{storage.TokenExpiry, storage.RecordTrim} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{Path: Memory, Clock: clock.NewFake(instant())}) // time does not end a step
			err := db.change(t.Context(), false, func(tx *tx) error {
				for i := range int64(2*trimRows + 200) {
					err := tx.run(sqlSetToken, []byte("a"), fmt.Append(nil, i), []byte("d"), int64(1))
					if err == nil {
						err = tx.run(sqlRecord, i+1, int64(1), int64(1), int64(0), int64(1), int64(1), []byte("p"), []byte{}, []byte("k"), []byte{}, []byte{})
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			w := storage.Work{Kind: kind}
			l, err := db.Claim(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if ws, err := db.Pending(t.Context(), instant()); err != nil || len(ws) != 1 || ws[0] == w {
				t.Errorf("claimed and still due: %v, %v", ws, err)
			}
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := l.Step(cancelled, instant()); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled step: %v", err)
			}
			var done []int64
			for finished := false; !finished; {
				p, err := l.Step(t.Context(), instant())
				if err != nil {
					t.Fatal(err)
				}
				done, finished = append(done, p.Done), p.Finished
			}
			if len(done) != 3 || done[0] < trimRows || done[0] >= trimRows+trimPage || done[2] != 2*trimRows+200 {
				t.Errorf("steps end at %d", done)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
			if ws, err := db.Pending(t.Context(), instant()); err != nil || len(ws) != 1 || ws[0] == w {
				t.Errorf("done and still due: %v, %v", ws, err)
			}
		})
	}
}
