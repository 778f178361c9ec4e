// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strings"
	"testing"
)

type syntaxCase struct {
	role        Role
	text        string
	token, near string // in the message
}

func checkSyntaxErrors(t *testing.T, cases []syntaxCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.role.String()+" "+tc.text, func(t *testing.T) {
			t.Parallel()
			err := bindAs(NewCache(0), placeholders(t), tc.role, tc.text)
			wantError(t, err, Invalid, fmt.Sprintf("Invalid %s: Syntax error; token: \"%s\", near: \"%s\"", tc.role, tc.token, tc.near))
		})
	}
}

func TestConditionSyntaxErrors(t *testing.T) {
	t.Parallel()
	const c, k = RoleCondition, RoleKeyCondition
	checkSyntaxErrors(t, []syntaxCase{
		// Samples of the service.
		{c, "a = = b", "=", "= = b"},
		{c, "attribute_not_exists(", "<EOF>", "("},
		{c, "NOT #a", "<EOF>", "#a"},
		{c, "things are not gonna be ok", "are", "things are not"},
		{c, "a > 4", "4", "> 4"},
		{c, "attribute_exists(Pictures-RearView)", "-", "Pictures-RearView"},
		{c, `attribute_exists("Pictures.RearView")`, `"`, `("Pictures`},
		{c, "attribute_exists(Pictures..RearView)", ".", "..RearView"},
		{c, "attribute_exists(Pi#ctures.RearView)", "#ctures", "Pi#ctures."},
		{c, "attribute_exists(asdf[a])", "a", "[a]"},
		{c, "attribute_exists()", ")", "()"},
		{c, "a in b, c", "b", "in b,"},
		{c, "a > between", "between", "> between"},
		{c, "a in (b,c,)", ")", ",)"},
		{c, "a in (b c)", "c", "b c)"},
		{c, "a in ()", ")", "()"},
		{c, "a between b c", "c", "b c"},
		{c, "a between b or c", "or", "b or c"},
		{c, "(a)between(b.(c.d))and(c)", "(", ".(c"},
		{c, "(a)between(b.c.d)and((c)", "<EOF>", ")"},
		{c, "#$.b > a", "#", "#$"},
		{c, ": > a", ":", ": >"},
		{c, "a > :things.stuff", ".", ":things.stuff"},
		{c, "b[:a] > a", ":a", "[:a]"},
		{c, "b[#_] > a", "#_", "[#_]"},
		{c, "b[1 > a", ">", "1 > a"},
		{c, "b[-1] > a", "-", "[-1"},
		{c, "ü > a", "ü", "ü >"},
		{c, "\xff > a", "\xff", "\xff >"},
		{c, "(a)between(b.c[4.5].#d)and(:a)", ".", "4.5"},
		{c, "size(a).b > a", ".", ").b"},
		{c, "(size(a)).b > a", ".", ").b"},
		{c, "size(a)[0] > a", "[", ")[0"},
		{c, "(a = b) = c", "=", ") = c"},
		{c, "a = (b = c)", "<EOF>", ")"},
		{c, "(a) AND b = c", "AND", ") AND b"},
		{c, "a = b AND", "<EOF>", "AND"},
		{c, "a = b OR OR c = d", "OR", "OR OR c"},
		{c, "a = b AND c OR d = e", "OR", "c OR d"},
		{c, ":s", "<EOF>", ":s"},
		{c, "a = b c = d", "c", "b c ="},
		{c, "contains(a = b, c)", "=", "a = b"},
		{c, "a == b", "=", "== b"},
		{c, "a != b", "!", "a !="},
		{c, "a.1 = b", "1", ".1 ="},
		{k, "(size(a))[0] > a", "[", ")[0"},
	})
}

func TestOtherSyntaxErrors(t *testing.T) {
	t.Parallel()
	const p, u = RoleProjection, RoleUpdate
	checkSyntaxErrors(t, []syntaxCase{
		{p, "!!!", "!", "!!"},
		{p, "whatever(stuff)", "(", "whatever(stuff"},
		{p, ":a", ":a", ":a"},
		{p, "abort,", "<EOF>", ","},
		{p, "a,,b", ",", ",,b"},
		{p, "a..b", ".", "..b"},
		{p, "a[b]", "b", "[b]"},
		{p, "(a.b).c", "(", "(a"},
		{p, "(a)", "(", "(a"},
		{p, "a-b", "-", "a-b"},
		{p, "a b", "b", "a b"},
		{u, "INVALID SYNTAX HERE", "INVALID", "INVALID SYNTAX"},
		{u, "whatever", "whatever", "whatever"},
		{u, "set a", "<EOF>", "a"},
		{u, "add a", "<EOF>", "a"},
		{u, "delete a", "<EOF>", "a"},
		{u, "set a=set", "set", "=set"},
		{u, "remove a = b", "=", "a = b"},
		{u, "add a = b", "=", "a = b"},
		{u, "delete a b", "b", "a b"},
		{u, "delete a if_not_exist(b)", "if_not_exist", "a if_not_exist("},
		{u, "add abort b", "b", "abort b"},
		{u, "remove a b", "b", "a b"},
		{u, "set a b", "b", "a b"},
		{u, "set :a = b", ":a", "set :a ="},
		{u, "remove :a", ":a", "remove :a"},
		{u, "set a = b / c", "/", "b / c"},
		{u, "set a = b * c", "*", "b * c"},
		{u, `set a[1] = "eight"`, `"`, `= "eight`},
		{u, "set a[1] = 1", "1", "= 1"},
		{u, "SET a = if_not_exist(a, 100)", "100", ", 100)"},
		{u, "SET if_not_exist(a, b) = a", "(", "if_not_exist(a"},
		{u, "set (a = (b + c))", "(", "set (a"},
		{u, "set a = (b.c).d + e", ".", ").d"},
		{u, "set a = (b.c)[0] + e", "[", ")[0"},
		{u, "set a = b + c + d", "+", "c + d"},
		{u, "set a = b +", "<EOF>", "+"},
		{u, "set a = (b", "<EOF>", "b"},
		{u, "set a = list_append(b", "<EOF>", "b"},
		{u, "set a = b,", "<EOF>", ","},
		{u, "remove a,", "<EOF>", ","},
		{u, "set a = b set", "<EOF>", "set"},
	})
}

