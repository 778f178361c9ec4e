// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// TestRandomWrites makes random writes of few items with few values, so that
// index keys appear, move, tie, go bad and vanish, and compares every item with
// a model and every entry with its item.
func TestRandomWrites(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables(), func(r *rig) {
		seed := rand.Uint64()
		r.Logf("seed %d", seed)
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		model := map[string]ddb.Item{}
		for range 1500 {
			g.step(r, model)
		}
		table := r.table("idx")
		if err := storagetest.CheckEntries(r.Context(), r.store, table); err != nil {
			r.Error(err)
		}
		for key, want := range model {
			body := r.must("GetItem", `{"TableName":"idx","ConsistentRead":true,"Key":`+key+`}`)
			if w := `{"Item":` + string(ddb.AppendItem(nil, want)) + `}`; body != w {
				r.Errorf("item is %s, want %s", body, w)
			}
		}
		rows := 0
		for _, err := range r.store.Range(r.Context(), table, storage.Range{Want: storage.Sizes}) {
			if err != nil {
				r.Fatal(err)
			}
			rows++
		}
		if rows != len(model) || rows == 0 {
			r.Errorf("table has %d rows, want %d", rows, len(model))
		}
	})
}

// generator makes random writes.
type generator struct{ *rand.Rand }

// randomAttrs are the attributes of random items: values they take, and values
// that are refused because the attribute is the key of an index.
var randomAttrs = []struct {
	name          string
	good, refused []string
}{
	{"b", []string{`{"B":"AA=="}`, `{"B":"/w=="}`}, []string{`{"B":""}`}},
	{"g", []string{`{"S":"1"}`, `{"S":"2"}`}, []string{`{"N":"1"}`, `{"S":""}`}},
	{"h", []string{`{"N":"1"}`, `{"N":"-2"}`}, []string{`{"S":"1"}`}},
	{"l", []string{`{"S":"1"}`, `{"S":"2"}`}, []string{`{"SS":["1"]}`}},
	{"m1", []string{`{"S":"1"}`}, nil},
	{"m2", []string{`{"N":"1"}`}, nil},
	{"m3", []string{`{"S":"a"}`, `{"S":"b"}`}, nil},
	{"m4", []string{`{"S":"a"}`, `{"S":"a\u0000"}`}, nil},
	{"x", []string{`{"N":"1E-130"}`, `{"S":"` + strings.Repeat("x", 1500) + `"}`}, nil},
	{"y", []string{`{"NULL":true}`}, nil},
	{"z", []string{`{"BOOL":true}`}, nil},
}

// some returns random attributes of an item; bad tells that one of them is
// refused.
func (g *generator) some() (names, values []string, bad bool) {
	for _, a := range randomAttrs {
		if g.IntN(3) > 0 {
			continue
		}
		list := a.good
		if a.refused != nil && g.IntN(10) == 0 {
			list, bad = a.refused, true
		}
		names, values = append(names, a.name), append(values, list[g.IntN(len(list))])
	}
	return names, values, bad
}

// step makes one write on both sides.
func (g *generator) step(r *rig, model map[string]ddb.Item) {
	key := fmt.Sprintf(`{"pk":{"S":"%d"},"sk":{"S":"%d"}}`, g.IntN(3), g.IntN(5))
	names, values, bad := g.some()
	next, err := ddb.ParseItem([]byte(key))
	if err != nil {
		r.Fatal(err)
	}
	object := strings.TrimSuffix(key, "}")
	sets, placeholders := []string{}, []string{}
	for i, name := range names {
		v, err := ddb.ParseValue([]byte(values[i]))
		if err != nil {
			r.Fatal(err)
		}
		next[name] = v
		object += `,"` + name + `":` + values[i]
		sets = append(sets, name+" = :"+name)
		placeholders = append(placeholders, `":`+name+`":`+values[i])
	}
	object += "}"
	capacity := `,"ReturnConsumedCapacity":"INDEXES"`
	if g.IntN(2) == 0 {
		capacity = ""
	}
	var body string
	var failed *api.Error
	switch n := g.IntN(10); {
	case n < 4:
		body, failed = r.try("PutItem", `{"TableName":"idx"`+capacity+`,"Item":`+object+`}`)
	case n < 6:
		body, failed = r.try("BatchWriteItem", writeBatch("idx", putReq(object)))
	case n < 8 && len(names) > 0:
		for name, v := range model[key] {
			if _, set := next[name]; !set {
				next[name] = v
			}
		}
		body, failed = r.try("UpdateItem", `{"TableName":"idx"`+capacity+`,"Key":`+key+`,"UpdateExpression":"SET `+strings.Join(sets, ", ")+
			`","ExpressionAttributeValues":{`+strings.Join(placeholders, ",")+`}}`)
	case n == 8:
		bad, next = false, nil
		body, failed = r.try("BatchWriteItem", writeBatch("idx", delReq(key)))
	default:
		bad, next = false, nil
		body, failed = r.try("DeleteItem", `{"TableName":"idx"`+capacity+`,"Key":`+key+`}`)
	}
	switch {
	case bad != (failed != nil) || failed != nil && failed.Code != api.CodeValidation:
		r.Errorf("write of %s (refused %t): %s %v", object, bad, body, failed)
	case bad:
	case next == nil:
		delete(model, key)
	default:
		model[key] = next
	}
}

