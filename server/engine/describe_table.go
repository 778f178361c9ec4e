// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
)

// DescribeTable tells the definition, status and statistics of a table.
func (e *Engine) DescribeTable(ctx context.Context, id auth.Identity, in *api.DescribeTableInput, out *api.Body) error {
	name, err := e.controlTable(id, in.TableName)
	if err != nil {
		return err
	}
	t, stats, err := e.store.Describe(ctx, id.Account, name)
	if err != nil {
		return controlFault(err, name)
	}
	return out.JSON(api.DescribeTableOutput{Table: e.describe(t, stats)})
}
