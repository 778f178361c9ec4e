// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// catalog is one state of the definitions. It is immutable: a change makes a
// new one. What the database holds is the same, since this process owns it.
type catalog struct {
	byID     map[storage.TableID]*storage.Table
	accounts map[string]*account
}

type account struct {
	tables map[string]*storage.Table
	names  []string // sorted
}

func newCatalog(tables []*storage.Table) *catalog {
	c := &catalog{byID: map[storage.TableID]*storage.Table{}, accounts: map[string]*account{}}
	for _, t := range tables {
		c.byID[t.ID] = t
		a := c.accounts[t.Account]
		if a == nil {
			a = &account{tables: map[string]*storage.Table{}}
			c.accounts[t.Account] = a
		}
		a.tables[t.Name()] = t
		a.names = append(a.names, t.Name())
	}
	for _, a := range c.accounts {
		slices.Sort(a.names)
	}
	return c
}

// named returns a table, nil when there is none.
func (c *catalog) named(acct, name string) *storage.Table {
	if a := c.accounts[acct]; a != nil {
		return a.tables[name]
	}
	return nil
}

// usable returns the current definition of a table that clients may read and
// write: ErrTableNotFound when it is DELETING or gone.
func (c *catalog) usable(id storage.TableID) (*storage.Table, error) {
	t := c.byID[id]
	if t == nil || t.Status == storage.Deleting {
		return nil, storage.ErrTableNotFound
	}
	return t, nil
}

// proves returns nil when the definition is the current one.
func (c *catalog) proves(t *storage.Table) error {
	cur, err := c.usable(t.ID)
	if err == nil && cur.Version != t.Version {
		err = storage.ErrStale
	}
	return err
}

// with returns a catalog that holds t, in place of a version of it if any.
func (c *catalog) with(t *storage.Table) *catalog {
	n := c.copy(t.Account)
	a := n.accounts[t.Account]
	if _, there := a.tables[t.Name()]; !there {
		i, _ := slices.BinarySearch(a.names, t.Name())
		a.names = slices.Insert(slices.Clone(a.names), i, t.Name())
	}
	a.tables[t.Name()], n.byID[t.ID] = t, t
	return n
}

// without returns a catalog that lacks t.
func (c *catalog) without(t *storage.Table) *catalog {
	n := c.copy(t.Account)
	a := n.accounts[t.Account]
	i, _ := slices.BinarySearch(a.names, t.Name())
	a.names = slices.Delete(slices.Clone(a.names), i, i+1)
	delete(a.tables, t.Name())
	delete(n.byID, t.ID)
	return n
}

// copy copies what a change of one account touches.
func (c *catalog) copy(acct string) *catalog {
	n := &catalog{maps.Clone(c.byID), maps.Clone(c.accounts)}
	a := &account{tables: map[string]*storage.Table{}}
	if old := c.accounts[acct]; old != nil {
		a.tables, a.names = maps.Clone(old.tables), old.names
	}
	n.accounts[acct] = a
	return n
}

// Table implements storage.Catalog.
func (db *DB) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	if err := db.life.enter(); err != nil {
		return nil, err
	}
	defer db.life.leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := db.cat.Load().named(account, name)
	if t == nil {
		return nil, storage.ErrTableNotFound
	}
	return t, nil
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
	if err := db.life.enter(); err != nil {
		return nil, false, err
	}
	defer db.life.leave()
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
	err := db.change(ctx, false, func(tx *tx) error {
		if t := tx.cat.named(account, def.TableName); t != nil {
			return &storage.TableExists{Table: t}
		}
		if a := tx.cat.accounts[account]; a != nil && len(a.names) >= db.o.MaxTables {
			return storage.ErrTooManyTables
		}
		t := storage.Table{
			UUID: uuid.NewString(), Account: account, Version: 1, Status: storage.Active,
			Created: at.UTC().Truncate(time.Millisecond), Def: def,
		}
		var err error
		made, err = tx.insertTable(t)
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
		cur := tx.cat.named(account, name)
		if cur == nil {
			return storage.ErrTableNotFound
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
		cur := tx.cat.named(account, name)
		if cur == nil {
			return storage.ErrTableNotFound
		}
		if err := check(cur); err != nil {
			return err
		}
		if made = cur; cur.Status == storage.Deleting {
			return nil
		}
		var err error
		if made, err = tx.redefine(cur, storage.Deleting, cur.Def); err != nil {
			return err
		}
		return tx.run(sqlLeave, int64(cur.ID), db.stats.total(cur.ID))
	})
	if err != nil {
		return nil, err
	}
	return made, nil
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
	return made, nil
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
		return nil, fmt.Errorf("%w: update changes name, keys or indexes: %v", storage.ErrInvalid, err)
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

// load reads the catalog and what is known about each table.
func (db *DB) load(ctx context.Context, c *conn) error {
	ids := map[int64]map[string]storage.IndexID{}
	err := c.each(ctx, "SELECT t, id, name FROM indexes", func(s *stmt) error {
		t := s.colInt(0)
		if ids[t] == nil {
			ids[t] = map[string]storage.IndexID{}
		}
		ids[t][string(s.colBlob(2))] = storage.IndexID(s.colInt(1))
		return nil
	})
	if err != nil {
		return err
	}
	var stored []storedTable
	err = c.each(ctx, "SELECT id, uuid, account, version, status, created, definition FROM tables", func(s *stmt) error {
		stored = append(stored, storedTable{storage.Table{
			ID: storage.TableID(s.colInt(0)), UUID: string(s.colBlob(1)), Account: string(s.colBlob(2)), Version: s.colInt(3),
			Status: storage.Status(s.colInt(4)), Created: time.UnixMilli(s.colInt(5)).UTC(),
		}, slices.Clone(s.colBlob(6)), ids[s.colInt(0)]})
		return nil
	})
	if err != nil {
		return err
	}
	tables, err := decodeAll(stored)
	if err != nil {
		return err
	}
	db.cat.Store(newCatalog(tables))
	db.stats, err = loadTracker(ctx, c, db.o.Clock.Now())
	return err
}

// storedTable is a row of the catalog.
type storedTable struct {
	t   storage.Table // without its definition
	def []byte
	ids map[string]storage.IndexID
}

// decodeAll decodes definitions on all CPUs: thousands of them take longer
// than everything else at start.
func decodeAll(stored []storedTable) ([]*storage.Table, error) {
	tables, errs := make([]*storage.Table, len(stored)), make([]error, len(stored))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(stored)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(stored); i = int(next.Add(1)) - 1 {
				tables[i], errs[i] = stored[i].decode()
			}
		})
	}
	wg.Wait()
	return tables, errors.Join(errs...)
}

func (s *storedTable) decode() (*storage.Table, error) {
	if err := json.Unmarshal(s.def, &s.t.Def); err != nil {
		return nil, fmt.Errorf("%w: definition of table %d: %w", storage.ErrCorrupt, s.t.ID, err)
	}
	var ids []storage.IndexID
	for _, name := range indexNames(&s.t.Def) {
		ids = append(ids, s.ids[name])
	}
	made, err := storage.NewTable(s.t, ids)
	if err != nil || slices.Contains(ids, 0) || len(ids) != len(s.ids) {
		return nil, fmt.Errorf("%w: indexes of table %q do not fit its definition: %v", storage.ErrCorrupt, s.t.Def.TableName, err)
	}
	return made, nil
}
