// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	sqlAllRows = "SELECT id, pk, sk, size, flags, item FROM r WHERE t = ? ORDER BY pk, sk"
	sqlEntry   = "SELECT rid, size FROM x WHERE ix = ? AND p = ? AND s = ? AND pk = ? AND sk = ?"
	sqlUnnoted = "SELECT count(*) FROM tables WHERE NOT long_keys AND id IN (SELECT t FROM r WHERE substr(pk, -1) = x'01')"
	sqlOrphans = `SELECT (SELECT count(*) FROM r WHERE t NOT IN (SELECT id FROM tables))
		+ (SELECT count(*) FROM x WHERE ix NOT IN (SELECT id FROM indexes))`
)

// Check reads the whole database, in one snapshot, and returns an ErrCorrupt
// with the first thing found wrong: pages and trees, rows that are not what
// their item derives, entries that are missing or too many, storage of tables
// that are not there. It is slow; writes go on meanwhile.
func (db *DB) Check(ctx context.Context) error {
	if err := db.life.Enter(); err != nil {
		return err
	}
	defer db.life.Leave()
	s, err := db.openReader(true)
	if err != nil {
		return public(err)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		s.c.interrupt()
	})
	err = db.check(ctx, s)
	if !stop() { // it needs the connection
		<-interrupted
	}
	if cerr := ctx.Err(); cerr != nil && err != nil {
		err = cerr
	}
	return public(errors.Join(err, s.close()))
}

func (db *DB) check(ctx context.Context, s *session) error {
	if err := s.run("BEGIN"); err != nil {
		return err
	}
	err := s.c.each(ctx, "PRAGMA integrity_check", func(st *stmt) error {
		if text := string(st.colBlob(0)); text != "ok" {
			return &damage{text}
		}
		return nil
	})
	if err != nil {
		return err
	}
	orphans, err := s.c.queryInt(sqlOrphans)
	if err == nil && orphans > 0 {
		err = &damage{fmt.Sprintf("%d rows and entries belong to no table", orphans)}
	}
	if err != nil {
		return err
	}
	unnoted, err := s.c.queryInt(sqlUnnoted)
	if err == nil && unnoted > 0 {
		err = &damage{fmt.Sprintf("%d tables have shortened keys and do not say so", unnoted)}
	}
	if err != nil {
		return err
	}
	var tables []*storage.Table
	for _, e := range db.cat.Load().byID {
		t, err := e.table()
		if err != nil {
			return err
		}
		if s.proves(t) == nil { // others are being deleted, or changed just now
			tables = append(tables, t)
		}
	}
	for _, t := range tables {
		if err := s.checkTable(ctx, t); err != nil {
			return fmt.Errorf("table %q: %w", t.Name(), err)
		}
	}
	return nil
}

// checkTable compares the rows of a table with its entries.
func (s *session) checkTable(ctx context.Context, t *storage.Table) error {
	st, err := s.stmt(sqlAllRows)
	if err != nil {
		return err
	}
	defer st.reset()
	st.bindInt(1, int64(t.ID))
	entries := map[storage.IndexID]int64{}
	for {
		more, err := st.step()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := s.checkRow(t, st)
		if err != nil {
			return fmt.Errorf("row %x %x: %w", st.colBlob(1), st.colBlob(2), err)
		}
		for _, e := range next.Entries {
			entries[e.Index]++
		}
	}
	for _, ix := range t.Indexes {
		n, err := s.c.queryInt(fmt.Sprintf("SELECT count(*) FROM x WHERE ix = %d", ix.ID))
		if err != nil {
			return err
		}
		if n != entries[ix.ID] {
			return &damage{fmt.Sprintf("index %q has %d entries for %d rows", ix.Name, n, entries[ix.ID])}
		}
	}
	return nil
}

// checkRow derives the current row of st anew.
func (s *session) checkRow(t *storage.Table, st *stmt) (*storage.Next, error) {
	it, err := ddb.ParseItem(st.colBlob(5))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &damage{"item"}, err)
	}
	next, err := storage.Derive(t, it)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &damage{"key"}, err)
	}
	k, err := t.KeyOf(it)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &damage{"key"}, err)
	}
	if !k.Equal(storage.Key{PK: st.colBlob(1), SK: st.colBlob(2)}) || string(next.Item) != string(st.colBlob(5)) ||
		int64(next.Size) != st.colInt(3) || int64(next.Flags) != st.colInt(4) {
		return nil, &damage{"key, size, flags or encoding do not follow from the item"}
	}
	find, err := s.stmt(sqlEntry)
	if err != nil {
		return nil, err
	}
	for _, e := range next.Entries {
		find.bind([]any{int64(e.Index), e.P, e.S, k.PK, k.SK})
		found, err := find.step()
		if err != nil {
			return nil, err
		}
		if !found || find.colInt(0) != st.colInt(0) || find.colInt(1) != int64(e.Size) {
			return nil, &damage{fmt.Sprintf("entry of index %d is missing or wrong", e.Index)}
		}
		find.reset()
	}
	return next, nil
}
