// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// checkConditions runs cases that meet the same error in every role a condition
// can have.
func checkConditions(t *testing.T, cases []textCase) {
	t.Helper()
	for _, role := range []Role{RoleCondition, RoleFilter, RoleKeyCondition} {
		for i := range cases {
			cases[i].role = role
		}
		checkTexts(t, slices.Clone(cases))
	}
}

func TestBindOperands(t *testing.T) {
	t.Parallel()
	const (
		noName  = "An expression attribute name used in the document path is not defined; attribute name: "
		noValue = "An expression attribute value used in expression is not defined; attribute value: "
		count   = "Incorrect number of operands for operator or function; operator or function: "
		kind    = "Incorrect operand type for operator or function; operator or function: "
	)
	checkConditions(t, []textCase{
		{0, "attribute_exists(#zz.RearView, :s) and a=a", noName + "#zz"},
		{0, "begins_with(Pictures.#zz)", noName + "#zz"},
		{0, "(#zz between :lo and :hi) and (#PC in (:cat1, :cat2))", noName + "#zz"},
		{0, "(a)between(b.c[45].#d)and(:a)", noName + "#d"},
		{0, "#4g > a AND #_ > a", ""},
		{0, "begins_with(:hello, #zz, #b)", noValue + ":hello"},
		{0, ":x < :y", noValue + ":x"},

		{0, "attribute_exists(things, a) and a=a", count + "attribute_exists, number of operands: 2"},
		{0, "attribute_not_exists(things, b)", count + "attribute_not_exists, number of operands: 2"},
		{0, "attribute_type(things)", count + "attribute_type, number of operands: 1"},
		{0, "begins_with(things)", count + "begins_with, number of operands: 1"},
		{0, "begins_with(things, size(a), b)", count + "begins_with, number of operands: 3"},
		{0, "contains(things)", count + "contains, number of operands: 1"},
		{0, "size(things, a) > b", count + "size, number of operands: 2"},

		{0, "attribute_type(a, size(a)) and a=a", kind + "attribute_type, operand type: N"},
		{0, "attribute_type(a, b)", kind + "attribute_type, operand type: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{0, "attribute_type(a, :n)", kind + "attribute_type, operand type: N"},
		{0, "attribute_type(a, :b)", kind + "attribute_type, operand type: B"},
		{0, "attribute_type(a, :bool)", kind + "attribute_type, operand type: BOOL"},
		{0, "attribute_type(a, :null)", kind + "attribute_type, operand type: NULL"},
		{0, "attribute_type(a, :l)", kind + "attribute_type, operand type: L"},
		{0, "attribute_type(a, :m)", kind + "attribute_type, operand type: M"},
		{0, "attribute_type(a, :ss)", kind + "attribute_type, operand type: SS"},
		{0, "attribute_type(a, :type1)", "Invalid attribute type name found; type: 1, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{0, "attribute_type(a, :typeS)", ""},
		{0, "begins_with(a, size(a))", kind + "begins_with, operand type: N"},
		{0, "begins_with(a, :n)", kind + "begins_with, operand type: N"},
		{0, "begins_with(:bool, a)", kind + "begins_with, operand type: BOOL"},
		{0, "begins_with(:bs, a)", kind + "begins_with, operand type: BS"},
		{0, "begins_with(a, :b) OR begins_with(:s, a)", ""},
		{0, "size(size(a)) > :n", kind + "size, operand type: N"},
		{0, "attribute_not_exists(size(:n))", kind + "size, operand type: N"},
		{0, "size(:bool) > a", kind + "size, operand type: BOOL"},
		{0, "size(:null) > a", kind + "size, operand type: NULL"},
		{0, "size(:s) > a AND size(:l) > b", ""},
	})
}

func TestBindOperators(t *testing.T) {
	t.Parallel()
	const (
		kind     = "Incorrect operand type for operator or function; operator or function: "
		path     = "Operator or function requires a document path; operator or function: "
		distinct = "The first operand must be distinct from the remaining operands for this operator or function; operator: "
		between  = "The BETWEEN operator requires "
	)
	checkConditions(t, []textCase{
		{0, "a < :bool", kind + "<, operand type: BOOL"},
		{0, ":l <= a", kind + "<=, operand type: L"},
		{0, "a > :m", kind + ">, operand type: M"},
		{0, ":null >= a", kind + ">=, operand type: NULL"},
		{0, "a = :ss OR a <> :m OR a IN (:l, :null)", ""},
		{0, "a between :s and :ns", kind + "BETWEEN, operand type: NS"},
		{0, ":m between a and b", kind + "BETWEEN, operand type: M"},
		{0, "a between :n and :s", between + "same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:a}"},
		{0, "a between :s2 and :s", between + "upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {S:b}, upper bound operand: AttributeValue: {S:a}"},
		{0, "a between :b2 and :b", between + "upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {B:Yg==}, upper bound operand: AttributeValue: {B:YQ==}"},
		{0, "a between :n and :n", ""},
		{0, "a between :n and b", ""},

		{0, "attribute_exists(:s) and a=a", path + "attribute_exists"},
		{0, "attribute_not_exists(size(:s))", path + "attribute_not_exists"},

		{0, "a = a AND #a = b AND :views > a", distinct + "=, first operand: [a]"},
		{0, "#a <> a", distinct + "<>, first operand: [a]"},
		{0, "a > #a", distinct + ">, first operand: [a]"},
		{0, "((a=a) OR (a=a))", distinct + "=, first operand: [a]"},
		{0, "contains(ab.bc[1].a, ab.bc[1].#a)", distinct + "contains, first operand: [ab, bc, [1], a]"},
		{0, "attribute_type(ab.bc[1].#a, ab.bc[1].a)", distinct + "attribute_type, first operand: [ab, bc, [1], a]"},
		{0, "begins_with(a, a)", distinct + "begins_with, first operand: [a]"},
		{0, "a between b and a", distinct + "BETWEEN, first operand: [a]"},
		{0, "a in (b, #a)", distinct + "IN, first operand: [a]"},
		{0, ":s = :s AND a[0] = a[1] AND a.#i = a[3]", ""},
		{0, "a between b and b", ""},
	})
}

func TestBindUpdates(t *testing.T) {
	t.Parallel()
	const u = RoleUpdate
	const (
		noName   = "An expression attribute name used in the document path is not defined; attribute name: "
		noValue  = "An expression attribute value used in expression is not defined; attribute value: "
		overlap  = "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
		conflict = "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: "
		kind     = "Incorrect operand type for operator or function; operator or function: "
		section  = "Incorrect operand type for operator or function; operator: "
		count    = "Incorrect number of operands for operator or function; operator or function: "
	)
	checkTexts(t, []textCase{
		{u, "SET #zz = if_not_exists(:zz)", noName + "#zz"},
		{u, "SET #a = if_not_exists(:zz)", noValue + ":zz"},
		{u, "SET a = b, a = :zz", noValue + ":zz"},
		{u, "ADD a :zz", noValue + ":zz"},

		{u, "set d[1] = a, d.b = a, c[1].a = a, #c = if_not_exists(a)", overlap + "[c, [1], a], path two: [c]"},
		{u, "set #c[3].#i = a, #c[3] = a", overlap + "[c, [3], [3]], path two: [c, [3]]"},
		{u, "set a = b, a = c", overlap + "[a], path two: [a]"},
		{u, "set a = b remove a.b", overlap + "[a], path two: [a, b]"},
		{u, "set a.b = b add a.b :n", overlap + "[a, b], path two: [a, b]"},
		{u, "set l[0] = b remove l", overlap + "[l, [0]], path two: [l]"},
		{u, "set #c[3].#i = a, #c.#i[3] = if_not_exists(a)", conflict + "[c, [3], [3]], path two: [c, [3], [3]]"},
		{u, "remove a.#c set a[1] = #i", conflict + "[a, c], path two: [a, [1]]"},
		{u, "remove a.b, a.c, l[0], l[1], l[2].x, l[2].y", ""},

		{u, "set b = list_append(:s, a), c = if_not_exists(a) add a.b :s", section + "ADD, operand type: STRING"},
		{u, "delete a.b :s", section + "DELETE, operand type: STRING"},
		{u, "add a.b :null", section + "ADD, operand type: NULL"},
		{u, "delete a.b :bool", section + "DELETE, operand type: BOOLEAN"},
		{u, "add a.b :b", section + "ADD, operand type: BINARY"},
		{u, "delete a.b :m", section + "DELETE, operand type: MAP"},
		{u, "add a.b :l", section + "ADD, operand type: LIST"},
		{u, "delete a.b :n", section + "DELETE, operand type: NUMBER"},
		{u, "add a :n, b :ss delete c :ns, d :bs", ""},

		{u, "set a = if_not_exists(c)", count + "if_not_exists, number of operands: 1"},
		{u, "set a = list_append(c)", count + "list_append, number of operands: 1"},
		{u, "set a = list_append(c, d, e)", count + "list_append, number of operands: 3"},
		{u, "set a = if_not_exists(:s, c)", "Operator or function requires a document path; operator or function: if_not_exists"},
		{u, "set a = if_not_exists(if_not_exists(a, b), c)", "Operator or function requires a document path; operator or function: if_not_exists"},

		{u, "set a = list_append(:s, a)", kind + "list_append, operand type: S"},
		{u, "set a = list_append(a, :n)", kind + "list_append, operand type: N"},
		{u, "set a = list_append(a, (b + c))", kind + "list_append, operand type: N"},
		{u, "set a = list_append(a, :m)", kind + "list_append, operand type: M"},
		{u, "set a = a + :s", kind + "+, operand type: S"},
		{u, "set a = :b + a", kind + "+, operand type: B"},
		{u, "set a = :s - :b", kind + "-, operand type: S"},
		{u, "set a = a - :ns", kind + "-, operand type: NS"},
		{u, "set a = a + list_append(b, c)", kind + "+, operand type: L"},
		{u, "set a = a + a, b = list_append(b, b), c = :n - :n", ""},
	})
}

func TestBindProjections(t *testing.T) {
	t.Parallel()
	const p = RoleProjection
	const (
		overlap  = "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
		conflict = "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: "
	)
	wide := "c0"
	for i := 1; i < 40; i++ {
		wide += ", c" + strings.Repeat("x", i)
	}
	checkTexts(t, []textCase{
		{p, "a,b,a,#zz", "An expression attribute name used in the document path is not defined; attribute name: #zz"},
		{p, "b[1], b.a, #a.b, a", overlap + "[a, b], path two: [a]"},
		{p, "a, #a[1]", overlap + "[a], path two: [a, [1]]"},
		{p, "a, a", overlap + "[a], path two: [a]"},
		{p, "a.b, #a[1], #i", conflict + "[a, b], path two: [a, [1]]"},
		{p, "a.b[1], #a[1], #i", conflict + "[a, b, [1]], path two: [a, [1]]"},
		{p, "a[3].b, #a.#i.b", conflict + "[a, [3], b], path two: [a, [3], b]"},
		{p, wide, ""},
		{p, wide + ", cxxx", overlap + "[cxxx], path two: [cxxx]"},
		{p, "a[0], a[1], a[2].b, a[2].c", ""},
	})
}

func TestPlaceholderChecks(t *testing.T) {
	t.Parallel()
	type names = map[string]string
	v := ddb.String("x")
	cases := []struct {
		name   string
		names  names
		values map[string]ddb.Value
		want   string
	}{
		{"absent", nil, nil, ""},
		{"fine", names{"#a": "x", "#_9": "y"}, map[string]ddb.Value{":a": v}, ""},
		{"empty names", names{}, map[string]ddb.Value{}, "ExpressionAttributeNames must not be empty"},
		{"empty values", names{"#a": "a"}, map[string]ddb.Value{}, "ExpressionAttributeValues must not be empty"},
		{"name key", names{"a": "a"}, map[string]ddb.Value{}, `ExpressionAttributeNames contains invalid key: Syntax error; key: "a"`},
		{"value key", nil, map[string]ddb.Value{"a": v}, `ExpressionAttributeValues contains invalid key: Syntax error; key: "a"`},
		{"sign alone", names{"#": "a"}, nil, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#"`},
		{"wrong sign", names{":a": "a"}, nil, `ExpressionAttributeNames contains invalid key: Syntax error; key: ":a"`},
		{"bad character", names{"#a-b": "a"}, nil, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#a-b"`},
		{"first of several", names{"b": "a", "a": "a", "#x": "x"}, nil, `ExpressionAttributeNames contains invalid key: Syntax error; key: "a"`},
		{"empty key", names{"": "a", "a": "b"}, nil, "ExpressionAttributeNames contains invalid key: The expression attribute map contains an empty key;"},
		{"255 bytes", names{"#" + strings.Repeat("a", 254): "a"}, nil, ""},
		{"256 bytes", names{"#" + strings.Repeat("a", 255): "a"}, nil,
			`ExpressionAttributeNames contains invalid key: The expression attribute map contains a key that is too long; key: "#` + strings.Repeat("a", 255) + `"`},
		{"empty name", names{"#a": ""}, nil, "ExpressionAttributeNames contains invalid value: Empty attribute name for key #a"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			wantError(t, NewPlaceholders(tc.names, tc.values).Check(), Invalid, tc.want)
		})
	}
}

func TestPlaceholdersWithoutExpressions(t *testing.T) {
	t.Parallel()
	names, values := map[string]string{}, map[string]ddb.Value{}
	const null = ": FilterExpression is null"
	wantError(t, NewPlaceholders(nil, nil).CheckAbsent(null), Invalid, "")
	wantError(t, NewPlaceholders(names, values).CheckAbsent(null), Invalid, "ExpressionAttributeNames can only be specified when using expressions")
	wantError(t, NewPlaceholders(nil, values).CheckAbsent(null), Invalid, "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null")
	wantError(t, NewPlaceholders(nil, values).CheckAbsent(""), Invalid, "ExpressionAttributeValues can only be specified when using expressions")
}

func TestUnusedPlaceholders(t *testing.T) {
	t.Parallel()
	v := ddb.Int(1)
	const update, condition, projection = "SET #a = :a", "#b = :b AND :b > #b.x", "#c"
	cases := []struct {
		names  []string
		values []string
		want   string
	}{
		{[]string{"#a", "#b", "#c"}, []string{":a", ":b"}, ""},
		{[]string{"#a", "#b", "#c", "#y", "#x"}, []string{":a", ":b", ":c"},
			"Value provided in ExpressionAttributeNames unused in expressions: keys: {#x, #y}"},
		{[]string{"#a", "#b", "#c"}, []string{":a", ":z", ":b", ":c"},
			"Value provided in ExpressionAttributeValues unused in expressions: keys: {:c, :z}"},
	}
	for _, tc := range cases {
		names, values := map[string]string{}, map[string]ddb.Value{}
		for _, n := range tc.names {
			names[n] = n[1:]
		}
		for _, n := range tc.values {
			values[n] = v
		}
		p, c := NewPlaceholders(names, values), NewCache(10)
		for role, text := range map[Role]string{RoleUpdate: update, RoleCondition: condition, RoleProjection: projection} {
			wantError(t, bindAs(c, p, role, text), Invalid, "")
		}
		wantError(t, p.Unused(), Invalid, tc.want)
	}
}

func TestCheckMix(t *testing.T) {
	t.Parallel()
	wantError(t, CheckMix(nil, []string{"UpdateExpression"}), Invalid, "")
	wantError(t, CheckMix([]string{"Expected"}, nil), Invalid, "")
	wantError(t, CheckMix([]string{"AttributeUpdates", "Expected"}, []string{"UpdateExpression", "ConditionExpression"}), Invalid,
		"Can not use both expression and non-expression parameters in the same request: "+
			"Non-expression parameters: {AttributeUpdates, Expected} Expression parameters: {UpdateExpression, ConditionExpression}")
}

func TestRefs(t *testing.T) {
	t.Parallel()
	c, p := NewCache(1), placeholders(t)
	cond, err := c.Condition(p, RoleFilter, "a = :n AND (attribute_exists(#b.x) OR NOT size(z[0]) IN (c, :n))")
	wantError(t, err, Invalid, "")
	want := []Ref{{"a", false}, {"b", true}, {"z", true}, {"c", false}}
	if got := slices.Collect(cond.Refs()); !slices.Equal(got, want) {
		t.Errorf("condition: %v, want %v", got, want)
	}
	for r := range cond.Refs() { // stops when told to
		if r.Name != "a" {
			t.Errorf("went on to %s", r.Name)
		}
		break
	}
	if got := slices.Collect((*Condition)(nil).Refs()); got != nil {
		t.Errorf("nil condition: %v", got)
	}
	proj, err := c.Projection(p, "#c, a.b, a.c")
	wantError(t, err, Invalid, "")
	if got := slices.Collect(proj.Refs()); !slices.Equal(got, []Ref{{"c", false}, {"a", true}, {"a", true}}) {
		t.Errorf("projection: %v", got)
	}
	for range proj.Refs() {
		break
	}
	up, err := c.Update(p, "SET a = b.c + :n, #c[0] = :s REMOVE d ADD e :n")
	wantError(t, err, Invalid, "")
	targets := []Ref{{"a", false}, {"c", true}, {"d", false}, {"e", false}}
	if got := slices.Collect(up.Targets()); !slices.Equal(got, targets) {
		t.Errorf("targets: %v", got)
	}
	all := []Ref{{"a", false}, {"b", true}, {"c", true}, {"d", false}, {"e", false}}
	if got := slices.Collect(up.Refs()); !slices.Equal(got, all) {
		t.Errorf("update: %v", got)
	}
	for range up.Targets() {
		break
	}
	for range up.Refs() {
		break
	}
}
