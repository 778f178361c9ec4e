// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Table implements storage.Catalog.
func (db *DB) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return db.cat.Load().named(account, name)
}

// Describe implements storage.Catalog. The catalog in memory is no cache: it
// is replaced when a change commits, before the change is answered.
func (db *DB) Describe(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
	t, err := db.Table(ctx, account, name)
	if err != nil {
		return nil, storage.Stats{}, err
	}
	return t, db.stats.of(t.ID), nil
}

// Tables implements storage.Catalog.
func (db *DB) Tables(ctx context.Context, account, after string, limit int) (names []string, more bool, err error) {
	if err := db.life.Enter(); err != nil {
		return nil, false, err
	}
	defer db.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	a := db.cat.Load().accounts[account]
	if a == nil {
		return nil, false, nil
	}
	i, found := slices.BinarySearch(a.names, after)
	if found {
		i++
	}
	rest := a.names[i:]
	n := min(limit, len(rest))
	return slices.Clone(rest[:n]), n < len(rest), nil
}

// CreateTable implements storage.Catalog.
func (db *DB) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
	var made *storage.Table
	err := db.change(ctx, false, func(tx *tx) (err error) {
		made, err = tx.createTable(account, def, at, storage.Active)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// UpdateTable implements storage.Catalog.
func (db *DB) UpdateTable(
	ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error),
) (*storage.Table, error) {
	var made *storage.Table
	err := db.change(ctx, false, func(tx *tx) error {
		cur, err := tx.cat.named(account, name)
		if err != nil {
			return err
		}
		def, err := change(cur)
		if err != nil {
			return err
		}
		made, err = tx.redefine(cur, cur.Status, def)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// DropTable implements storage.Catalog.
func (db *DB) DropTable(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
	var made *storage.Table
	err := db.change(ctx, false, func(tx *tx) error {
		e, err := tx.cat.find(account, name)
		if err != nil {
			return err
		}
		cur, err := e.toDrop()
		if err != nil {
			return err
		}
		if err := check(cur); err != nil {
			return err
		}
		if made = cur; cur.Status == storage.Deleting {
			return nil
		}
		made, err = tx.leave(e, db.stats.total(cur.ID))
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// createTable adds a table unless its name is taken or the account full.
func (tx *tx) createTable(account string, def ddb.TableDefinition, at time.Time, status storage.Status) (*storage.Table, error) {
	switch t, err := tx.cat.named(account, def.TableName); {
	case err == nil:
		return nil, &storage.TableExists{Table: t}
	case !errors.Is(err, storage.ErrTableNotFound):
		return nil, err
	}
	if a := tx.cat.accounts[account]; a != nil && len(a.names) >= tx.w.db.o.MaxTables {
		return nil, storage.ErrTooManyTables
	}
	return tx.insertTable(storage.Table{
		UUID: uuid.NewString(), Account: account, Version: 1, Status: status,
		Created: at.UTC().Truncate(time.Millisecond), Def: def,
	})
}

// insertTable adds a table; its ids come from the database.
func (tx *tx) insertTable(t storage.Table) (*storage.Table, error) {
	names := indexNames(&t.Def)
	if _, err := storage.NewTable(t, make([]storage.IndexID, len(names))); err != nil { // before anything is written
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	def, err := json.Marshal(t.Def)
	if err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	err = tx.run(sqlAddTable, []byte(t.UUID), []byte(t.Account), []byte(t.Def.TableName), t.Version, int64(t.Status),
		millis(t.Created), def)
	if err != nil {
		return nil, err
	}
	t.ID = storage.TableID(tx.w.s.c.lastID())
	var ids []storage.IndexID
	for _, name := range names {
		if err := tx.run(sqlAddIndex, int64(t.ID), []byte(name)); err != nil {
			return nil, err
		}
		ids = append(ids, storage.IndexID(tx.w.s.c.lastID()))
	}
	made, err := storage.NewTable(t, ids)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	tx.setCatalog(tx.cat.with(made))
	tx.onCommit(func() { tx.w.db.stats.created(made.ID, made.Created) })
	return made, nil
}

// leave makes a table DELETING, and leaves its definition alone, which may be
// damaged; total is what is to be removed, 0 when nobody knows.
func (tx *tx) leave(e *entry, total int64) (*storage.Table, error) {
	next := *e
	next.status, next.version = storage.Deleting, e.version+1
	later := func(t *storage.Table, err error) (*storage.Table, error) {
		if err != nil {
			return nil, err
		}
		marked := *t
		marked.Status, marked.Version = next.status, next.version
		return &marked, nil
	}
	next.table = sync.OnceValues(func() (*storage.Table, error) { return later(e.table()) })
	next.toDrop = func() (*storage.Table, error) { return later(e.toDrop()) }
	if err := tx.run(sqlMark, next.version, int64(next.status), int64(e.id)); err != nil {
		return nil, err
	}
	if err := tx.run(sqlLeave, int64(e.id), total); err != nil {
		return nil, err
	}
	tx.setCatalog(tx.cat.withEntry(&next))
	return next.toDrop()
}

// redefine gives a table its next version.
func (tx *tx) redefine(cur *storage.Table, status storage.Status, def ddb.TableDefinition) (*storage.Table, error) {
	ids := make([]storage.IndexID, 0, len(cur.Indexes))
	for _, name := range indexNames(&def) {
		ix := cur.Index(name)
		if ix == nil {
			return nil, fmt.Errorf("%w: update adds index %q", storage.ErrInvalid, name)
		}
		ids = append(ids, ix.ID)
	}
	next := *cur
	next.Version, next.Status, next.Def = cur.Version+1, status, def
	made, err := storage.NewTable(next, ids)
	if err != nil || len(ids) != len(cur.Indexes) || made.Name() != cur.Name() || !slices.Equal(made.KeyAttrs(), cur.KeyAttrs()) {
		return nil, fmt.Errorf("%w: update changes name, keys or indexes of table %q", storage.ErrInvalid, cur.Name())
	}
	text, err := json.Marshal(def)
	if err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	if err := tx.run(sqlSetTable, made.Version, int64(status), text, int64(cur.ID)); err != nil {
		return nil, err
	}
	tx.setCatalog(tx.cat.with(made))
	return made, nil
}

// indexNames lists the indexes as storage.NewTable wants their ids.
func indexNames(def *ddb.TableDefinition) []string {
	var names []string
	for _, list := range [][]ddb.IndexDefinition{def.GlobalSecondaryIndexes, def.LocalSecondaryIndexes} {
		for _, ix := range list {
			names = append(names, ix.IndexName)
		}
	}
	return names
}
