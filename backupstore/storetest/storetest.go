// SPDX-License-Identifier: Apache-2.0

// Package storetest is the conformance suite of package backupstore: every
// store passes it unchanged. It also holds the reference store Memory and the
// fault-injecting wrapper Faulty.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// Harness is one empty store under test.
type Harness struct {
	Store backupstore.Store
	// Now, when set, is the clock behind ObjectMeta.LastModified; the suite
	// expects both to agree within a minute.
	Now func() time.Time
}

// Run runs the suite: each check gets a store of its own from open, and the
// checks run in parallel.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.do(t, open(t))
		})
	}
}

// check is one check of the suite.
type check struct {
	name string
	run  func(e *env)
}

func checks() []check {
	return slices.Concat(objectChecks(), keyChecks(), listChecks(), deleteChecks(), conditionChecks(), raceChecks(), contextChecks())
}

func (c check) do(t testing.TB, h Harness) { c.run(&env{TB: t, ctx: t.Context(), s: h.Store, h: h}) }

// env is what a check works with.
type env struct {
	testing.TB
	ctx context.Context
	s   backupstore.Store
	h   Harness
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

func (e *env) fails(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error %v, want %v", err, want)
	}
}

func equal[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (e *env) try(key, body string, o backupstore.PutOptions) (backupstore.PutResult, error) {
	return e.s.Put(e.ctx, key, strings.NewReader(body), o)
}

func (e *env) put(key, body string) backupstore.PutResult {
	e.Helper()
	res, err := e.try(key, body, backupstore.PutOptions{})
	e.ok(err)
	equal(e, "size of "+key, res.Size, int64(len(body)))
	return res
}

// read returns an object, an error of any of its steps.
func (e *env) read(key string) (string, error) {
	r, err := e.s.Get(e.ctx, key)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}

func (e *env) head(key string) *backupstore.ObjectMeta {
	e.Helper()
	meta, err := e.s.Head(e.ctx, key)
	e.ok(err)
	return meta
}

// holds checks that all three ways of reading agree on an object.
func (e *env) holds(key, want string) {
	e.Helper()
	got, err := e.read(key)
	e.ok(err)
	if got != want {
		e.Fatalf("%s: read %.40q (%d bytes), want %.40q (%d bytes)", key, got, len(got), want, len(want))
	}
	meta := e.head(key)
	if meta == nil {
		e.Fatalf("%s: head finds nothing", key)
	}
	equal(e, "key of head", meta.Key, key)
	equal(e, "size of head", meta.Size, int64(len(want)))
	listed, err := e.list(key)
	e.ok(err)
	if i := slices.IndexFunc(listed, func(m backupstore.ObjectMeta) bool { return m.Key == key }); i < 0 || listed[i].Size != meta.Size {
		e.Fatalf("%s: listed as %+v", key, listed)
	}
}

// absent checks that all three ways of reading find nothing.
func (e *env) absent(key string) {
	e.Helper()
	if r, err := e.s.Get(e.ctx, key); !errors.Is(err, backupstore.ErrNotFound) {
		if err == nil {
			_ = r.Close()
		}
		e.Fatalf("get %s: error %v, want %v", key, err, backupstore.ErrNotFound)
	}
	if meta := e.head(key); meta != nil {
		e.Fatalf("head %s: %+v", key, meta)
	}
	e.lists(key)
}

func (e *env) list(prefix string) (all []backupstore.ObjectMeta, err error) {
	for meta, err := range e.s.List(e.ctx, prefix) {
		if err != nil {
			return all, err
		}
		all = append(all, meta)
	}
	return all, nil
}

// lists checks the keys of a listing and their order.
func (e *env) lists(prefix string, want ...string) {
	e.Helper()
	all, err := e.list(prefix)
	e.ok(err)
	var got []string
	for _, m := range all {
		got = append(got, m.Key)
		if m.LastModified.IsZero() {
			e.Fatalf("list %q: %s has no time", prefix, m.Key)
		}
	}
	if !slices.Equal(got, want) {
		e.Fatalf("list %q: got %q, want %q", prefix, got, want)
	}
}

func (e *env) deletes(prefix string, want int) {
	e.Helper()
	n, err := e.s.DeletePrefix(e.ctx, prefix)
	e.ok(err)
	equal(e, "deleted below "+prefix, n, want)
}

// noise returns n bytes that look random and do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return b
}

// errBody is what the bodies of the suite fail with.
var errBody = errors.New("the body failed")

// failing is a body of n bytes that then fails.
func failing(n int) io.Reader {
	return io.MultiReader(bytes.NewReader(noise(n)), &hooked{do: func() error { return errBody }})
}

// hooked calls do before each read of r, whose error is that of the read.
type hooked struct {
	r  io.Reader
	do func() error
}

// Read implements io.Reader.
func (h *hooked) Read(b []byte) (int, error) {
	if err := h.do(); err != nil {
		return 0, err
	}
	return h.r.Read(b)
}
