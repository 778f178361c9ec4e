// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/server/storage"
)

// op is what a writing statement does to its row.
type op uint8

const (
	opPut    op = iota // write the row, whatever is there
	opRemove           // delete it, whatever is there
	opInsert           // write it where there is none
	opUpdate           // write it over the version that was read
	opDelete           // delete the version that was read
)

// entryOp is what a writing statement does to the entry of one index.
type entryOp byte

const (
	entryKeep entryOp = iota // it stays as it is, or there is none
	entryMove                // another position: delete and insert
	entryAdd
	entryDrop
	entrySize // same position, another size
	// entryFill is for an index that is being built: whether the entry is there
	// already depends on how far the build is, so that even an unchanged one is
	// written.
	entryFill
)

// shape is what a writing statement does. It returns the number of guards and
// the number of rows: (0, _) the definition was out of date, (1, 0) somebody
// else was faster, (1, 1) done.
type shape struct {
	op op
	// held: part of a transaction that holds the row. Anything but (1, 1) is an
	// error then (22012), so that COMMIT can be sent along.
	held    bool
	record  bool   // it makes a change record
	entries string // an entryOp for each index, in the order of the table; none for opPut and opRemove
	// general instead of entries: whatever is to be done to those is in the
	// parameters.
	general bool
}

// Parameters that all shapes have: the version of the definition and the key.
// In opPut, opInsert and opUpdate the row follows (ver, size, flags, item); in
// opUpdate and opDelete the version that was read; then seven of the change
// record; then those of the entries.

// sqlText builds a statement with its parameters numbered.
type sqlText struct {
	strings.Builder
	params int
}

// arg writes the next parameter.
func (b *sqlText) arg(kind string) *sqlText {
	b.params++
	b.WriteString("$" + strconv.Itoa(b.params) + "::" + kind)
	return b
}

func (b *sqlText) add(parts ...string) *sqlText {
	for _, p := range parts {
		b.WriteString(p)
	}
	return b
}

// args writes several parameters, with commas.
func (b *sqlText) args(kinds ...string) *sqlText {
	for i, k := range kinds {
		if i > 0 {
			b.add(", ")
		}
		b.arg(k)
	}
	return b
}

// statement writes the text of a shape. Columns are named, for none is added
// or removed in the middle of things; the row is written first, and all else
// hangs on what came of it.
func statement(t *storage.Table, s shape) string {
	var b sqlText
	b.add("WITH guard AS MATERIALIZED (SELECT 1 FROM extenddb.tables WHERE id = ", strconv.FormatInt(int64(t.ID), 10), " AND version = ").
		arg("bigint").add(" AND status = 1),\n w AS (")
	b.row(rowsOf(t.ID), s.op)
	b.add(")")
	if s.record {
		b.add(",\n r AS (INSERT INTO extenddb.changes (seq, t, pk, sk, kind, service, size, at, keys, old, new)",
			" SELECT nextval('extenddb.change_seq'), ", strconv.FormatInt(int64(t.ID), 10), ", w.pk, w.sk, ").
			args("smallint", "boolean", "integer", "timestamptz", "bytea", "bytea", "bytea").add(" FROM w)")
	}
	for i, ix := range t.Indexes {
		switch n := strconv.Itoa(i); {
		case s.general:
			b.anyEntry(n, entriesOf(ix.ID), s.op)
		case s.entries != "":
			b.entry(n, entriesOf(ix.ID), entryOp(s.entries[i]))
		}
	}
	if s.held {
		b.add("\nSELECT 1 / (SELECT count(*) FROM guard), 1 / (SELECT count(*) FROM w)")
	} else {
		b.add("\nSELECT (SELECT count(*) FROM guard), (SELECT count(*) FROM w)")
	}
	return b.String()
}

