// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// unless refuses when the row k is there, and changes nothing.
func unless(tab *storage.Table, k string) storage.Write {
	return storage.Write{Table: tab, Key: key(tab, k), Decide: func(_ *storage.Table, cur *storage.Row) (*storage.Next, error) {
		if cur != nil {
			return nil, fmt.Errorf("row %s is there", k)
		}
		return storage.Unchanged, nil
	}}
}

// TestPlainPutWaits: a plain put of a row that a transaction has found absent
// comes after the transaction, in every form that puts have. Without what holds
// the place it comes before, and somebody sees what no order of the two
// explains.
func TestPlainPutWaits(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		for name, def := range map[string]ddb.TableDefinition{"blind": hashTable("t"), "insert": indexed("t", "a")} {
			var hook func(ctx context.Context) error
			o := Options{}
			o.hooks.write.open = open
			o.hooks.write.before = func(ctx context.Context, _ ...*change) error { return hook(ctx) }
			one := mustOpen(t, o)
			two := mustOpen(t, Options{URL: one.o.URL})
			c := mustConnect(t, one.o.URL)
			tab := create(t, one, def)
			keys := []storage.TableKey{{Table: tab, Key: key(tab, "a")}, {Table: tab, Key: key(tab, "b")}}
			done := make(chan error, 1)
			var seen []*storage.Row
			hook = func(ctx context.Context) (err error) {
				go func() {
					_, err := two.Write(ctx, storage.Write{Table: tab, Key: key(tab, "a"), Blind: name == "blind", Decide: put(tab, item("a")).Decide})
					done <- err
				}()
				if open {
					err = <-done
					done <- nil
				} else {
					blocked(t, c, 1)
				}
				if err != nil {
					return err
				}
				seen, err = two.GetAll(ctx, keys, 0)
				return err
			}
			if _, err := one.WriteAll(t.Context(), []storage.Write{unless(tab, "a"), put(tab, item("b"))}, nil); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if skew := seen[0] != nil && seen[1] == nil; skew != open {
				t.Errorf("%s, open %v: seen a before b: %v", name, open, skew)
			}
			for _, k := range []string{"a", "b"} {
				if row, err := one.Get(t.Context(), tab, key(tab, k)); err != nil || row == nil {
					t.Errorf("%s: row %s is %v: %v", name, k, row, err)
				}
			}
			checkTable(t, c, tab)
		}
	}
}

// skewRound lets two transactions, each of which puts a row if another is
// absent, and two plain puts run into each other, under the eyes of an
// observer. It reports what no order of them explains.
func skewRound(ctx context.Context, dbs []*DB, tab *storage.Table, n int) (skew string, err error) {
	a, b := fmt.Sprint("a", n), fmt.Sprint("b", n)
	keys := []storage.TableKey{{Table: tab, Key: key(tab, a)}, {Table: tab, Key: key(tab, b)}}
	done := make(chan struct{})
	var observed [2]bool // a without b, b without a
	var watching sync.WaitGroup
	var watchErr error
	watching.Go(func() {
		for last := false; ; {
			rows, err := dbs[n%len(dbs)].GetAll(ctx, keys, 0)
			if err != nil {
				watchErr = err
				return
			}
			observed[0] = observed[0] || rows[0] != nil && rows[1] == nil
			observed[1] = observed[1] || rows[1] != nil && rows[0] == nil
			if last {
				return
			}
			select {
			case <-done:
				last = true
			default:
			}
		}
	})
	won := make([]bool, 2)
	err = together(4, func(i int) error {
		mine, other := a, b
		if i%2 == 1 {
			mine, other = b, a
		}
		db := dbs[i%len(dbs)]
		if i >= 2 {
			_, err := db.Write(ctx, blind(put(tab, item(mine, "by", "plain"))))
			return err
		}
		_, err := db.WriteAll(ctx, []storage.Write{put(tab, item(mine, "by", "transaction")), unless(tab, other)}, nil)
		if refused := new(storage.Cancelled); errors.As(err, &refused) {
			return nil
		}
		won[i] = err == nil
		return err
	})
	close(done)
	watching.Wait()
	switch {
	case err != nil || watchErr != nil:
		return "", errors.Join(err, watchErr)
	case won[0] && won[1]:
		return "both found the other's row absent", nil
	case won[0] && observed[1], won[1] && observed[0]:
		return "a row was seen that a later transaction found absent", nil
	}
	return "", nil
}