func TestStructureRules(t *testing.T) {
	t.Parallel()
	const c, f, k, p, u = RoleCondition, RoleFilter, RoleKeyCondition, RoleProjection, RoleUpdate
	const (
		empty   = "The expression can not be empty;"
		parens  = "The expression has redundant parentheses;"
		fname   = "Invalid function name; function: "
		place   = "The function is not allowed to be used this way in an expression; function: "
		notCond = "The function is not allowed in a condition expression; function: "
		notUpd  = "The function is not allowed in an update expression; function: "
	)
	checkTexts(t, []textCase{
		{c, "", empty}, {f, "", empty}, {k, "", empty}, {p, "", empty}, {u, "", empty}, {u, " \t\r\n", empty},

		{f, "a=b and a > ((views))", parens},
		{f, "(a)between(((b.c)).d)and(c)", parens},
		{f, "a > whatever((:things), ((a)))", parens},
		{f, "a=b AND ((a=b AND a=b)) AND a=b", parens},
		{f, "a=b OR ((a=b OR (a=b OR a=b)))", parens},
		{u, "set a = ((b))", parens},
		{u, "set a = ((b + c))", parens},
		{f, "((a=b) OR (a=c))", ""},
		{f, "((size(b)) = :n)", ""},
		{f, "(NOT (a = b))", ""},
		{f, "(a = b AND (c = d))", ""},
		{f, "(a).b = c", ""},
		{f, "(a.b)[0].c = d", ""},
		{u, "set a = ((c[1])+(b.a))", ""},
		{u, "set a = (b + (c - d))", ""},
		{u, "set a = if_not_exists(b, if_not_exists(c, :n)) - :n", ""},

		{f, "a=b and whatever((:things)) > a", fname + "whatever"},
		{f, "attRIbute_exIsts((views), #a)", fname + "attRIbute_exIsts"},
		{f, "NOT whatever(a)", fname + "whatever"},
		{u, "set #c = if_not_exist(:c) set c = d", fname + "if_not_exist"},

		{f, "if_not_exists(a, :s) = b", notCond + "if_not_exists"},
		{f, "list_append(a, :l)", notCond + "list_append"},
		{u, "set a = size(b)", notUpd + "size"},
		{u, "set a = attribute_exists(b)", notUpd + "attribute_exists"},

		{f, "a=b and attribute_exists((views), (#a)) > b", place + "attribute_exists"},
		{f, "attribute_not_exists(things) > b", place + "attribute_not_exists"},
		{f, "attribute_type(things, :a) > b", place + "attribute_type"},
		{f, "begins_with(things, a) > b", place + "begins_with"},
		{f, "contains(:things, c) > b", place + "contains"},
		{f, "size(contains(a, b)) > a", place + "contains"},
		{f, "size(things)", place + "size"},
		{f, "a = b AND size(things)", place + "size"},
		{f, "NOT size(things)", place + "size"},
		{f, "a between b and attribute_exists(things)", place + "attribute_exists"},
		{f, "a between attribute_exists(things) and b", place + "attribute_exists"},
		{f, "a in (b, attribute_exists(things))", place + "attribute_exists"},
	})
}

