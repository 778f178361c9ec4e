// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// tokenLife is how long a token of WriteAll is remembered.
const tokenLife = 10 * time.Minute

// codeDivision is what the statements of a transaction fail with whose guard
// finds nothing: see shape.
const codeDivision = "22012"

const (
	takeToken = `INSERT INTO extenddb.tokens AS k (account, token, digest, expires) VALUES ($1, $2, $3, $4)
ON CONFLICT (account, token) DO UPDATE SET digest = EXCLUDED.digest, expires = EXCLUDED.expires WHERE k.expires <= $5`
	findToken = "SELECT digest FROM extenddb.tokens WHERE account = $1 AND token = $2 AND expires > $3"
	begin     = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
)

// WriteAll implements storage.Writer.
func (db *DB) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	cs := make([]*change, len(ws))
	for i, w := range ws {
		cs[i] = &change{w: w}
	}
	unlock, err := db.lockKeys(ctx, cs...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = db.transact(ctx, cs, token, nil)
	var cancelled *storage.Cancelled
	if err != nil && !errors.As(err, &cancelled) {
		return nil, blame(err, cs...)
	}
	results := make([]storage.Result, len(cs))
	for i, c := range cs {
		results[i] = c.result(nil)
	}
	return results, err
}

// transact carries out changes in one transaction, as often as it takes. The
// caller holds the locks of their keys. d is the doubt whether they were
// carried out already, nil when there is none.
func (db *DB) transact(ctx context.Context, cs []*change, token *storage.Token, d *doubt) error {
	t := &transaction{db: db, cs: cs, token: token, doubt: d}
	t.order()
	since := db.o.Clock.Now()
	for stale, conflicts, waits, doubts := 0, 0, 0, 0; ; {
		err := db.withWriter(ctx, cs, func(conn *pgxpool.Conn) error { return t.try(ctx, conn) })
		var lost *doubt
		again := false
		switch {
		case errors.As(err, &lost):
			if t.doubt == nil {
				since = db.o.Clock.Now()
			}
			t.doubt, doubts = lost, doubts+1
			again = doubts < maxDoubts && db.o.Clock.Now().Sub(since) < doubtTime
		case errors.Is(err, storage.ErrStale):
			stale++
			missing := t.missing(err)
			if t.fresh, again = true, missing == nil && stale < maxStale; again && stale < maxQuick {
				continue
			}
			if err = cmp.Or(missing, err); !again && missing == nil {
				err = only(storage.ErrConflict, err)
			}
		case errors.Is(err, storage.ErrConflict), errors.Is(err, errUnheld), isConflict(err):
			conflicts++
			if codeOf(err) == codeLockTimeout {
				waits++
			}
			again = conflicts < maxConflicts && waits < lockTries
			if codeOf(err) != codeMemory {
				err = only(storage.ErrConflict, err)
			}
		case t.doubt != nil && errors.Is(err, storage.ErrUnavailable):
			doubts++
			again = doubts < maxDoubts && db.o.Clock.Now().Sub(since) < doubtTime
		}
		if !again {
			return t.final(err)
		}
		if err := pause(ctx, conflicts+doubts+min(stale, maxQuick)); err != nil {
			return t.final(err)
		}
	}
}

// transaction is one call of transact.
type transaction struct {
	db    *DB
	cs    []*change
	sort  []*change // cs in the order of their locks
	token *storage.Token
	fresh bool                               // the definitions known are out of date
	same  bool                               // those read since are what they were
	last  map[storage.TableID]*storage.Table // those of the last attempt
	early bool                               // rows are decided upon as they arrive, and only what is needed of them is kept
	bad   error                              // that a row met which was decided upon early
	doubt *doubt                             // what was decided last may have been carried out
}

func (t *transaction) order() {
	t.sort = slices.Clone(t.cs)
	slices.SortFunc(t.sort, func(a, b *change) int {
		return cmp.Or(cmp.Compare(a.w.Table.ID, b.w.Table.ID), bytes.Compare(a.w.Key.PK, b.w.Key.PK), bytes.Compare(a.w.Key.SK, b.w.Key.SK))
	})
}

