// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// The numbers of change records are drawn by the single writer from those of
// row versions: their order is that of commits, and no number is given again.
// What is committed ends at the last number drawn before it.

// Horizon implements storage.Streams.
func (db *DB) Horizon(ctx context.Context) (int64, error) {
	if err := db.life.Enter(); err != nil {
		return 0, err
	}
	defer db.life.Leave()
	return db.w.horizon.Load(), ctx.Err()
}

// Records implements storage.Streams.
func (db *DB) Records(ctx context.Context, t storage.TableID, after, upTo int64, limit, size int) (records []storage.Record, err error) {
	err = db.read(ctx, func(s *session) (err error) {
		records, err = s.records(ctx, t, after, upTo, limit, size)
		return err
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

func (s *session) records(ctx context.Context, t storage.TableID, after, upTo int64, limit, size int) ([]storage.Record, error) {
	st, err := s.stmt(sqlChanges)
	if err != nil {
		return nil, err
	}
	st.bindInt(1, int64(t))
	st.bindInt(2, after)
	st.bindInt(3, upTo)
	st.bindInt(4, int64(limit))
	var records []storage.Record
	for total := 0; size <= 0 || total < size; {
		more, err := st.step()
		if err != nil || !more {
			return records, err
		}
		if err := ctx.Err(); err != nil {
			st.reset()
			return nil, err
		}
		r := storedRecord(st, t)
		total += len(r.Keys) + len(r.Old) + len(r.New)
		records = append(records, r)
	}
	st.reset()
	return records, nil
}

// storedRecord reads the current row of sqlChanges.
func storedRecord(st *stmt, t storage.TableID) storage.Record {
	image := func(i int) []byte {
		if b := st.colBlob(i); len(b) > 0 {
			return bytes.Clone(b)
		}
		return nil
	}
	return storage.Record{
		Seq: st.colInt(0), Table: t, Kind: storage.RecordKind(st.colInt(1)), Service: st.colInt(2) != 0,
		Size: int(st.colInt(3)), At: time.UnixMilli(st.colInt(4)).UTC(),
		Key:  storage.Key{PK: bytes.Clone(st.colBlob(5)), SK: bytes.Clone(st.colBlob(6))},
		Keys: bytes.Clone(st.colBlob(7)), Old: image(8), New: image(9),
	}
}

// record adds the record of a change, if there is one; seq is the version the
// row got, 0 when it was deleted.
func (tx *tx) record(c *change, seq int64) error {
	r, err := storage.RecordOf(c.t, c.w.Key, c.cur, c.next, c.w.Change)
	switch {
	case err != nil: // half of the change is made already
		return &damage{err.Error()}
	case r == nil:
		return nil
	}
	if seq == 0 {
		if seq, err = tx.nextVer(); err != nil {
			return err
		}
	}
	at := c.w.Change.At
	if at.IsZero() {
		at = tx.w.db.o.Clock.Now()
	}
	service := int64(0)
	if r.Service {
		service = 1
	}
	return tx.run(sqlRecord, seq, int64(r.Table), int64(r.Kind), service, int64(r.Size), millis(at), r.Key.PK, r.Key.SK, r.Keys, r.Old, r.New)
}

// trim removes what is over, some at a time: tokens of WriteAll or change
// records.
type trim struct {
	db   *DB
	kind storage.WorkKind
	done int64
}

// over returns the last instant of what is over at now.
func over(k storage.WorkKind, now time.Time) int64 {
	if k == storage.RecordTrim {
		now = now.Add(-storage.RecordLife)
	}
	return millis(now)
}

// overdue lists the trims for which there is something to remove.
func (db *DB) overdue(ctx context.Context, now time.Time) (ws []storage.Work, err error) {
	err = db.readInside(ctx, func(s *session) error {
		for _, k := range []storage.WorkKind{storage.TokenExpiry, storage.RecordTrim} {
			if w := (storage.Work{Kind: k}); !db.work.has(w) {
				any, err := s.anyOver(k, now)
				if err != nil {
					return err
				}
				if any {
					ws = append(ws, w)
				}
			}
		}
		return nil
	})
	return ws, err
}

func (s *session) anyOver(k storage.WorkKind, now time.Time) (bool, error) {
	sql := sqlOldToken
	if k == storage.RecordTrim {
		sql = sqlOldRecord
	}
	st, err := s.stmt(sql)
	if err != nil {
		return false, err
	}
	st.bindInt(1, over(k, now))
	found, err := st.step()
	if found {
		st.reset()
	}
	return found, err
}

func (m *trim) step(ctx context.Context, now time.Time) (p storage.Progress, err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	sql := sqlPruneTokens
	if m.kind == storage.RecordTrim {
		sql = sqlPruneRecords
	}
	before, clk := m.done, m.db.o.Clock
	err = m.db.change(ctx, true, func(tx *tx) error {
		m.done = before // the writer may do this again
		for begin := clk.Now(); ; {
			if err := tx.run(sql, over(m.kind, now), int64(trimPage)); err != nil {
				return fmt.Errorf("trim: %w", err)
			}
			n := tx.w.s.c.changes()
			m.done += int64(n)
			p = storage.Progress{Done: m.done, Finished: n < trimPage}
			if p.Finished || m.done-before >= trimRows || tx.w.awaited() || clk.Now().Sub(begin) >= stepTime {
				return nil
			}
		}
	})
	if err != nil {
		m.done = before
		return storage.Progress{}, err
	}
	return p, nil
}
