// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// tied fills music with items whose index keys tie in every way, some of them
// with keys so long that the stored key is shortened, and returns them.
func (r *reading) tied() []ddb.Item {
	r.standard()
	long := strings.Repeat("long", 100)
	var items []ddb.Item
	for i := range 48 {
		it := ddb.Item{
			"pk": ddb.String([]string{"p", "q", long + "p", long + "q"}[i%4]), "sk": ddb.String(fmt.Sprintf("%02d", i)),
			"n": ddb.Int(int64(i / 12)), "h": ddb.String([]string{"x", "y", long}[i%3]), "r": ddb.String(fmt.Sprint(i / 20)),
			"i": ddb.Int(int64(i % 2)), "a": ddb.String(fmt.Sprint("a", i)), "b": ddb.Bool(true),
		}
		if i%7 == 6 {
			delete(it, "n")
		}
		if i%11 == 10 {
			delete(it, "r")
		}
		items = append(items, it)
		r.putItem("music", it)
	}
	return items
}

// expected returns what a full read of the items has to answer: those with all
// key attributes, in order, seen through the projection.
func expected(items []ddb.Item, eq ddb.Item, order, has []string, show []string, reverse bool) []string {
	var rows []ddb.Item
	for _, it := range items {
		ok := true
		for name, v := range eq {
			ok = ok && it[name].Equal(v)
		}
		for _, name := range has {
			_, found := it[name]
			ok = ok && found
		}
		if ok {
			rows = append(rows, it)
		}
	}
	slices.SortFunc(rows, func(a, b ddb.Item) int {
		for _, name := range order {
			if c, _ := ddb.Compare(a[name], b[name]); c != 0 {
				return c
			}
		}
		// Ties are broken by the table's key; beyond 300 bytes of a partition
		// key only that there is an order matters.
		return 0
	})
	if reverse {
		slices.Reverse(rows)
	}
	var texts []string
	for _, it := range rows {
		out := it
		if show != nil {
			out = ddb.Item{}
			for _, name := range show {
				if v, ok := it[name]; ok {
					out[name] = v
				}
			}
		}
		texts = append(texts, string(ddb.AppendItem(nil, out)))
	}
	return texts
}

// TestPagesOverTies walks every index with ties in both directions with every
// page size and compares with the items.
func TestPagesOverTies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 100)
	forReading(t, func(r *reading) {
		items := r.tied()
		for _, c := range []struct {
			request    string
			eq         ddb.Item
			order, has []string
			show       []string
		}{
			{`{"TableName":"music","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"p"}}}`,
				ddb.Item{"pk": ddb.String("p")}, []string{"sk"}, nil, nil},
			{`{"TableName":"music","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"` + long + `q"}},"AttributesToGet":null}`,
				ddb.Item{"pk": ddb.String(long + "q")}, []string{"sk"}, nil, nil},
			{`{"TableName":"music","IndexName":"l-all","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"q"}}}`,
				ddb.Item{"pk": ddb.String("q")}, []string{"n", "sk"}, []string{"n"}, nil},
			{`{"TableName":"music","IndexName":"l-keys","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"` + long + `p"}}}`,
				ddb.Item{"pk": ddb.String(long + "p")}, []string{"n", "sk"}, []string{"n"}, []string{"pk", "sk", "n"}},
			{`{"TableName":"music","IndexName":"l-keys","Select":"ALL_ATTRIBUTES","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"p"}}}`,
				ddb.Item{"pk": ddb.String("p")}, []string{"n", "sk"}, []string{"n"}, nil},
			{`{"TableName":"music","IndexName":"g-keys","KeyConditionExpression":"h = :v","ExpressionAttributeValues":{":v":{"S":"x"}}}`,
				ddb.Item{"h": ddb.String("x")}, []string{}, []string{"h"}, []string{"h", "pk", "sk"}},
			{`{"TableName":"music","IndexName":"g-keys","KeyConditionExpression":"h = :v","ExpressionAttributeValues":{":v":{"S":"` + long + `"}}}`,
				ddb.Item{"h": ddb.String(long)}, []string{}, []string{"h"}, []string{"h", "pk", "sk"}},
			{`{"TableName":"music","IndexName":"g-all","KeyConditionExpression":"h = :v","ExpressionAttributeValues":{":v":{"S":"y"}}}`,
				ddb.Item{"h": ddb.String("y")}, []string{"n"}, []string{"n"}, nil},
			{`{"TableName":"music","IndexName":"g-all","KeyConditionExpression":"h = :v and n = :n","ExpressionAttributeValues":{":v":{"S":"y"},":n":{"N":"1"}}}`,
				ddb.Item{"h": ddb.String("y"), "n": ddb.Int(1)}, []string{"n"}, []string{"n"}, nil},
			{`{"TableName":"music","IndexName":"g-inc","KeyConditionExpression":"h = :v","ExpressionAttributeValues":{":v":{"S":"` + long + `"}}}`,
				ddb.Item{"h": ddb.String(long)}, []string{"r"}, []string{"r"}, []string{"h", "r", "pk", "sk", "a"}},
			{`{"TableName":"music","IndexName":"g-multi","KeyConditionExpression":"h = :v and i = :i","ExpressionAttributeValues":{":v":{"S":"x"},":i":{"N":"1"}}}`,
				ddb.Item{"h": ddb.String("x"), "i": ddb.Int(1)}, []string{"r", "n"}, []string{"r", "n"}, nil},
			{`{"TableName":"music","IndexName":"g-multi","KeyConditionExpression":"h = :v and i = :i and r = :r","ExpressionAttributeValues":{":v":{"S":"x"},":i":{"N":"0"},":r":{"S":"1"}}}`,
				ddb.Item{"h": ddb.String("x"), "i": ddb.Int(0), "r": ddb.String("1")}, []string{"n"}, []string{"n"}, nil},
		} {
			for _, reverse := range []bool{false, true} {
				request := with(c.request, fmt.Sprintf(`"ScanIndexForward":%t`, !reverse))
				all, pages := r.walk("Query", request)
				if len(pages) != 1 {
					r.Errorf("%s: %d pages without a limit", request, len(pages))
				}
				r.compare(request, all, expected(items, c.eq, c.order, c.has, c.show, reverse), c.order)
				for size := 1; size <= len(all)+1; size++ {
					limited := with(request, fmt.Sprintf(`"Limit":%d`, size))
					got, pages := r.walk("Query", limited)
					if !slices.Equal(got, all) {
						r.Errorf("%s: pages give\n%s\nwant\n%s", limited, strings.Join(got, "\n"), strings.Join(all, "\n"))
					}
					if want := len(all)/size + 1; len(pages) != want {
						r.Errorf("%s: %d pages for %d items, want %d", limited, len(pages), len(all), want)
					}
					r.walkCount(limited, pages)
				}
			}
		}
	})
}

