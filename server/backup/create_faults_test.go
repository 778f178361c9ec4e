// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/storetest"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

var errFault = errors.New("injected fault")

// inBubble runs a test where a goroutine that is left behind fails it.
func inBubble(t *testing.T, name string, test func(r *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(newRig(t)) })
	})
}

// settled fails the test unless, after a Create that ended with err, the store
// holds a complete backup or nothing at all, and the engine no open snapshot.
func (r *rig) settled(s *Summary, err error) {
	r.Helper()
	list := r.listed()
	switch {
	case err == nil:
		if len(list) != 1 || list[0] != *s {
			r.Errorf("listed %+v, want %+v", list, s)
			return
		}
		r.verifies(s.ref())
	case len(list) > 0:
		r.Errorf("failed with %v but listed %+v", err, list)
	case len(r.keys()) > 0:
		r.Errorf("failed with %v and left %q", err, r.keys())
	}
	for range 3 { // a slot that leaks is missed before long
		snap, err := r.engine.Snapshot(context.WithoutCancel(r.Context()), account, "source")
		if err != nil {
			r.Fatalf("snapshot: %v", err)
		}
		if err := snap.Close(); err != nil {
			r.Fatal(err)
		}
	}
}

// callsOf counts the calls of a method that a Create of 60 items makes.
func callsOf(t *testing.T, method string) (calls int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rich(60)
		r.create("source")
		calls = r.store.Calls(method)
	})
	return calls
}

// Every call of the store may fail: at once, in the middle, or after it was
// carried out.
func TestCreateStoreFaults(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Put", "List"} {
		calls := callsOf(t, method)
		if calls == 0 {
			t.Fatalf("no call of %s", method)
		}
		for skip := range calls {
			for kind, f := range map[string]storetest.Fault{
				"at once": {}, "after 1 byte": {After: 1}, "after 300 bytes": {After: 300}, "answer lost": {Lost: true},
			} {
				if method == "List" && kind != "at once" {
					continue
				}
				f.Method, f.Skip, f.Err = method, skip, errFault
				inBubble(t, fmt.Sprint(method, " ", skip, " ", kind), func(r *rig) {
					r.rich(60)
					r.store.Inject(f)
					s, err := Create(r.Context(), r.env, r.options("source"))
					if left := r.store.Unused(); len(left) > 0 {
						r.Fatalf("not met: %q", left)
					}
					if err != nil {
						wantError(r.T, err, Failed, "injected fault")
						r.checkState(progress.Failed)
					}
					if manifest := skip == calls-1 && method == "Put"; manifest && kind == "answer lost" && err != nil {
						r.Errorf("the manifest was written, but: %v", err)
					}
					r.settled(s, err)
				})
			}
		}
	}
}

// checkState fails the test unless the last event has the state.
func (r *rig) checkState(want progress.State) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.events[len(r.events)-1]; last.State != want || (want == progress.Failed) != (last.Error != "") {
		r.Errorf("last event %+v, want %s", last, want)
	}
}

// What cannot be removed is named, and is no backup.
func TestCreateCleanUpFails(t *testing.T) {
	t.Parallel()
	for name, skip := range map[string]int{"manifest": 0, "the rest": 1} {
		inBubble(t, name, func(r *rig) {
			r.rich(60)
			r.store.Inject(storetest.Fault{Method: "Put", Key: "data/000003", Err: backupstore.ErrPermission},
				storetest.Fault{Method: "DeletePrefix", Skip: skip, Err: errFault, Times: -1})
			_, err := Create(r.Context(), r.env, r.options("source"))
			wantError(r.T, err, Denied, "data/000003", "permission denied", "could not be removed", "123456789012/source/01773500966535-", "injected fault")
			if len(r.listed()) > 0 {
				r.Errorf("listed %+v", r.listed())
			}
			prefixes, err := Unfinished(r.Context(), r.env)
			if err != nil || len(prefixes) != 1 {
				r.Errorf("unfinished %q, %v", prefixes, err)
			}
		})
	}
}

// When nobody can tell whether the manifest was written, nothing is removed
// that a manifest may name.
func TestCreateManifestInDoubt(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		r.store.Inject(storetest.Fault{Method: "Put", Key: "extenddb-manifest", Err: errFault, Lost: true},
			storetest.Fault{Method: "Get", Err: errFault}, storetest.Fault{Method: "DeletePrefix", Err: errFault})
		_, err := Create(r.Context(), r.env, r.options("source"))
		wantError(r.T, err, Failed, "could not be removed")
		list := r.listed()
		if len(list) != 1 {
			r.Fatalf("listed %+v", list)
		}
		r.verifies(list[0].ref())
	})
}

func TestCreateEngineFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault storagetest.Fault
		code  Code
	}{
		"no snapshot":         {storagetest.Fault{Method: "Snapshot", Err: storage.ErrTooManySnapshots}, Busy},
		"unsupported":         {storagetest.Fault{Method: "Snapshot", Err: storage.ErrUnsupported}, Refused},
		"first row":           {storagetest.Fault{Method: "Rows", Err: storage.ErrCorrupt}, Failed},
		"within a file":       {storagetest.Fault{Method: "Rows", After: 3, Err: storage.ErrCorrupt}, Failed},
		"within a later file": {storagetest.Fault{Method: "Rows", After: 33, Err: storage.ErrSnapshotExpired}, Busy},
		"at the end":          {storagetest.Fault{Method: "Rows", After: 60, Err: storage.ErrUnavailable}, Failed},
		"engine closed":       {storagetest.Fault{Method: "Rows", After: 5, Err: storage.ErrClosed}, Interrupted},
	} {
		inBubble(t, name, func(r *rig) {
			r.rich(60)
			r.engine.Inject(c.fault)
			s, err := Create(r.Context(), r.env, r.options("source"))
			wantError(r.T, err, c.code, "source", c.fault.Err.Error())
			if left := r.engine.Unused(); len(left) > 0 {
				r.Fatalf("not met: %q", left)
			}
			r.settled(s, err)
		})
	}
	inBubble(t, "a snapshot that does not close is no failure", func(r *rig) {
		r.rich(60)
		r.engine.Inject(storagetest.Fault{Method: "Snapshot.Close", Err: errFault, Times: 2})
		s := r.create("source")
		r.settled(s, nil)
		if !strings.Contains(r.log.String(), "cannot close snapshot") {
			r.Errorf("log %s", r.log)
		}
	})
}

// Cancelling in any call of the store ends in order: interrupted and nothing
// left, or too late and complete.
func TestCreateCancelled(t *testing.T) {
	t.Parallel()
	calls := callsOf(t, "Put")
	for skip := range calls {
		inBubble(t, fmt.Sprint("put ", skip), func(r *rig) {
			r.rich(60)
			ctx, cancel := context.WithCancel(r.Context())
			r.store.Inject(storetest.Fault{Method: "Put", Skip: skip, Before: cancel})
			s, err := Create(ctx, r.env, r.options("source"))
			wantError(r.T, err, Interrupted)
			r.checkState(progress.Cancelled)
			r.settled(s, err)
		})
	}
	for after := range 6 {
		inBubble(t, fmt.Sprint("row ", 10*after), func(r *rig) {
			r.rich(60)
			ctx, cancel := context.WithCancel(r.Context())
			engine := cancelAt{r.engine, 10 * after, cancel}
			o := r.options("source")
			o.Source = engine
			s, err := Create(ctx, r.env, o)
			wantError(r.T, err, Interrupted)
			r.settled(s, err)
		})
	}
	inBubble(t, "before", func(r *rig) {
		r.rich(60)
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		s, err := Create(ctx, r.env, r.options("source"))
		wantError(r.T, err, Interrupted)
		r.settled(s, err)
	})
}

// stuck is a store whose Put of data waits for its context, as one does that
// waits for a network.
type stuck struct{ backupstore.Store }

func (s stuck) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	if !strings.Contains(key, "/data/") {
		return s.Store.Put(ctx, key, body, o)
	}
	<-ctx.Done()
	return backupstore.PutResult{}, context.Cause(ctx)
}

// A store that does not answer holds the backup up no longer than its context.
func TestCreateOnAStuckStore(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		ctx, cancel := context.WithCancel(r.Context())
		r.env.Store = stuck{r.store}
		done := make(chan error)
		go func() {
			_, err := Create(ctx, r.env, r.options("source"))
			done <- err
		}()
		synctest.Wait() // nothing moves any more
		cancel()
		err := <-done
		wantError(r.T, err, Interrupted)
		r.settled(nil, err)
	})
}

// short is a store that loses the end of what it is given and says so only by
// the size.
type short struct{ backupstore.Store }

func (s short) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	res, err := s.Store.Put(ctx, key, body, o)
	res.Size -= res.Size / 100
	return res, err
}

func TestCreateOnAShortStore(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		r.env.Store = short{r.store}
		s, err := Create(r.Context(), r.env, r.options("source"))
		wantError(r.T, err, Failed, "data/00000", "bytes of")
		r.settled(s, err)
	})
}

// ends is a store that notes how the bodies of data files end.
type ends struct {
	backupstore.Store
	mu   sync.Mutex
	errs []error
}

func (e *ends) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	if strings.Contains(key, "/data/") {
		b, err := io.ReadAll(body)
		e.mu.Lock()
		e.errs = append(e.errs, err)
		e.mu.Unlock()
		body = bytes.NewReader(b)
	}
	return e.Store.Put(context.WithoutCancel(ctx), key, body, o)
}

