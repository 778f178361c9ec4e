// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	driver "modernc.org/sqlite"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// This file is the only one that knows the driver: conn and stmt are all the
// package uses of it. Memory that SQLite hands out is not Go's, so its
// addresses travel as uintptr and never confuse the collector.

// maxKeptBuffer bounds the memory a statement keeps for one parameter.
const maxKeptBuffer = 64 << 10

// conn is a connection. One goroutine at a time may use it; only interrupt may
// be called from others.
type conn struct {
	tls *libc.TLS
	db  uintptr
}

// stmt is a prepared statement of a conn.
type stmt struct {
	c    *conn
	p    uintptr
	bufs []buffer // one per parameter, from 1
}

type buffer struct {
	p   uintptr
	cap int
}

// setUpDriver sets what holds for the whole process, where there is a choice:
// locks that closing a descriptor somebody else opened does not release, which
// must be chosen before the first database is opened; and syncing with
// fdatasync, as every distribution's SQLite does: a commit takes half the time.
func setUpDriver() error {
	if _, err := driver.OFDLocking(true); err != nil && !errors.Is(err, driver.ErrOFDLockingUnavailable) {
		return fmt.Errorf("choose file locks: %w", err)
	}
	if _, err := driver.Fdatasync(true); err != nil && !errors.Is(err, driver.ErrFdatasyncUnavailable) {
		return fmt.Errorf("choose how to sync: %w", err)
	}
	return nil
}

// openConn opens the file, which must be there; an empty one is a new database.
func openConn(path string) (*conn, error) {
	c, err := openNamed(path, lib.SQLITE_OPEN_READWRITE)
	if err != nil {
		return nil, err
	}
	if lib.Xsqlite3_db_readonly(c.tls, c.db, 0) == 1 { // what SQLite does when it may not write the file
		_ = c.close()
		return nil, fmt.Errorf("open database: %w", &sqliteError{Code: lib.SQLITE_READONLY, Text: "the file is read-only"})
	}
	return c, nil
}

// openToRead opens the file and leaves it as it is. unused: nobody else has it
// open, and it was closed in order; else the index of its log may be made.
func openToRead(path string, unused bool) (*conn, error) {
	u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}
	if unused {
		u.RawQuery = "immutable=1"
	}
	return openNamed(u.String(), lib.SQLITE_OPEN_READONLY|lib.SQLITE_OPEN_URI)
}

func openNamed(path string, flags int32) (*conn, error) {
	c := &conn{tls: libc.NewTLS()}
	name, err := libc.CString(path)
	if err != nil {
		c.tls.Close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	defer libc.Xfree(c.tls, name)
	slot := c.malloc(int(unsafe.Sizeof(uintptr(0))))
	defer libc.Xfree(c.tls, slot)
	rc := lib.Xsqlite3_open_v2(c.tls, name, slot, flags|lib.SQLITE_OPEN_NOMUTEX, 0)
	c.db = *(*uintptr)(pointer(slot))
	if rc != lib.SQLITE_OK {
		err := c.err(rc)
		_ = c.close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	lib.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	return c, nil
}

// close frees the connection; its statements must be finalized before.
func (c *conn) close() error {
	defer c.tls.Close()
	if rc := lib.Xsqlite3_close(c.tls, c.db); rc != lib.SQLITE_OK {
		return fmt.Errorf("close database: %w", c.err(rc))
	}
	return nil
}

// prepare compiles one statement to be used often.
func (c *conn) prepare(sql string) (*stmt, error) {
	text, err := libc.CString(sql)
	if err != nil {
		return nil, fmt.Errorf("prepare statement: %w", err)
	}
	defer libc.Xfree(c.tls, text)
	slot := c.malloc(int(unsafe.Sizeof(uintptr(0))))
	defer libc.Xfree(c.tls, slot)
	rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, slot, 0)
	if rc != lib.SQLITE_OK {
		return nil, fmt.Errorf("prepare %q: %w", sql, c.err(rc))
	}
	s := &stmt{c: c, p: *(*uintptr)(pointer(slot))}
	s.bufs = make([]buffer, lib.Xsqlite3_bind_parameter_count(c.tls, s.p)+1)
	return s, nil
}

// exec runs statements that take no parameters and whose rows nobody wants.
func (c *conn) exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return fmt.Errorf("run statement: %w", err)
	}
	defer libc.Xfree(c.tls, text)
	if rc := lib.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != lib.SQLITE_OK {
		return fmt.Errorf("run %.60q: %w", sql, c.err(rc))
	}
	return nil
}

// queryInt runs a query that yields one number.
func (c *conn) queryInt(sql string) (int64, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	defer s.finalize()
	if _, err := s.step(); err != nil {
		return 0, err
	}
	return s.colInt(0), nil
}

