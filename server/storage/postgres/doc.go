// SPDX-License-Identifier: Apache-2.0

// Package postgres keeps tables in a PostgreSQL database: the engine for
// production, which several servers may share.
//
// # Shape
//
// The schema extenddb holds the catalog. Each table is a relation
// extenddb_data.t_<id>, each index a relation extenddb_data.x_<id> of keys
// only, so that adding, building and dropping an index never touches the table
// and never waits for who reads it.
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
package postgres