// compare checks that got are the items want, in the order of the attributes.
func (r *reading) compare(request string, got, want []string, order []string) {
	r.Helper()
	if sorted(got) != sorted(want) || len(want) == 0 {
		r.Errorf("%s gives\n%s\nwant\n%s", request, strings.Join(got, "\n"), strings.Join(want, "\n"))
		return
	}
	for i := range got {
		a, errA := ddb.ParseItem([]byte(got[i]))
		b, errB := ddb.ParseItem([]byte(want[i]))
		if err := cmp.Or(errA, errB); err != nil {
			r.Fatal(err)
		}
		for _, name := range order {
			if !a[name].Equal(b[name]) {
				r.Errorf("%s: item %d is %s, want one like %s", request, i, got[i], want[i])
			}
		}
	}
}

func sorted(texts []string) string { return strings.Join(slices.Sorted(slices.Values(texts)), "\n") }

// walkCount repeats a walk with Select COUNT and compares page by page.
func (r *reading) walkCount(request string, pages []listed) {
	r.Helper()
	if strings.Contains(request, `"Select"`) {
		return
	}
	next := with(request, `"Select":"COUNT"`)
	for i, p := range pages {
		l := r.list("Query", next)
		if l.Items != nil || l.Count != p.Count || string(l.LastEvaluatedKey) != string(p.LastEvaluatedKey) {
			r.Errorf("%s: page %d counts %d up to %s, items are %d up to %s", next, i, l.Count, l.LastEvaluatedKey, p.Count, p.LastEvaluatedKey)
		}
		next = with(request, `"Select":"COUNT"`, fmt.Sprintf(`"ExclusiveStartKey":%s`, l.LastEvaluatedKey))
	}
}

