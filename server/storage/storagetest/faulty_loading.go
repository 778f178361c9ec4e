// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Load implements storage.Loader. The load has the faults of Add, Finish and
// Abort.
func (f *Faulty) Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
	l, err := inject(f, "Load", func() (storage.Loading, error) { return f.Engine.Load(ctx, account, def, at) })
	if err != nil {
		return nil, err
	}
	return faultyLoading{l, f}, nil
}

type faultyLoading struct {
	storage.Loading // its Table

	f *Faulty
}

// Add implements storage.Loading.
func (l faultyLoading) Add(ctx context.Context, rows []storage.LoadRow) error {
	_, err := inject(l.f, "Add", func() (any, error) { return nil, l.Loading.Add(ctx, rows) })
	return err
}

// Finish implements storage.Loading.
func (l faultyLoading) Finish(ctx context.Context, progress func(done, total int64)) error {
	_, err := inject(l.f, "Finish", func() (any, error) { return nil, l.Loading.Finish(ctx, progress) })
	return err
}

// Abort implements storage.Loading.
func (l faultyLoading) Abort() error {
	_, err := inject(l.f, "Abort", func() (any, error) { return nil, l.Loading.Abort() })
	return err
}
