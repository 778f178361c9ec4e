// SPDX-License-Identifier: Apache-2.0

// Package postgres keeps tables in a PostgreSQL database: the engine for
// production, which several servers may share.
//
// # Shape
//
// The schema extenddb holds the catalog. Each table is a relation
// extenddb_data.t_<id>, each index a relation extenddb_data.x_<id> of keys
// only, so that adding, building and dropping an index never touches the table
// and never waits for who reads it. While a table is restored, the entries of an
// index that are not sorted yet are in extenddb_data.u_<id>.
//
// # The guard
//
// Definitions are cached and may be out of date; a statement that writes, or
// reads, proves that its definition is current. It joins the row of the table
// in extenddb.tables by id and version:
//
//	WITH guard AS MATERIALIZED (SELECT 1 FROM extenddb.tables WHERE id = $1 AND version = $2 AND status = 1), ...
//
// and returns the number of guards found apart from the number of rows, for a
// compare-and-set that lost also changes no row. This proves something only
// because in READ COMMITTED a statement takes its snapshot after its locks on
// relations: who waits for the barrier of an index build (LOCK TABLE .. IN
// SHARE MODE) reads the catalog as it is after it. In REPEATABLE READ and
// SERIALIZABLE, and where rows are spread over partitions, it does not hold.
// So each connection pins READ COMMITTED and checks it, and relations of rows
// are not partitioned.
//
// A statement that names a relation or column that is gone (42P01, 42703), or
// whose plan no longer fits (0A000), was given an old definition too.
//
// # Doubt
//
// A database that is lost between COMMIT and its answer leaves open whether the
// transaction was committed: a *doubt, inside the package. Whoever meets one
// tries to resolve the outcome on another connection: it locks the rows again,
// behind which the lost transaction has ended, and compares what is there with
// what it was about to write (certain and settled for the catalog, settle for
// rows); versions of rows are random so that this tells. A token of WriteAll
// tells by itself. Only where nobody can tell is it an ErrInDoubt.
//
// Other words: a row is held when it is locked for update (hold, held), a table
// is held when somebody's lock on its relation stands in the way (*storage.Held),
// and blame adds the relations to an error that a trigger of others caused.
package postgres