func TestPageEndsAtOneMegabyte(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.standard()
		const each = 100_000 // bytes of an item as the service counts them
		for i := range 25 {
			head := ddb.Item{"pk": ddb.String("p"), "sk": ddb.String(fmt.Sprintf("%02d", i)), "n": ddb.Int(1), "h": ddb.String("x"), "a": ddb.String("")}
			head["a"] = ddb.String(strings.Repeat("a", each-head.Size()))
			r.putItem("music", head)
		}
		const query = `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}},"ReturnConsumedCapacity":"TOTAL"}`
		for _, c := range []struct {
			op, request string
			scanned     []int
			capacity    string // of the first page
		}{
			{"Query", query, []int{11, 11, 3}, `134.5`},
			{"Query", with(query, `"Limit":12`), []int{11, 11, 3}, `134.5`},
			{"Query", with(query, `"Limit":10`), []int{10, 10, 5}, `122.5`},
			{"Query", with(query, `"IndexName":"l-all"`), []int{11, 11, 3}, `134.5`},
			{"Query", with(query, `"IndexName":"l-inc"`), []int{11, 11, 3}, `134.5`},
			{"Query", with(query, `"IndexName":"l-keys"`), []int{25}, `0.5`},
			{"Query", with(query, `"IndexName":"l-keys","Select":"ALL_ATTRIBUTES"`), []int{11, 11, 3}, `138.0`}, // 0.5 and 11 times 12.5
			{"Query", with(query, `"ProjectionExpression":"sk"`), []int{11, 11, 3}, `134.5`},
			{"Query", with(query, `"FilterExpression":"attribute_not_exists(a)"`), []int{11, 11, 3}, `134.5`},
			{"Query", with(query, `"Select":"COUNT","ConsistentRead":true`), []int{11, 11, 3}, `269.0`},
			{"Query", with(query, `"Select":"COUNT","IndexName":"l-all"`), []int{11, 11, 3}, `134.5`},
			{"Scan", `{"TableName":"music","ReturnConsumedCapacity":"TOTAL"}`, []int{11, 11, 3}, `134.5`},
			{"Scan", `{"TableName":"music","ReturnConsumedCapacity":"TOTAL","FilterExpression":"attribute_not_exists(a)"}`, []int{11, 11, 3}, `134.5`},
		} {
			next, first := c.request, true
			var scanned []int
			for {
				l := r.list(c.op, next)
				scanned = append(scanned, l.ScannedCount)
				if want := `{"TableName":"music","CapacityUnits":` + c.capacity + `}`; first && string(l.ConsumedCapacity) != want {
					r.Errorf("%s: %s, want %s", c.request, l.ConsumedCapacity, want)
				}
				if first = false; l.LastEvaluatedKey == nil || len(scanned) > 25 {
					break
				}
				next = with(c.request, fmt.Sprintf(`"ExclusiveStartKey":%s`, l.LastEvaluatedKey))
			}
			if !slices.Equal(scanned, c.scanned) {
				r.Errorf("%s: pages of %v, want %v", c.request, scanned, c.scanned)
			}
		}
	})
}

func TestPageEndsAtStoredBytes(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.standard()
		n, err := ddb.ParseNumber("1E-125")
		if err != nil {
			r.Fatal(err)
		}
		tiny := ddb.List(slices.Repeat([]ddb.Value{ddb.Num(n)}, 25_000)...) // counts 75,000 bytes, is stored in some 3.4 MB
		var stored int
		for i := range 7 {
			it := ddb.Item{"pk": ddb.String("p"), "sk": ddb.String(fmt.Sprint(i)), "a": tiny}
			stored = len(ddb.AppendItem(nil, it))
			r.putItem("music", it)
		}
		perPage := maxStored / stored
		if stored < 3<<20 || perPage < 2 || perPage >= 7 {
			r.Fatalf("items are stored in %d bytes", stored)
		}
		for _, request := range []string{
			`{"TableName":"music"}`,
			`{"TableName":"music","ProjectionExpression":"sk"}`,
			`{"TableName":"music","FilterExpression":"sk > pk"}`,
		} {
			l := r.list("Scan", request)
			if l.ScannedCount != perPage || l.LastEvaluatedKey == nil {
				r.Errorf("%s: %d rows on the first page, want %d", request, l.ScannedCount, perPage)
			}
			l = r.list("Scan", with(request, fmt.Sprintf(`"ExclusiveStartKey":%s`, l.LastEvaluatedKey)))
			if l.ScannedCount != 7-perPage || l.LastEvaluatedKey != nil {
				r.Errorf("%s: %d rows on the last page, want %d", request, l.ScannedCount, 7-perPage)
			}
		}
	})
}

// TestPageEndsWithoutRoom checks that a page ends where the byte budget does,
// but never before its first row.
func TestPageEndsWithoutRoom(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		const query = `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}%s}`
		for room := range 7 {
			for request, want := range map[string]int{
				fmt.Sprintf(query, ""):                             max(room, 1),
				fmt.Sprintf(query, `,"ProjectionExpression":"sk"`): max(room, 1),
				fmt.Sprintf(query, `,"Select":"COUNT"`):            6,
				strings.Replace(fmt.Sprintf(query, `,"FilterExpression":"n < :n"`), `":p":`, `":n":{"N":"8"},":p":`, 1): min(max(3+room, 3), 6),
			} {
				left := room
				out := &api.Body{Grow: func(int) bool { left--; return left >= 0 }}
				if err := r.callInto("Query", request, out); err != nil {
					r.Fatal(err)
				}
				if got := string(out.B); !strings.Contains(got, fmt.Sprintf(`"ScannedCount":%d`, want)) || strings.Contains(got, "LastEvaluatedKey") != (want < 6) {
					r.Errorf("%s with room for %d: %s; want %d rows", request, room, got, want)
				}
			}
		}
	})
}

