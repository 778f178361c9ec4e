// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// Memory is the reference engine: the contract of package storage in the
// simplest form that keeps it, for checking the suite and for tests of the
// layers above. One lock guards everything; nothing survives the process.
type Memory struct {
	disk *disk

	running sync.WaitGroup // iterators
	snaps   memSnapshots

	mu     *sync.RWMutex // that of disk; guards it and what follows
	closed bool
	wake   func()
	caches bool     // definitions
	defs   sync.Map // of *storage.Table by account and name, as last seen
}

var _ storage.Engine = (*Memory)(nil)

// disk is what a Memory keeps when it is closed, and what others on the same
// data share with it.
type disk struct {
	mu        sync.RWMutex
	open      []*Memory
	claims    map[storage.Work]*Memory
	records   []*storage.Record // sorted
	lastSeq   int64
	maxTables int
	dropWaits bool                            // for the snapshots of the table
	tables    map[string]map[string]*memTable // by account and name
	lastTable storage.TableID
	lastIndex storage.IndexID
	lastVer   int64
	tokens    map[[2]string]memToken
	probe     SnapshotProbe
}

type memToken struct {
	digest [32]byte
	at     time.Time
}

type memTable struct {
	def     *storage.Table
	rows    []*memRow                       // sorted by key
	entries map[storage.IndexID][]*memEntry // sorted by position
	stats   storage.Stats
	counted time.Time // of stats; zero: never
	samples map[storage.IndexID]*memSample
	loader  *Memory // of one that is CREATING
	long    bool    // a row had a shortened partition key once
}

type memRow struct {
	row     storage.Row
	entries []storage.Entry
}

type memEntry struct {
	pos  storage.Position
	size int
	row  *memRow
}

// NewMemory returns an empty engine that holds at most maxTables tables per
// account.
func NewMemory(maxTables int) *Memory {
	return openMemory(&disk{
		maxTables: maxTables,
		tables:    map[string]map[string]*memTable{},
		tokens:    map[[2]string]memToken{},
		claims:    map[storage.Work]*Memory{},
	})
}

func openMemory(d *disk) *Memory {
	m := &Memory{disk: d, mu: &d.mu}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, m)
	d.dropLoads()
	return m
}

// Reopen closes the engine and returns a new one with the same data.
func (m *Memory) Reopen() *Memory {
	_ = m.Close() // never fails
	return openMemory(m.disk)
}

// Second opens the same data once more, as another server does. From then on
// either keeps definitions in a cache, which lags behind the other.
func (m *Memory) Second() *Memory {
	second := openMemory(m.disk)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.caches, second.caches = true, true
	return second
}

// enter is the beginning of every call.
func (m *Memory) enter(ctx context.Context) error {
	if m.closed {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// Ping implements storage.Lifecycle.
func (m *Memory) Ping(ctx context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.enter(ctx)
}

// Close implements storage.Lifecycle.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	maps.DeleteFunc(m.disk.claims, func(_ storage.Work, owner *Memory) bool { return owner == m })
	m.disk.open = slices.DeleteFunc(m.disk.open, func(o *Memory) bool { return o == m })
	m.tellOthers()
	m.mu.Unlock()
	m.snaps.close()
	m.running.Wait()
	return nil
}

// CreateTable implements storage.Catalog.
func (m *Memory) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt, err := m.create(ctx, account, def, at, storage.Active)
	if err != nil {
		return nil, err
	}
	return mt.def, nil
}

// create adds a table; the lock is held.
func (m *Memory) create(ctx context.Context, account string, def ddb.TableDefinition, at time.Time, status storage.Status) (*memTable, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	d := m.disk
	if mt := d.tables[account][def.TableName]; mt != nil {
		return nil, &storage.TableExists{Table: mt.def}
	}
	if len(d.tables[account]) >= d.maxTables {
		return nil, storage.ErrTooManyTables
	}
	d.lastTable++
	var ids []storage.IndexID
	for range len(def.GlobalSecondaryIndexes) + len(def.LocalSecondaryIndexes) {
		d.lastIndex++
		ids = append(ids, d.lastIndex)
	}
	t, err := storage.NewTable(storage.Table{
		ID: d.lastTable, UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", d.lastTable), Account: account,
		Version: 1, Status: status, Created: at.UTC().Truncate(time.Millisecond), Def: def,
	}, ids)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	if d.tables[account] == nil {
		d.tables[account] = map[string]*memTable{}
	}
	mt := &memTable{def: t, entries: map[storage.IndexID][]*memEntry{}, samples: map[storage.IndexID]*memSample{}}
	d.tables[account][def.TableName] = mt
	return mt, nil
}

