// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// testTable has one index of every kind; those of the table are pk (S) and
// sk (N).
func testTable(t testing.TB) *Table {
	t.Helper()
	key := func(names ...string) (schema []ddb.KeySchemaElement) {
		for _, n := range names {
			name, role, _ := strings.Cut(n, ":")
			schema = append(schema, ddb.KeySchemaElement{AttributeName: name, KeyType: map[string]string{"h": ddb.Hash, "r": ddb.Range}[role]})
		}
		return schema
	}
	def := ddb.TableDefinition{TableName: "t", KeySchema: key("pk:h", "sk:r")}
	for _, a := range []string{"a:S", "b:N", "c:B", "d:S", "g:S", "h:N", "l:S", "pk:S", "sk:N"} {
		name, kind, _ := strings.Cut(a, ":")
		def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: name, AttributeType: kind})
	}
	all, keysOnly := ddb.Projection{ProjectionType: ddb.ProjectAll}, ddb.Projection{ProjectionType: ddb.ProjectKeysOnly}
	include := ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: []string{"x", "pk", "g", "absent"}}
	def.GlobalSecondaryIndexes = []ddb.IndexDefinition{
		{IndexName: "z-all", KeySchema: key("g:h", "h:r"), Projection: all},
		{IndexName: "multi", KeySchema: key("a:h", "b:h", "c:r", "d:r"), Projection: keysOnly},
		{IndexName: "hash", KeySchema: key("g:h"), Projection: include},
		{IndexName: "inverted", KeySchema: key("sk:h", "pk:r"), Projection: keysOnly},
	}
	def.LocalSecondaryIndexes = []ddb.IndexDefinition{{IndexName: "local", KeySchema: key("pk:h", "l:r"), Projection: keysOnly}}
	table, err := NewTable(Table{ID: 1, Account: "0", Version: 1, Status: Active, Def: def}, []IndexID{11, 12, 13, 14, 15})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func str(s string) ddb.Value { return ddb.String(s) }

// base is an item with its table key only.
func base(more ...any) ddb.Item {
	it := ddb.Item{"pk": str("p"), "sk": ddb.Int(7)}
	for i := 0; i < len(more); i += 2 {
		it[more[i].(string)] = more[i+1].(ddb.Value)
	}
	return it
}

