// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func modelChecks() []check {
	var cs []check
	for seed := range uint64(modelRuns) {
		cs = append(cs, check{fmt.Sprintf("model/seed %d", seed), func(e *env) {
			m := &model{env: e, rnd: rand.New(rand.NewPCG(seed, 0xdb)), tables: map[string]*modelTable{}}
			for m.step = range modelSteps {
				m.act()
				m.compare()
			}
			m.finishAll()
		}})
	}
	return cs
}

// model does random operations on an engine and on plain maps, and compares
// the two. A failure names the check, which names the seed, and the step.
type model struct {
	*env
	rnd    *rand.Rand
	step   int
	tables map[string]*modelTable
}

type modelTable struct {
	t     *storage.Table // as the engine last told
	stale *storage.Table // any earlier version of it, for writers
	items map[string]ddb.Item
}

// shapes are the definitions the model makes tables of.
func shapes(name string) []ddb.TableDefinition {
	return []ddb.TableDefinition{
		rich(name),
		define(name, "pk:S", index{"g", "g:S", ddb.ProjectAll}, index{"gh", "g:S/h:N", "x"}, index{"self", "pk:S", ddb.ProjectKeysOnly}),
		define(name, "pk:S/sk:S", index{"l", "/g:S", ddb.ProjectAll}, index{"multi", "g:S,b:N/h:N,sk:S,l:N", ddb.ProjectKeysOnly}),
		define(name, "h:N/pk:S", index{"g", "g:S/pk:S", ddb.ProjectAll}),
	}
}

func pick[T any](m *model, of ...T) T { return of[m.rnd.IntN(len(of))] }

// item makes a random one from a small domain, so that keys meet often.
func (m *model) item() ddb.Item {
	it := item("pk", pick(m, "a", "b", "a\x00", long(301, 1), long(301, 2)), "sk", pick(m, "", "1", "2", "\x00", "\U0010FFFF", long(1024, 1)), "h", m.rnd.IntN(5)-2)
	if it["sk"].Str() == "" {
		it["sk"] = ddb.String("0")
	}
	for name, vals := range map[string][]any{
		"g": {"G", "H", "", 7, long(2048, 3)}, "a": {"A"}, "b": {1, 2}, "c": {[]byte{0}, []byte{0, 0xFF}}, "d": {"D", "\x00"}, "e": {0, 1},
		"l": {-1, 0, 1, "wrong"}, "m": {"M", long(1025, 1)}, "x": {"x", long(100, 1), number("1E-120")}, "y": {ddb.StringSet("b", "a")},
	} {
		if m.rnd.IntN(3) > 0 {
			it[name] = value(pick(m, vals...))
		}
	}
	return it
}

func (mt *modelTable) key(it ddb.Item) string { return place(tablePosition(keyOf(mt.t, it))) }

// some returns a table, made if there is none of a random name.
func (m *model) some() *modelTable {
	m.Helper()
	name := pick(m, "t1", "t2", "t3")
	mt := m.tables[name]
	if mt == nil {
		t := m.create(pick(m, shapes(name)...))
		mt = &modelTable{t: t, stale: t, items: map[string]ddb.Item{}}
		m.tables[name] = mt
	}
	return mt
}

// change is a random write with what it does to the model.
func (m *model) change(mt *modelTable) (storage.Write, func()) {
	it := m.item()
	k := mt.key(it)
	t := pick(m, mt.t, mt.stale)
	switch m.rnd.IntN(5) {
	case 0:
		w := deleteWrite(t, it)
		w.Blind = m.rnd.IntN(2) == 0
		return w, func() { delete(mt.items, k) }
	case 1:
		w := putWrite(t, it)
		w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return storage.Unchanged, nil }
		return w, func() {}
	default:
		w := putWrite(t, it)
		w.Blind = m.rnd.IntN(2) == 0
		return w, func() { mt.items[k] = it }
	}
}

// changes are several writes of different rows.
func (m *model) changes() (ws []storage.Write, effects []func()) {
	seen := map[string]bool{}
	for range 1 + m.rnd.IntN(6) {
		mt := m.some()
		w, effect := m.change(mt)
		if id := mt.t.Name() + place(tablePosition(w.Key)); !seen[id] {
			seen[id] = true
			ws, effects = append(ws, w), append(effects, effect)
		}
	}
	return ws, effects
}

