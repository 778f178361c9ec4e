// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

func TestPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{URL: servers.PgBouncer(t, servers.Database(t), "session", "")})
	other := mustOpen(t, Options{URL: db.o.URL})
	woken := make(chan struct{}, 1)
	other.OnWork(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	if _, err := db.CreateTable(t.Context(), "a", hashTable("T"), db.Clock().Now()); err != nil {
		t.Fatal(err)
	}
	own, err := db.lock(t.Context(), lockKey{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.lock(t.Context(), lockKey{1, 1}); !errors.Is(err, storage.ErrClaimed) {
		t.Errorf("a lock of two: %v", err)
	}
	if err := own.release(); err != nil {
		t.Error(err)
	}
	if _, err := db.DropTable(t.Context(), "a", "T", agree); err != nil {
		t.Fatal(err)
	}
	<-woken
}

// TestPoolerLosesDatabase: the database ends a session in the middle of its
// COMMIT, which was carried out. What the pooler says then tells nothing of that.
func TestPoolerLosesDatabase(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	url := s.Database(t)
	db, admin := mustOpen(t, Options{URL: servers.PgBouncer(t, url, "session", "")}), mustConnect(t, url)
	tab := create(t, db, hashTable("t"))
	mustWrite(t, db, put(tab, item("k", "n", "0")), put(tab, item("other", "n", "0")))
	mustExec(t, admin, "SET synchronous_commit = local")
	for query, do := range map[string]func() error{
		"commit": func() error {
			_, err := db.UpdateTable(t.Context(), acct, "t", func(cur *storage.Table) (ddb.TableDefinition, error) {
				def := cur.Def
				def.DeletionProtection = true
				return def, nil
			})
			return err
		},
		"WITH guard%": func() error {
			_, err := db.Write(t.Context(), add(tab, "k", 1))
			return err
		},
		"COMMIT": func() error {
			_, err := db.WriteAll(t.Context(), []storage.Write{add(tab, "k", 10), add(tab, "other", 1)}, nil)
			return err
		},
	} {
		loseInCommit(t, url, admin, query, do)
	}
	if n := selectInt(t, admin, "SELECT version FROM extenddb.tables"); n != 2 {
		t.Errorf("version %d", n)
	}
	if n := value(t, admin, tab, "k", "n"); n != "11" {
		t.Errorf("counted to %s", n)
	}
}

// loseInCommit has commits wait for a standby that does not exist, and ends the
// session of do when its query waits so: it is committed by then.
func loseInCommit(t *testing.T, url string, admin *pgx.Conn, query string, do func() error) {
	t.Helper()
	mustExec(t, admin, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	mustExec(t, admin, "SELECT pg_reload_conf()")
	done, probed, probe := make(chan error, 1), make(chan struct{}), mustConnect(t, url)
	go func() { // until it waits, the setting does not hold
		defer close(probed)
		_, _ = probe.Exec(t.Context(), "DO 'BEGIN LOOP CREATE TABLE probe (); COMMIT; DROP TABLE probe; COMMIT; END LOOP; END'")
	}()
	until := func(sql, query string) {
		for selectInt(t, admin, sql+" FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE $1", query) == 0 {
			must(t, t.Context().Err())
		}
	}
	const end = "SELECT count(pg_terminate_backend(pid, 10000))"
	until("SELECT count(*)", "DO%")
	go func() { done <- do() }()
	until(end, query)
	until(end, "DO%")
	<-probed
	mustExec(t, admin, "DROP TABLE IF EXISTS probe")
	mustExec(t, admin, "ALTER SYSTEM RESET synchronous_standby_names")
	mustExec(t, admin, "SELECT pg_reload_conf()")
	if err := <-done; err != nil {
		t.Errorf("%s: %v", query, err)
	}
}

func TestPoolerRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ mode, settings, want string }{
		"transaction":         {"transaction", "", "transaction or statement mode"},
		"transaction, FIFO":   {"transaction", "server_round_robin = 1", "transaction or statement mode"},
		"one session for all": {"transaction", "default_pool_size = 1", "two connections do not get a session each"},
		"statement":           {"statement", "", "statement mode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := Open(t.Context(), Options{URL: servers.PgBouncer(t, servers.Database(t), c.mode, c.settings)})
			if err == nil {
				_ = db.Close()
			}
			var refused *Refused
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.want) || refused.Remedy != sessionRemedy {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
