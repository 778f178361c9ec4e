// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"reflect"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// errNoChange ends an update that leaves the definition as it is.
var errNoChange = errors.New("nothing changes")

// UpdateTable changes settings of a table. A change is complete when the call
// returns, but the response echoes what the service's does: the status of a
// table that is being changed, beside numbers from before.
func (e *Engine) UpdateTable(ctx context.Context, id auth.Identity, in *api.UpdateTableInput, out *api.Body) error {
	if err := checkUpdateShape(in); err != nil {
		return err
	}
	name, err := e.resolveTable(id, *in.TableName)
	if err != nil {
		return err
	}
	if err := checkUpdateMembers(in); err != nil {
		return err
	}
	_, stats, err := e.store.Describe(ctx, id.Account, name)
	if err != nil {
		return controlFault(err, name)
	}
	now := e.clock.Now()
	var old *storage.Table
	var def ddb.TableDefinition
	_, err = e.store.UpdateTable(ctx, id.Account, name, func(t *storage.Table) (_ ddb.TableDefinition, err error) {
		old = t
		if def, err = e.updated(t, in, now); err == nil && reflect.DeepEqual(def, t.Def) {
			err = errNoChange
		}
		return def, err
	})
	if err != nil && !errors.Is(err, errNoChange) {
		return controlFault(err, name)
	}
	return out.JSON(api.CreateTableOutput{TableDescription: e.describeUpdate(in, old, &def, stats)})
}

// describeUpdate is the description in UpdateTable's own response.
func (e *Engine) describeUpdate(in *api.UpdateTableInput, old *storage.Table, def *ddb.TableDefinition, s storage.Stats) *api.TableDescription {
	shown := *old
	shown.Def.OnDemandThroughput, shown.Def.DeletionProtection = def.OnDemandThroughput, def.DeletionProtection
	d := e.describe(&shown, s)
	if in.BillingMode != nil || in.ProvisionedThroughput != nil || in.TableClass != nil {
		d.TableStatus = statusUpdating
	}
	if in.BillingMode != nil && def.BillingModeReported {
		d.BillingModeSummary = &api.BillingModeSummary{
			BillingMode: def.BillingMode, LastUpdateToPayPerRequestDateTime: old.Def.PayPerRequestSince,
		}
	}
	if in.SSESpecification != nil {
		key := old.Def.SSE
		if key == nil {
			key = def.SSE
		}
		d.SSEDescription = &ddb.SSEDescription{Status: statusUpdating, SSEType: key.SSEType, KMSMasterKeyArn: key.KMSMasterKeyArn}
	}
	if warmOf(in.WarmThroughput) != nil {
		d.WarmThroughput = describeWarm(warm(def.BillingMode, def.Throughput, def.WarmThroughput), statusUpdating)
	}
	return d
}

// checkUpdateShape checks the member constraints.
func checkUpdateShape(in *api.UpdateTableInput) error {
	if in.TableName == nil {
		return api.Validation(tableNameMissing)
	}
	var c constraints
	c.tableRef(in.TableName)
	c.attributeDefinitions(in.AttributeDefinitions)
	c.tableSettings(in.BillingMode, in.ProvisionedThroughput, in.StreamSpecification, in.SSESpecification)
	return c.err()
}