// TestConcurrentUpdates counts in one item from many goroutines: no update may
// be lost, and each ReturnValues shows its own step.
func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 25
	onEachStore(t, writeTables(), func(r *rig) {
		var mu sync.Mutex
		seen := map[string]bool{}
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					body := r.do("UpdateItem", members("UpdateItem", `"UpdateExpression":"ADD n :one","ReturnValues":"UPDATED_NEW","ExpressionAttributeValues":{":one":{"N":"1"}}`))
					mu.Lock()
					if seen[body] {
						r.Errorf("seen twice: %s", body)
					}
					seen[body] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		r.want("GetItem", `{"TableName":"hash","ConsistentRead":true,"Key":{"pk":{"S":"a"}}}`, fmt.Sprintf(`{"Item":{"n":{"N":"%d"},"pk":{"S":"a"}}}`, workers*each))
	})
}

// TestDecideWithNewerDefinition runs the Decide of each write with a definition
// that has got an index since the request was checked: entries and refusals
// follow the newer one, and nothing is left of the earlier run.
func TestDecideWithNewerDefinition(t *testing.T) {
	t.Parallel()
	r := newRig(t, testStores()["memory"](t), testTable("old", "pk:S"), testTable("new", "pk:S", testIndex{"ix", "g:S", "ALL"}))
	before, after := r.table("old"), r.table("new")
	item := func(json string) ddb.Item {
		it, err := ddb.ParseItem([]byte(json))
		if err != nil {
			r.Fatal(err)
		}
		return it
	}
	old := item(`{"pk":{"S":"a"},"g":{"S":"1"}}`)
	row := &storage.Row{Item: ddb.AppendItem(nil, old), Size: old.Size()}
	detail := writing{returns: returnAllOld, detail: capacityIndexes}

	p := put{writing: detail, item: item(`{"pk":{"S":"a"},"g":{"S":"2"}}`)}
	if next, err := p.decide(before, nil); err != nil || len(next.Entries) != 0 || len(p.attributes) != 0 || p.cost.total() != 1 {
		r.Errorf("put, first run: %+v, %v, %+v", next, err, p)
	}
	if next, err := p.decide(after, row); err != nil || len(next.Entries) != 1 || string(p.attributes) != string(row.Item) || p.cost.total() != 3 {
		r.Errorf("put, second run: %+v, %v, %+v", next, err, p)
	}
	p.item, p.derived = item(`{"pk":{"S":"a"},"g":{"N":"2"}}`), nil
	if _, err := p.decide(before, row); err != nil {
		r.Errorf("put of a wrong type, first run: %v", err)
	}
	if _, err := p.decide(after, row); err == nil || !strings.Contains(err.Error(), "Type mismatch for Index Key g") {
		r.Errorf("put of a wrong type, second run: %v", err)
	}

	u := update{writing: detail, key: item(`{"pk":{"S":"a"}}`)}
	var err error
	if u.what, err = attributeUpdates(map[string]api.AttributeValueUpdate{"x": {Value: api.AttributeValue{Value: ddb.String("y"), Present: true}}}); err != nil {
		r.Fatal(err)
	}
	if next, err := u.decide(before, row); err != nil || len(next.Entries) != 0 || u.cost.total() != 1 {
		r.Errorf("update, first run: %+v, %v", next, err)
	}
	if next, err := u.decide(after, row); err != nil || len(next.Entries) != 1 || u.cost.total() != 2 || string(u.attributes) != string(row.Item) {
		r.Errorf("update, second run: %+v, %v, %+v", next, err, u.writing)
	}
	// An index key that is bad in the stored item is no fault of an update that leaves it alone.
	stale := item(`{"pk":{"S":"a"},"g":{"N":"1"}}`)
	if next, err := u.decide(after, &storage.Row{Item: ddb.AppendItem(nil, stale), Size: stale.Size()}); err != nil || len(next.Entries) != 0 || len(next.Bad) != 1 {
		r.Errorf("update beside a bad index key: %+v, %v", next, err)
	}

	d := deletion{writing: detail}
	if next, err := d.decide(before, nil); err != nil || next != nil || d.cost.total() != 1 {
		r.Errorf("delete, first run: %+v, %v", next, err)
	}
	if next, err := d.decide(after, row); err != nil || next != nil || d.cost.total() != 2 || string(d.attributes) != string(row.Item) {
		r.Errorf("delete, second run: %+v, %v, %+v", next, err, d)
	}
}

// TestWriteStorageFaults checks what becomes of the errors of storage and of
// rows that make no sense.
func TestWriteStorageFaults(t *testing.T) {
	t.Parallel()
	corrupt := &storage.Row{Item: []byte(`{"pk":`)}
	for _, w := range []storage.Decide{
		(&put{writing: writing{detail: capacityIndexes}, item: ddb.Item{"pk": ddb.String("a"), "sk": ddb.String("b")}}).decide,
		(&deletion{writing: writing{detail: capacityIndexes}}).decide,
		(&update{}).decide,
	} {
		r := newRig(t, testStores()["memory"](t), writeTables()...)
		if next, err := w(r.table("idx"), corrupt); err == nil || Fault(err).Status != 500 {
			t.Errorf("corrupt row: %+v, %v", next, err)
		}
	}
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	if _, err := r.store.DropTable(r.Context(), auth.DefaultAccount, "hash", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"PutItem", "UpdateItem", "DeleteItem"} {
		r.want(op, members(op, ""), notFound)
	}
	r.want("BatchWriteItem", writeBatch("hash", puts(1)...), notFound)
}
