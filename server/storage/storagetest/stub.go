// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"iter"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Stub is an engine of which any method may be replaced: for tests that need
// an answer that a sound engine would not give. Nil fields go to Engine.
type Stub struct {
	storage.Engine

	OnPing        func(ctx context.Context) error
	OnClose       func() error
	OnCreateTable func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error)
	OnUpdateTable func(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error)
	OnTable       func(ctx context.Context, account, name string) (*storage.Table, error)
	OnDescribe    func(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error)
	OnTables      func(ctx context.Context, account, after string, limit int) ([]string, bool, error)
	OnDropTable   func(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error)
	OnWrite       func(ctx context.Context, w storage.Write) (storage.Result, error)
	OnWriteEach   func(ctx context.Context, ws []storage.Write) []storage.Result
	OnWriteAll    func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error)
	OnGet         func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error)
	OnGetAll      func(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error)
	OnRange       func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error]
	OnSample      func(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) ([]storage.Position, error)
	OnPending     func(ctx context.Context, now time.Time) ([]storage.Work, error)
	OnClaim       func(ctx context.Context, w storage.Work) (storage.Lease, error)
	OnOnWork      func(wake func())
	OnHorizon     func(ctx context.Context) (int64, error)
	OnRecords     func(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error)
	OnSnapshot    func(ctx context.Context, account, table string) (storage.Snapshot, error)
	OnLoad        func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error)
}

// Ping implements storage.Lifecycle.
func (s *Stub) Ping(ctx context.Context) error {
	if s.OnPing != nil {
		return s.OnPing(ctx)
	}
	return s.Engine.Ping(ctx)
}

// Close implements storage.Lifecycle.
func (s *Stub) Close() error {
	if s.OnClose != nil {
		return s.OnClose()
	}
	return s.Engine.Close()
}

// CreateTable implements storage.Catalog.
func (s *Stub) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
	if s.OnCreateTable != nil {
		return s.OnCreateTable(ctx, account, def, at)
	}
	return s.Engine.CreateTable(ctx, account, def, at)
}

// UpdateTable implements storage.Catalog.
func (s *Stub) UpdateTable(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error) {
	if s.OnUpdateTable != nil {
		return s.OnUpdateTable(ctx, account, name, change)
	}
	return s.Engine.UpdateTable(ctx, account, name, change)
}

// Table implements storage.Catalog.
func (s *Stub) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	if s.OnTable != nil {
		return s.OnTable(ctx, account, name)
	}
	return s.Engine.Table(ctx, account, name)
}

// Describe implements storage.Catalog.
func (s *Stub) Describe(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
	if s.OnDescribe != nil {
		return s.OnDescribe(ctx, account, name)
	}
	return s.Engine.Describe(ctx, account, name)
}

// Tables implements storage.Catalog.
func (s *Stub) Tables(ctx context.Context, account, after string, limit int) ([]string, bool, error) {
	if s.OnTables != nil {
		return s.OnTables(ctx, account, after, limit)
	}
	return s.Engine.Tables(ctx, account, after, limit)
}

// DropTable implements storage.Catalog.
func (s *Stub) DropTable(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
	if s.OnDropTable != nil {
		return s.OnDropTable(ctx, account, name, check)
	}
	return s.Engine.DropTable(ctx, account, name, check)
}

// Write implements storage.Writer.
func (s *Stub) Write(ctx context.Context, w storage.Write) (storage.Result, error) {
	if s.OnWrite != nil {
		return s.OnWrite(ctx, w)
	}
	return s.Engine.Write(ctx, w)
}

// WriteEach implements storage.Writer.
func (s *Stub) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	if s.OnWriteEach != nil {
		return s.OnWriteEach(ctx, ws)
	}
	return s.Engine.WriteEach(ctx, ws)
}

// WriteAll implements storage.Writer.
func (s *Stub) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
	if s.OnWriteAll != nil {
		return s.OnWriteAll(ctx, ws, token)
	}
	return s.Engine.WriteAll(ctx, ws, token)
}

// Get implements storage.Reader.
func (s *Stub) Get(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
	if s.OnGet != nil {
		return s.OnGet(ctx, t, k)
	}
	return s.Engine.Get(ctx, t, k)
}

// GetAll implements storage.Reader.
func (s *Stub) GetAll(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error) {
	if s.OnGetAll != nil {
		return s.OnGetAll(ctx, ks, budget)
	}
	return s.Engine.GetAll(ctx, ks, budget)
}

// Range implements storage.Reader.
func (s *Stub) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	if s.OnRange != nil {
		return s.OnRange(ctx, t, r)
	}
	return s.Engine.Range(ctx, t, r)
}

// Sample implements storage.Reader.
func (s *Stub) Sample(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) ([]storage.Position, error) {
	if s.OnSample != nil {
		return s.OnSample(ctx, t, ix, now)
	}
	return s.Engine.Sample(ctx, t, ix, now)
}

// Pending implements storage.Maintainer.
func (s *Stub) Pending(ctx context.Context, now time.Time) ([]storage.Work, error) {
	if s.OnPending != nil {
		return s.OnPending(ctx, now)
	}
	return s.Engine.Pending(ctx, now)
}

// Claim implements storage.Maintainer.
func (s *Stub) Claim(ctx context.Context, w storage.Work) (storage.Lease, error) {
	if s.OnClaim != nil {
		return s.OnClaim(ctx, w)
	}
	return s.Engine.Claim(ctx, w)
}

// OnWork implements storage.Maintainer.
func (s *Stub) OnWork(wake func()) {
	if s.OnOnWork != nil {
		s.OnOnWork(wake)
		return
	}
	s.Engine.OnWork(wake)
}
