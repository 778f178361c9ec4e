// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"strings"
	"testing"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	at := func(p, s, pk, sk string) *Position {
		return &Position{P: []byte(p), S: []byte(s), PK: []byte(pk), SK: []byte(sk)}
	}
	for name, c := range map[string]struct {
		r    Range
		want string // lower, upper
	}{
		"table":                      {Range{}, "| -"},
		"segment":                    {Range{Start: at("", "", "a", "1"), End: at("", "", "b", "2")}, "a|1 b|2"},
		"table after":                {Range{After: at("", "", "a", "1")}, "a|1\x00 -"},
		"segment after its start":    {Range{Start: at("", "", "a", "1"), After: at("", "", "a", "2")}, "a|2\x00 -"},
		"segment after before it":    {Range{Start: at("", "", "b", "1"), After: at("", "", "a", "2")}, "b|1 -"},
		"segment back":               {Range{End: at("", "", "b", "2"), After: at("", "", "a", "1"), Reverse: true}, "| a|1"},
		"segment back from after it": {Range{End: at("", "", "b", "2"), After: at("", "", "c", "1"), Reverse: true}, "| b|2"},
		"back":                       {Range{After: at("", "", "a", "1"), Reverse: true}, "| a|1"},
		"partition":                  {Range{P: []byte("p")}, " -"},
		"partition between":          {Range{P: []byte("p"), From: []byte("1"), To: []byte("2")}, "1 2"},
		"partition after":            {Range{P: []byte("p"), From: []byte("1"), After: at("", "", "p", "1")}, "1\x00 -"},
		"partition after before it":  {Range{P: []byte("p"), From: []byte("3"), After: at("", "", "p", "1")}, "3 -"},
		"partition back":             {Range{P: []byte("p"), To: []byte("2"), After: at("", "", "p", "1"), Reverse: true}, " 1"},
		"index":                      {Range{Index: 1}, "||| -"},
		"index segment":              {Range{Index: 1, Start: at("a", "1", "x", "y"), End: at("b", "2", "x", "z")}, "a|1|x|y b|2|x|z"},
		"index after":                {Range{Index: 1, After: at("a", "1", "x", "")}, "a|1|x|\x00 -"},
		"index partition":            {Range{Index: 1, P: []byte("p"), From: []byte("1"), To: []byte("2")}, "1|| 2||"},
		"index partition after":      {Range{Index: 1, P: []byte("p"), From: []byte("1"), After: at("p", "1", "x", "y")}, "1|x|y\x00 -"},
		"index partition back":       {Range{Index: 1, P: []byte("p"), To: []byte("2"), After: at("p", "1", "x", "y"), Reverse: true}, "|| 1|x|y"},
	} {
		lower, upper := c.r.Interval()
		got := fmt.Sprintf("%s %s", text(lower), text(upper))
		if upper == nil {
			got = text(lower) + " -"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if a := c.r.After; a != nil && (strings.HasSuffix(string(a.SK), "\x00")) {
			t.Errorf("%s: the start was changed to %q", name, a.SK)
		}
	}
}

func text(key [][]byte) string {
	var parts []string
	for _, b := range key {
		parts = append(parts, string(b))
	}
	return strings.Join(parts, "|")
}
