// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/storage"
)

// dead is a store whose Put of data neither reads nor hears, as one does whose
// network file system is away, until it is released.
type dead struct {
	backupstore.Store
	release chan struct{}
}

func (d dead) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	if strings.Contains(key, "/data/") {
		<-d.release
	}
	return d.Store.Put(ctx, key, body, o)
}

// A backup that is cancelled waits for a store that hangs, but no longer holds
// the table's snapshot: the engine could not free anything behind it.
func TestCreateOnADeadStore(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(r *rig) {
		r.rich(60)
		free := r.freeSnapshots()
		ctx, cancel := context.WithCancel(r.Context())
		store := dead{r.store, make(chan struct{})}
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
