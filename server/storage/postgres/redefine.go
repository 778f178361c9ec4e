// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// redefine gives a table its next version: what r.next returns for its current
// definition, an error of which is returned as it is.
func (db *DB) redefine(ctx context.Context, account, name string, r redefinition) (*storage.Table, error) {
	err := db.certain(ctx, func() error {
		return db.call(ctx, func(c *pgxpool.Conn) error {
			r.refused = nil
			err := db.inTx(ctx, c, func(tx pgx.Tx) error { return r.run(ctx, tx, account, name) })
			switch {
			case r.refused != nil:
				err = nil // it is none of storage
			case errors.Is(err, storage.ErrInDoubt) && r.made != nil:
				r.doubt = r.made
			}
			return err
		})
	})
	if r.refused != nil {
		return nil, r.refused
	}
	if err != nil {
		return nil, err
	}
	db.defs.put(r.made)
	return r.made, nil
}

// redefinition is what redefine is to do, and remembers from try to try.
type redefinition struct {
	db      *DB
	drop    bool // make it DELETING
	next    func(*storage.Table) (ddb.TableDefinition, error)
	refused error          // by next
	made    *storage.Table // by the last try
	text    []byte         // its definition; nil: as it was
	doubt   *storage.Table // made by a try whose COMMIT was not answered
}

func (r *redefinition) run(ctx context.Context, tx pgx.Tx, account, name string) error {
	// A statement of its own: the next one sees what the wait was for.
	var id int64
	err := tx.QueryRow(ctx, "SELECT id FROM extenddb.tables WHERE account = $1 AND name = $2 FOR UPDATE", account, name).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	r.made = nil
	cur, err := r.current(ctx, tx, account, name)
	if r.doubt != nil && (err == nil || isNotFound(err)) {
		if done, err := r.settled(ctx, tx, cur); done || err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	def, err := r.next(cur)
	if err != nil {
		r.refused = err
		return err
	}
	switch {
	case !r.drop:
		return r.set(ctx, tx, cur, def)
	case cur.Status == storage.Deleting:
		r.made = cur
		return nil
	}
	return r.mark(ctx, tx, cur)
}

// current reads the definition. That of a table to drop may be damaged.
func (r *redefinition) current(ctx context.Context, tx pgx.Tx, account, name string) (*storage.Table, error) {
	s, err := readStored(ctx, tx, byName, account, name)
	switch {
	case err != nil:
		return nil, err
	case r.drop:
		return s.DecodeToDrop()
	}
	return s.Decode()
}

// settled finds out whether the try in doubt was carried out: its row is
// locked, so it has ended. cur is nil when there is no such table any more.
func (r *redefinition) settled(ctx context.Context, tx pgx.Tx, cur *storage.Table) (done bool, err error) {
	switch d := r.doubt; {
	case cur != nil && cur.ID == d.ID && cur.Version < d.Version:
		r.doubt = nil
		return false, nil
	case (cur == nil || cur.ID != d.ID) && d.Status == storage.Deleting: // and then it went
		done = true
	case cur != nil && cur.ID == d.ID:
		err = tx.QueryRow(ctx, "SELECT version = $2 AND status = $3 AND definition = coalesce($4, definition) FROM extenddb.tables WHERE id = $1",
			int64(d.ID), d.Version, int16(d.Status), r.text).Scan(&done)
	}
	if err == nil && !done {
		err = fmt.Errorf("%w: the table was changed again since", storage.ErrInDoubt)
	}
	r.made = r.doubt
	return done, err
}

// mark makes a table DELETING, and leaves its definition alone.
func (r *redefinition) mark(ctx context.Context, tx pgx.Tx, cur *storage.Table) error {
	made := *cur
	made.Version, made.Status = cur.Version+1, storage.Deleting
	if _, err := tx.Exec(ctx, "UPDATE extenddb.tables SET version = $2, status = $3 WHERE id = $1",
		int64(cur.ID), made.Version, int16(made.Status)); err != nil {
		return err
	}
	r.made = &made
	return r.db.changed(ctx, tx, cur.ID)
}

// set writes the next version of a table.
func (r *redefinition) set(ctx context.Context, tx pgx.Tx, cur *storage.Table, def ddb.TableDefinition) error {
	ids := make([]storage.IndexID, 0, len(cur.Indexes))
	for _, name := range indexNames(&def) {
		ix := cur.Index(name)
		if ix == nil {
			return fmt.Errorf("%w: update adds index %q", storage.ErrInvalid, name)
		}
		ids = append(ids, ix.ID)
	}
	next := *cur
	next.Version, next.Def = cur.Version+1, def
	made, err := storage.NewTable(next, ids)
	if err != nil || len(ids) != len(cur.Indexes) || made.Name() != cur.Name() || !slices.Equal(made.KeyAttrs(), cur.KeyAttrs()) {
		return fmt.Errorf("%w: update changes name, keys or indexes of table %q", storage.ErrInvalid, cur.Name())
	}
	text, err := json.Marshal(def)
	if err != nil {
		return fmt.Errorf("%w: encode definition: %w", storage.ErrInvalid, err)
	}
	if _, err := tx.Exec(ctx, "UPDATE extenddb.tables SET version = $2, definition = $3 WHERE id = $1",
		int64(cur.ID), made.Version, text); err != nil {
		return err
	}
	r.made, r.text = made, text
	return r.db.changed(ctx, tx, cur.ID)
}
