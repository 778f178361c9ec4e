// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// catalog is one state of the definitions. It is immutable: a change makes a
// new one. What the database holds is the same, since this process owns it.
type catalog struct {
	byID     map[storage.TableID]*entry
	accounts map[string]*account
}

type account struct {
	tables map[string]*entry
	names  []string // sorted
}

// entry is a version of a table. What was read at start is decoded when it is
// first asked for: thousands of definitions would hold up the first answer.
type entry struct {
	id            storage.TableID
	account, name string
	status        storage.Status
	version       int64
	longKeys      bool                           // see noteKey
	table         func() (*storage.Table, error) // ErrCorrupt
	toDrop        func() (*storage.Table, error) // see storage.StoredTable
}

func newEntry(t *storage.Table) *entry {
	known := func() (*storage.Table, error) { return t, nil }
	return &entry{t.ID, t.Account, t.Name(), t.Status, t.Version, false, known, known}
}

func newCatalog(entries []*entry) *catalog {
	c := &catalog{byID: make(map[storage.TableID]*entry, len(entries)), accounts: map[string]*account{}}
	for _, e := range entries {
		c.byID[e.id] = e
		a := c.accounts[e.account]
		if a == nil {
			a = &account{tables: map[string]*entry{}}
			c.accounts[e.account] = a
		}
		a.tables[e.name] = e
		a.names = append(a.names, e.name)
	}
	for _, a := range c.accounts {
		slices.Sort(a.names)
	}
	return c
}

// named returns a table, ErrTableNotFound when there is none.
func (c *catalog) named(acct, name string) (*storage.Table, error) {
	e, err := c.find(acct, name)
	if err != nil {
		return nil, err
	}
	return e.table()
}

func (c *catalog) find(acct, name string) (*entry, error) {
	if a := c.accounts[acct]; a != nil && a.tables[name] != nil {
		return a.tables[name], nil
	}
	return nil, storage.ErrTableNotFound
}

// live returns the entry of a table that clients may read and write:
// ErrTableNotFound when it is CREATING, DELETING or gone.
func (c *catalog) live(id storage.TableID) (*entry, error) {
	e := c.byID[id]
	if e == nil || e.status != storage.Active {
		return nil, storage.ErrTableNotFound
	}
	return e, nil
}

// usable returns the current definition of such a table.
func (c *catalog) usable(id storage.TableID) (*storage.Table, error) {
	e, err := c.live(id)
	if err != nil {
		return nil, err
	}
	return e.table()
}

// proves returns nil when the definition is the current one.
func (c *catalog) proves(t *storage.Table) error {
	e, err := c.live(t.ID)
	if err == nil && e.version != t.Version {
		err = storage.ErrStale
	}
	return err
}

// with returns a catalog that holds t, in place of a version of it if any.
func (c *catalog) with(t *storage.Table) *catalog {
	e := newEntry(t)
	if old := c.byID[e.id]; old != nil {
		e.longKeys = old.longKeys
	}
	return c.withEntry(e)
}

// withEntry is with for an entry that is nobody else's.
func (c *catalog) withEntry(e *entry) *catalog {
	n := c.copy(e.account)
	a := n.accounts[e.account]
	if _, there := a.tables[e.name]; !there {
		i, _ := slices.BinarySearch(a.names, e.name)
		a.names = slices.Insert(slices.Clone(a.names), i, e.name)
	}
	a.tables[e.name], n.byID[e.id] = e, e
	return n
}

// withLongKeys returns a catalog that knows it of a table.
func (c *catalog) withLongKeys(id storage.TableID) *catalog {
	e := *c.byID[id]
	e.longKeys = true
	return c.withEntry(&e)
}

// without returns a catalog that lacks e.
func (c *catalog) without(e *entry) *catalog {
	n := c.copy(e.account)
	a := n.accounts[e.account]
	i, _ := slices.BinarySearch(a.names, e.name)
	a.names = slices.Delete(slices.Clone(a.names), i, i+1)
	delete(a.tables, e.name)
	delete(n.byID, e.id)
	return n
}

// copy copies what a change of one account touches.
func (c *catalog) copy(acct string) *catalog {
	n := &catalog{maps.Clone(c.byID), maps.Clone(c.accounts)}
	a := &account{tables: map[string]*entry{}}
	if old := c.accounts[acct]; old != nil {
		a.tables, a.names = maps.Clone(old.tables), old.names
	}
	n.accounts[acct] = a
	return n
}

// load reads the catalog and what is known about each table. crashed: the last
// server did not close in order.
func (db *DB) load(ctx context.Context, c *conn, crashed bool) error {
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
	var entries []*entry
	err = c.each(ctx, sqlTables, func(s *stmt) error {
		entries = append(entries, storedEntry(s, ids[s.colInt(0)]))
		return nil
	})
	if err != nil {
		return err
	}
	db.cat.Store(newCatalog(entries))
	db.stats, err = loadTracker(ctx, c, crashed, db.o.Clock.Now())
	return err
}

// storedEntry reads the current row of a query that begins with sqlTables. ids
// may be filled in until the definition is asked for.
func storedEntry(s *stmt, ids map[string]storage.IndexID) *entry {
	stored := storage.StoredTable{Table: storage.Table{
		ID: storage.TableID(s.colInt(0)), UUID: string(s.colBlob(1)), Account: string(s.colBlob(2)), Version: s.colInt(3),
		Status: storage.Status(s.colInt(4)), Created: time.UnixMilli(s.colInt(5)).UTC(),
	}, Name: string(s.colBlob(7)), Definition: slices.Clone(s.colBlob(6)), Indexes: ids}
	t := &stored.Table
	return &entry{t.ID, t.Account, stored.Name, t.Status, t.Version, s.colInt(8) != 0, sync.OnceValues(stored.Decode), stored.DecodeToDrop}
}
