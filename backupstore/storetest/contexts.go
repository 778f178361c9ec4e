// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/extenddb/extenddb/backupstore"
)

func contextChecks() []check {
	return []check{
		{"context/ended before", endedBefore},
		{"context/ends during put", endsDuringPut},
		{"context/ends during get", endsDuringGet},
		{"context/ends during list", endsDuringList},
	}
}

func endedBefore(e *env) {
	e.put("k", "x")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.s.Put(ctx, "new/k", bytes.NewReader(nil), backupstore.PutOptions{})
	e.fails(err, context.Canceled)
	_, err = e.s.Put(ctx, "k", bytes.NewReader(nil), backupstore.PutOptions{})
	e.fails(err, context.Canceled)
	r, err := e.s.Get(ctx, "k")
	if err == nil {
		_ = r.Close()
	}
	e.fails(err, context.Canceled)
	_, err = e.s.Head(ctx, "k")
	e.fails(err, context.Canceled)
	n := 0
	for _, err := range e.s.List(ctx, "") {
		n++
		e.fails(err, context.Canceled)
	}
	equal(e, "yields of an ended listing", n, 1)
	_, err = e.s.DeletePrefix(ctx, "k")
	e.fails(err, context.Canceled)
	e.fails(e.s.Validate(ctx), context.Canceled)
	e.holds("k", "x")
	e.lists("", "k")
}

// endsDuringPut: the body goes on, the put does not.
func endsDuringPut(e *env) {
	for _, before := range []int{0, part + 4096} {
		for _, key := range []string{"old", "new/dir/k"} {
			e.put("old", "x")
			ctx, cancel := context.WithCancel(e.ctx)
			stop := &hooked{bytes.NewReader(noise(1 << 20)), sync.OnceValue(func() error { cancel(); return nil })}
			_, err := e.s.Put(ctx, key, io.MultiReader(bytes.NewReader(noise(before)), stop), backupstore.PutOptions{})
			e.fails(err, context.Canceled)
			e.holds("old", "x")
			e.lists("", "old")
		}
	}
}

func endsDuringGet(e *env) {
	e.put("k", string(noise(4<<20)))
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	r, err := e.s.Get(ctx, "k")
	e.ok(err)
	_, err = r.Read(make([]byte, 1))
	e.ok(err)
	cancel()
	_, err = io.Copy(io.Discard, r)
	e.ok(r.Close())
	e.fails(err, context.Canceled)
}

func endsDuringList(e *env) {
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		e.put(key, "x")
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	n := 0
	for _, err := range e.s.List(ctx, "") {
		if n++; n == 1 {
			e.ok(err)
			cancel()
			continue
		}
		e.fails(err, context.Canceled)
	}
	equal(e, "yields", n, 2)
}