// TestWriteSkew: with nothing held it happens at once, so it would be seen.
func TestWriteSkew(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		var dbs []*DB
		url := ""
		for range 2 {
			o := Options{URL: url}
			o.hooks.write.open = open
			o.hooks.write.before = func(ctx context.Context, _ ...*change) error { return pause(ctx, rand.IntN(3)) }
			db := mustOpen(t, o)
			dbs, url = append(dbs, db), db.o.URL
		}
		tab := create(t, dbs[0], hashTable("t"))
		skews := 0
		for n := range 60 {
			skew, err := skewRound(t.Context(), dbs, tab, n)
			if err != nil {
				t.Fatal(err)
			}
			if skew != "" {
				if skews++; !open {
					t.Errorf("round %d: %s", n, skew)
				}
			}
		}
		if open && skews == 0 {
			t.Error("nothing held, and no skew: the test sees nothing")
		}
		checkTable(t, mustConnect(t, url), tab)
	}
}

// TestTokenAtOnce: of two servers that carry the same token out, one waits and
// finds it done.
func TestTokenAtOnce(t *testing.T) {
	t.Parallel()
	o := Options{}
	held, goOn := make(chan struct{}), make(chan struct{})
	o.hooks.write.before = func(context.Context, ...*change) error { held <- struct{}{}; <-goOn; return nil }
	one := mustOpen(t, o)
	two := mustOpen(t, Options{URL: one.o.URL})
	c := mustConnect(t, one.o.URL)
	tab := create(t, one, hashTable("t"))
	token := &storage.Token{Account: acct, Token: "t", Digest: [32]byte{7}, Now: instant()}
	for name, tc := range map[string]struct {
		digest byte
		refuse bool // the first one's transaction is undone
		want   error
	}{
		"same request": {digest: 7, want: storage.ErrReplayed}, "other request": {digest: 8, want: storage.ErrTokenMismatch},
		"the first is undone": {digest: 7, refuse: true},
	} {
		token.Token = name
		fail := errors.New("undone")
		first, second := make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			_, err := one.WriteAll(ctx, []storage.Write{add(tab, name, 1)}, token)
			first <- err
		}()
		<-held
		other := *token
		other.Digest[0] = tc.digest
		go func() {
			_, err := two.WriteAll(context.WithoutCancel(t.Context()), []storage.Write{add(tab, name, 1)}, &other)
			second <- err
		}()
		blocked(t, c, 1)
		if tc.refuse {
			cancel(fail)
		}
		goOn <- struct{}{}
		if err := <-first; (err != nil) != tc.refuse {
			t.Errorf("%s: the first: %v", name, err)
		}
		if err := <-second; !errors.Is(err, tc.want) {
			t.Errorf("%s: the second: %v, want %v", name, err, tc.want)
		}
		if got := value(t, c, tab, name, "n"); got != "1" {
			t.Errorf("%s: counted %s times", name, got)
		}
		cancel(nil)
	}
}

// TestDeadlock: who locks in another order than we do makes us try again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, indexed("t", "n"))
	mustWrite(t, db, add(tab, "a", 1), add(tab, "b", 1))
	c, other := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	lock := "SELECT 1 FROM " + rowsOf(tab.ID) + " WHERE pk = $1 FOR UPDATE"
	mustExec(t, other, "SET deadlock_timeout = '1h'") // the victim is the engine
	mustExec(t, other, "BEGIN")
	mustExec(t, other, lock, key(tab, "b").PK)
	done := make(chan error, 1)
	go func() {
		_, err := db.WriteAll(context.WithoutCancel(t.Context()), []storage.Write{add(tab, "b", 1), add(tab, "a", 1)}, nil)
		done <- err
	}()
	blocked(t, c, 1) // it has a and waits for b
	mustExec(t, other, lock, key(tab, "a").PK)
	mustExec(t, other, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if a, b := value(t, c, tab, "a", "n"), value(t, c, tab, "b", "n"); a != "2" || b != "2" {
		t.Errorf("a is %s and b is %s", a, b)
	}
	checkTable(t, c, tab)
}