func TestNamesAndLimits(t *testing.T) {
	t.Parallel()
	const c, f, p, u = RoleCondition, RoleFilter, RoleProjection, RoleUpdate
	const reserved = "Attribute name is a reserved keyword; reserved keyword: "
	deep := "a" + strings.Repeat(".b", 31)
	checkTexts(t, []textCase{
		{f, "attribute_exists(views, #a)", reserved + "views"},
		{f, ":s < abOrT", reserved + "abOrT"},
		{f, "a.Name = :s", reserved + "Name"},
		{f, "set = :s", reserved + "set"},
		{u, " set #c = :c set abOrt = true ", reserved + "abOrt"},
		{u, " remove Absolute ", reserved + "Absolute"},
		{u, "set and = :s", reserved + "and"},
		{p, "a.abORt", reserved + "abORt"},
		{p, "#zz,ABSoLUTE", reserved + "ABSoLUTE"},
		{p, "a.between", reserved + "between"},
		{p, "#status, sizes, s, _low", ""},

		{u, "set a = #zz set c = :d", `The "SET" section can only be used once in an update expression;`},
		{u, "remove #zz set a = b remove e", `The "REMOVE" section can only be used once in an update expression;`},
		{u, "add #zz :e set a = b add e :f", `The "ADD" section can only be used once in an update expression;`},
		{u, "delete #zz :e set a = b delete #e :f", `The "DELETE" section can only be used once in an update expression;`},

		{p, "a[2147483647]", ""},
		{p, "a[2147483648]", "List index is not within the allowable range; index: [2147483648]"},
		{p, "a[99999999999999999999]", "List index is not within the allowable range; index: [99999999999999999999]"},
		{p, deep, ""},
		{p, deep + ".b", "The document path has too many nesting levels; nesting levels: 33"},
		{c, deep + "[0] = :s", "The document path has too many nesting levels; nesting levels: 33"},

		{c, strings.Repeat("a<b OR ", 149) + "a<b AND NOT a<b", "The expression contains too many operators; operator count: 301"},
		{c, strings.Repeat("a<b OR ", 149) + "a<b", ""},
		{c, "a IN (b" + strings.Repeat(",b", 99) + ")", ""},
		{c, "a IN (b" + strings.Repeat(",b", 100) + ")", "The IN operator is provided with too many operands; number of operands: 101"},

		{c, "a = " + strings.Repeat("b", maxText-4), ""},
		{c, "a = " + strings.Repeat("b", maxText-3), "Expression size has exceeded the maximum allowed size; expression size: 4097"},
		{p, strings.Repeat("b", maxText+2), "Expression size has exceeded the maximum allowed size; expression size: 4098"},
		{u, "remove " + strings.Repeat("b", maxText), "Expression size has exceeded the maximum allowed size;"},
	})
}

// The operator limit counts each AND, OR, NOT, comparison and function once.
func TestOperatorCount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want int
	}{
		{"a = b", 1},
		{"a = b AND NOT size(c) > d", 5},
		{"a BETWEEN b AND c OR a IN (b, c)", 3},
		{"attribute_exists(a)", 1},
	} {
		p := &parser{text: tc.text, role: RoleCondition, tokens: lex(tc.text), tree: &tree{}, refs: map[string]int{}}
		if err := parseCondition(p); err != nil {
			t.Fatal(err)
		}
		if p.operators != tc.want {
			t.Errorf("%s: %d operators, want %d", tc.text, p.operators, tc.want)
		}
	}
}

func TestReservedWords(t *testing.T) {
	t.Parallel()
	words := strings.Fields(reservedWords)
	if len(words) != 573 {
		t.Errorf("%d reserved words, want 573", len(words))
	}
	for i, w := range words {
		if i > 0 && words[i-1] >= w {
			t.Errorf("%s is out of order", w)
		}
		if !isReserved(w) || !isReserved(strings.ToLower(w)) {
			t.Errorf("%s is not found", w)
		}
		if isReserved(w + "_") {
			t.Errorf("%s_ is found", w)
		}
	}
	for _, w := range []string{"", "A", "STATUSES", "pk", strings.Repeat("x", 300)} {
		if isReserved(w) {
			t.Errorf("%q is reserved", w)
		}
	}
}

// hostile are texts as bad as their length allows.
func hostile() []string {
	return []string{
		strings.Repeat("(", maxText),
		strings.Repeat("NOT ", maxText/4),
		strings.Repeat("size(", maxText/5),
		strings.Repeat("(", 2000) + "a = b" + strings.Repeat(")", 2000),
		"a" + strings.Repeat("[0]", 1365),
		strings.Repeat("a,", 2047) + "b",
		strings.Repeat("a<b OR ", 580) + "a<b",
	}
}

// Hostile text must neither crash nor blow the stack.
func TestHostileText(t *testing.T) {
	t.Parallel()
	for _, text := range hostile() {
		for _, role := range []Role{RoleCondition, RoleKeyCondition, RoleProjection} {
			if err := bindAs(NewCache(0), placeholders(t), role, text); err == nil {
				t.Errorf("%s %.20s: no error", role, text)
			}
		}
		if err := bindAs(NewCache(0), placeholders(t), RoleUpdate, "SET a="+text[:min(len(text), maxText-6)]); err == nil {
			t.Errorf("update %.20s: no error", text)
		}
	}
}

// What an expression allocates is bounded by its length. Not parallel, as
// AllocsPerRun demands.
func TestAllocationsAreBounded(t *testing.T) {
	p := placeholders(t)
	for _, text := range append(hostile(), fuzzCorpus()...) {
		for _, role := range []Role{RoleCondition, RoleProjection, RoleUpdate} {
			n := testing.AllocsPerRun(1, func() { _ = bindAs(NewCache(0), p, role, text) })
			if limit := float64(100 + 2*len(text)); n > limit {
				t.Errorf("%s %.40q: %v allocations, limit %v", role, text, n, limit)
			}
		}
	}
}
