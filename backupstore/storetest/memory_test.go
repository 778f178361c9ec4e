// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"
	"time"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) Harness {
		m := NewMemory()
		m.Now = time.Now
		return Harness{Store: m, Now: time.Now}
	})
}

func TestMemoryKeepsTimeByItself(t *testing.T) {
	t.Parallel()
	e := &env{TB: t, ctx: t.Context(), s: NewMemory()}
	e.put("a", "x")
	e.put("b", "x")
	if d := e.head("b").LastModified.Sub(e.head("a").LastModified); d != time.Millisecond {
		t.Errorf("puts are %v apart", d)
	}
}

func TestTamper(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	e := &env{TB: t, ctx: t.Context(), s: m}
	e.put("k", "good")
	before := e.head("k").ETag
	if !m.Tamper("k", func(b []byte) []byte { b[0] = 'f'; return append(b, 's') }) {
		t.Error("there is nothing to tamper with")
	}
	e.holds("k", "foods")
	equal(e, "ETag", e.head("k").ETag, before)
	if m.Tamper("none", func(b []byte) []byte { return b }) {
		t.Error("tampered with an object that is not there")
	}
}
