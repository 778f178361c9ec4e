// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/storetest"
)

var steps = []string{"list", "put", "get", "head", "overwrite", "put_if_absent", "put_if_match", "delete"}

// checked runs Check on a store that holds another object, and expects the
// store to be as it was.
func checked(t *testing.T, faults ...storetest.Fault) map[string]backupstore.Probe {
	t.Helper()
	m := storetest.NewMemory()
	f := storetest.NewFaulty(m)
	if _, err := m.Put(t.Context(), "mine", strings.NewReader("x"), backupstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Inject(faults...)
	probes := check(t, t.Context(), f)
	for meta := range m.List(t.Context(), "") {
		if meta.Key != "mine" {
			t.Errorf("left behind: %s", meta.Key)
		}
	}
	if n := f.Open(); n != 0 {
		t.Errorf("%d readers are open", n)
	}
	return probes
}

func check(t *testing.T, ctx context.Context, s backupstore.Store) map[string]backupstore.Probe {
	t.Helper()
	probes := map[string]backupstore.Probe{}
	for i, p := range backupstore.Check(ctx, s) {
		if p.Step != steps[i] || p.OK != (p.Error == "") {
			t.Errorf("step %d: %+v", i, p)
		}
		probes[p.Step] = p
	}
	if len(probes) != len(steps) {
		t.Errorf("%d steps", len(probes))
	}
	return probes
}

func TestCheckSound(t *testing.T) {
	t.Parallel()
	for name, p := range checked(t) {
		if !p.OK || p.Missing != "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestCheckFaults: each step tells its own failure, and which right it needs.
func TestCheckFaults(t *testing.T) {
	t.Parallel()
	denied := fmt.Errorf("%w: the policy says no", backupstore.ErrPermission)
	broken := errors.New("out of order")
	for _, x := range []struct {
		step    string
		fault   storetest.Fault
		missing string
	}{
		{"list", storetest.Fault{Method: "List"}, "to list objects"},
		{"get", storetest.Fault{Method: "Get"}, "to read objects"},
		{"get", storetest.Fault{Method: "Get", After: 3}, "to read objects"},
		{"head", storetest.Fault{Method: "Head"}, "to read objects"},
		{"overwrite", storetest.Fault{Method: "Put", Skip: 1}, "to replace objects"},
		{"overwrite", storetest.Fault{Method: "Get", Skip: 1}, "to replace objects"},
		{"put_if_absent", storetest.Fault{Method: "Put", Skip: 2}, "to write objects"},
		{"put_if_absent", storetest.Fault{Method: "Put", Skip: 3}, "to write objects"},
		{"put_if_match", storetest.Fault{Method: "Put", Skip: 4}, "to replace objects"},
		{"put_if_match", storetest.Fault{Method: "Put", Skip: 5}, "to replace objects"},
		{"put_if_match", storetest.Fault{Method: "Put", Skip: 6}, "to replace objects"},
		{"delete", storetest.Fault{Method: "DeletePrefix"}, "to delete objects"},
		{"delete", storetest.Fault{Method: "List", Skip: 1}, "to delete objects"},
	} {
		for _, err := range []error{denied, broken} {
			x.fault.Err = err
			for name, p := range checked(t, x.fault) {
				wanted := backupstore.Probe{Step: name, OK: true}
				if name == x.step {
					wanted = backupstore.Probe{Step: name, Error: p.Error}
					if err == denied {
						wanted.Missing = x.missing
					}
				}
				if p != wanted || name == x.step && !strings.Contains(p.Error, err.Error()) {
					t.Errorf("%s with %+v: %+v", name, x.fault, p)
				}
			}
		}
	}
}

func TestCheckNothingCanBePut(t *testing.T) {
	t.Parallel()
	probes := checked(t, storetest.Fault{Method: "Put", Err: backupstore.ErrPermission, Times: -1})
	for i, step := range steps {
		p := probes[step]
		switch {
		case i == 0 && !p.OK, i == 1 && p.Missing != "to write objects", i > 1 && p.Error != "not tried: nothing could be put":
			t.Errorf("%+v", p)
		}
	}
}

// TestCheckLostPut: a put that failed may have stored all the same.
func TestCheckLostPut(t *testing.T) {
	t.Parallel()
	checked(t, storetest.Fault{Method: "Put", Err: errors.New("no answer"), Lost: true})
}

func TestCheckCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := storetest.NewMemory()
	f := storetest.NewFaulty(m)
	f.Inject(storetest.Fault{Method: "Get", Before: cancel})
	probes := check(t, ctx, f)
	if !probes["put"].OK || probes["get"].OK || probes["delete"].OK {
		t.Errorf("%+v", probes)
	}
	for meta := range m.List(t.Context(), "") {
		t.Errorf("left behind: %s", meta.Key)
	}
}

// careless is a store that ignores or forgets what Check must notice.
type careless struct {
	*storetest.Memory
	o        func(o *backupstore.PutOptions)
	get      func(key string) (io.ReadCloser, error)
	head     func(m *backupstore.ObjectMeta) *backupstore.ObjectMeta
	noDelete bool
}

func (c *careless) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	if c.o != nil {
		c.o(&o)
	}
	return c.Memory.Put(ctx, key, body, o)
}

func (c *careless) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if c.get != nil {
		return c.get(key)
	}
	return c.Memory.Get(ctx, key)
}

