-- SPDX-License-Identifier: Apache-2.0
-- Change records of tables with a stream. seq is of the same numbers as the
-- versions of rows: that of the row which was put, or one of its own.

CREATE TABLE changes (
  seq INTEGER PRIMARY KEY,
  t INTEGER NOT NULL, -- the table may be gone
  kind INTEGER NOT NULL, -- 1 insert, 2 modify, 3 remove
  service INTEGER NOT NULL, -- 1: no user asked for it
  size INTEGER NOT NULL,
  at INTEGER NOT NULL, -- Unix milliseconds
  pk BLOB NOT NULL,
  sk BLOB NOT NULL,
  keys BLOB NOT NULL, -- JSON of the key attributes
  old BLOB NOT NULL, -- item before; empty: there was none, or it is not recorded
  new BLOB NOT NULL -- item after; likewise
) STRICT;
CREATE INDEX changes_t ON changes (t); -- and seq, which every index ends with
CREATE INDEX changes_at ON changes (at);