// A backup that fails never lets a store take what there is for all there is.
func TestCreateFailsItsBodies(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		r.env.Limits.TargetBytes = 1 << 20 // one file
		store := &ends{Store: r.store}
		r.env.Store = store
		r.engine.Inject(storagetest.Fault{Method: "Rows", After: 50, Err: storage.ErrCorrupt})
		_, err := Create(r.Context(), r.env, r.options("source"))
		wantError(r.T, err, Failed, "storage is corrupt")
		if len(store.errs) != 1 || !errors.Is(store.errs[0], storage.ErrCorrupt) {
			r.Errorf("bodies ended with %v", store.errs)
		}
	})
}

// A manifest that appears out of nowhere is not replaced, and nothing it may
// name is removed.
func TestCreateManifestOfAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		var before []string
		r.store.Inject(storetest.Fault{Method: "Put", Key: "extenddb-manifest", Before: func() {
			if before == nil {
				before = append(r.keys(), "")
				r.put(strings.Replace(before[0], "_started", "extenddb-manifest.json", 1), "theirs")
			}
		}})
		_, err := Create(r.Context(), r.env, r.options("source"))
		wantError(r.T, err, Failed, "another program writes to 123456789012/source/", "nothing there was removed")
		if after := r.keys(); len(after) != len(before) {
			r.Errorf("before %q, after %q", before, after)
		}
	})
}

// An id that is taken is not used again, neither by objects nor by a _started
// that appears in the last moment.
func TestCreateIDTaken(t *testing.T) {
	t.Parallel()
	const first = "123456789012/source/01773500966535-00000001/"
	random := func() io.Reader { return strings.NewReader("\x00\x00\x00\x01\x00\x00\x00\x02") }
	put := func(r *rig, key string) {
		if _, err := r.store.Put(r.Context(), key, strings.NewReader(""), backupstore.PutOptions{}); err != nil {
			r.Error(err)
		}
	}
	inBubble(t, "objects", func(r *rig) {
		r.rich(1)
		put(r, first+"data/000001.json.gz")
		r.env.Random = random()
		if s := r.create("source"); s.ID != "01773500966535-00000002" {
			r.Errorf("id %s", s.ID)
		}
	})
	inBubble(t, "at the same time", func(r *rig) {
		r.rich(1)
		r.env.Random = random()
		r.store.Inject(storetest.Fault{Method: "Put", Before: func() { put(r, first+"_started") }})
		s := r.create("source")
		if s.ID != "01773500966535-00000002" || r.keys()[0] != first+"_started" {
			r.Errorf("id %s, objects %q", s.ID, r.keys())
		}
	})
	inBubble(t, "always", func(r *rig) {
		r.rich(1)
		put(r, first+"_started")
		r.env.Random = strings.NewReader(strings.Repeat("\x00\x00\x00\x01", idAttempts))
		_, err := Create(r.Context(), r.env, r.options("source"))
		wantError(r.T, err, Failed, "10 backup ids")
	})
	inBubble(t, "no random numbers", func(r *rig) {
		r.rich(1)
		r.env.Random = strings.NewReader("")
		_, err := Create(r.Context(), r.env, r.options("source"))
		wantError(r.T, err, Failed, "choose a backup id")
		r.settled(nil, err)
	})
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *CreateOptions)
		code   Code
		text   string
	}{
		"bad table name":  {func(o *CreateOptions) { o.Table = "a/b" }, Invalid, `table name "a/b" is not valid`},
		"no such table":   {func(o *CreateOptions) { o.Table = "Source" }, NotFound, `open snapshot of table "Source": no such table`},
		"bad backup name": {func(o *CreateOptions) { o.Name = "a b" }, Invalid, `backup name "a b" is not valid`},
		"bad region":      {func(o *CreateOptions) { o.Region = "a:b" }, Invalid, `region "a:b" is not valid`},
		"bad account":     {func(o *CreateOptions) { o.Account = "12" }, NotFound, "no such table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.rich(1)
			o := r.options("source")
			c.change(&o)
			s, err := Create(t.Context(), r.env, o)
			wantError(t, err, c.code, c.text)
			r.settled(s, err)
		})
	}
	t.Run("an account that is no number", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		if _, err := r.engine.CreateTable(t.Context(), "local", onDemand("source", "pk", "pk:S"), r.clock.Now()); err != nil {
			t.Fatal(err)
		}
		o := r.options("source")
		o.Account = "local"
		_, err := Create(t.Context(), r.env, o)
		wantError(t, err, Invalid, `account "local" and table "source" cannot name a backup`)
	})
	t.Run("disk full", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.rich(10)
		r.store.Inject(storetest.Fault{Method: "Put", Skip: 1, Err: &backupstore.IOError{Op: "write x", Err: syscall.ENOSPC}})
		s, err := Create(t.Context(), r.env, r.options("source"))
		wantError(t, err, Failed, "write x: no space left on device")
		if e, _ := errors.AsType[*Error](err); !strings.Contains(e.Hint, "no space") {
			t.Errorf("hint %q", e.Hint)
		}
		r.settled(s, err)
	})
}
