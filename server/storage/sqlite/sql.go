// SPDX-License-Identifier: Apache-2.0

package sqlite

// The statements, apart from those of Range (range.go).
const (
	sqlPing    = "SELECT v FROM meta WHERE k = 'ver'"
	sqlVersion = "SELECT version, status FROM tables WHERE id = ?"

	// The catalog.
	sqlTables      = "SELECT id, uuid, account, version, status, created, definition, name, long_keys FROM tables"
	sqlTable       = sqlTables + " WHERE account = ? AND name = ?"
	sqlIndexes     = "SELECT id, name FROM indexes WHERE t = ?"
	sqlSetLongKeys = "UPDATE tables SET long_keys = 1 WHERE id = ?"
	sqlAddTable    = `INSERT INTO tables (uuid, account, name, version, status, created, definition)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlAddIndex = "INSERT INTO indexes (t, name) VALUES (?, ?)"
	sqlSetTable = "UPDATE tables SET version = ?, status = ?, definition = ? WHERE id = ?"
	sqlSetVer   = "UPDATE meta SET v = ? WHERE k = 'ver'"
	sqlSetClean = "UPDATE meta SET v = ? WHERE k = 'clean'"

	// Tables and indexes that have no sample, or an empty one.
	sqlUnsampled = "SELECT id, 0 FROM tables UNION SELECT t, id FROM indexes EXCEPT SELECT t, ix FROM samples WHERE length(positions) > 0"

	// Rows and entries.
	sqlGet    = "SELECT ver, size, flags, item FROM r WHERE t = ? AND pk = ? AND sk = ?"
	sqlFind   = "SELECT id, ver FROM r WHERE t = ? AND pk = ? AND sk = ?"
	sqlInsert = "INSERT INTO r (t, pk, sk, ver, size, flags, item) VALUES (?, ?, ?, ?, ?, ?, ?)"
	sqlUpdate = "UPDATE r SET ver = ?, size = ?, flags = ?, item = ? WHERE id = ?"
	sqlDelete = "DELETE FROM r WHERE id = ?"
	sqlEnter  = "INSERT INTO x (ix, p, s, pk, sk, rid, size) VALUES (?, ?, ?, ?, ?, ?, ?)"
	sqlResize = "UPDATE x SET size = ? WHERE ix = ? AND p = ? AND s = ? AND pk = ? AND sk = ?"
	sqlRemove = "DELETE FROM x WHERE ix = ? AND p = ? AND s = ? AND pk = ? AND sk = ?"

	// Snapshots: the columns of Range.
	sqlAllOfTable = "SELECT NULL, NULL, pk, sk, size, ver, flags, item FROM r WHERE t = ? ORDER BY pk, sk"

	// Tokens of WriteAll.
	sqlToken    = "SELECT digest, expires FROM tokens WHERE account = ? AND token = ?"
	sqlSetToken = "INSERT OR REPLACE INTO tokens (account, token, digest, expires) VALUES (?, ?, ?, ?)"
	sqlOldToken = "SELECT 1 FROM tokens WHERE expires <= ? LIMIT 1"

	sqlPruneTokens = `DELETE FROM tokens WHERE (account, token) IN
		(SELECT account, token FROM tokens WHERE expires <= ? LIMIT ?)`

	// Change records.
	sqlRecord = `INSERT INTO changes (seq, t, kind, service, size, at, pk, sk, keys, old, new)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlChanges = `SELECT seq, kind, service, size, at, pk, sk, keys, old, new FROM changes
		WHERE t = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`
	sqlOldRecord    = "SELECT 1 FROM changes WHERE at <= ? LIMIT 1"
	sqlPruneRecords = "DELETE FROM changes WHERE seq IN (SELECT seq FROM changes WHERE at <= ? ORDER BY at LIMIT ?)"

	// Loads that were left behind.
	sqlCreating = "SELECT count(*) FROM tables WHERE status = 3"
	sqlEndLoads = `BEGIN IMMEDIATE; INSERT OR REPLACE INTO leftovers SELECT id, 0, 0 FROM tables WHERE status = 3;
		UPDATE tables SET status = 2, version = version + 1 WHERE status = 3; COMMIT`

	// Drops.
	sqlMark       = "UPDATE tables SET version = ?, status = ? WHERE id = ?"
	sqlLeave      = "INSERT INTO leftovers (t, done, total) VALUES (?, 0, ?)"
	sqlLeft       = "SELECT done, total FROM leftovers WHERE t = ?"
	sqlDropped    = "UPDATE leftovers SET done = ?, total = ? WHERE t = ?"
	sqlFirstRows  = "SELECT id, size FROM r WHERE t = ? LIMIT ?"
	sqlEntryAt    = "SELECT p, s, pk, sk FROM x WHERE ix = ? ORDER BY p, s, pk, sk LIMIT 1 OFFSET ?"
	sqlFirstEntry = "DELETE FROM x WHERE ix = ? AND (p, s, pk, sk) <= (?, ?, ?, ?)"
	sqlAllEntries = "DELETE FROM x WHERE ix = ?"

	// Statistics.
	sqlSetStats   = "INSERT OR REPLACE INTO table_stats (t, items, bytes, at, changed) VALUES (?, ?, ?, ?, ?)"
	sqlSetIxStats = "INSERT OR REPLACE INTO index_stats (ix, t, items, bytes) VALUES (?, ?, ?, ?)"
	sqlSetSample  = "INSERT OR REPLACE INTO samples (t, ix, used, positions) VALUES (?, ?, 0, ?)"
	sqlSample     = "SELECT positions FROM samples WHERE t = ? AND ix = ?"
	sqlUseSample  = "INSERT INTO samples (used, t, ix, positions) VALUES (?, ?, ?, x'') ON CONFLICT DO UPDATE SET used = excluded.used"
)

// forget lists what removes a table's last traces.
func forget() []string {
	return []string{
		"DELETE FROM samples WHERE t = ?", "DELETE FROM index_stats WHERE t = ?", "DELETE FROM table_stats WHERE t = ?",
		"DELETE FROM leftovers WHERE t = ?", "DELETE FROM indexes WHERE t = ?", "DELETE FROM tables WHERE id = ?",
	}
}
