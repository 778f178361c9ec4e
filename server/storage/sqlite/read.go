// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"

	"github.com/extenddb/extenddb/server/storage"
)

// Get implements storage.Reader.
func (db *DB) Get(ctx context.Context, t *storage.Table, k storage.Key) (row *storage.Row, err error) {
	err = db.read(ctx, func(s *session) error {
		return db.view(s, func() (err error) {
			row, err = s.get(t.ID, k)
			return err
		}, t)
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}

// get reads a row, nil when there is none.
func (s *session) get(t storage.TableID, k storage.Key) (*storage.Row, error) {
	st, err := s.stmt(sqlGet)
	if err != nil {
		return nil, err
	}
	st.bindInt(1, int64(t))
	st.bindBlob(2, k.PK)
	st.bindBlob(3, k.SK)
	found, err := st.step()
	if err != nil || !found {
		return nil, err
	}
	defer st.reset()
	item := st.colBlob(3)
	buf := make([]byte, 0, len(k.PK)+len(k.SK)+len(item)) // one allocation
	buf = append(append(append(buf, k.PK...), k.SK...), item...)
	i, j := len(k.PK), len(k.PK)+len(k.SK)
	return &storage.Row{
		Key:  storage.Key{PK: buf[:i:i], SK: buf[i:j:j]},
		Item: buf[j:], Size: int(st.colInt(1)), Ver: st.colInt(0), Flags: uint8(st.colInt(2)),
	}, nil
}

// GetAll implements storage.Reader.
func (db *DB) GetAll(ctx context.Context, ks []storage.TableKey, budget int) (rows []*storage.Row, err error) {
	tables := make([]*storage.Table, 0, 1)
	for _, k := range ks {
		if n := len(tables); n == 0 || tables[n-1] != k.Table {
			tables = append(tables, k.Table)
		}
	}
	err = db.read(ctx, func(s *session) error {
		return db.view(s, func() (err error) {
			rows, err = s.getAll(ctx, ks, budget)
			return err
		}, tables...)
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (s *session) getAll(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error) {
	if s.c.autocommit() {
		if err := s.run("BEGIN"); err != nil { // ended when the session is given back
			return nil, err
		}
	}
	rows, size := make([]*storage.Row, 0, len(ks)), 0
	for _, k := range ks {
		if budget > 0 && size >= budget {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row, err := s.get(k.Table.ID, k.Key)
		if err != nil {
			return nil, err
		}
		if row != nil {
			size += len(row.Item)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
