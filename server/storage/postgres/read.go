// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// read is call for those who change no rows: see unlocked.
func (db *DB) read(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	return unlocked(db.call(ctx, f))
}

// unlocked is the error of those who change no rows: no writer is in their way,
// only who has locked a whole relation for longer than they may wait.
func unlocked(err error) error {
	if errors.Is(err, storage.ErrConflict) {
		return only(storage.ErrUnavailable, err)
	}
	return err
}

// Get implements storage.Reader.
func (db *DB) Get(ctx context.Context, t *storage.Table, k storage.Key) (row *storage.Row, err error) {
	err = db.read(ctx, func(c *pgxpool.Conn) (err error) {
		row, err = get(ctx, c.Conn(), t, k)
		return db.orOutdated(ctx, c.Conn(), err, t)
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}

// getRow yields a table's version and status, and the row, NULL when there is
// none: what is read is proved to be read by the current definition.
func getRow(id storage.TableID) string {
	return "SELECT g.version, g.status, t.ver, t.size, t.flags, t.item FROM extenddb.tables g LEFT JOIN " +
		rowsOf(id) + " t ON t.pk = $2 AND t.sk = $3 WHERE g.id = $1"
}

// get reads a row, nil when there is none; errOutdated when t is not current.
func get(ctx context.Context, c *pgx.Conn, t *storage.Table, k storage.Key) (*storage.Row, error) {
	rows, err := c.Query(ctx, getRow(t.ID), int64(t.ID), k.PK, notNil(k.SK))
	if err != nil {
		return nil, err
	}
	return foundRow(rows, t, k)
}

// foundRow reads the answer to getRow, or holdRow.
func foundRow(rows pgx.Rows, t *storage.Table, k storage.Key) (*storage.Row, error) {
	defer rows.Close()
	if !rows.Next() {
		return nil, cmp.Or(rows.Err(), errOutdated) // no row: there is no such table
	}
	cols := rows.RawValues()
	if !proves(cols, t) {
		return nil, errOutdated
	}
	var row *storage.Row
	if cols[5] != nil {
		row = ownRow(k, cols[2:])
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return row, nil
}

// ownRow makes a row of the columns ver, size, flags and item, with one
// allocation for its bytes.
func ownRow(k storage.Key, cols [][]byte) *storage.Row {
	item := cols[3]
	buf := make([]byte, 0, len(k.PK)+len(k.SK)+len(item))
	buf = append(append(append(buf, k.PK...), k.SK...), item...)
	i, j := len(k.PK), len(k.PK)+len(k.SK)
	return &storage.Row{
		Key:  storage.Key{PK: buf[:i:i], SK: buf[i:j:j]},
		Item: buf[j:], Size: int(int32Of(cols[1])), Ver: int64Of(cols[0]), Flags: uint8(int16Of(cols[2])),
	}
}

// errOutdated: a statement found that the definition it was made for is not
// the current one. It stays inside: see orOutdated.
var errOutdated = errors.New("definition is out of date")

// proves reports whether the guard's columns, version and status, are those of
// t as clients may read it.
func proves(cols [][]byte, t *storage.Table) bool {
	return int64Of(cols[0]) == t.Version && storage.Status(int16Of(cols[1])) == storage.Active
}

// orOutdated returns err, unless that says that one of the tables was read by
// an outdated definition: then the current ones are looked up, for the caller
// to find them, and the error is ErrStale, or ErrTableNotFound. q is in no
// transaction that failed.
func (db *DB) orOutdated(ctx context.Context, q querier, err error, ts ...*storage.Table) error {
	if err == nil || !errors.Is(err, errOutdated) && !isStale(err) {
		return err
	}
	changed := codeOf(err) == codePlanChanged
	for _, t := range ts {
		now, err := db.usable(ctx, q, t.ID, true)
		if err != nil {
			return err
		}
		changed = changed || now.Version != t.Version
	}
	if !changed {
		return fmt.Errorf("%w: a relation is missing: %w", storage.ErrCorrupt, err)
	}
	return storage.ErrStale
}

// GetAll implements storage.Reader.
func (db *DB) GetAll(ctx context.Context, ks []storage.TableKey, budget int) (rows []*storage.Row, err error) {
	if len(ks) == 0 {
		return nil, ctx.Err()
	}
	tables := make([]*storage.Table, 0, 1)
	for _, k := range ks {
		if !slices.Contains(tables, k.Table) {
			tables = append(tables, k.Table)
		}
	}
	limit, room := 0, budget // for the database, where the rows may be too many; for us, where they should not be
	if budget > 0 && !db.allFit(tables, len(ks), budget) {
		limit, room = budget, 0
	}
	err = db.read(ctx, func(c *pgxpool.Conn) (err error) {
		rows, err = getAll(ctx, c.Conn(), tables, ks, limit, room)
		if errors.Is(err, errWide) { // they were narrow until now
			rows, err = getAll(ctx, c.Conn(), tables, ks, budget, 0)
		}
		return db.orOutdated(ctx, c.Conn(), err, tables...)
	})
	if err != nil {
		return nil, err
	}
	sizes := make(map[storage.TableID][2]int, 1) // rows and bytes that came
	size, n := 0, 0
	for i, row := range rows {
		if budget > 0 && size >= budget {
			break
		}
		if n++; row != nil {
			size += len(row.Item)
			seen := sizes[ks[i].Table.ID]
			sizes[ks[i].Table.ID] = [2]int{seen[0] + 1, seen[1] + len(row.Item)}
		}
	}
	for id, seen := range sizes {
		db.reads.pace(itemsOf(id)).saw(seen[0], seen[1])
	}
	return rows[:n], nil
}

// allFit reports whether so many rows are well within the budget, as far as is
// known. To have the database keep the budget costs half as much again.
func (db *DB) allFit(tables []*storage.Table, rows, budget int) bool {
	for _, t := range tables {
		if width := db.reads.pace(itemsOf(t.ID)).width.Load(); width == 0 || 2*width*int64(rows) > int64(budget) {
			return false
		}
	}
	return true
}

// errWide: rows do not fit, contrary to what was known of them. It stays inside.
var errWide = errors.New("rows are wider than was known")

// getAll reads all keys, or as many as are within a budget, which the database
// keeps. It holds no more than room, if that is given: rows come in any order,
// and are thrown away with errWide when they are more.
func getAll(
	ctx context.Context, c *pgx.Conn, tables []*storage.Table, ks []storage.TableKey, budget, room int,
) ([]*storage.Row, error) {
	q := newAllQuery(ks)
	var src source
	if len(q.ids) == 1 {
		rows, err := c.Query(ctx, q.sql(budget > 0), q.args(budget)...)
		if err != nil {
			return nil, err
		}
		src = rowsSource{rows}
	} else { // the sets of tables are too many to keep their statements
		values, oids, err := encodeArgs(c, q.args(budget))
		if err != nil {
			return nil, err
		}
		binary := []int16{pgx.BinaryFormatCode}
		src = resultSource{c.PgConn().ExecParams(ctx, q.sql(budget > 0), values, oids, binary, binary)}
	}
	rows, n, proved, size := make([]*storage.Row, len(ks)), 0, 0, 0
	for {
		cols, err := src.next()
		if err != nil {
			return nil, errors.Join(err, src.close())
		}
		if cols == nil {
			break
		}
		i := int64Of(cols[0])
		if i < 0 {
			for _, t := range tables {
				if int64(t.ID) == -i && t.Version == int64Of(cols[1]) && storage.Status(int16Of(cols[3])) == storage.Active {
					proved++
				}
			}
			continue
		}
		n++
		if size += len(cols[4]); room > 0 && size > room {
			rows = nil
		}
		if cols[4] != nil && rows != nil {
			rows[i] = ownRow(ks[i].Key, cols[1:])
		}
	}
	if err := src.close(); err != nil {
		return nil, err
	}
	switch {
	case proved < len(tables):
		return nil, errOutdated
	case rows == nil:
		return nil, errWide
	}
	return rows[:n], nil
}

// allQuery reads keys of several tables in one statement. Its first parameter
// is the budget, if there is one; then each table has three: the partition
// keys, the sort keys, and where they are in the answer.
type allQuery struct {
	ids  []storage.TableID // ascending, so that there are fewer different texts
	keys map[storage.TableID]*keyArrays
}

type keyArrays struct {
	pks, sks pgtype.FlatArray[[]byte]
	at       pgtype.FlatArray[int64]
}

func newAllQuery(ks []storage.TableKey) *allQuery {
	q := &allQuery{keys: map[storage.TableID]*keyArrays{}}
	for i, k := range ks {
		a := q.keys[k.Table.ID]
		if a == nil {
			a = &keyArrays{}
			q.keys[k.Table.ID] = a
			q.ids = append(q.ids, k.Table.ID)
		}
		a.pks, a.sks, a.at = append(a.pks, k.Key.PK), append(a.sks, notNil(k.Key.SK)), append(a.at, int64(i))
	}
	slices.Sort(q.ids)
	return q
}

func (q *allQuery) args(budget int) []any {
	var args []any
	if budget > 0 {
		args = append(args, int64(budget))
	}
	for _, id := range q.ids {
		a := q.keys[id]
		args = append(args, a.pks, a.sks, a.at)
	}
	return args
}

// sql yields, for each key that is within the budget, where it is, and ver,
// size, flags and item of the row, NULL when there is none; and the guard of
// each table: minus its id, version, 0, status. Items beyond the budget are not
// even fetched: the length of a large one is known without reading it.
func (q *allQuery) sql(bounded bool) string {
	var b strings.Builder
	n := 0
	if bounded {
		n = 1
		b.WriteString("SELECT at, ver, size, flags, item FROM (SELECT at, ver, size, flags, item, coalesce(sum(octet_length(item))" +
			" OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM (")
	}
	guards := make([]string, len(q.ids))
	for i, id := range q.ids {
		if guards[i] = strconv.FormatInt(int64(id), 10); i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT k.at, t.ver, t.size, t.flags, t.item FROM unnest($%d::bytea[], $%d::bytea[], $%d::bigint[]) k(pk, sk, at)"+
			" LEFT JOIN %s t ON t.pk = k.pk AND t.sk = k.sk", n+1, n+2, n+3, rowsOf(id))
		n += 3
	}
	if bounded {
		b.WriteString(") a) b WHERE before < $1::bigint")
	}
	b.WriteString(" UNION ALL SELECT -g.id, g.version, 0, g.status, NULL FROM extenddb.tables g WHERE g.id IN (" + strings.Join(guards, ", ") + ")")
	return b.String()
}

// source yields the rows of a statement, in binary; nil at the end. They are
// valid until the next one.
type source interface {
	next() ([][]byte, error)
	close() error // reads what is left
}

type rowsSource struct{ rows pgx.Rows }

func (s rowsSource) next() ([][]byte, error) {
	if s.rows.Next() {
		return s.rows.RawValues(), nil
	}
	return nil, s.rows.Err()
}

func (s rowsSource) close() error {
	s.rows.Close()
	return s.rows.Err()
}

type resultSource struct{ result *pgconn.ResultReader }

func (s resultSource) next() ([][]byte, error) {
	if s.result.NextRow() {
		return s.result.Values(), nil
	}
	return nil, s.close()
}

func (s resultSource) close() error {
	_, err := s.result.Close()
	return err
}

// encodeArgs puts parameters into the form of the protocol, for a statement
// that is not prepared.
func encodeArgs(c *pgx.Conn, args []any) (values [][]byte, oids []uint32, err error) {
	values, oids = make([][]byte, len(args)), make([]uint32, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case int64:
			oids[i] = pgtype.Int8OID
		case []byte:
			oids[i] = pgtype.ByteaOID
		case pgtype.FlatArray[int64]:
			oids[i] = pgtype.Int8ArrayOID
		case pgtype.FlatArray[[]byte]:
			oids[i] = pgtype.ByteaArrayOID
		default:
			return nil, nil, fmt.Errorf("%w: a parameter of type %T", storage.ErrInvalid, arg)
		}
		if values[i], err = c.TypeMap().Encode(oids[i], pgx.BinaryFormatCode, arg, []byte{}); err != nil {
			return nil, nil, fmt.Errorf("encode parameter %d: %w", i+1, err)
		}
	}
	return values, oids, nil
}
