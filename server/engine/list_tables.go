// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strconv"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
)

// maxListedTables is the most names of a page, and how many it has by default.
const maxListedTables = 100

// ListTables lists the names of the caller's tables in byte order, DELETING
// ones too. The name to start after need not be that of a table.
func (e *Engine) ListTables(ctx context.Context, id auth.Identity, in *api.ListTablesInput, out *api.Body) error {
	var c constraints
	c.pattern(in.ExclusiveStartTableName, "exclusiveStartTableName")
	c.length(in.ExclusiveStartTableName, "exclusiveStartTableName", minNameLength, maxNameLength)
	limit := maxListedTables
	if in.Limit != nil {
		limit = int(*in.Limit)
		switch {
		case limit < 1:
			c.value(strconv.Itoa(limit), "limit", ruleMinValue(1))
		case limit > maxListedTables:
			c.value(strconv.Itoa(limit), "limit", ruleMaxValue(maxListedTables))
		}
	}
	if err := c.err(); err != nil {
		return err
	}
	names, more, err := e.store.Tables(ctx, id.Account, orZero(in.ExclusiveStartTableName), limit)
	if err != nil {
		return err
	}
	page := api.ListTablesOutput{TableNames: append([]string{}, names...)} // never null
	if more && len(names) > 0 {
		page.LastEvaluatedTableName = names[len(names)-1]
	}
	return out.JSON(page)
}
