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

// redefine gives a table what next returns for its current definition, and the
// next version. An error of next is returned as it is.
func (db *DB) redefine(
	ctx context.Context, account, name string, next func(*storage.Table) (storage.Status, ddb.TableDefinition, error),
) (*storage.Table, error) {
	r := redefinition{db: db, next: next}
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

// redefinition is what redefine remembers from try to try.
type redefinition struct {
	db      *DB
	next    func(*storage.Table) (storage.Status, ddb.TableDefinition, error)
	refused error          // by next
	made    *storage.Table // by the last try
	text    []byte         // its definition
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
	cur, err := readTable(ctx, tx, byName, account, name)
	if r.doubt != nil && (err == nil || isNotFound(err)) {
		if done, err := r.settled(ctx, tx, cur); done || err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	status, def, err := r.next(cur)
	if err != nil {
		r.refused = err
		return err
	}
	if status == storage.Deleting && cur.Status == status {
		r.made = cur
		return nil
	}
	return r.set(ctx, tx, cur, status, def)
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
		err = tx.QueryRow(ctx, "SELECT version = $2 AND status = $3 AND definition = $4 FROM extenddb.tables WHERE id = $1",
			int64(d.ID), d.Version, int16(d.Status), r.text).Scan(&done)
	}
	if err == nil && !done {
		err = fmt.Errorf("%w: the table was changed again since", storage.ErrInDoubt)
	}
	r.made = r.doubt
	return done, err
}

// set writes the next version of a table.
func (r *redefinition) set(ctx context.Context, tx pgx.Tx, cur *storage.Table, status storage.Status, def ddb.TableDefinition) error {
	ids := make([]storage.IndexID, 0, len(cur.Indexes))
	for _, name := range indexNames(&def) {
		ix := cur.Index(name)
		if ix == nil {
			return fmt.Errorf("%w: update adds index %q", storage.ErrInvalid, name)
		}
		ids = append(ids, ix.ID)
	}
	next := *cur
	next.Version, next.Status, next.Def = cur.Version+1, status, def
	made, err := storage.NewTable(next, ids)
	if err != nil || len(ids) != len(cur.Indexes) || made.Name() != cur.Name() || !slices.Equal(made.KeyAttrs(), cur.KeyAttrs()) {
		return fmt.Errorf("%w: update changes name, keys or indexes of table %q", storage.ErrInvalid, cur.Name())
	}
	text, err := json.Marshal(def)
	if err != nil {
		return fmt.Errorf("%w: encode definition: %w", storage.ErrInvalid, err)
	}
	if _, err := tx.Exec(ctx, "UPDATE extenddb.tables SET version = $2, status = $3, definition = $4 WHERE id = $1",
		int64(cur.ID), made.Version, int16(status), text); err != nil {
		return err
	}
	r.made, r.text = made, text
	return r.db.changed(ctx, tx, cur.ID)
}
