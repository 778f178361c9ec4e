// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"sync"
	"testing"
)

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := NewCache(10)
	for i := range 1000 {
		wantError(t, bindAs(c, placeholders(t), RoleCondition, fmt.Sprintf("a%d = :n", i)), Invalid, "")
		if n := len(c.young) + len(c.old); n > 20 {
			t.Fatalf("%d trees after %d expressions", n, i+1)
		}
	}
	off := NewCache(0)
	wantError(t, bindAs(off, placeholders(t), RoleCondition, "a = :n"), Invalid, "")
	if len(off.young) != 0 {
		t.Error("a cache of none keeps some")
	}
}

// What is used again survives expressions used once.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := NewCache(4)
	p := placeholders(t)
	wantError(t, bindAs(c, p, RoleCondition, "hot = :n"), Invalid, "")
	first := c.get(cacheKey{RoleCondition, "hot = :n"})
	for i := range 100 {
		wantError(t, bindAs(c, p, RoleCondition, fmt.Sprintf("cold%d = :n", i)), Invalid, "")
		wantError(t, bindAs(c, p, RoleCondition, "hot = :n"), Invalid, "")
	}
	if c.get(cacheKey{RoleCondition, "hot = :n"}) != first {
		t.Error("parsed again")
	}
}

// Filters and conditions share trees, but not the prefix of their errors; a
// key condition or a projection of the same text is something else.
func TestCacheRoles(t *testing.T) {
	t.Parallel()
	c := NewCache(10)
	for _, role := range []Role{RoleCondition, RoleFilter, RoleKeyCondition, RoleFilter} {
		const text = "An expression attribute value used in expression is not defined; attribute value: :zz"
		wantError(t, bindAs(c, placeholders(t), role, "a = :zz"), Invalid, "Invalid "+role.String()+": "+text)
	}
	if len(c.young) != 2 {
		t.Errorf("%d trees, want 2", len(c.young))
	}
	wantError(t, bindAs(c, placeholders(t), RoleProjection, "a, b"), Invalid, "")
	wantError(t, bindAs(c, placeholders(t), RoleCondition, "a, b"), Invalid, `Invalid ConditionExpression: Syntax error; token: ",", near: "a, b"`)
}

// Errors are found again and trees serve many requests at once.
func TestCacheIsShared(t *testing.T) {
	t.Parallel()
	c := NewCache(3)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				p := placeholders(t)
				if err := bindAs(c, p, RoleUpdate, fmt.Sprintf("SET #a = #b + :n, d%d[%d] = :s", (g+i)%7, i%3)); err != nil {
					t.Error(err)
				}
				if err := bindAs(c, p, RoleFilter, "a = = b"); err == nil {
					t.Error("a bad expression passed")
				}
			}
		})
	}
	wg.Wait()
}

func TestErrorWithoutRole(t *testing.T) {
	t.Parallel()
	if s := Role(99).String(); s != "" {
		t.Errorf("role 99 is %q", s)
	}
	if s := (&Error{Message: "m"}).Error(); s != "m" {
		t.Error(s)
	}
}
