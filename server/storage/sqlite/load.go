// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Load implements storage.Loader.
func (db *DB) Load(context.Context, string, ddb.TableDefinition, time.Time) (storage.Loading, error) {
	return nil, storage.ErrUnsupported
}