// redefine gives mt a new version.
func (mt *memTable) redefine(status storage.Status, def ddb.TableDefinition) error {
	next := *mt.def
	next.Status, next.Def = status, def
	next.Version++
	var ids []storage.IndexID
	for _, ix := range mt.def.Indexes {
		ids = append(ids, ix.ID)
	}
	t, err := storage.NewTable(next, ids)
	if err != nil {
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	mt.def = t
	return nil
}

// UpdateTable implements storage.Catalog.
func (m *Memory) UpdateTable(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt, err := m.named(ctx, account, name)
	if err != nil {
		return nil, err
	}
	def, err := change(mt.def)
	if err != nil {
		return nil, err
	}
	if err := mt.redefine(mt.def.Status, def); err != nil {
		return nil, err
	}
	return m.learn(mt), nil
}

// DropTable implements storage.Catalog.
func (m *Memory) DropTable(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt, err := m.named(ctx, account, name)
	if err != nil {
		return nil, err
	}
	if err := check(mt.def); err != nil {
		return nil, err
	}
	if err := mt.redefine(storage.Deleting, mt.def.Def); err != nil {
		return nil, err
	}
	m.tellOthers()
	return m.learn(mt), nil
}

// learn puts a definition into the cache, if there is one, and returns it.
func (m *Memory) learn(mt *memTable) *storage.Table {
	if m.caches {
		m.defs.Store([2]string{mt.def.Account, mt.def.Name()}, mt.def)
	}
	return mt.def
}

// tellOthers that there may be work; the lock is held.
func (m *Memory) tellOthers() {
	for _, o := range m.disk.open {
		if o != m && o.wake != nil {
			o.wake()
		}
	}
}

func (m *Memory) named(ctx context.Context, account, name string) (*memTable, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	mt := m.disk.tables[account][name]
	if mt == nil {
		m.defs.Delete([2]string{account, name})
		return nil, storage.ErrTableNotFound
	}
	return mt, nil
}

// Table implements storage.Catalog.
func (m *Memory) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t, ok := m.defs.Load([2]string{account, name}); ok {
		return t.(*storage.Table), m.enter(ctx)
	}
	mt, err := m.named(ctx, account, name)
	if err != nil {
		return nil, err
	}
	return m.learn(mt), nil
}

// Describe implements storage.Catalog.
func (m *Memory) Describe(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	mt, err := m.named(ctx, account, name)
	if err != nil {
		return nil, storage.Stats{}, err
	}
	return m.learn(mt), mt.stats, nil
}

// Tables implements storage.Catalog.
func (m *Memory) Tables(ctx context.Context, account, after string, limit int) (names []string, more bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.enter(ctx); err != nil {
		return nil, false, err
	}
	for name := range m.disk.tables[account] {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > limit {
		return names[:limit], true, nil
	}
	return names, false, nil
}

// current returns the table a definition speaks of, if it is there for
// clients. Whoever comes here sees what became of the cached definition.
func (m *Memory) current(t *storage.Table) (*memTable, error) {
	mt := m.disk.tables[t.Account][t.Name()]
	if mt == nil {
		m.defs.Delete([2]string{t.Account, t.Name()})
	} else {
		m.learn(mt)
	}
	if mt == nil || mt.def.ID != t.ID || mt.def.Status != storage.Active {
		return nil, storage.ErrTableNotFound
	}
	return mt, nil
}

// row finds a row and its place.
func (mt *memTable) row(k storage.Key) (i int, found bool) {
	return slices.BinarySearchFunc(mt.rows, k, func(r *memRow, k storage.Key) int {
		return tablePosition(r.row.Key).Compare(tablePosition(k))
	})
}

func tablePosition(k storage.Key) storage.Position { return storage.Position{PK: k.PK, SK: k.SK} }

// apply makes a row what next says: nil deletes it.
func (mt *memTable) apply(k storage.Key, next *storage.Next, ver int64) {
	i, found := mt.row(k)
	if found {
		old := mt.rows[i]
		mt.rows = slices.Delete(slices.Clone(mt.rows), i, i+1) // readers hold the old slice
		for _, e := range old.entries {
			j, _ := mt.entry(e.Index, entryPosition(e, k))
			mt.entries[e.Index] = slices.Delete(slices.Clone(mt.entries[e.Index]), j, j+1)
		}
	}
	if next == nil {
		return
	}
	row := storage.Row{Key: k, Item: next.Item, Size: next.Size, Ver: ver, Flags: next.Flags}
	r := &memRow{row: *row.Clone()}
	mt.long = mt.long || keyenc.IsShortened(k.PK)
	mt.rows = slices.Insert(slices.Clone(mt.rows), i, r)
	for _, e := range next.Entries {
		e.P, e.S = slices.Clone(e.P), slices.Clone(e.S)
		r.entries = append(r.entries, e)
		pos := entryPosition(e, r.row.Key)
		j, _ := mt.entry(e.Index, pos)
		mt.entries[e.Index] = slices.Insert(slices.Clone(mt.entries[e.Index]), j, &memEntry{pos, e.Size, r})
	}
}

func entryPosition(e storage.Entry, k storage.Key) storage.Position {
	return storage.Position{P: e.P, S: e.S, PK: k.PK, SK: k.SK}
}

func (mt *memTable) entry(ix storage.IndexID, pos storage.Position) (i int, found bool) {
	return slices.BinarySearchFunc(mt.entries[ix], pos, func(e *memEntry, p storage.Position) int { return e.pos.Compare(p) })
}

// all lists the tables in a fixed order.
func (d *disk) all() []*memTable {
	var all []*memTable
	for _, byName := range d.tables {
		for _, mt := range byName {
			all = append(all, mt)
		}
	}
	slices.SortFunc(all, func(a, b *memTable) int {
		return cmp.Or(strings.Compare(a.def.Account, b.def.Account), strings.Compare(a.def.Name(), b.def.Name()))
	})
	return all
}
