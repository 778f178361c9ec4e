// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

const benchCondition = "attribute_exists(#s) AND #n >= :n AND (begins_with(s, :h) OR m.x = :n)"

func benchPlaceholders(b *testing.B) func() *Placeholders {
	names := map[string]string{"#s": "status", "#n": "n"}
	values := item(b, `{":n":{"N":"1"},":h":{"S":"he"}}`)
	return func() *Placeholders { return NewPlaceholders(names, values) }
}

func BenchmarkCondition(b *testing.B) {
	c, placeholders, it := NewCache(10), benchPlaceholders(b), item(b, evalItem)
	b.Run("bind and eval", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := placeholders()
			cond, err := c.Condition(p, RoleCondition, benchCondition)
			if err != nil || p.Unused() != nil || !cond.Eval(it) {
				b.Fatal(err)
			}
		}
	})
	cond, err := c.Condition(placeholders(), RoleCondition, benchCondition)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("eval", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !cond.Eval(it) {
				b.Fatal("does not hold")
			}
		}
	})
	b.Run("parse, bind and eval", func(b *testing.B) {
		b.ReportAllocs()
		off := NewCache(0)
		for b.Loop() {
			if cond, err := off.Condition(placeholders(), RoleCondition, benchCondition); err != nil || !cond.Eval(it) {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	c, it := NewCache(10), item(b, evalItem)
	values := item(b, `{":n":{"N":"1"},":s":{"S":"x"}}`)
	b.ReportAllocs()
	for b.Loop() {
		u, err := c.Update(NewPlaceholders(nil, values), "SET n = n + :n, s = :s, m.x = :n")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Apply(it, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProjection(b *testing.B) {
	c, it := NewCache(10), item(b, evalItem)
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Projection(NewPlaceholders(nil, nil), "s, n, m.y.l, l[1], l[2].k")
		if err != nil {
			b.Fatal(err)
		}
		if len(p.apply(it)) != 4 {
			b.Fatal("wrong projection")
		}
	}
}

// BenchmarkProjectionAppend is what each row of a page costs.
func BenchmarkProjectionAppend(b *testing.B) {
	p, err := NewCache(10).Projection(NewPlaceholders(nil, nil), "s, n, m.y.l, l[1], l[2].k")
	if err != nil {
		b.Fatal(err)
	}
	text, buf := ddb.AppendItem(nil, item(b, evalItem)), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = p.Append(buf[:0], text); err != nil {
			b.Fatal(err)
		}
	}
}
