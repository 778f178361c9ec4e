// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/jobs"
)

// storeWindow is what a store is given to answer. A call of the system that
// hangs, as on a network file system that is away, ends for no context.
const storeWindow = 5 * time.Second

// servedStore is what serve asks of a store.
type servedStore interface {
	jobs.Sweeper
	Validate(ctx context.Context) error
	Close() error
}

// prepareStoreOf is prepareStore for the store of the settings, if they name
// one.
func prepareStoreOf(ctx context.Context, v values, log *slog.Logger) (wait func(), err error) {
	u, err := storeURL(v)
	if err != nil || u == "" {
		return func() {}, err
	}
	return prepareStore(ctx, u, log, func() (servedStore, error) { return openStore(log, u) })
}

// prepareStore checks the store: a mistake there should show now, not with the
// first backup. A store that is merely out of reach, or hangs, neither keeps
// the database down nor its server from ending. What puts that died left there
// is removed in the background, until ctx ends; wait returns when that is over.
func prepareStore(ctx context.Context, u string, log *slog.Logger, open func() (servedStore, error)) (wait func(), err error) {
	checked, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		s, err := checkServed(ctx, u, log, open)
		if checked <- err; s != nil {
			tidyStore(ctx, u, log, s)
		}
	}()
	late, stop := clock.Real{}.After(storeWindow)
	defer stop()
	select {
	case err = <-checked:
	case <-late:
		log.Warn("backup store cannot be reached", "store", u, "err", "it does not answer")
	}
	return func() {
		late, stop := clock.Real{}.After(storeWindow)
		defer stop()
		select {
		case <-over:
		case <-late: // it ends with the process
		}
	}, err
}

// checkServed opens a store; it is nil when it cannot be used or reached.
func checkServed(ctx context.Context, u string, log *slog.Logger, open func() (servedStore, error)) (servedStore, error) {
	s, err := open()
	if err != nil {
		return nil, err
	}
	switch err := s.Validate(context.WithoutCancel(ctx)); {
	case errors.Is(err, backupstore.ErrUnusable), errors.Is(err, backupstore.ErrPermission):
		return nil, errors.Join(storeError(u, err), s.Close())
	case err != nil:
		log.Warn("backup store cannot be reached", "store", u, "err", err)
		_ = s.Close() // nothing was written
		return nil, nil
	}
	log.Info("backup store", "store", u)
	return s, nil
}

// tidyStore removes what puts left that died, and closes the store.
func tidyStore(ctx context.Context, u string, log *slog.Logger, s servedStore) {
	jobs.SweepStore(ctx, s, clock.Real{}, log.With("store", u))
	if err := s.Close(); err != nil {
		log.Warn("closing the backup store failed", "store", u, "err", err)
	}
}
