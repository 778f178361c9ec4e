// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

// Package scan reads and drops a table of a million items.
package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/bench/load"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/stored"
)

func TestMain(m *testing.M) { proc.Main(m) }

const (
	table    = "million"
	other    = "other"
	items    = 1_000_000
	segments = 16
	writers  = 8
	// growth bounds what scans may add to the server's anonymous memory: the
	// byte budget of its bodies (16 pages of small items are 43 MiB of JSON,
	// several times that while they grow and before the collector frees them).
	growth = 256 << 20
	// creep bounds what a second scan may need more than the first.
	creep = 64 << 20
)

// fill loads the table straight into the database: what is tested comes after.
func fill(t *testing.T, database string) {
	t.Helper()
	stored.With(t, database, func(db storage.Engine) { fillTable(t, db) })
}

func fillTable(t *testing.T, db storage.Engine) {
	t.Helper()
	ctx := t.Context()
	tab, err := db.CreateTable(ctx, auth.DefaultAccount, ddb.TableDefinition{
		TableName:            table,
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "id", AttributeType: "S"}},
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "id", KeyType: "HASH"}},
		BillingMode:          "PAY_PER_REQUEST",
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const batch = 2000
	for from := 0; from < items; from += batch {
		var ws []storage.Write
		for i := from; i < from+batch; i++ {
			// Keys of one prefix and of growing length: a fair share does not
			// come by itself.
			it, err := ddb.ParseItem(fmt.Appendf(nil, `{"id":{"S":"item-%d"},"n":{"N":"%d"}}`, i, i))
			if err != nil {
				t.Fatal(err)
			}
			next, err := storage.Derive(tab, it)
			if err != nil {
				t.Fatal(err)
			}
			key, err := tab.KeyOf(it)
			if err != nil {
				t.Fatal(err)
			}
			ws = append(ws, storage.Write{Table: tab, Key: key, Blind: true,
				Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) { return next, nil }})
		}
		for _, r := range db.WriteEach(ctx, ws) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// client calls operations over a connection of its own.
type client struct {
	t    *testing.T
	conn *load.Conn
}