// final is the answer: an error tells nothing while there is doubt.
func (t *transaction) final(err error) error {
	var c *storage.Cancelled
	if err == nil || t.doubt == nil || errors.As(err, &c) {
		return err
	}
	return only(storage.ErrInDoubt, fmt.Errorf("%w: %w", t.doubt, err))
}

// only is an error of one kind, however many the cause is of.
func only(kind, cause error) error { return fmt.Errorf("%w: %s", kind, cause.Error()) }

// try is run, or finds that a try before has done it.
func (t *transaction) try(ctx context.Context, conn *pgxpool.Conn) error {
	err := t.run(ctx, conn)
	if t.doubt == nil || err != nil && !errors.Is(err, storage.ErrReplayed) {
		return err
	}
	if err := replicate(ctx, conn.Conn()); err != nil {
		return err
	}
	t.doubt = nil
	return nil
}

// run is one attempt: rows and places are locked and read in one trip, written
// and committed in another.
func (t *transaction) run(ctx context.Context, conn *pgxpool.Conn) error {
	tables, err := t.tables(ctx, conn)
	if err != nil {
		return err
	}
	rows, err := t.hold(ctx, conn, tables)
	if err != nil {
		t.rollback(ctx, conn)
		return err
	}
	if settled, err := t.settle(rows); settled || err != nil {
		t.rollback(ctx, conn)
		return err
	}
	idle, err := t.decide(tables, rows)
	if err != nil || idle && t.token == nil {
		unproved := t.prove(ctx, conn)
		t.rollback(ctx, conn)
		return cmp.Or(unproved, err)
	}
	if h := t.db.o.hooks.write.before; h != nil {
		if err := h(ctx, t.cs...); err != nil {
			t.rollback(ctx, conn)
			return err
		}
	}
	if err := t.commit(ctx, conn); err != nil {
		t.rollback(ctx, conn)
		return err
	}
	t.doubt = nil
	for _, c := range t.cs {
		if !c.idle() {
			t.db.stats.touch(c.t.ID, 1)
		}
	}
	return nil
}

// tables returns the definitions, before BEGIN. Whether one is missing matters
// only when the token is new.
func (t *transaction) tables(ctx context.Context, conn *pgxpool.Conn) (map[storage.TableID]*storage.Table, error) {
	tables := map[storage.TableID]*storage.Table{}
	for _, c := range t.cs {
		id := c.w.Table.ID
		if tables[id] == nil || tables[id].Version < c.w.Table.Version {
			def, err := t.db.definition(ctx, conn, c.w.Table, t.fresh)
			if isNotFound(err) {
				return nil, cmp.Or(t.findToken(ctx, conn), err)
			}
			if err != nil {
				return nil, err
			}
			tables[id] = def
		}
		if err := t.db.noteLong(ctx, conn, c); err != nil {
			return nil, err
		}
	}
	t.same = t.fresh && maps.EqualFunc(t.last, tables, func(a, b *storage.Table) bool { return a.Version == b.Version })
	t.last, t.fresh = tables, false
	return tables, nil
}

// missing is the error of an attempt that did not find a relation or a column
// which the definitions name; nil when they may have changed since they were read.
func (t *transaction) missing(err error) error {
	var pg *pgconn.PgError
	if !t.same || !isStale(err) || codeOf(err) == codePlanChanged || !errors.As(err, &pg) {
		return nil
	}
	return fmt.Errorf("%w: a relation is missing: %w", storage.ErrCorrupt, pg)
}

// findToken returns what a token that was used before is answered with.
func (t *transaction) findToken(ctx context.Context, conn *pgxpool.Conn) error {
	if t.token == nil {
		return nil
	}
	return t.seen(conn.QueryRow(ctx, findToken, t.token.Account, []byte(t.token.Token), t.token.Now))
}