func (c *careless) Head(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
	m, err := c.Memory.Head(ctx, key)
	if c.head != nil && m != nil {
		m = c.head(m)
	}
	return m, err
}

func (c *careless) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if c.noDelete {
		return 1, nil
	}
	return c.Memory.DeletePrefix(ctx, prefix)
}

func TestCheckNotices(t *testing.T) {
	t.Parallel()
	stale := func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("extenddb store check, first version")), nil
	}
	for _, x := range []struct {
		step, want string
		store      careless
	}{
		{"put_if_absent", "ignores the condition", careless{o: func(o *backupstore.PutOptions) { o.IfAbsent = false }}},
		{"put_if_match", "ignores the condition", careless{o: func(o *backupstore.PutOptions) { o.IfMatch = "" }}},
		{"overwrite", "does not return what was put last", careless{get: stale}},
		{"head", "does not find", careless{head: func(*backupstore.ObjectMeta) *backupstore.ObjectMeta { return nil }}},
		{"head", "reports 7 bytes", careless{head: func(m *backupstore.ObjectMeta) *backupstore.ObjectMeta { m.Size = 7; return m }}},
		{"head", "last modified", careless{head: func(m *backupstore.ObjectMeta) *backupstore.ObjectMeta {
			return &backupstore.ObjectMeta{Key: m.Key, Size: m.Size}
		}}},
		{"delete", "still lists", careless{noDelete: true}},
	} {
		x.store.Memory = storetest.NewMemory()
		for name, p := range check(t, t.Context(), &x.store) {
			if p.OK == (name == x.step) || name == x.step && !strings.Contains(p.Error, x.want) {
				t.Errorf("%s of a store that %s at %s: %+v", name, x.want, x.step, p)
			}
		}
	}
}

func TestProbeJSON(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal([]backupstore.Probe{{Step: "list", OK: true}, {Step: "put", Error: "no", Missing: "to write objects"}})
	if want := `[{"step":"list","ok":true},{"step":"put","ok":false,"error":"no","missing":"to write objects"}]`; string(b) != want || err != nil {
		t.Errorf("%s, %v", b, err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	if err := error(&backupstore.IOError{Op: "write k", Err: cause}); !errors.Is(err, cause) || err.Error() != "write k: cause" {
		t.Error(err)
	}
	if err := error(&backupstore.UnusableError{Text: "root x is not usable", Err: cause}); !errors.Is(err, cause) ||
		!errors.Is(err, backupstore.ErrUnusable) || err.Error() != "root x is not usable: cause" {
		t.Error(err)
	}
	if err := error(&backupstore.UnusableError{Text: "no root"}); !errors.Is(err, backupstore.ErrUnusable) || err.Error() != "no root" {
		t.Error(err)
	}
	if (backupstore.PutOptions{IfAbsent: true, IfMatch: "x"}).Check() == nil || (backupstore.PutOptions{IfMatch: "x"}).Check() != nil {
		t.Error("options are judged wrongly")
	}
}