// TestConflicts: what fails with one of these each time ends as a conflict, and
// what fails for a while is done.
func TestConflicts(t *testing.T) {
	t.Parallel()
	var code string
	n, failures := 0, 0
	o := Options{}
	o.hooks.write.before = func(context.Context, ...*change) error {
		if n++; n <= failures {
			return &pgconn.PgError{Code: code, Severity: "ERROR", SeverityUnlocalized: "ERROR"}
		}
		return nil
	}
	db := mustOpen(t, o)
	c := mustConnect(t, db.o.URL)
	tab := create(t, db, hashTable("t"))
	some := map[string]int{codeDeadlock: 3, codeSerialization: 3, codeIdle: 3, codeLockTimeout: 1} // that each wait as long as they may
	for code = range some {
		for _, failures = range []int{some[code], 1000} {
			for call, write := range map[string]func(k string) error{
				"Write": func(k string) error { _, err := db.Write(t.Context(), add(tab, k, 1)); return err },
				"blind": func(k string) error { _, err := db.Write(t.Context(), blind(put(tab, item(k, "n", "1")))); return err },
				"Each":  func(k string) error { return db.WriteEach(t.Context(), []storage.Write{add(tab, k, 1)})[0].Err },
				"All": func(k string) error {
					_, err := db.WriteAll(t.Context(), []storage.Write{add(tab, k, 1)}, nil)
					return err
				},
			} {
				n = 0
				k := fmt.Sprint(call, code, failures)
				err, want := write(k), "1"
				if failures > 3 {
					want = ""
				}
				if (want == "") != errors.Is(err, storage.ErrConflict) || want != "" && err != nil {
					t.Errorf("%s: %v", k, err)
				}
				if got := value(t, c, tab, k, "n"); got != want {
					t.Errorf("%s: n is %q, want %q", k, got, want)
				}
			}
		}
	}
}