// stale is an engine whose first reads fail because the definition changed.
type stale struct {
	storage.Engine
	left int
}

func (s *stale) fail() error {
	if s.left > 0 {
		s.left--
		return fmt.Errorf("read: %w", storage.ErrStale)
	}
	return nil
}

func (s *stale) Get(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Engine.Get(ctx, t, k)
}

func (s *stale) GetAll(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Engine.GetAll(ctx, ks, budget)
}

func (s *stale) Range(ctx context.Context, t *storage.Table, rng storage.Range) iter.Seq2[*storage.Row, error] {
	if err := s.fail(); err != nil {
		return func(yield func(*storage.Row, error) bool) { yield(nil, err) }
	}
	return s.Engine.Range(ctx, t, rng)
}

func TestReadsStartAfreshWhenStale(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		for op, request := range map[string]string{
			"GetItem":      `{"TableName":"music","Key":{"pk":{"S":"q"},"sk":{"S":"a"}}}`,
			"BatchGetItem": `{"RequestItems":{"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"a"}}]}}}`,
			"Query":        `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"q"}}}`,
			"Scan":         `{"TableName":"music"}`,
		} {
			want := r.must(op, request)
			s := &stale{Engine: r.store, left: 3}
			again := r.over(s)
			out := &api.Body{B: []byte("kept")}
			if err := again.callInto(op, request, out); err != nil || string(out.B) != "kept"+want {
				r.Errorf("%s: %v, %s; want %s", op, err, out.B, want)
			}
			s.left = 100
			if err := again.callInto(op, request, &api.Body{}); !errors.Is(err, storage.ErrStale) || s.left != 100-maxStale {
				r.Errorf("%s on a definition that is always stale: %v after %d tries", op, err, 100-s.left)
			}
		}
	})
}

// broken is an engine whose reads fail.
type broken struct {
	storage.Engine
	err   error
	after int // rows of a Range before it fails
}

func (b broken) Get(context.Context, *storage.Table, storage.Key) (*storage.Row, error) {
	return nil, b.err
}

func (b broken) GetAll(context.Context, []storage.TableKey, int) ([]*storage.Row, error) {
	return nil, b.err
}

func (b broken) Sample(context.Context, *storage.Table, storage.IndexID, time.Time) ([]storage.Position, error) {
	return nil, b.err
}

func (b broken) Range(ctx context.Context, t *storage.Table, rng storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		n := 0
		for row, err := range b.Engine.Range(ctx, t, rng) {
			if n++; n > b.after {
				break
			}
			if !yield(row, err) {
				return
			}
		}
		yield(nil, b.err)
	}
}

func TestReadsReportFailures(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		for _, c := range [][2]string{
			{"GetItem", `{"TableName":"music","Key":{"pk":{"S":"q"},"sk":{"S":"a"}}}`},
			{"BatchGetItem", `{"RequestItems":{"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"a"}}]}}}`},
			{"Query", `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`},
			{"Scan", `{"TableName":"music"}`},
			{"Scan", `{"TableName":"music","Segment":0,"TotalSegments":2}`},
		} {
			for _, cause := range []error{storage.ErrUnavailable, storage.ErrTableNotFound, context.Canceled} {
				b := r.over(broken{r.store, fmt.Errorf("read: %w", cause), 3})
				if err := b.callInto(c[0], c[1], &api.Body{}); !errors.Is(err, cause) {
					r.Errorf("%s %s: %v, want %v", c[0], c[1], err, cause)
				}
			}
		}
	})
}

// garbled is an engine whose keys make no sense.
type garbled struct{ storage.Engine }

func (g garbled) Range(ctx context.Context, t *storage.Table, rng storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		for row, err := range g.Engine.Range(ctx, t, rng) {
			if row != nil {
				row.P, row.Key.PK = []byte{7}, []byte{7}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func TestReadsOfGarbledKeys(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		for _, request := range []string{`{"TableName":"music","IndexName":"g-keys"}`, `{"TableName":"music","Limit":2}`} {
			err := r.over(garbled{r.store}).callInto("Scan", request, &api.Body{})
			if !errors.Is(err, keyenc.ErrMalformed) || Fault(err).Code != api.CodeInternal {
				r.Errorf("%s: %v", request, err)
			}
		}
	})
}