// act does one operation.
func (m *model) act() {
	m.Helper()
	switch n := m.rnd.IntN(100); {
	case n < 50:
		w, effect := m.change(m.some())
		_, err := m.e.Write(m.ctx, w)
		m.ok(err)
		effect()
	case n < 70:
		ws, effects := m.changes()
		for i, r := range m.e.WriteEach(m.ctx, ws) {
			m.ok(r.Err)
			effects[i]()
		}
	case n < 88:
		ws, effects := m.changes()
		refuse := m.rnd.IntN(2*len(ws)) - len(ws)
		if refuse >= 0 {
			ws[refuse].Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, &refusal{m.step} }
		}
		_, err := m.e.WriteAll(m.ctx, ws, nil)
		if refuse >= 0 {
			if c := new(storage.Cancelled); !errors.As(err, &c) || c.Reasons[refuse] == nil {
				m.Fatalf("step %d: error %v, want a cancellation by write %d", m.step, err, refuse)
			}
			return
		}
		m.ok(err)
		for _, effect := range effects {
			effect()
		}
	case n < 93:
		mt := m.some()
		mt.stale, mt.t = mt.t, m.touch(mt.t)
	case n < 95:
		mt := m.some()
		m.drop(mt.t)
		m.finish(storage.TableDrop, mt.t.Name())
		delete(m.tables, mt.t.Name())
	case n < 97:
		mt := m.some()
		m.count(mt.t.Name())
		m.counted(mt.t, counts(mt.t, slices.Collect(maps.Values(mt.items))))
	default:
		m.reopen()
	}
}

// compare reads a part of the engine and finds what the model holds.
func (m *model) compare() {
	m.Helper()
	mt := m.some()
	items := slices.Collect(maps.Values(mt.items))
	got, _, err := m.e.Describe(m.ctx, account, mt.t.Name())
	m.ok(err)
	same(m.env, got, mt.t)
	var ks []storage.TableKey
	var want []string
	for range 5 {
		other := m.some()
		it := m.item()
		ks = append(ks, storage.TableKey{Table: other.t, Key: keyOf(other.t, it)})
		want = append(want, other.bytes(other.key(it)))
	}
	rows, err := m.e.GetAll(m.ctx, ks, 0)
	m.ok(err)
	for i, row := range rows {
		m.agrees(row, want[i])
		one, err := m.e.Get(m.ctx, ks[i].Table, ks[i].Key)
		m.ok(err)
		m.agrees(one, want[i])
	}
	all := readings(mt.t, items)
	rd := pick(m, all...)
	r := m.narrow(mt, rd, items)
	positions := rd.expect(mt.t, items, r)
	if got := m.pages(mt.t, r, 1+m.rnd.IntN(5)); !samePositions(got, positions) {
		m.Fatalf("step %d: %s, range %+v:\n%x, want\n%x", m.step, rd.name(), r, got, positions)
	}
	for _, row := range m.rows(mt.t, r) {
		m.agrees(row, mt.bytes(place(tablePosition(row.Key))))
	}
	if m.step%20 == 0 {
		m.consistent(mt.t)
	}
}

// bytes are those the row of a key must hold; "" when there is none.
func (mt *modelTable) bytes(key string) string {
	it, ok := mt.items[key]
	if !ok {
		return ""
	}
	return string(ddb.AppendItem(nil, it))
}

func (m *model) agrees(row *storage.Row, want string) {
	m.Helper()
	got := ""
	if row != nil {
		got = string(row.Item)
	}
	if got != want {
		m.Fatalf("step %d: row is %.300s, want %.300s", m.step, got, want)
	}
}

// narrow puts random bounds on a reading.
func (m *model) narrow(mt *modelTable, rd reading, items []ddb.Item) storage.Range {
	r := rd.rng()
	r.Reverse = m.rnd.IntN(2) == 0
	r.Rows, r.Bytes = m.rnd.IntN(4), m.rnd.IntN(2)*1000
	all := rd.expect(mt.t, items, r)
	if len(all) == 0 {
		return r
	}
	if m.rnd.IntN(2) == 0 {
		r.After = &all[m.rnd.IntN(len(all))]
	}
	lo, hi := pick(m, all...), pick(m, all...)
	switch {
	case m.rnd.IntN(2) == 0:
	case rd.part == nil:
		r.Start, r.End = &lo, &hi
	case rd.ix == nil:
		r.From, r.To = lo.SK, append(slices.Clone(hi.SK), 0)
	default:
		r.From, r.To = lo.S, append(slices.Clone(hi.S), 0)
	}
	return r
}

// finishAll checks every table to the last row.
func (m *model) finishAll() {
	m.Helper()
	for name, mt := range m.tables {
		m.consistent(mt.t)
		equal(m.env, "rows of "+name, len(m.rows(mt.t, storage.Range{})), len(mt.items))
	}
}
