// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
)

var errFault = errors.New("injected")

func faulty(t *testing.T, faults ...Fault) (*Faulty, *env) {
	t.Helper()
	f := NewFaulty(NewMemory())
	e := &env{TB: t, ctx: t.Context(), s: f}
	e.put("d/k", "0123456789")
	e.put("d/l", "x")
	f.Inject(faults...)
	return f, e
}

// TestFaultyWithoutFaults: the wrapper changes nothing by itself, and loses no
// reader.
func TestFaultyWithoutFaults(t *testing.T) {
	t.Parallel()
	Run(t, func(t *testing.T) Harness {
		f := NewFaulty(NewMemory())
		t.Cleanup(func() {
			if n := f.Open(); n != 0 {
				t.Errorf("%d readers are open", n)
			}
		})
		return Harness{Store: f}
	})
}

func TestFaultyCalls(t *testing.T) {
	t.Parallel()
	for method, call := range map[string]func(e *env) error{
		"Put":          func(e *env) error { _, err := e.try("d/k", "new", backupstore.PutOptions{}); return err },
		"Get":          func(e *env) error { _, err := e.read("d/k"); return err },
		"Head":         func(e *env) error { _, err := e.s.Head(e.ctx, "d/k"); return err },
		"List":         func(e *env) error { _, err := e.list("d/k"); return err },
		"DeletePrefix": func(e *env) error { _, err := e.s.DeletePrefix(e.ctx, "d/k"); return err },
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			hooked := 0
			f, e := faulty(t, Fault{Method: method, Key: "k", Err: errFault, Skip: 1, Times: 2, Before: func() { hooked++ }})
			before := f.Calls(method)
			for i, want := range []error{nil, errFault, errFault, nil} {
				if err := call(e); !errors.Is(err, want) {
					t.Errorf("call %d: %v, want %v", i, err, want)
				}
				if i == 1 && !slices.Equal(f.Unused(), []string{method}) {
					t.Errorf("unused %v while one is to come", f.Unused())
				}
			}
			if n := f.Calls(method) - before; n != 4 || hooked != 2 || len(f.Unused()) != 0 {
				t.Errorf("%d calls, %d hooks, unused %v", n, hooked, f.Unused())
			}
		})
	}
}

func TestFaultyValidate(t *testing.T) {
	t.Parallel()
	f, e := faulty(t, Fault{Method: "Validate", Err: errFault})
	e.fails(f.Validate(e.ctx), errFault)
	e.ok(f.Validate(e.ctx))
}

func TestFaultyKey(t *testing.T) {
	t.Parallel()
	_, e := faulty(t, Fault{Method: "Get", Key: "d/l", Err: errFault})
	e.holds("d/k", "0123456789")
	_, err := e.read("d/l")
	e.fails(err, errFault)
}

func TestFaultyPut(t *testing.T) {
	t.Parallel()
	_, e := faulty(t,
		Fault{Method: "Put", Err: errFault, After: 4},
		Fault{Method: "Put", Err: errFault, After: 400}, // longer than the body: fails at its end
		Fault{Method: "Put", Err: errFault, Lost: true},
	)
	for range 2 {
		_, err := e.try("d/k", "new body", backupstore.PutOptions{})
		e.fails(err, errFault)
		e.holds("d/k", "0123456789")
	}
	_, err := e.try("d/k", "lost", backupstore.PutOptions{})
	e.fails(err, errFault)
	e.holds("d/k", "lost")
}

// TestFaultyLostFailure: an answer that is lost was a failure.
func TestFaultyLostFailure(t *testing.T) {
	t.Parallel()
	_, e := faulty(t, Fault{Method: "Put", Err: errFault, Lost: true})
	_, err := e.try("d/k", "new", backupstore.PutOptions{IfAbsent: true})
	e.fails(err, backupstore.ErrExists)
}

func TestFaultyReads(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		fault Fault
		want  string
		err   error
	}{
		"at once":      {Fault{Err: errFault}, "", errFault},
		"after 4":      {Fault{Err: errFault, After: 4}, "0123", errFault},
		"lost":         {Fault{Err: errFault, Lost: true}, "", errFault},
		"flipped":      {Fault{Flip: true, After: 3}, "0122456789", nil},
		"first byte":   {Fault{Flip: true}, "1123456789", nil},
		"cut":          {Fault{Truncate: true, After: 4}, "0123", nil},
		"cut to none":  {Fault{Truncate: true}, "", nil},
		"cut too late": {Fault{Truncate: true, After: 40}, "0123456789", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x.fault.Method = "Get"
			f, e := faulty(t, x.fault)
			got, err := e.read("d/k")
			e.fails(err, x.err)
			equal(e, "read", got, x.want)
			equal(e, "open readers", f.Open(), 0)
			e.holds("d/k", "0123456789")
		})
	}
}

func TestFaultyOpen(t *testing.T) {
	t.Parallel()
	f, e := faulty(t)
	r, err := f.Get(e.ctx, "d/k")
	e.ok(err)
	equal(e, "open readers", f.Open(), 1)
	e.ok(r.Close())
	e.ok(r.Close())
	equal(e, "open readers", f.Open(), 0)
}

func TestFaultyList(t *testing.T) {
	t.Parallel()
	_, e := faulty(t, Fault{Method: "List", Err: errFault, After: 1})
	all, err := e.list("")
	e.fails(err, errFault)
	equal(e, "objects before the error", len(all), 1)
	e.lists("", "d/k", "d/l")
}

// TestFaultyDelay: a call waits for the hook.
func TestFaultyDelay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f, e := faulty(t, Fault{Method: "Get", Before: cancel})
	r, err := f.Get(ctx, "d/k")
	if err == nil {
		_, err = io.ReadAll(r)
	}
	e.fails(err, context.Canceled)
}
