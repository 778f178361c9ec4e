// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	stillInUse     = "Attempt to change a resource which is still in use: "
	tableProtected = "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first."
)

// DeleteTable marks a table DELETING: from then on its rows are out of reach,
// and the job runner removes them. Like the service's answer to a table that is
// DELETING already, ours is ResourceInUseException.
func (e *Engine) DeleteTable(ctx context.Context, id auth.Identity, in *api.DeleteTableInput, out *api.Body) error {
	name, err := e.controlTable(id, in.TableName)
	if err != nil {
		return err
	}
	t, err := e.store.DropTable(ctx, id.Account, name, func(t *storage.Table) error {
		if err := checkActive(t); err != nil {
			return err
		}
		if t.Def.DeletionProtection {
			return api.Validation(tableProtected)
		}
		return nil
	})
	if err != nil {
		return controlFault(err, name)
	}
	e.wake()
	full := e.describe(t, storage.Stats{})
	return out.JSON(api.CreateTableOutput{TableDescription: &api.TableDescription{
		TableName:             full.TableName,
		TableStatus:           storage.Deleting.String(),
		ProvisionedThroughput: full.ProvisionedThroughput,
		TableArn:              full.TableArn,
		TableId:               full.TableId,
		BillingModeSummary:    full.BillingModeSummary,
	}})
}

// checkActive refuses to change a table that comes or goes.
func checkActive(t *storage.Table) error {
	switch t.Status {
	case storage.Creating:
		return api.ResourceInUse(stillInUse + "Table is being created: " + t.Name())
	case storage.Deleting:
		return api.ResourceInUse(stillInUse + "Table is being deleted: " + t.Name())
	}
	return nil
}

// controlTable checks the TableName of an operation on a table that has no
// other constraints, and returns the table's name.
func (e *Engine) controlTable(id auth.Identity, ref *string) (string, error) {
	if ref == nil {
		return "", api.Validation(tableNameMissing)
	}
	var c constraints
	c.tableRef(ref)
	if err := c.err(); err != nil {
		return "", err
	}
	return e.resolveTable(id, *ref)
}

// controlFault words a missing table as control operations do.
func controlFault(err error, name string) error {
	if errors.Is(err, storage.ErrTableNotFound) {
		return api.ResourceNotFound("Requested resource not found: Table: " + name + " not found")
	}
	return err
}
