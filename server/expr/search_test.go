// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strings"
	"testing"
)

func TestSearchCondition(t *testing.T) {
	t.Parallel()
	const (
		comparator = "Invalid comparator used in SearchConditionExpression"
		noValue    = "An expression attribute value used in expression is not defined; attribute value: "
	)
	terms := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf("a%d = :s", i)
		}
		return strings.Join(parts, " AND ")
	}
	cases := []struct{ text, want, err string }{
		{text: "tenant = :s", want: "tenant EQ a"},
		{text: ":n = #b AND (c = :s AND d = :n2)", want: "b EQ 1; c EQ a; d EQ 2"},
		{text: "", err: "The expression can not be empty;"},
		{text: "tenant = :zz", err: noValue + ":zz"},
		{text: "tenant > :s", err: comparator},
		{text: "a = :s OR b = :s", err: comparator},
		{text: "NOT a = :s", err: comparator},
		{text: "a = :s AND begins_with(b, :s)", err: comparator},
		{text: "a = b", err: comparator},
		{text: ":s = :s", err: comparator},
		{text: "size(a) = :n", err: comparator},
		{text: "a.b = :s", err: "SearchConditionExpression cannot have conditions on nested attributes"},
		{text: ":s = a[0]", err: "SearchConditionExpression cannot have conditions on nested attributes"},
		{text: "a = :s AND a = :s", err: "SearchConditionExpression must only contain one condition per attribute"},
		{text: terms(22), err: "SearchConditionExpression cannot have more than 1 partition key and more than 20 inline filter key attributes"},
	}
	for _, tc := range cases {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			want := tc.err
			if want != "" {
				want = "Invalid SearchConditionExpression: " + want
			}
			got, err := NewCache(1).SearchCondition(placeholders(t), tc.text)
			wantError(t, err, Invalid, want)
			if showTerms(got) != tc.want {
				t.Errorf("got %q, want %q", showTerms(got), tc.want)
			}
		})
	}
	if got, err := NewCache(1).SearchCondition(placeholders(t), terms(21)); err != nil || len(got) != 21 {
		t.Errorf("21 terms: %d, %v", len(got), err)
	}
}
