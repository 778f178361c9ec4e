// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
)

// The quotas the service reports of a new account. They are told, not enforced.
const (
	accountMaxUnits = 80_000
	tableMaxUnits   = 40_000
)

// DescribeLimits tells the account's capacity quotas.
func (e *Engine) DescribeLimits(_ context.Context, _ auth.Identity, _ *api.DescribeLimitsInput, out *api.Body) error {
	return out.JSON(api.DescribeLimitsOutput{
		AccountMaxReadCapacityUnits: accountMaxUnits, AccountMaxWriteCapacityUnits: accountMaxUnits,
		TableMaxReadCapacityUnits: tableMaxUnits, TableMaxWriteCapacityUnits: tableMaxUnits,
	})
}