func dial(t *testing.T, srv *proc.Server) client {
	t.Helper()
	conn, err := load.Dial(t.Context(), srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{t, conn}
}

// call decodes the answer of an operation.
func (c client) call(operation, body string, answer any) error {
	data, err := c.conn.Call(operation, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// awaitStatistics asks until the statistics job has counted the table, and
// with it taken the sample that segments are cut by.
func (c client) awaitStatistics() {
	c.t.Helper()
	var d struct{ Table struct{ ItemCount int } }
	for range 2_000_000 { // some minutes
		if err := c.call("DescribeTable", `{"TableName":"`+table+`"}`, &d); err != nil {
			c.t.Fatal(err)
		}
		if d.Table.ItemCount == items {
			return
		}
	}
	c.t.Fatalf("ItemCount stays %d", d.Table.ItemCount)
}

// page is an answer of Scan.
type page struct {
	Items            []struct{ ID struct{ S string } }
	LastEvaluatedKey json.RawMessage
}

// scanSegment reads a segment to its end.
func (c client) scanSegment(segment int, each func(id int) error) error {
	after := ""
	for {
		var p page
		err := c.call("Scan", fmt.Sprintf(`{"TableName":"%s","Segment":%d,"TotalSegments":%d%s}`, table, segment, segments, after), &p)
		if err != nil {
			return err
		}
		for _, it := range p.Items {
			id, err := strconv.Atoi(strings.TrimPrefix(it.ID.S, "item-"))
			if err != nil {
				return err
			}
			if err := each(id); err != nil {
				return err
			}
		}
		if p.LastEvaluatedKey == nil {
			return nil
		}
		after = `,"ExclusiveStartKey":` + string(p.LastEvaluatedKey)
	}
}

// TestMillion scans a million items in 16 segments, and then drops them while
// others write.
func TestMillion(t *testing.T) {
	bin := proc.Binary(t, t.TempDir())
	for _, e := range []proc.Engine{proc.SQLite(), proc.Postgres()} { // one after the other: they measure
		t.Run(e.Name, func(t *testing.T) { testMillion(t, bin, e.Database(t)) })
	}
}

func testMillion(t *testing.T, bin, database string) {
	began := time.Now()
	fill(t, database)
	t.Logf("loaded in %v", time.Since(began))
	srv := proc.Start(t, bin, database)
	began = time.Now()
	dial(t, srv).awaitStatistics()
	t.Logf("counted in %v", time.Since(began))
	t.Run("scan", func(t *testing.T) { testScan(t, srv) })
	t.Run("drop", func(t *testing.T) { testDrop(t, srv) })
}

// testScan scans the table twice: memory that the first scan left behind would
// show in the second.
func testScan(t *testing.T, srv *proc.Server) {
	before := memory(t, srv)
	first := scan(t, srv)
	second := scan(t, srv)
	if first > before+growth {
		t.Errorf("anonymous memory grows from %d to %d MiB", before>>20, first>>20)
	}
	if second > first+creep {
		t.Errorf("anonymous memory grows to %d MiB in a second scan, %d in the first", second>>20, first>>20)
	}
	t.Logf("anonymous memory: %d MiB before, at most %d, at most %d in a second scan, %d after", before>>20, first>>20, second>>20,
		memory(t, srv)>>20)
}

// scan reads all segments at once and returns the most memory the server had.
func scan(t *testing.T, srv *proc.Server) int64 {
	t.Helper()
	var (
		seen   [items]atomic.Bool
		counts [segments]int
		most   [segments]int64
		errs   [segments]error
		done   sync.WaitGroup
	)
	began := time.Now()
	for s := range segments {
		c := dial(t, srv)
		done.Go(func() {
			errs[s] = c.scanSegment(s, func(id int) error {
				if id < 0 || id >= items || seen[id].Swap(true) {
					return fmt.Errorf("segment %d: item %d is read twice or does not exist", s, id)
				}
				if counts[s]++; counts[s]%10_000 == 0 {
					most[s] = max(most[s], memory(t, srv))
				}
				return nil
			})
		})
	}
	done.Wait()
	t.Logf("scanned in %v, segments %v", time.Since(began), counts)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	total := 0
	for s, n := range counts {
		total += n
		if n > 2*items/segments {
			t.Errorf("segment %d returns %d items, more than twice the mean", s, n)
		}
	}
	if total != items {
		t.Errorf("%d items are read, not %d", total, items)
	}
	return max(slices.Max(most[:]), memory(t, srv))
}

func memory(t *testing.T, srv *proc.Server) int64 {
	rss, err := srv.AnonymousRSS()
	if err != nil {
		t.Error(err)
	}
	return rss
}

// testDrop deletes the table while writers write another, and reports how long
// those wait.
func testDrop(t *testing.T, srv *proc.Server) {
	c := dial(t, srv)
	create := `{"TableName":"` + other + `","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],` +
		`"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`
	if _, err := c.conn.Call("CreateTable", create); err != nil {
		t.Fatal(err)
	}
	var puts []func() error
	var acknowledged [writers]int
	look := make(chan struct{}, 1) // whether the table is gone: not too often, that is work too
	for w := range writers {
		c := dial(t, srv)
		puts = append(puts, func() error {
			_, err := c.conn.Call("PutItem", fmt.Sprintf(`{"TableName":"%s","Item":{"id":{"S":"%d-%d"}}}`, other, w, acknowledged[w]))
			if err != nil {
				return err
			}
			if acknowledged[w]++; acknowledged[w]%50 == 0 {
				select {
				case look <- struct{}{}:
				default:
				}
			}
			return nil
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	alone, err := load.Run(ctx, puts)
	cancel()
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var busy load.Result
	var writing sync.WaitGroup
	writing.Go(func() { busy, err = load.Run(ctx, puts) })
	derr := c.drop(ctx, look)
	cancel()
	writing.Wait()
	if err := errors.Join(err, derr); err != nil {
		t.Fatal(err)
	}
	t.Logf("dropped in %v; writers: p50 %v, p99 %v, at most %v, %.0f/s; before: p50 %v, p99 %v, at most %v, %.0f/s", busy.Elapsed,
		busy.Quantile(0.5), busy.Quantile(0.99), busy.Quantile(1), busy.Rate(),
		alone.Quantile(0.5), alone.Quantile(0.99), alone.Quantile(1), alone.Rate())

	for w, n := range acknowledged {
		var got struct {
			Item struct{ ID struct{ S string } }
		}
		want := fmt.Sprintf("%d-%d", w, n-1)
		if err := c.call("GetItem", `{"TableName":"`+other+`","Key":{"id":{"S":"`+want+`"}}}`, &got); err != nil || got.Item.ID.S != want {
			t.Errorf("the last write of writer %d is missing: %q, %v", w, got.Item.ID.S, err)
		}
	}
}

// drop deletes the table and asks, whenever it may look, until it is gone.
func (c client) drop(ctx context.Context, look <-chan struct{}) error {
	if _, err := c.conn.Call("DeleteTable", `{"TableName":"`+table+`"}`); err != nil {
		return err
	}
	for {
		select {
		case <-look:
		case <-ctx.Done():
			return errors.New("the table is still there")
		}
		_, err := c.conn.Call("DescribeTable", `{"TableName":"`+table+`"}`)
		var refused *load.Error
		switch {
		case errors.As(err, &refused) && strings.Contains(refused.Body, "ResourceNotFoundException"):
			return nil
		case err != nil:
			return err
		}
	}
}
