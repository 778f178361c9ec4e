// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/storage"
)

// dead is a store in which a call hangs that neither reads nor hears, as when a
// network file system is away, until it is released.
type dead struct {
	backupstore.Store
	call    string // "List", or the object that is put
	release chan struct{}
}

func (d dead) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	if strings.HasSuffix(key, d.call) {
		<-d.release
	}
	return d.Store.Put(ctx, key, body, o)
}

func (d dead) List(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
	if d.call == "List" {
		<-d.release
	}
	return d.Store.List(ctx, prefix)
}

// A backup that is cancelled waits for a store that hangs, but no longer holds
// the table's snapshot: the engine could not free anything behind it.
func TestCreateOnADeadStore(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"List", format.StartedName, "/data/000001.json.gz", "/data/000002.json.gz"} {
		inBubble(t, call, func(r *rig) {
			r.rich(60)
			free := r.freeSnapshots()
			ctx, cancel := context.WithCancel(r.Context())
			store := dead{r.store, call, make(chan struct{})}
			r.env.Store = store
			done := make(chan error)
			go func() {
				_, err := Create(ctx, r.env, r.options("source"))
				done <- err
			}()
			synctest.Wait()
			if n := r.freeSnapshots(); n != free-1 {
				r.Errorf("%d of %d snapshots are free during the backup", n, free)
			}
			cancel()
			synctest.Wait()
			if n := r.freeSnapshots(); n != free {
				r.Errorf("%d of %d snapshots are free after it was cancelled", n, free)
			}
			close(store.release)
			err := <-done
			wantError(r.T, err, Interrupted)
			r.env.Store = r.store
			r.settled(nil, err)
		})
	}
}

// late is a store in which a Put reads its body and fails when it is told to.
type late struct {
	backupstore.Store
	object string
	fail   chan struct{}
}

func (l late) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	if !strings.HasSuffix(key, l.object) {
		return l.Store.Put(ctx, key, body, o)
	}
	_, err := io.Copy(io.Discard, body)
	<-l.fail
	return backupstore.PutResult{}, errors.Join(errFault, err)
}

// A Put that hangs while another one fails holds no snapshot either.
func TestCreateFailsBesideADeadPut(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		free := r.freeSnapshots()
		fail := make(chan struct{})
		store := dead{late{r.store, "/data/000001.json.gz", fail}, "/data/000002.json.gz", make(chan struct{})}
		r.env.Store = store
		done := make(chan error)
		go func() {
			_, err := Create(r.Context(), r.env, r.options("source"))
			done <- err
		}()
		synctest.Wait()
		close(fail)
		synctest.Wait()
		if n := r.freeSnapshots(); n != free {
			r.Errorf("%d of %d snapshots are free after a Put failed", n, free)
		}
		close(store.release)
		err := <-done
		wantError(r.T, err, Failed, "injected fault")
		r.settled(nil, err)
	})
}

// freeSnapshots counts how many may still be opened.
func (r *rig) freeSnapshots() int {
	r.Helper()
	var open []storage.Snapshot
	for {
		s, err := r.engine.Snapshot(context.WithoutCancel(r.Context()), account, "source")
		if err != nil {
			if !errors.Is(err, storage.ErrTooManySnapshots) {
				r.Error(err)
			}
			break
		}
		open = append(open, s)
	}
	for _, s := range open {
		if err := s.Close(); err != nil {
			r.Error(err)
		}
	}
	return len(open)
}
