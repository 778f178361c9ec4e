// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/storetest"
	"github.com/extenddb/extenddb/server/admin"
	"github.com/extenddb/extenddb/server/jobs"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// administered starts a server with an admin socket and one table.
func administered(t *testing.T, w *watched, drain time.Duration) (*running, *admin.Client) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := admin.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	store := storetest.NewMemory()
	r := start(t, Options{
		Storage: w, Admin: l, Backend: "memory", Version: "1.2.3", Drain: drain,
		OpenStore: func(context.Context, string) (backupstore.Store, error) { return store, nil },
	})
	r.want(200, "films", "CreateTable", create)
	r.want(200, "{}", "PutItem", put)
	c := admin.NewClient(socket)
	t.Cleanup(c.Close)
	return r, c
}

func TestJobsOverTheSocket(t *testing.T) {
	t.Parallel()
	w := newWatched()
	close(w.leave)
	r, c := administered(t, w, time.Minute)
	if v, err := c.Version(t.Context()); v != "1.2.3" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
	raw, err := c.Run(t.Context(), jobs.KindBackup, jobs.BackupParams{Store: "mem:", All: true}, nil)
	if err != nil || !strings.Contains(string(raw), `"backups":[{"arn":"arn:aws:dynamodb:us-east-1:`) {
		t.Fatalf("backup: %s, %v", raw, err)
	}
	raw, err = c.Run(t.Context(), jobs.KindRestore, jobs.RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy"}, nil)
	if err != nil || !strings.Contains(string(raw), `"items":1`) {
		t.Fatalf("restore: %s, %v", raw, err)
	}
	r.want(200, `{"Item":{"id":{"S":"a"},"n":{"N":"1.5"}}}`, "GetItem", strings.Replace(get, "films", "copy", 1))
	shown, err := c.Jobs(t.Context())
	if err != nil || len(shown) != 2 || shown[0].State != progress.Done || shown[1].State != progress.Done {
		t.Errorf("the board shows %+v, %v", shown, err)
	}
	r.stop()
	if err := <-r.result; err != nil {
		t.Error(err)
	}
	if _, err := c.Version(t.Context()); !errors.Is(err, admin.ErrNoServer) {
		t.Errorf("after the end: %v", err)
	}
}

func TestStopEndsJobs(t *testing.T) {
	t.Parallel()
	w := newWatched()
	r, c := administered(t, w, time.Minute)
	entered := make(chan struct{})
	w.snapshot = func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), jobs.KindBackup, jobs.BackupParams{Store: "mem:", All: true}, nil)
		failed <- err
	}()
	<-entered
	r.stop()
	var je *admin.JobError
	if err := <-failed; !errors.As(err, &je) || je.Code != "interrupted" || je.Message != "interrupted: the server is stopping" {
		t.Errorf("got %v", err)
	}
	if err := <-r.result; err != nil {
		t.Error(err)
	}
}

func TestStopWaitsForJobsWithinTheWindow(t *testing.T) {
	t.Parallel()
	w := newWatched()
	r, c := administered(t, w, time.Millisecond)
	entered, leave := make(chan struct{}), make(chan struct{})
	w.snapshot = func(context.Context) error {
		close(entered)
		<-leave // deaf
		return errors.New("too late")
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), jobs.KindBackup, jobs.BackupParams{Store: "mem:", All: true}, nil)
		failed <- err
	}()
	<-entered
	r.stop()
	if err := <-r.result; err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, admin.ErrGone) {
		t.Errorf("got %v", err)
	}
	if log := r.log.String(); !strings.Contains(log, "serving the admin socket failed") || !strings.Contains(log, "jobs did not stop within 1ms") {
		t.Errorf("log: %s", log)
	}
	close(leave)
}

func TestServesWithoutTheSocket(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, Options{Storage: newWatched(), Admin: l})
	r.want(200, "films", "CreateTable", create)
	r.stop()
	if err := <-r.result; err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "serving the admin socket failed") {
		t.Errorf("log: %s", r.log)
	}
}

// Snapshot runs the hook first.
func (w *watched) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	if w.snapshot != nil {
		if err := w.snapshot(ctx); err != nil {
			return nil, err
		}
	}
	return w.Engine.Snapshot(ctx, account, table)
}
