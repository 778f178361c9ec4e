-- SPDX-License-Identifier: Apache-2.0
-- Every text is kept as BLOB: it compares by bytes and may hold U+0000.

CREATE TABLE meta (
  k TEXT PRIMARY KEY, -- ver: no row has a version beyond; clean: 1 when closed in order
  v INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('ver', 0), ('clean', 1);

CREATE TABLE tables (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid BLOB NOT NULL,
  account BLOB NOT NULL,
  name BLOB NOT NULL,
  version INTEGER NOT NULL,
  status INTEGER NOT NULL, -- 1 active, 2 deleting
  created INTEGER NOT NULL, -- Unix milliseconds
  definition BLOB NOT NULL, -- JSON
  UNIQUE (account, name)
) STRICT;

CREATE TABLE indexes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  t INTEGER NOT NULL,
  name BLOB NOT NULL,
  UNIQUE (t, name)
) STRICT;

-- Counts are apart from tables: those rows stay small and quiet.
CREATE TABLE table_stats (
  t INTEGER PRIMARY KEY,
  items INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  at INTEGER NOT NULL, -- Unix milliseconds; 0 before the first count
  changed INTEGER NOT NULL -- rows changed since; valid when closed in order
) STRICT;

CREATE TABLE index_stats (
  ix INTEGER PRIMARY KEY,
  t INTEGER NOT NULL,
  items INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE samples (
  t INTEGER NOT NULL,
  ix INTEGER NOT NULL, -- 0: the table
  used INTEGER NOT NULL, -- Unix milliseconds of the last scan on it; 0 never
  positions BLOB NOT NULL,
  PRIMARY KEY (t, ix)
) STRICT;

CREATE TABLE tokens (
  account BLOB NOT NULL,
  token BLOB NOT NULL,
  digest BLOB NOT NULL,
  expires INTEGER NOT NULL, -- Unix milliseconds
  PRIMARY KEY (account, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_expires ON tokens (expires);

-- Tables whose storage is being removed: how far that is.
CREATE TABLE leftovers (
  t INTEGER PRIMARY KEY,
  done INTEGER NOT NULL,
  total INTEGER NOT NULL -- 0: unknown
) STRICT;

-- Rows of all tables.
CREATE TABLE r (
  id INTEGER PRIMARY KEY,
  t INTEGER NOT NULL,
  pk BLOB NOT NULL,
  sk BLOB NOT NULL,
  ver INTEGER NOT NULL,
  size INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  item BLOB NOT NULL,
  UNIQUE (t, pk, sk)
) STRICT;

-- Entries of all indexes; rid is r.id.
CREATE TABLE x (
  ix INTEGER NOT NULL,
  p BLOB NOT NULL,
  s BLOB NOT NULL,
  pk BLOB NOT NULL,
  sk BLOB NOT NULL,
  rid INTEGER NOT NULL,
  size INTEGER NOT NULL,
  PRIMARY KEY (ix, p, s, pk, sk)
) STRICT, WITHOUT ROWID;
