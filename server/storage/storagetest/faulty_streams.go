// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"

	"github.com/extenddb/extenddb/server/storage"
)

// Horizon implements storage.Streams.
func (f *Faulty) Horizon(ctx context.Context) (int64, error) {
	return inject(f, "Horizon", func() (int64, error) { return f.Engine.Horizon(ctx) })
}

// Records implements storage.Streams.
func (f *Faulty) Records(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
	return inject(f, "Records", func() ([]storage.Record, error) {
		return f.Engine.Records(ctx, t, after, upTo, limit, bytes)
	})
}