// seen compares the token with one that was found.
func (t *transaction) seen(found pgx.Row) error {
	var digest []byte
	err := found.Scan(&digest)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case bytes.Equal(digest, t.token.Digest[:]):
		return storage.ErrReplayed
	}
	return storage.ErrTokenMismatch
}

// hold begins the transaction, takes the token, and locks each row, or the
// place where there is none, in the order of keys, whoever else does it; so
// nobody waits in a circle, and nobody writes what a Decide is going to see. It
// returns the rows in the order of t.sort.
func (t *transaction) hold(ctx context.Context, conn *pgxpool.Conn, tables map[storage.TableID]*storage.Table) ([]*storage.Row, error) {
	open := t.db.o.hooks.write.open
	batch := &pgx.Batch{}
	batch.Queue(begin)
	if k := t.token; k != nil {
		batch.Queue(takeToken, k.Account, []byte(k.Token), k.Digest[:], k.Now.Add(tokenLife), k.Now)
		batch.Queue(findToken, k.Account, []byte(k.Token), k.Now)
	}
	for _, c := range t.sort {
		id, pk, sk := c.w.Table.ID, c.w.Key.PK, notNil(c.w.Key.SK)
		if open {
			batch.Queue(getRow(id), int64(id), pk, sk)
			continue
		}
		x := t.db.defs.texts.of(tables[id])
		batch.Queue(x.place, pk, sk)
		batch.Queue(x.hold, int64(id), pk, sk)
	}
	results := conn.SendBatch(ctx, batch)
	rows, err := t.held(results, tables, open)
	if e := results.Close(); err == nil {
		err = e
	}
	return rows, stale(err)
}

// held reads the answers to hold.
func (t *transaction) held(results pgx.BatchResults, tables map[storage.TableID]*storage.Table, open bool) ([]*storage.Row, error) {
	if _, err := results.Exec(); err != nil { // BEGIN
		return nil, err
	}
	if t.token != nil {
		taken, err := results.Exec()
		if err != nil {
			return nil, err
		}
		if err := t.seen(results.QueryRow()); taken.RowsAffected() == 0 {
			return nil, cmp.Or(err, errUnheld)
		}
	}
	// Later, when what was decided last must still be looked at: see settle.
	t.early, t.bad = t.doubt == nil || t.token != nil, nil
	rows := make([]*storage.Row, len(t.sort))
	if t.early {
		for _, c := range t.cs {
			*c = change{w: c.w}
		}
	}
	for i, c := range t.sort {
		var placed pgconn.CommandTag
		var err error
		if !open {
			if placed, err = results.Exec(); err != nil {
				return nil, err
			}
		}
		found, err := results.Query()
		if err != nil {
			return nil, err
		}
		row, err := foundRow(found, tables[c.w.Table.ID], c.w.Key)
		switch {
		case err != nil:
			return nil, err
		case row != nil && row.Ver != 0: // 0: our own place
			rows[i] = row
		case row == nil && placed.RowsAffected() == 0 && !open:
			return nil, errUnheld
		}
		if t.early {
			if t.bad = c.decideEarly(tables[c.w.Table.ID], rows[i]); t.bad != nil || storage.IsFinal(c.err) {
				return nil, nil //nolint:nilerr // decide tells; the caller skips the rest
			}
			rows[i] = nil
		}
	}
	return rows, nil
}

// decideEarly decides and keeps of the row what is needed later: all of it for
// a record.
func (c *change) decideEarly(t *storage.Table, row *storage.Row) error {
	err := c.decide(t, row)
	if row != nil && !t.HasStream() {
		c.cur = &storage.Row{Key: c.w.Key, Size: row.Size, Ver: row.Ver, Flags: row.Flags}
	}
	return err
}

