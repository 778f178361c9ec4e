-- SPDX-License-Identifier: Apache-2.0
-- The schemas extenddb (the catalog) and extenddb_data (t_<table id> for rows,
-- x_<index id> for entries) are there already.

CREATE SEQUENCE extenddb.ids; -- of tables and indexes: never used twice

-- A version of a row is read by every write: it stays small and quiet.
CREATE TABLE extenddb.tables (
  id bigint PRIMARY KEY,
  version bigint NOT NULL,
  status smallint NOT NULL, -- 1 active, 2 deleting, 3 being loaded
  long_keys boolean NOT NULL DEFAULT false, -- it had a row whose partition key is shortened
  created timestamptz NOT NULL,
  uuid uuid NOT NULL,
  account text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  definition bytea NOT NULL, -- JSON
  UNIQUE (account, name)
) WITH (fillfactor = 50);
CREATE INDEX ON extenddb.tables (id) WHERE status <> 1; -- what there is to be done with them

CREATE TABLE extenddb.indexes (
  id bigint PRIMARY KEY,
  t bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  UNIQUE (t, name)
);

CREATE TABLE extenddb.table_stats (
  t bigint PRIMARY KEY,
  items bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  counted timestamptz, -- NULL: never
  changed bigint NOT NULL DEFAULT 0 -- rows since then
) WITH (fillfactor = 50);

CREATE TABLE extenddb.index_stats (
  ix bigint PRIMARY KEY,
  t bigint NOT NULL,
  items bigint NOT NULL,
  bytes bigint NOT NULL
);
CREATE INDEX ON extenddb.index_stats (t);

-- Sorted positions that bound the segments of parallel scans.
CREATE TABLE extenddb.samples (
  t bigint NOT NULL,
  ix bigint NOT NULL, -- 0: the table
  used timestamptz NOT NULL, -- by the last scan, to some minutes
  positions bytea NOT NULL, -- empty: none was taken yet
  PRIMARY KEY (t, ix)
);

CREATE TABLE extenddb.tokens (
  account text COLLATE "C" NOT NULL,
  token bytea NOT NULL,
  digest bytea NOT NULL,
  expires timestamptz NOT NULL,
  PRIMARY KEY (account, token)
);
CREATE INDEX ON extenddb.tokens (expires);

-- The order of numbers is not that of commits: see streams.go.
CREATE SEQUENCE extenddb.change_seq CACHE 1;
CREATE TABLE extenddb.changes (
  seq bigint PRIMARY KEY,
  t bigint NOT NULL,
  kind smallint NOT NULL, -- 1 insert, 2 modify, 3 remove
  service boolean NOT NULL,
  size integer NOT NULL,
  at timestamptz NOT NULL,
  pk bytea NOT NULL,
  sk bytea NOT NULL,
  keys bytea NOT NULL,
  old bytea,
  new bytea
);
CREATE INDEX ON extenddb.changes (t, seq);
-- All changes up to seq are there: what any server has found so far.
CREATE TABLE extenddb.horizon (one boolean PRIMARY KEY CHECK (one), seq bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO extenddb.horizon VALUES (true, 0);

CREATE TABLE extenddb.servers (
  id uuid PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  program text NOT NULL, -- its version
  started timestamptz NOT NULL,
  heartbeat timestamptz NOT NULL
) WITH (fillfactor = 50);