// changes tells how many rows the last statement changed.
func (c *conn) changes() int { return int(lib.Xsqlite3_changes(c.tls, c.db)) }

// lastID is the rowid of the last row inserted.
func (c *conn) lastID() int64 { return lib.Xsqlite3_last_insert_rowid(c.tls, c.db) }

// autocommit reports whether no transaction is open.
func (c *conn) autocommit() bool { return lib.Xsqlite3_get_autocommit(c.tls, c.db) != 0 }

// interrupt makes the running statement fail. The connection must be open.
func (c *conn) interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_interrupt(tls, c.db)
}

func (c *conn) err(rc int32) error {
	e := &sqliteError{Code: int(rc)}
	if c.db == 0 {
		return e
	}
	e.Text = libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))
	switch n := lib.Xsqlite3_system_errno(c.tls, c.db); e.primary() {
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_FULL:
		e.full = e.primary() == lib.SQLITE_FULL || syscall.Errno(n) == syscall.ENOSPC
		if n != 0 {
			e.Text += ": " + syscall.Errno(n).Error()
		}
	}
	return e
}

func (c *conn) malloc(n int) uintptr {
	p := libc.Xmalloc(c.tls, libc.Tsize_t(n))
	if p == 0 {
		panic("sqlite: out of memory") // as the Go allocator does
	}
	return p
}

// bindBlob sets parameter i, counted from 1, to a copy of b: nil and empty
// alike to the empty blob.
func (s *stmt) bindBlob(i int, b []byte) {
	buf := &s.bufs[i]
	if n := max(len(b), 1); buf.cap < n {
		libc.Xfree(s.c.tls, buf.p)
		*buf = buffer{s.c.malloc(n), n}
	}
	copy(unsafe.Slice((*byte)(pointer(buf.p)), len(b)), b)
	s.must(lib.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), buf.p, int32(len(b)), lib.SQLITE_STATIC))
}

// bindInt sets parameter i to n.
func (s *stmt) bindInt(i int, n int64) {
	s.must(lib.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), n))
}

// must: binding to a statement that was reset, within its parameters, cannot
// fail, but for a value beyond SQLite's own limit, which no item reaches.
func (s *stmt) must(rc int32) {
	if rc != lib.SQLITE_OK {
		panic(fmt.Sprintf("sqlite: bind: code %d", rc))
	}
}

// step runs to the next row; false at the end. After false or an error the
// statement is reset.
func (s *stmt) step() (bool, error) {
	switch rc := lib.Xsqlite3_step(s.c.tls, s.p); rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		s.reset()
		return false, nil
	default:
		err := s.c.err(rc)
		s.reset()
		return false, err
	}
}

// run steps a statement that yields no row anybody wants.
func (s *stmt) run() error {
	more, err := s.step()
	if more {
		s.reset()
	}
	return err
}

// reset ends a run, freeing what it holds; its error is that of the last step.
func (s *stmt) reset() {
	lib.Xsqlite3_reset(s.c.tls, s.p)
	for i := range s.bufs {
		if b := &s.bufs[i]; b.cap > maxKeptBuffer {
			s.must(lib.Xsqlite3_bind_null(s.c.tls, s.p, int32(i)))
			libc.Xfree(s.c.tls, b.p)
			*b = buffer{}
		}
	}
}

// colInt returns column i, counted from 0, of the current row.
func (s *stmt) colInt(i int) int64 { return lib.Xsqlite3_column_int64(s.c.tls, s.p, int32(i)) }

// colBlob returns column i in memory that is valid until the next step or
// reset: not nil when it is an empty blob, nil when it is NULL.
func (s *stmt) colBlob(i int) []byte {
	p := lib.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
	n := lib.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	if p != 0 {
		return unsafe.Slice((*byte)(pointer(p)), n)
	}
	if lib.Xsqlite3_column_type(s.c.tls, s.p, int32(i)) == lib.SQLITE_NULL {
		return nil
	}
	return []byte{}
}

// finalize frees the statement.
func (s *stmt) finalize() {
	lib.Xsqlite3_finalize(s.c.tls, s.p)
	for _, b := range s.bufs {
		libc.Xfree(s.c.tls, b.p)
	}
}

// pointer turns an address outside Go's memory into a pointer; the detour
// tells vet that it is meant.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// sqliteError is a result code of SQLite with its message.
type sqliteError struct {
	Code int // extended
	Text string
	full bool // the disk is
}

func (e *sqliteError) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.Text, e.Code) }

// Is makes a file that may not be written an fs.ErrPermission.
func (e *sqliteError) Is(target error) bool {
	return target == fs.ErrPermission && (e.primary() == lib.SQLITE_READONLY || e.primary() == lib.SQLITE_PERM)
}

// primary is the code without its extension.
func (e *sqliteError) primary() int { return e.Code & 0xff }
