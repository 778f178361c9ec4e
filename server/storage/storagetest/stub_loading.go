// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Load implements storage.Loader.
func (s *Stub) Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
	if s.OnLoad != nil {
		return s.OnLoad(ctx, account, def, at)
	}
	return s.Engine.Load(ctx, account, def, at)
}

// StubLoading is a load of which any method may be replaced. Nil fields go to
// Loading.
type StubLoading struct {
	storage.Loading

	OnTable  func() *storage.Table
	OnAdd    func(ctx context.Context, rows []storage.LoadRow) error
	OnFinish func(ctx context.Context, progress func(done, total int64)) error
	OnAbort  func() error
}

// Table implements storage.Loading.
func (s *StubLoading) Table() *storage.Table {
	if s.OnTable != nil {
		return s.OnTable()
	}
	return s.Loading.Table()
}

// Add implements storage.Loading.
func (s *StubLoading) Add(ctx context.Context, rows []storage.LoadRow) error {
	if s.OnAdd != nil {
		return s.OnAdd(ctx, rows)
	}
	return s.Loading.Add(ctx, rows)
}

// Finish implements storage.Loading.
func (s *StubLoading) Finish(ctx context.Context, progress func(done, total int64)) error {
	if s.OnFinish != nil {
		return s.OnFinish(ctx, progress)
	}
	return s.Loading.Finish(ctx, progress)
}

// Abort implements storage.Loading.
func (s *StubLoading) Abort() error {
	if s.OnAbort != nil {
		return s.OnAbort()
	}
	return s.Loading.Abort()
}
