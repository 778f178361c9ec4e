// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

func TestConstraintForms(t *testing.T) {
	t.Parallel()
	str, num := func(s string) *string { return &s }, func(n int64) *int64 { return &n }
	long := strings.Repeat("é", 256)
	for _, c := range []struct {
		name string
		add  func(c *constraints)
		want string // behind the prefix; "" for no error
	}{
		{"nothing", func(*constraints) {}, ""},
		{"absent members pass", func(c *constraints) {
			c.enum(nil, "a", enumKeyType)
			c.length(nil, "a", 1, 2)
			c.pattern(nil, "a")
			c.atLeast(nil, "a", 1)
			c.required(true, "a")
		}, ""},
		{"required", func(c *constraints) { c.required(false, "key") }, "Value null at 'key' failed to satisfy constraint: Member must not be null"},
		{"wire case", func(c *constraints) { c.at("Limit", ruleMinValue(1)) },
			"Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"nameless", func(c *constraints) { c.nameless(enumConditionalOperator.rule()) },
			"Failed to satisfy constraint: Member must satisfy enum value set: [OR, AND]"},
		{"enum", func(c *constraints) { c.enum(str("hash"), "k.1.member.keyType", enumKeyType) },
			"Value 'hash' at 'k.1.member.keyType' failed to satisfy constraint: Member must satisfy enum value set: [HASH, RANGE]"},
		{"part of an enum", func(c *constraints) { c.enum(str("HASH, RANGE"), "k", enumKeyType) },
			"Value 'HASH, RANGE' at 'k' failed to satisfy constraint: Member must satisfy enum value set: [HASH, RANGE]"},
		{"enum has all", func(c *constraints) {
			c.enum(str("HASH"), "k", enumKeyType)
			c.enum(str("RANGE"), "k", enumKeyType)
		}, ""},
		{"short", func(c *constraints) { c.length(str(""), "n", 1, 0) },
			"Value '' at 'n' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"characters count, not bytes", func(c *constraints) { c.length(str(long[2:]), "n", 3, 255) }, ""},
		{"long", func(c *constraints) { c.length(str(long), "n", 3, 255) },
			"Value '" + long + "' at 'n' failed to satisfy constraint: Member must have length less than or equal to 255"},
		{"no bound", func(c *constraints) { c.length(str(long), "n", 3, 0) }, ""},
		{"pattern", func(c *constraints) { c.pattern(str("a b"), "n") },
			"Value 'a b' at 'n' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{"pattern passes", func(c *constraints) { c.pattern(str("aZ09_.-"), "n") }, ""},
		{"small", func(c *constraints) { c.atLeast(num(-1), "n", 0) },
			"Value '-1' at 'n' failed to satisfy constraint: Member must have value greater than or equal to 0"},
		{"large", func(c *constraints) { c.value("101", "limit", ruleMaxValue(100)) },
			"Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var cs constraints
			c.add(&cs)
			want := ""
			if c.want != "" {
				want = "ValidationException: 1 validation error detected: " + c.want
			}
			if got := errorText(cs.err()); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestConstraintsAreCountedUpToTen(t *testing.T) {
	t.Parallel()
	var c constraints
	c.clause("a")
	c.clause("b")
	if got, want := errorText(c.err()), "ValidationException: 2 validation errors detected: a; b"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for range 20 {
		c.clause("x")
	}
	if got, want := errorText(c.err()), "ValidationException: 10 validation errors detected: a; b"+strings.Repeat("; x", 8); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
