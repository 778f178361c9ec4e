// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
)

// endpointCacheMinutes is how long clients may keep the answer: a day.
const endpointCacheMinutes = 1440

// DescribeEndpoints names the address under which the caller reached us, so
// that a client with endpoint discovery stays here.
func (e *Engine) DescribeEndpoints(_ context.Context, _ auth.Identity, in *api.DescribeEndpointsInput, out *api.Body) error {
	return out.JSON(api.DescribeEndpointsOutput{Endpoints: []api.Endpoint{
		{Address: in.Host, CachePeriodInMinutes: endpointCacheMinutes},
	}})
}
