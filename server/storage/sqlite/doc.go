// SPDX-License-Identifier: Apache-2.0

// Package sqlite keeps tables in one SQLite file: the embedded engine.
//
// One process owns the file (see lock.go), and in it one goroutine writes.
// That goroutine collects requests into one transaction (group commit) and
// answers them after COMMIT. Reads go to a pool of connections of their own;
// WAL lets them run beside the writer. The catalog is kept in memory as an
// immutable value that the writer replaces, so looking a definition up costs
// nothing, and reads prove that it was current with a counter (see view.go).
//
// # Shape
//
// Rows of all tables are in one table r, entries of all indexes in one table
// x. A physical table each was measured at 2,500 tables: creating one takes
// 0.7 ms, but makes each connection parse the schema again at its next
// statement, 18 to 30 ms each and 150 ms of CPU for eight readers, at start
// too; and each connection would keep statements per table. With r and x
// nothing but a migration runs DDL, creating and dropping tables and indexes
// is a handful of row changes (CreateTable at 2,500 tables 2 to 3 ms, no write
// waits longer than 16 ms meanwhile), and every statement is prepared once.
//
// r is a rowid table with its item last: beyond 4 KB items a WITHOUT ROWID
// table costs twice as much. x holds only keys, so WITHOUT ROWID suits it.
//
// # Loads
//
// A load (load.go) puts rows in as they come and sorts their entries in files
// (spill.go), so that each index is built at its right edge. With three indexes
// that takes a quarter of the time that bare INSERTs of rows and entries take,
// and memory that does not depend on the number of rows. Its transactions are
// large while nobody else writes and end at once when somebody does.
//
// # Snapshots
//
// A snapshot is one read transaction on a session of its own (snapshot.go). It
// takes no place among the readers and the writer never waits for it, but the
// write-ahead log cannot be written back past it: the log grows with what is
// written until the snapshot ends, and is cut then. So who reads one should
// not wait for a slow network meanwhile.
//
// # Driver
//
// conn.go talks to modernc.org/sqlite/lib, SQLite translated to Go, so that
// everything builds without cgo on every platform. database/sql costs 1.5 to
// 3 times the CPU and four allocations per row. zombiezen.com/go/sqlite
// offers the same low level, compiles with this version of the driver and
// honours its locking switch; it was left because it copies parameters byte by
// byte into memory it allocates each time (the writer binds items of 400 KB),
// interrupts by a goroutine per call, and names a driver release from 2025.
// modernc.org/libc must stay at exactly the version in the driver's go.mod.
package sqlite