func sortKey(t testing.TB, vals ...ddb.Value) []byte {
	t.Helper()
	s, err := keyenc.Sort(vals)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDerive(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	pk := keyenc.Hash([]ddb.Value{str("p")})
	inverted := Entry{Index: 14, P: keyenc.Hash([]ddb.Value{ddb.Int(7)}), S: []byte("p"), Size: 2 + 1 + 2 + 2}
	g := keyenc.Hash([]ddb.Value{str("G")})
	for name, c := range map[string]struct {
		item ddb.Item
		want []Entry
	}{
		"keys only":       {base(), []Entry{inverted}},
		"hash":            {base("g", str("G")), []Entry{{13, g, []byte{}, 7 + 2}, inverted}},
		"hash projection": {base("g", str("G"), "x", str("xyz"), "y", str("not projected")), []Entry{{13, g, []byte{}, 7 + 2 + 4}, inverted}},
		"all": {base("g", str("G"), "h", ddb.Int(5), "y", str("yy")), []Entry{
			{11, g, sortKey(t, ddb.Int(5)), 7 + 2 + 3 + 3}, {13, g, []byte{}, 7 + 2}, inverted,
		}},
		"range without hash": {base("h", ddb.Int(5)), []Entry{inverted}},
		"local":              {base("l", str("L")), []Entry{inverted, {15, pk, []byte("L"), 7 + 2}}},
		"three of four":      {base("a", str("A"), "b", ddb.Int(1), "c", ddb.Binary([]byte{0})), []Entry{inverted}},
		"all four": {base("a", str("A"), "b", ddb.Int(1), "c", ddb.Binary([]byte{0}), "d", str("D")), []Entry{
			{12, keyenc.Hash([]ddb.Value{str("A"), ddb.Int(1)}), []byte{0, 0xFF, 0, 0, 'D'}, 7 + 2 + 3 + 2 + 2}, inverted,
		}},
	} {
		n, err := Derive(table, c.item)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(n.Item) != string(ddb.AppendItem(nil, c.item)) || n.Size != c.item.Size() || n.Flags != 0 || n.Bad != nil {
			t.Errorf("%s: row is %+v", name, n)
		}
		if !slices.EqualFunc(n.Entries, c.want, sameEntry) {
			t.Errorf("%s: entries\n%+v, want\n%+v", name, n.Entries, c.want)
		}
		stored, err := entriesOf(table, &Row{Item: n.Item, Size: n.Size})
		if err != nil || !slices.EqualFunc(stored, n.Entries, sameEntry) {
			t.Errorf("%s: entries of the stored row\n%+v, %v, want\n%+v", name, stored, err, n.Entries)
		}
		for _, e := range n.Entries {
			ix := table.Indexes[e.Index-11]
			if e.S == nil || e.Size != projected(ix, c.item).Size() {
				t.Errorf("%s: entry %+v, projected size %d", name, e, projected(ix, c.item).Size())
			}
		}
	}
}

func sameEntry(a, b Entry) bool {
	return a.Index == b.Index && bytes.Equal(a.P, b.P) && bytes.Equal(a.S, b.S) && a.Size == b.Size
}

func TestDeriveFlags(t *testing.T) {
	t.Parallel()
	long, err := ddb.ParseNumber("1E-100")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Derive(testTable(t), base("x", ddb.List(ddb.Num(long))))
	if err != nil || n.Flags != FlagLongNumber {
		t.Errorf("flags %d, %v", n.Flags, err)
	}
}

func TestDeriveBad(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	long := func(n int) ddb.Value { return str(strings.Repeat("x", n)) }
	nuls := func(n int) ddb.Value { return ddb.Binary(make([]byte, n)) }
	a, b := str("A"), ddb.Int(1)
	for name, c := range map[string]struct {
		item ddb.Item
		want string
	}{
		"two indexes, by name":      {base("g", ddb.Int(1)), "hash g wrong type, z-all g wrong type"},
		"empty":                     {base("g", str("")), "hash g empty, z-all g empty"},
		"null":                      {base("g", ddb.Null()), "hash g wrong type, z-all g wrong type"},
		"others missing":            {base("d", ddb.Int(1)), "multi d wrong type"},
		"several of one index":      {base("a", ddb.Int(1), "c", ddb.Binary(nil)), "multi a wrong type, multi c empty"},
		"hash at the limit":         {base("g", long(2048)), ""},
		"hash beyond it":            {base("g", long(2049)), "hash g hash key longer than 2048 bytes, z-all g hash key longer than 2048 bytes"},
		"hash sum at the limit":     {base("a", long(2046), "b", b), ""},
		"hash sum beyond it":        {base("a", long(2047), "b", b), "multi a hash key longer than 2048 bytes, multi b hash key longer than 2048 bytes"},
		"local":                     {base("l", ddb.Bool(true)), "local l wrong type"},
		"local range at the limit":  {base("l", long(1024)), ""},
		"local range beyond it":     {base("l", long(1025)), "local l range key longer than 1024 bytes"},
		"range sum at the limit":    {base("a", a, "b", b, "c", ddb.Binary([]byte(strings.Repeat("x", 24))), "d", long(1000)), ""},
		"range sum beyond it":       {base("a", a, "b", b, "c", nuls(25), "d", long(1000)), "multi c range key longer than 1024 bytes, multi d range key longer than 1024 bytes"},
		"one of two ranges too big": {base("c", nuls(1025)), "multi c range key longer than 1024 bytes"},
		"encoded at the limit":      {base("a", a, "b", b, "c", nuls(22), "d", long(1002)), ""},
		"encoded beyond it":         {base("a", a, "b", b, "c", nuls(23), "d", long(1001)), "multi c encoded range key longer than 1048 bytes, multi d encoded range key longer than 1048 bytes"},
		"table key as index key":    {ddb.Item{"pk": long(1025), "sk": ddb.Int(7)}, "inverted pk range key longer than 1024 bytes"},
	} {
		n, err := Derive(table, c.item)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if stored, err := entriesOf(table, &Row{Item: n.Item, Size: n.Size}); err != nil || !slices.EqualFunc(stored, n.Entries, sameEntry) {
			t.Errorf("%s: entries of the stored row\n%+v, %v, want\n%+v", name, stored, err, n.Entries)
		}
		var got []string
		for _, bad := range n.Bad {
			got = append(got, fmt.Sprintf("%s %s %s", bad.Index.Name, bad.Attr.Name, bad.Reason))
			if slices.ContainsFunc(n.Entries, func(e Entry) bool { return e.Index == bad.Index.ID }) {
				t.Errorf("%s: index %s has an entry all the same", name, bad.Index.Name)
			}
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", name, s, c.want)
		}
	}
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	k, err := table.KeyOf(base("g", ddb.Bool(true)))
	if err != nil || !bytes.Equal(k.PK, []byte("p\x00")) || !bytes.Equal(k.SK, sortKey(t, ddb.Int(7))) {
		t.Errorf("key %x, %v", k, err)
	}
	hashOnly := *table
	hashOnly.Range = nil
	if k, err := hashOnly.KeyOf(base()); err != nil || k.SK == nil || len(k.SK) != 0 {
		t.Errorf("hash-only key %x, %v", k, err)
	}
	binary := *table
	binary.Hash.Kind, binary.Range = ddb.KindB, &KeyAttr{"sk", ddb.KindS}
	long := func(n int) ddb.Value { return str(strings.Repeat("x", n)) }
	for name, c := range map[string]struct {
		table *Table
		item  ddb.Item
		want  string // attribute, problem, kind; "" is fine
	}{
		"hash missing":            {table, ddb.Item{"sk": ddb.Int(1)}, "pk missing "},
		"range missing":           {table, ddb.Item{"pk": str("p")}, "sk missing "},
		"nothing":                 {table, nil, "pk missing "},
		"hash wrong":              {table, base("pk", ddb.Int(1)), "pk wrong type N"},
		"range wrong":             {table, base("sk", str("7")), "sk wrong type S"},
		"range null":              {table, base("sk", ddb.Null()), "sk wrong type NULL"},
		"wrong type before empty": {table, base("pk", str(""), "sk", ddb.Bool(true)), "sk wrong type BOOL"},
		"hash empty":              {table, base("pk", str("")), "pk empty S"},
		"binary empty":            {&binary, ddb.Item{"pk": ddb.Binary(nil), "sk": str("s")}, "pk empty B"},
		"range empty":             {&binary, ddb.Item{"pk": ddb.Binary([]byte{0}), "sk": str("")}, "sk empty S"},
		"hash at the limit":       {table, base("pk", long(2048)), ""},
		"hash beyond it":          {table, base("pk", long(2049)), "pk hash key longer than 2048 bytes S"},
		"range at the limit":      {&binary, ddb.Item{"pk": ddb.Binary([]byte{0}), "sk": long(1024)}, ""},
		"range beyond it":         {&binary, ddb.Item{"pk": ddb.Binary([]byte{0}), "sk": long(1025)}, "sk range key longer than 1024 bytes S"},
	} {
		_, err := c.table.KeyOf(c.item)
		var bad *KeyError
		if errors.As(err, &bad) {
			if got := fmt.Sprintf("%s %s %s", bad.Attr.Name, bad.Problem, bad.Actual); got != c.want || !strings.Contains(err.Error(), bad.Attr.Name) {
				t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
			}
		} else if err != nil || c.want != "" {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, derr := Derive(c.table, c.item); (derr == nil) != (err == nil) {
			t.Errorf("%s: Derive says %v", name, derr)
		}
	}
}

func TestKeyAttrs(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	for name, want := range map[string]string{
		"z-all": "g h pk sk", "multi": "a b c d pk sk", "hash": "g pk sk", "inverted": "sk pk", "local": "pk l sk",
	} {
		var got []string
		for _, a := range table.Index(name).KeyAttrs(table) {
			got = append(got, a.Name)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("index %s has keys %q, want %q", name, s, want)
		}
	}
	if got := table.Index("multi").RangeKinds(); !slices.Equal(got, []ddb.Kind{ddb.KindB, ddb.KindS}) {
		t.Errorf("range kinds %v", got)
	}
	if got := table.RangeKinds(); !slices.Equal(got, []ddb.Kind{ddb.KindN}) {
		t.Errorf("range kinds %v", got)
	}
	if !table.HasLocal() || table.Index("none") != nil {
		t.Error("wrong indexes")
	}
}

// TestKeysOf: what Derive encodes, PositionOf names and KeysOf tells.
func TestKeysOf(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	full := base("a", str("A"), "b", ddb.Int(-1), "c", ddb.Binary([]byte{0}), "d", str("D"), "g", str("G"), "h", ddb.Int(5), "l", str("L"), "x", str("x"))
	longHash := base("g", str(strings.Repeat("g", 2048)), "h", ddb.Int(1), "x", str("x"))
	longPK := base("pk", str(strings.Repeat("p", 301)), "g", str("G"), "l", str("L"))
	for _, it := range []ddb.Item{full, longHash, longPK} {
		k, err := table.KeyOf(it)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Derive(table, it)
		if err != nil {
			t.Fatal(err)
		}
		rows := map[*Index]*Row{nil: {Key: k}}
		for _, e := range n.Entries {
			rows[table.Indexes[e.Index-11]] = &Row{Key: k, P: e.P, S: e.S}
		}
		for ix, row := range rows {
			short := keyenc.IsShortened(row.P) || keyenc.IsShortened(row.Key.PK)
			keys, err := table.KeysOf(ix, row)
			if short != errors.Is(err, keyenc.ErrShortened) || (err != nil) != short {
				t.Fatalf("keys without item: %v, %v", keys, err)
			}
			row.Item = n.Item
			attrs := table.KeyAttrs()
			if ix != nil {
				attrs = ix.KeyAttrs(table)
			}
			if keys, err = table.KeysOf(ix, row); err != nil || !keys.Equal(project(it, attrs)) {
				t.Errorf("keys %v, want %v (%v)", keys, project(it, attrs), err)
			}
			if pos, err := table.PositionOf(ix, keys); err != nil || pos.Compare(row.Position()) != 0 {
				t.Errorf("position %x, want %x (%v)", pos, row.Position(), err)
			}
		}
	}
	for name, row := range map[string]*Row{
		"table hash": {Key: Key{PK: []byte("p"), SK: []byte{0x80}}}, "table range": {Key: Key{PK: []byte("p\x00"), SK: []byte{1}}},
		"index hash": {Key: Key{PK: []byte("p\x00"), SK: []byte{0x80}}, P: []byte("x"), S: []byte{}},
	} {
		if keys, err := table.KeysOf(table.Index("hash"), row); !errors.Is(err, keyenc.ErrMalformed) {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
	if _, err := table.KeysOf(nil, &Row{Key: Key{PK: []byte{0, 1}}, Item: []byte("{")}); err == nil {
		t.Error("an item that is no JSON gives keys")
	}
}

func TestPositionOfErrors(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	for want, it := range map[string]ddb.Item{
		"g missing ":     base("h", ddb.Int(1)),
		"h missing ":     base("g", str("G")),
		"h wrong type S": base("g", str("G"), "h", str("1")),
		"pk missing ":    {"sk": ddb.Int(1), "g": str("G"), "h": ddb.Int(1)},
	} {
		_, err := table.PositionOf(table.Index("z-all"), it)
		var bad *KeyError
		if !errors.As(err, &bad) || fmt.Sprintf("%s %s %s", bad.Attr.Name, bad.Problem, bad.Actual) != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// projected is what a read of the index sees of an item.
func projected(ix *Index, it ddb.Item) ddb.Item {
	out := maps.Clone(it)
	if names := ix.Projected(); names != nil {
		maps.DeleteFunc(out, func(name string, _ ddb.Value) bool { return !slices.Contains(names, name) })
	}
	return out
}

func TestProjected(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	it := base("g", str("G"), "h", ddb.Int(1), "x", str("x"), "y", str("y"))
	for name, want := range map[string]ddb.Item{
		"z-all": it, "hash": base("g", str("G"), "x", str("x")), "multi": base(), "inverted": base(), "local": base(),
	} {
		if got := projected(table.Index(name), it); !got.Equal(want) {
			t.Errorf("index %s: %v, want %v", name, got, want)
		}
	}
}

func TestNewTableRefuses(t *testing.T) {
	t.Parallel()
	good := testTable(t).Def
	for name, break_ := range map[string]func(*ddb.TableDefinition) int{
		"ids":             func(*ddb.TableDefinition) int { return 4 },
		"no hash":         func(d *ddb.TableDefinition) int { d.KeySchema = d.KeySchema[1:]; return 5 },
		"no schema":       func(d *ddb.TableDefinition) int { d.KeySchema = nil; return 5 },
		"two hashes":      func(d *ddb.TableDefinition) int { d.KeySchema = append(d.KeySchema[:1:1], d.KeySchema[0]); return 5 },
		"undefined":       func(d *ddb.TableDefinition) int { d.AttributeDefinitions = d.AttributeDefinitions[:3]; return 5 },
		"undefined index": func(d *ddb.TableDefinition) int { d.AttributeDefinitions = d.AttributeDefinitions[3:]; return 5 },
	} {
		def := good
		n := break_(&def)
		if table, err := NewTable(Table{Def: def}, make([]IndexID, n)); err == nil {
			t.Errorf("%s: %+v", name, table)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{Active.String(), "ACTIVE"}, {Deleting.String(), "DELETING"}, {Status(9).String(), "Status(9)"},
		{TableDrop.String(), "table-drop"}, {Statistics.String(), "statistics"}, {WorkKind(9).String(), "unknown"},
		{BadKeyReason(0).String(), "unknown"},
		{(&Cancelled{[]error{nil, ErrStale}}).Error(), "write 2 of 2 refused: table definition is out of date"},
		{(&Cancelled{}).Error(), "cancelled"},
		{(&Locked{"/x.lock", "pid 7"}).Error(), "database is in use by pid 7 (lock file /x.lock)"},
		{(&TableExists{testTable(t)}).Error(), `table "t" exists`},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if !errors.Is(&Locked{}, ErrLocked) || !errors.Is(&TableExists{}, ErrTableExists) {
		t.Error("typed errors hide what they are")
	}
}

func TestClone(t *testing.T) {
	t.Parallel()
	r := &Row{Key: Key{[]byte("p"), []byte("s")}, P: []byte("P"), S: []byte{}, Item: []byte("{}"), Size: 3, Ver: 4, Flags: 1}
	c := r.Clone()
	poison(r)
	if string(c.Key.PK)+string(c.Key.SK)+string(c.P)+string(c.Item) != "psP{}" || c.S == nil || c.Size != 3 || c.Ver != 4 || c.Flags != 1 {
		t.Errorf("clone is %+v", c)
	}
}
