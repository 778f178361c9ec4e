// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"

	"github.com/extenddb/extenddb/server/storage"
)

// Horizon implements storage.Streams.
func (s *Stub) Horizon(ctx context.Context) (int64, error) {
	if s.OnHorizon != nil {
		return s.OnHorizon(ctx)
	}
	return s.Engine.Horizon(ctx)
}

// Records implements storage.Streams.
func (s *Stub) Records(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
	if s.OnRecords != nil {
		return s.OnRecords(ctx, t, after, upTo, limit, bytes)
	}
	return s.Engine.Records(ctx, t, after, upTo, limit, bytes)
}
