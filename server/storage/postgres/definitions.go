// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// rowsOf names the relation of a table's rows.
func rowsOf(id storage.TableID) string { return "extenddb_data.t_" + strconv.FormatInt(int64(id), 10) }

// entriesOf names the relation of an index.
func entriesOf(id storage.IndexID) string {
	return "extenddb_data.x_" + strconv.FormatInt(int64(id), 10)
}

// definitions caches definitions. A cached one may be out of date: statements
// prove theirs. That there is no table of some name is never cached. One that
// another server dropped stays when its announcement was lost, until all is
// forgotten or another table has its name.
type definitions struct {
	mu    sync.RWMutex
	byID  map[storage.TableID]*storage.Table
	names map[tableName]storage.TableID
	texts texts // of tables
}

type tableName struct{ account, name string }

func (d *definitions) get(id storage.TableID) *storage.Table {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

func (d *definitions) named(account, name string) *storage.Table {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[d.names[tableName{account, name}]]
}

// put keeps a definition, unless a newer one is known.
func (d *definitions) put(t *storage.Table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil {
		d.byID, d.names = map[storage.TableID]*storage.Table{}, map[tableName]storage.TableID{}
	}
	if old := d.byID[t.ID]; old == nil || old.Version < t.Version {
		d.byID[t.ID] = t
	}
	name := tableName{t.Account, t.Name()}
	if old := d.names[name]; old < t.ID { // ids rise
		delete(d.byID, old)
		d.texts.forget(old)
		d.names[name] = t.ID
	}
}

func (d *definitions) forget(id storage.TableID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts.forget(id)
	if t := d.byID[id]; t != nil {
		if name := (tableName{t.Account, t.Name()}); d.names[name] == id {
			delete(d.names, name)
		}
		delete(d.byID, id)
	}
}

// forgetAll is for when it is not known what has changed.
func (d *definitions) forgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byID, d.names = nil, nil
}

const (
	tableColumns = `SELECT t.id, t.version, t.status, t.created, t.uuid::text, t.account, t.name, t.definition,
  ARRAY(SELECT i.id FROM extenddb.indexes i WHERE i.t = t.id ORDER BY i.id),
  ARRAY(SELECT i.name FROM extenddb.indexes i WHERE i.t = t.id ORDER BY i.id)`
	selectTable = tableColumns + " FROM extenddb.tables t "
	// selectStats adds statistics: the columns that Describe scans.
	selectStats = tableColumns + `, coalesce(s.items, 0), coalesce(s.bytes, 0),
  ARRAY(SELECT x.ix FROM extenddb.index_stats x WHERE x.t = t.id ORDER BY x.ix),
  ARRAY(SELECT x.items FROM extenddb.index_stats x WHERE x.t = t.id ORDER BY x.ix),
  ARRAY(SELECT x.bytes FROM extenddb.index_stats x WHERE x.t = t.id ORDER BY x.ix)
FROM extenddb.tables t LEFT JOIN extenddb.table_stats s ON s.t = t.id `
)

// Conditions for selectTable.
const (
	byID   = "WHERE t.id = $1"
	byName = "WHERE t.account = $1 AND t.name = $2"
)

// readTable reads a committed definition, ErrTableNotFound when there is none.
func readTable(ctx context.Context, q querier, where string, args ...any) (*storage.Table, error) {
	s, err := readStored(ctx, q, where, args...)
	if err != nil {
		return nil, err
	}
	return s.Decode()
}

// readStored reads what the catalog has of a table, ErrTableNotFound when there
// is none.
func readStored(ctx context.Context, q querier, where string, args ...any) (*storage.StoredTable, error) {
	return scanTable(q.QueryRow(ctx, selectTable+where, args...))
}

// scanTable takes a row that begins with tableColumns; the further columns go
// into more.
func scanTable(row pgx.Row, more ...any) (*storage.StoredTable, error) {
	var (
		s       storage.StoredTable
		created time.Time
		ids     []int64
		indexes []string
	)
	t := &s.Table
	into := append([]any{&t.ID, &t.Version, &t.Status, &created, &t.UUID, &t.Account, &s.Name, &s.Definition, &ids, &indexes}, more...)
	err := row.Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, storage.ErrTableNotFound
	}
	if err != nil {
		return nil, err
	}
	t.Created = created.UTC()
	s.Indexes = make(map[string]storage.IndexID, len(ids))
	for i, n := range indexes {
		s.Indexes[n] = storage.IndexID(ids[i])
	}
	return &s, nil
}

// usable returns the newest known definition of a table that clients may read
// and write: ErrTableNotFound when it is being loaded, deleted or gone. fresh:
// the one that is known was found to be out of date.
func (db *DB) usable(ctx context.Context, q querier, id storage.TableID, fresh bool) (*storage.Table, error) {
	t := db.defs.get(id)
	if t == nil || fresh || t.Status != storage.Active { // it may have become so
		s, err := readStored(ctx, q, byID, int64(id))
		if err != nil {
			if errors.Is(err, storage.ErrTableNotFound) {
				db.defs.forget(id)
			}
			return nil, err
		}
		if t, err = s.Decode(); err != nil {
			if s.Table.Status != storage.Active {
				err = storage.ErrTableNotFound // whatever else is wrong
			}
			return nil, err
		}
		db.defs.put(t)
	}
	if t.Status != storage.Active {
		return nil, storage.ErrTableNotFound
	}
	return t, nil
}
