// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrDenied is the error of a role that lacks a right; the *Refused beside it says which.
var ErrDenied = errors.New("permission denied")

// denied is a *Refused for want of a right.
type denied struct{ *Refused }

// Unwrap returns the *Refused and ErrDenied.
func (e *denied) Unwrap() []error { return []error{e.Refused, ErrDenied} }

func denial(reason, remedy string) error { return &denied{&Refused{reason, remedy}} }

// rightsRemedy is what helps where a right is missing in a database that is in use.
const rightsRemedy = "GRANT it to the role of the server, or make that role the owner of both schemas and all in them, as docs/postgresql.md shows"

// lackingRight is the message of the database, which names the relation or schema.
func lackingRight(err error) string {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return fmt.Sprintf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	return err.Error()
}

// deniedEvery is how often the log tells of a right that is missing: requests
// meet it all the time, and it stays until somebody grants it.
const deniedEvery = time.Minute

// failed is the error of storage that an error of the driver is. That a right
// was taken away from the role is not for who tries again, but for the operator.
func (db *DB) failed(ctx context.Context, err error) error {
	if codeOf(err) == codePrivilege {
		now, last := db.o.Clock.Now().UnixNano(), db.refused.Load()
		if now-last >= int64(deniedEvery) && db.refused.CompareAndSwap(last, now) {
			db.o.Log.ErrorContext(ctx, "the database refuses the server what it needs: "+rightsRemedy, "err", oneLine(lackingRight(err)))
		}
	}
	return ended(ctx, public(err))
}

// foreignOwner is a schema, or what is in it, that another role owns than those
// this one is a member of.
const foreignOwner = `SELECT what, pg_get_userbyid(owner), current_user::text FROM (
  SELECT 0 AS n, 'schema ' || quote_ident(nspname) AS what, nspowner AS owner FROM pg_namespace WHERE nspname IN ('extenddb', 'extenddb_data')
  UNION ALL
  SELECT 1, c.oid::regclass::text, c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname IN ('extenddb', 'extenddb_data')) o
WHERE NOT pg_has_role(owner, 'USAGE') ORDER BY n, what LIMIT 1`

// ownedByUs returns an error that names the owner when the schemas, or what is
// in them, belong to another role.
func ownedByUs(ctx context.Context, c *pgx.Conn) error {
	var what, owner, user string
	err := c.QueryRow(ctx, foreignOwner).Scan(&what, &owner, &user)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return denial(fmt.Sprintf("%s belongs to role %q, and this is %q", what, owner, user),
		fmt.Sprintf("connect as %s, or make %s the owner of both schemas and all in them, as docs/postgresql.md shows", owner, user))
}

// explainDenied says of a permission that is missing whose the database is.
func explainDenied(ctx context.Context, c *pgx.Conn, err error) error {
	if codeOf(err) != codePrivilege || errors.As(err, new(*denied)) {
		return err
	}
	if why := ownedByUs(ctx, c); errors.As(why, new(*denied)) {
		return why
	}
	return err
}

// mayInitialise returns an error when the role may not make the catalog of an
// empty database.
func mayInitialise(ctx context.Context, c *pgx.Conn) error {
	var may bool
	var user, database string
	err := c.QueryRow(ctx, `SELECT bool_and(CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
			ELSE has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') END),
			quote_ident(current_user), quote_ident(current_database())
		FROM unnest(ARRAY['extenddb', 'extenddb_data']) AS s(name) LEFT JOIN pg_namespace n ON n.nspname = s.name`).Scan(&may, &user, &database)
	if err != nil || may {
		return err
	}
	if err := ownedByUs(ctx, c); err != nil {
		return err
	}
	return denial(fmt.Sprintf("the database is empty, and the role %s may not initialise it", user),
		fmt.Sprintf("as an administrator: GRANT CREATE ON DATABASE %s TO %s; or make the two schemas for it, as docs/postgresql.md shows", database, user))
}

// lacking yields the first thing that the role cannot do with a catalog that is
// there: make relations for tables, use and drop those that there are, or draw
// from the sequences.
const lacking = `SELECT NOT has_schema_privilege('extenddb_data', 'CREATE') OR NOT has_schema_privilege('extenddb_data', 'USAGE'),
  EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'S') AND NOT pg_has_role(c.relowner, 'USAGE')
      AND (n.nspname = 'extenddb' OR n.nspname = 'extenddb_data' AND c.relname ~ '^[tx]_[0-9]+$')),
  quote_ident(current_user)`

// mayServe returns an error when the role may not do all that serving takes.
func mayServe(ctx context.Context, c *pgx.Conn) error {
	var creating, foreign bool
	var user string
	err := c.QueryRow(ctx, lacking).Scan(&creating, &foreign, &user)
	switch {
	case codeOf(err) == codeNoSchema:
		return notWhole("schema extenddb_data is missing")
	case err != nil:
		return err
	}
	if !creating && !foreign {
		return nil
	}
	if err := ownedByUs(ctx, c); err != nil {
		return err
	}
	return denial(fmt.Sprintf("the role %s may not make relations in schema extenddb_data", user),
		fmt.Sprintf("as its owner: GRANT USAGE, CREATE ON SCHEMA extenddb_data TO %s", user))
}
