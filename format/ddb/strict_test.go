// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"errors"
	"strings"
	"testing"
)

// TestStrict reads what only the strict reading refuses.
func TestStrict(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0", maxNumberText)
	for in, want := range map[string]ValueProblem{
		`{"a":{"S":""},"a":{"S":""}}`:                DuplicateName,
		`{"a":{"S":""},"\u0061":{"N":"1"}}`:          DuplicateName,
		`{"a":{"M":{"b":{"S":""},"b":{"S":"x"}}}}`:   DuplicateName,
		`{"a":{"S":"x","S":"x"}}`:                    SeveralTypes,
		`{"a":{"S":"x","N":null}}`:                   SeveralTypes,
		`{"a":{"N":null,"S":"x"}}`:                   SeveralTypes,
		`{"a":{"S":"x","later":[]}}`:                 SeveralTypes,
		`{"a":{"N":"` + long + `1"}}`:                BadNumber,
		`{"a":{"L":[{"NS":["2","` + long + `1"]}]}}`: BadNumber,
	} {
		if _, err := ParseItem([]byte(in)); err != nil {
			t.Errorf("%.80s: refused by ParseItem: %v", in, err)
		}
		_, bad, err := ScanItemStrict(NewScanner([]byte(in)))
		if err != nil || bad == nil || bad.Problem != want {
			t.Errorf("%.80s: %v, %v, want problem %d", in, bad, err, want)
			continue
		}
		var n *NumberError
		if errors.As(bad, &n) != (want == BadNumber) || (n != nil && (n.Problem != NumberTooLong || n.Input != "")) {
			t.Errorf("%.80s: %+v", in, n)
		}
	}
	for _, in := range []string{
		`{}`,
		`{"a":{"N":"` + long[1:] + `1"}}`,
		`{"a":{"S":"x"},"b":{"M":{"a":{"S":"x"},"b":{"L":[{"M":{"a":{"NULL":true}}},{"SS":["a"]}]}}}}`,
	} {
		want, err := ParseItem([]byte(in))
		got, bad, strict := ScanItemStrict(NewScanner([]byte(in)))
		if err != nil || bad != nil || strict != nil || !got.Equal(want) {
			t.Errorf("%.80s: %v, %v, %v", in, bad, strict, err)
		}
	}
}