// TestPlacesGo: whatever becomes of a transaction, no place that it held stays.
func TestPlacesGo(t *testing.T) {
	t.Parallel()
	fail := errors.New("no")
	o := Options{}
	var hook error
	o.hooks.write.before = func(context.Context, ...*change) error { return hook }
	db := mustOpen(t, o)
	tab := create(t, db, indexed("t", "n"))
	token := &storage.Token{Account: acct, Token: "t", Now: instant()}
	refuse := storage.Write{Table: tab, Key: key(tab, "r"), Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, fail }}
	for name, try := range map[string]func() error{
		"nothing written": func() error {
			_, err := db.WriteAll(t.Context(), []storage.Write{unless(tab, "x"), remove(tab, "y")}, nil)
			return err
		},
		"nothing written but a token": func() error {
			_, err := db.WriteAll(t.Context(), []storage.Write{unless(tab, "x"), remove(tab, "y")}, token)
			return err
		},
		"refused": func() error {
			_, err := db.WriteAll(t.Context(), []storage.Write{put(tab, item("x")), refuse}, nil)
			return err
		},
		"failed": func() error {
			hook = fail
			defer func() { hook = nil }()
			_, err := db.WriteAll(t.Context(), []storage.Write{put(tab, item("x")), unless(tab, "y")}, nil)
			return err
		},
		"given up": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := db.WriteAll(ctx, []storage.Write{put(tab, item("x")), {Table: tab, Key: key(tab, "y"), Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) {
				cancel()
				return storage.Unchanged, nil
			}}}, nil)
			return err
		},
	} {
		_ = try() // see storagetest for what it returns
		c := mustConnect(t, db.o.URL)
		if rows, err := storedRows(t.Context(), c, tab.ID); err != nil || len(rows) > 0 {
			t.Errorf("%s: rows %+v are left: %v", name, rows, err)
		}
		var open int
		if err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state LIKE 'idle in transaction%'`).Scan(&open); err != nil || open > 0 {
			t.Errorf("%s: %d transactions are open: %v", name, open, err)
		}
	}
}

// TestRowGoesWhileHeld: a row that is deleted between the look for a place and
// the lock is held as a place the next time.
func TestRowGoesWhileHeld(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, indexed("t", "n"))
	c, other := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	mustWrite(t, db, put(tab, item("x")))
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "DELETE FROM "+rowsOf(tab.ID))
	done := make(chan error, 1)
	go func() {
		_, err := db.WriteAll(context.WithoutCancel(t.Context()), []storage.Write{add(tab, "x", 1)}, nil)
		done <- err
	}()
	blocked(t, c, 1)
	mustExec(t, other, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := value(t, c, tab, "x", "n"); got != "1" {
		t.Errorf("x is %q, want 1", got)
	}
	checkTable(t, c, tab)
}

// TestManyRows: a transaction of as many rows as the service allows, of two
// tables, in an order that is not that of keys, against itself.
func TestManyRows(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	two := mustOpen(t, Options{URL: one.o.URL})
	a, b := create(t, one, indexed("a", "n")), create(t, one, hashTable("b"))
	err := together(6, func(i int) error {
		var ws []storage.Write
		for n := range 50 {
			ws = append(ws, add(a, fmt.Sprint(n), 1), add(b, fmt.Sprint(n), 1))
		}
		rand.Shuffle(len(ws), func(i, j int) { ws[i], ws[j] = ws[j], ws[i] })
		_, err := []*DB{one, two}[i%2].WriteAll(t.Context(), ws, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c := mustConnect(t, one.o.URL)
	for _, tab := range []*storage.Table{a, b} {
		checkTable(t, c, tab)
		for n := range 50 {
			if got := value(t, c, tab, fmt.Sprint(n), "n"); got != "6" {
				t.Errorf("row %d of %s is %s, want 6", n, tab.Name(), got)
			}
		}
	}
}

// TestRefusalRestsOnNewDefinition: what is refused, or left as it is, after a
// wait for a row, is decided with the definition that is current then.
func TestRefusalRestsOnNewDefinition(t *testing.T) {
	t.Parallel()
	refuse := errors.New("refused")
	for name, tc := range map[string]struct {
		next *storage.Next
		err  error
		more func(tab *storage.Table) []storage.Write
	}{
		"refusal":                     {err: refuse},
		"nothing to write":            {next: storage.Unchanged},
		"nothing to write, as others": {next: storage.Unchanged, more: func(tab *storage.Table) []storage.Write { return []storage.Write{put(tab, item("z"))} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			tab, other := create(t, db, hashTable("t")), create(t, db, hashTable("other"))
			mustWrite(t, db, put(tab, item("x")))
			c, holder := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
			mustExec(t, holder, "BEGIN")
			mustExec(t, holder, "SELECT 1 FROM "+rowsOf(tab.ID)+" FOR UPDATE")
			versions := make(chan int64, 10)
			ws := []storage.Write{{Table: tab, Key: key(tab, "x"), Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
				versions <- t.Version
				return tc.next, tc.err
			}}}
			if tc.more != nil {
				ws = append(ws, tc.more(other)...)
			}
			done := make(chan error, 1)
			go func() {
				_, err := db.WriteAll(context.WithoutCancel(t.Context()), ws, nil)
				done <- err
			}()
			blocked(t, c, 1)
			mustExec(t, c, "UPDATE extenddb.tables SET version = version + 1 WHERE id = $1", int64(tab.ID))
			mustExec(t, holder, "COMMIT")
			err := <-done
			var cancelled *storage.Cancelled
			if errors.As(err, &cancelled) != (tc.err != nil) || err != nil && !errors.As(err, &cancelled) {
				t.Errorf("error %v", err)
			}
			close(versions)
			var last int64
			for last = range versions {
			}
			if last != tab.Version+1 {
				t.Errorf("it rests on version %d, want %d", last, tab.Version+1)
			}
		})
	}
}
