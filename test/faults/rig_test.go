// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/stored"
)

func TestMain(m *testing.M) { proc.Main(m) }

// rig is servers under load on one database, and what reads its streams.
type rig struct {
	*load
	bin    string
	served string // URL of the database as servers are given it
	direct string // the same, with nothing between
	srv    []atomic.Pointer[proc.Server]
	tail   *tail
}

// newRig starts so many servers.
func newRig(t *testing.T, served, direct string, count int) *rig {
	t.Helper()
	r := &rig{bin: proc.Binary(t, t.TempDir()), served: served, direct: direct, srv: make([]atomic.Pointer[proc.Server], count)}
	r.load = &load{t: t, http: newClient(t), ledger: newLedger(), servers: r.now, limit: limit}
	for i := range r.srv {
		r.srv[i].Store(proc.Start(t, r.bin, served))
	}
	for _, create := range []string{createJournal, createOwned} {
		must(t, r.http, r.now()[0], "CreateTable", create, nil)
	}
	if strings.HasPrefix(direct, "postgres:") {
		r.tail = follow(t, direct, r.ledger)
	}
	return r
}

func (r *rig) now() (list []*proc.Server) {
	for i := range r.srv {
		list = append(list, r.srv[i].Load())
	}
	return list
}

// warm is how many writes are acknowledged before something is broken, and
// again after it was mended.
const warm = 150

// under breaks something under load and compares what is there then with what
// clients know.
func (r *rig) under(fault func()) {
	r.t.Helper()
	r.start()
	r.await("before the fault")
	fault()
	r.await("after the fault")
	r.end()
	r.check()
}

// await waits until some more writes were acknowledged.
func (r *rig) await(when string) {
	r.t.Helper()
	target := r.ledger.acknowledged() + warm
	r.until(time.Minute, "too few writes are acknowledged "+when, func() bool { return r.ledger.acknowledged() >= target })
}

// until waits for something to happen.
func (r *rig) until(d time.Duration, problem string, happened func() bool) {
	r.t.Helper()
	for began := time.Now(); !happened(); {
		late := time.Since(began) > d
		if late {
			r.ledger.problem("%s, not within %v", problem, d)
		}
		if late || r.ledger.hopeless() {
			r.end()
			r.report()
		}
		rest(5 * time.Millisecond)
	}
}

// rest waits for what gives no sign.
func rest(d time.Duration) {
	over, stop := clock.Real{}.After(d)
	defer stop()
	<-over
}

// report fails the test with what went wrong.
func (r *rig) report() {
	r.t.Helper()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	for _, err := range r.ledger.problems {
		r.t.Error(err)
	}
	for _, srv := range r.now() {
		for line := range strings.Lines(srv.Logs()) {
			var e struct{ Level, Msg, Err string }
			if json.Unmarshal([]byte(line), &e) == nil && e.Level == "ERROR" && e.Msg == "operation failed" &&
				!strings.Contains(e.Err, storage.ErrInDoubt.Error()) {
				r.t.Errorf("a failure that leaves nothing in doubt was answered 500: %s", line)
			}
		}
	}
	if r.t.Failed() {
		for _, srv := range r.now() {
			logs := srv.Logs()
			r.t.Logf("log of a server:\n%s", logs[max(0, len(logs)-8<<10):])
		}
		r.t.FailNow()
	}
}

// check compares the tables, read through every server and below it, with the
// ledger.
func (r *rig) check() {
	r.t.Helper()
	for _, srv := range r.now() {
		journals, owned := map[string][]string{}, map[string]int{}
		for key, raw := range r.scan(srv, "journal", "", "id") {
			var it journalItem
			if err := json.Unmarshal(raw, &it); err != nil {
				r.t.Fatal(err)
			}
			journals[key] = it.ids()
			if n, err := strconv.Atoi(it.N.N); err != nil || n != len(journals[key]) {
				r.ledger.problem("journal %s was changed %s times and holds %d writes", key, it.N.N, len(journals[key]))
			}
		}
		base := r.scan(srv, "owned", "", "owner", "id")
		for key, raw := range base {
			var it struct{ N struct{ N string } }
			if err := json.Unmarshal(raw, &it); err != nil {
				r.t.Fatal(err)
			}
			n, err := strconv.Atoi(it.N.N)
			if err != nil {
				r.t.Fatal(err)
			}
			owned[key] = n
		}
		if index := r.scan(srv, "owned", "by-grp", "owner", "id"); !maps.EqualFunc(base, index, same) {
			r.ledger.problem("index by-grp shows %d items, or others than the %d of its table", len(index), len(base))
		}
		r.ledger.checkJournals(journals)
		r.ledger.checkOwned(owned)
	}
	if r.tail != nil { // an SQLite file has its server
		stored.With(r.t, r.direct, func(db storage.Engine) { stored.Check(r.t, db) })
	}
	r.report()
}

func same(a, b json.RawMessage) bool { return string(a) == string(b) }

// scan reads a table or an index: items by key.
func (r *rig) scan(srv *proc.Server, table, index string, key ...string) map[string]json.RawMessage {
	r.t.Helper()
	items, more := map[string]json.RawMessage{}, ""
	if index != "" {
		more = fmt.Sprintf(`,"IndexName":%q`, index)
	}
	after := ""
	for {
		var page struct {
			Items            []json.RawMessage
			LastEvaluatedKey json.RawMessage
		}
		must(r.t, r.http, srv, "Scan", fmt.Sprintf(`{"TableName":%q%s%s}`, table, more, after), &page)
		for _, raw := range page.Items {
			var it map[string]map[string]any
			if err := json.Unmarshal(raw, &it); err != nil {
				r.t.Fatal(err)
			}
			var parts []string
			for _, name := range key {
				for _, v := range it[name] {
					parts = append(parts, fmt.Sprint(v))
				}
			}
			items[strings.Join(parts, "/")] = raw
		}
		if page.LastEvaluatedKey == nil {
			return items
		}
		after = `,"ExclusiveStartKey":` + string(page.LastEvaluatedKey)
	}
}

// finish ends the test: streams hold what tables do.
func (r *rig) finish() {
	r.t.Helper()
	if r.tail != nil {
		r.tail.finish(r.t)
	}
	l := r.ledger
	r.t.Logf("%d writes acknowledged, %d refused, %d in doubt; the slowest call took %v", l.counts[acked], l.counts[refused], l.counts[doubt], l.slowest)
	r.report()
}

// isReady waits until a server says it is ready, or that it is not.
func (r *rig) isReady(want int) {
	r.t.Helper()
	r.until(30*time.Second, fmt.Sprintf("/readyz does not answer %d", want), func() bool {
		status, err := ready(r.http, r.now()[0])
		return err == nil && status == want
	})
}
