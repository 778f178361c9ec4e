// SPDX-License-Identifier: Apache-2.0

package cli

import "slices"

// allSettings are those of the whole program: one file serves every command.
// They are in the order of the file, section by section.
func allSettings() []setting {
	return slices.Concat(serverSettings(), storageSettings(), backupSettings(), outputSettings())
}

func serverSettings() []setting {
	return []setting{
		{key: "server.listen", flag: "listen", def: "127.0.0.1:8000", check: checkAddr,
			usage: "address to serve on; must be a loopback address"},
		{key: "server.insecure_listen", flag: "insecure-listen", def: "", check: optional(checkAddr),
			usage: "serve on this address instead, even when others can reach it without authentication"},
		{key: "server.region", flag: "region", def: "us-east-1", check: checkRegion,
			usage: "region in ARNs; of a command it counts only where no server holds the database"},
		{key: "server.drain", flag: "drain", def: "10s", check: checkDuration,
			usage: "how long running requests may take to finish when the server stops"},
		{key: "server.memory_budget", flag: "memory-budget", def: "256MiB", check: checkBudget,
			usage: "bytes that request and response bodies in flight may take together"},
		{key: "server.admin_socket", flag: "admin-socket", def: "", check: optional(checkSocket),
			usage: "socket where a server takes backups and restores, and commands hand them to it; without it beside a database file, else in the runtime directory"},
	}
}

func storageSettings() []setting {
	return []setting{
		{key: "storage.url", flag: "storage", def: "sqlite:extenddb.db", check: checkStorage, secret: true,
			usage: "where the data is: sqlite:FILE, sqlite:///absolute/FILE, sqlite::memory:, postgres://USER@HOST/DATABASE, or postgres: for what the PG* variables say"},
		{key: "storage.sqlite.synchronous", flag: "sqlite-synchronous", def: "full", choices: []string{"full", "normal"},
			usage: "full survives power loss; normal survives only the end of the process"},
		{key: "storage.sqlite.readers", flag: "sqlite-readers", def: "0", check: checkNumber(0, 64),
			usage: "reading connections; 0: two per processor, 4 to 8"},
		{key: "storage.sqlite.mmap_size", flag: "sqlite-mmap-size", def: "0", check: checkBytes(0, 1<<62),
			usage: "bytes of the file to map into memory; an I/O error under a map ends the process"},
		{key: "storage.postgres.pool", flag: "postgres-pool", def: "0", check: checkPool,
			usage: "connections to PostgreSQL, beside one more; 0: pool_max_conns of the URL, else four per processor, 16 at least"},
		{key: "storage.postgres.acquire_timeout", flag: "postgres-acquire-timeout", def: "5s", check: checkDuration,
			usage: "how long a request waits for a connection to PostgreSQL"},
		{key: "storage.postgres.statement_cache", flag: "postgres-statement-cache", def: "0", check: checkNumber(0, 10000),
			usage: "prepared statements per connection to PostgreSQL; 0: statement_cache_capacity of the URL, else 512"},
	}
}

func backupSettings() []setting {
	return []setting{
		{key: "backup.store", flag: "store", def: "", check: optional(checkStore), secret: true,
			usage: "where backups are: file:///DIRECTORY, or filesystem for the path of [backup.filesystem]"},
		{key: "backup.max_concurrent_jobs", def: "2", check: checkNumber(1, 64),
			usage: "backups and restores that a server works on at a time; others wait"},
		{key: "backup.data_file_target_bytes", def: "64MiB", check: checkBytes(1<<20, 1<<30),
			usage: "bytes at which a data file is full, before compression"},
		{key: "backup.max_manifest_bytes", def: "64MiB", check: checkBytes(1<<10, 1<<30),
			usage: "bytes of the largest manifest that is read"},
		{key: "backup.max_line_bytes", def: "32MiB", check: checkBytes(1<<20, 1<<30),
			usage: "bytes of the longest line of a data file that is read"},
		{key: "backup.max_data_file_uncompressed_bytes", def: "2GiB", check: checkBytes(1<<20, 1<<40),
			usage: "bytes that a data file may expand to when it is read"},
		{key: "backup.filesystem.path", def: "", check: optional(checkDirectory),
			usage: "directory of backups, for store = \"filesystem\"; it must exist"},
	}
}

func outputSettings() []setting {
	return []setting{
		{key: "output.progress", flag: "progress", def: "auto", choices: []string{"auto", "bar", "lines", "json", "none"},
			usage: "how progress is told on stderr; auto: a bar on a terminal, else lines, or JSON with --output json"},
		{key: "output.progress_interval", flag: "progress-interval", def: "60s", check: checkDuration,
			usage: "the longest time without a line of progress"},
		{key: "output.quiet", flag: "quiet", def: "false", check: checkBool, toggle: true,
			usage: "no progress, and no text about what was done"},
		{key: "log.level", flag: "log-level", def: "info", choices: []string{"debug", "info", "warn", "error"},
			usage: "least level to log"},
		{key: "log.format", flag: "log-format", def: "text", choices: []string{"text", "json"},
			usage: "form of log lines"},
	}
}

// What commands register flags for: keys, or sections that end in a dot.

func configFlags() []string { return []string{"server.", "storage.", "backup.", "output.", "log."} }

func serveFlags() []string { return []string{"server.", "storage.", "backup.store", "log."} }

// jobFlags are of commands that work on the database and a store.
func jobFlags() []string {
	return []string{"server.region", "server.admin_socket", "storage.", "backup.store", "output."}
}

// migrateFlags are of migrate.
func migrateFlags() []string { return []string{"storage.url", "output.quiet"} }

// storeFlags are of commands that look at a store alone.
func storeFlags() []string { return []string{"backup.store", "output.quiet"} }