func (b *sqlText) row(rows string, o op) {
	const at = " t.pk = $2 AND t.sk = $3"
	switch b.params += 2; o { // the key
	case opPut, opInsert:
		b.add("INSERT INTO ", rows, " AS t (pk, sk, ver, size, flags, item) SELECT $2::bytea, $3::bytea, ").
			args("bigint", "integer", "smallint", "bytea").add(" FROM guard ON CONFLICT (pk, sk) DO ")
		if o == opPut {
			b.add("UPDATE SET ver = EXCLUDED.ver, size = EXCLUDED.size, flags = EXCLUDED.flags, item = EXCLUDED.item")
		} else {
			b.add("NOTHING")
		}
	case opUpdate:
		b.add("UPDATE ", rows, " t SET (ver, size, flags, item) = ROW(").args("bigint", "integer", "smallint", "bytea").
			add(") FROM guard WHERE", at, " AND t.ver = ").arg("bigint")
	case opRemove, opDelete:
		if b.add("DELETE FROM ", rows, " t USING guard WHERE", at); o == opDelete {
			b.add(" AND t.ver = ").arg("bigint")
		}
	}
	b.add(" RETURNING t.pk, t.sk")
}

func (b *sqlText) entry(n, entries string, e entryOp) {
	if e == entryMove || e == entryDrop {
		b.drop(n, entries).add(")")
	}
	switch e {
	case entryMove, entryAdd:
		b.write(n, entries).add(")")
	case entryFill:
		b.write(n, entries).add(overEntry, ")")
	case entrySize:
		b.add(",\n u", n, " AS (UPDATE ", entries, " x SET size = ").arg("integer").add(" FROM w WHERE x.p = ").arg("bytea").
			add(" AND x.s = ").arg("bytea").add(" AND x.pk = w.pk AND x.sk = w.sk)")
	}
}

// overEntry takes an entry that is there already.
const overEntry = " ON CONFLICT (p, s, pk, sk) DO UPDATE SET size = EXCLUDED.size WHERE x.size <> EXCLUDED.size"

// anyEntry is entry for all that may be done to an entry: what is not has NULLs
// for parameters. Another size is written over the entry.
func (b *sqlText) anyEntry(n, entries string, o op) {
	if o != opInsert {
		b.drop(n, entries).add(" AND $", strconv.Itoa(b.params), "::bytea IS NOT NULL)")
	}
	if o != opDelete {
		b.write(n, entries).add(" WHERE $", strconv.Itoa(b.params), "::integer IS NOT NULL", overEntry, ")")
	}
}

func (b *sqlText) drop(n, entries string) *sqlText {
	return b.add(",\n d", n, " AS (DELETE FROM ", entries, " x USING w WHERE x.p = ").arg("bytea").add(" AND x.s = ").arg("bytea").
		add(" AND x.pk = w.pk AND x.sk = w.sk")
}

func (b *sqlText) write(n, entries string) *sqlText {
	return b.add(",\n i", n, " AS (INSERT INTO ", entries, " AS x (p, s, size, pk, sk) SELECT ").args("bytea", "bytea", "integer").
		add(", w.pk, w.sk FROM w")
}

// entryOps compares the entries that a row has with those that it gets, index
// by index. building tells of which indexes nobody knows what is there already;
// nil: of none.
func entryOps(t *storage.Table, old, fresh []storage.Entry, building func(storage.IndexID) bool) []byte {
	ops := make([]byte, len(t.Indexes))
	for i, ix := range t.Indexes {
		was, is := entryIn(old, ix.ID), entryIn(fresh, ix.ID)
		e := compareEntries(was, is)
		if building != nil && (e == entryKeep && is != nil || e == entrySize) && building(ix.ID) {
			e = entryFill
		}
		ops[i] = byte(e)
	}
	return ops
}

// entryArgs returns the arguments that go with the entries of a shape. ops is
// what is done to each.
func entryArgs(t *storage.Table, s shape, ops []byte, old, fresh []storage.Entry) (args []any) {
	if ops == nil {
		return nil
	}
	for i, ix := range t.Indexes {
		was, is, e := entryIn(old, ix.ID), entryIn(fresh, ix.ID), entryOp(ops[i])
		switch {
		case e == entryMove, e == entryDrop:
			args = append(args, was.P, notNil(was.S))
		case s.general && s.op != opInsert:
			args = append(args, nil, nil)
		}
		switch {
		case e == entrySize && !s.general:
			args = append(args, int32(is.Size), is.P, notNil(is.S))
		case e == entryMove, e == entryAdd, e == entryFill, e == entrySize:
			args = append(args, is.P, notNil(is.S), int32(is.Size))
		case s.general && s.op != opDelete:
			args = append(args, nil, nil, nil)
		}
	}
	return args
}