// settle ends the doubt. Who comes here holds the rows, and so the transaction
// or statement that is in doubt has ended, or will not find the versions it
// looks for. settled: it was carried out.
func (t *transaction) settle(rows []*storage.Row) (settled bool, err error) {
	if t.doubt == nil || t.token != nil { // the token would have told
		t.doubt = nil
		return false, nil
	}
	for i, c := range t.sort {
		row := rows[i]
		switch {
		case c.t == nil || c.idle():
		case row != nil && row.Ver == c.ver, c.any && c.next == nil && row == nil && len(t.sort) == 1:
			settled = true
		case row != nil && c.cur != nil && row.Ver == c.cur.Ver: // as it was before
			t.doubt = nil
			return false, nil
		}
	}
	if settled {
		return true, nil
	}
	return false, storage.ErrInDoubt
}

// decide runs every Decide, unless they ran. idle: there is nothing to write.
func (t *transaction) decide(tables map[storage.TableID]*storage.Table, rows []*storage.Row) (idle bool, err error) {
	if t.bad != nil {
		return false, t.bad
	}
	if !t.early {
		if err := t.decideLate(tables, rows); err != nil {
			return false, err
		}
	}
	reasons, refused := make([]error, len(t.cs)), false
	idle = true
	for i, c := range t.cs {
		reasons[i], refused = c.err, refused || c.err != nil
		idle = idle && c.idle()
	}
	if refused {
		return false, &storage.Cancelled{Reasons: reasons}
	}
	return idle, nil
}

func (t *transaction) decideLate(tables map[storage.TableID]*storage.Table, rows []*storage.Row) error {
	found := make(map[*change]*storage.Row, len(rows))
	for i, c := range t.sort {
		found[c] = rows[i]
	}
	for _, c := range t.cs {
		if err := c.decide(tables[c.w.Table.ID], found[c]); err != nil {
			return err
		}
	}
	return nil
}

// proof fails as the statements of a transaction do: see shape.
const proof = "SELECT 1 / count(*) FROM extenddb.tables WHERE id = $1 AND version = $2 AND status = 1"

// proofs queues what shows that the definitions of changes are current, in
// statements that begin when all locks are granted: those that waited for theirs
// have read the catalog before.
func proofs(batch *pgx.Batch, cs []*change) {
	proved := map[storage.TableID]bool{}
	for _, c := range cs {
		if c.t != nil && !proved[c.t.ID] {
			proved[c.t.ID] = true
			batch.Queue(proof, int64(c.t.ID), c.t.Version)
		}
	}
}

// prove shows that what was decided, and is not going to be written, rests on
// current definitions: ErrStale.
func (t *transaction) prove(ctx context.Context, conn *pgxpool.Conn) error {
	batch := &pgx.Batch{}
	proofs(batch, t.cs)
	err := conn.SendBatch(ctx, batch).Close()
	if codeOf(err) == codeDivision {
		return fmt.Errorf("%w: %w", storage.ErrStale, err)
	}
	return err
}

// commit writes and commits in one trip. A statement that finds its definition
// out of date fails, and so does the COMMIT behind it.
func (t *transaction) commit(ctx context.Context, conn *pgxpool.Conn) error {
	batch := &pgx.Batch{}
	var idle []*change
	for _, c := range t.sort {
		if c.idle() && (c.cur != nil || t.db.o.hooks.write.open) {
			idle = append(idle, c) // the lock was all
			continue
		}
		sql, args, err := t.db.writing(c, true)
		if err != nil {
			return err
		}
		batch.Queue(sql, args...)
	}
	proofs(batch, idle)
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, batch)
	var err error
	var tag pgconn.CommandTag
	for range batch.Len() {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if e := results.Close(); err == nil {
		err = e
	}
	switch {
	case codeOf(err) == codeDivision:
		return fmt.Errorf("%w: %w", storage.ErrStale, err)
	case err != nil:
		return doubted(stale(err))
	case tag.String() != "COMMIT":
		return fmt.Errorf("%w: answer %q to COMMIT", storage.ErrUnavailable, tag)
	}
	return replicated(ctx, conn.Conn())
}

// rollback ends the transaction, if there is one. A connection that cannot is
// dropped when it is released.
func (t *transaction) rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	rollback(ctx, conn.Conn())
}