func compareEntries(was, is *storage.Entry) entryOp {
	switch {
	case was == nil && is == nil:
		return entryKeep
	case was == nil:
		return entryAdd
	case is == nil:
		return entryDrop
	case !bytes.Equal(was.P, is.P) || !bytes.Equal(was.S, is.S):
		return entryMove
	case was.Size != is.Size:
		return entrySize
	}
	return entryKeep
}

func entryIn(entries []storage.Entry, id storage.IndexID) *storage.Entry {
	for i := range entries {
		if entries[i].Index == id {
			return &entries[i]
		}
	}
	return nil
}

// holdRow is getRow, which locks the row until the transaction ends.
func holdRow(id storage.TableID) string {
	return "WITH t AS MATERIALIZED (SELECT ver, size, flags, item FROM " + rowsOf(id) + " WHERE pk = $2 AND sk = $3 FOR UPDATE)\n" +
		"SELECT g.version, g.status, t.ver, t.size, t.flags, t.item FROM extenddb.tables g LEFT JOIN t ON true WHERE g.id = $1"
}

// holdPlace puts a row where there is none, so that nobody else does. Its
// version is 0, and it never outlives its transaction.
func holdPlace(id storage.TableID) string {
	return "INSERT INTO " + rowsOf(id) + " (ver, size, flags, pk, sk, item) VALUES (0, 0, 0, $1, $2, '') ON CONFLICT (pk, sk) DO NOTHING"
}

// texts keeps the statements of tables: each is built once per version of a
// definition. The zero value is empty.
type texts struct {
	mu     sync.Mutex
	tables map[storage.TableID]*tableTexts
	size   atomic.Int64 // bytes of all that were made since it was empty
}

// Bounds of texts. What is beyond is built again.
const (
	maxTextBytes = 32 << 20
	// maxShapes are those of one table that do something to entries. Each index
	// multiplies what is possible, and in the database a prepared statement takes
	// up to a megabyte: what else comes is done by general statements.
	maxShapes = 16
)

// tableTexts are the statements of one version of a table.
type tableTexts struct {
	version     int64
	hold, place string
	size        *atomic.Int64

	mu     sync.RWMutex
	shapes map[shape]string
	busy   int // shapes that do something to entries
}

// of returns the statements of a definition.
func (x *texts) of(t *storage.Table) *tableTexts {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := x.tables[t.ID]
	if own != nil && own.version == t.Version {
		return own
	}
	fresh := &tableTexts{version: t.Version, hold: holdRow(t.ID), place: holdPlace(t.ID), size: &x.size, shapes: map[shape]string{}}
	switch {
	case own != nil && own.version > t.Version:
		return fresh // somebody is late
	case x.tables == nil || x.size.Load() > maxTextBytes:
		x.tables = map[storage.TableID]*tableTexts{}
		x.size.Store(0)
	}
	x.size.Add(int64(len(fresh.hold) + len(fresh.place)))
	x.tables[t.ID] = fresh
	return fresh
}

// forget drops the statements of a table.
func (x *texts) forget(id storage.TableID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.tables, id)
}

// statement returns the text of a shape, or of the general one that does what
// it does, and which of them it is.
func (x *tableTexts) statement(t *storage.Table, s shape, general bool) (string, shape) {
	busy := strings.Trim(s.entries, string(rune(entryKeep))) != ""
	x.mu.RLock()
	text := x.shapes[s]
	general = busy && (general || text == "" && x.busy >= maxShapes)
	if general {
		s.entries, s.general = "", true
		text = x.shapes[s]
	}
	x.mu.RUnlock()
	if text != "" {
		return text, s
	}
	text = statement(t, s)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.shapes[s] == "" {
		x.shapes[s] = text
		x.size.Add(int64(len(text)))
		if busy && !general {
			x.busy++
		}
	}
	return text, s
}
