// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// Statuses of tables, indexes and settings beside those of storage.
const (
	statusActive   = "ACTIVE"
	statusCreating = "CREATING"
	statusUpdating = "UPDATING"
	statusEnabled  = "ENABLED"
)

// What an on-demand table can serve at once from its first second.
const (
	onDemandWarmRead  = 12000
	onDemandWarmWrite = 4000
)

// seconds is an instant as the wire has it: Unix seconds, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// describe tells all the service tells of a table.
func (e *Engine) describe(t *storage.Table, s storage.Stats) *api.TableDescription {
	def, now, arn := &t.Def, e.clock.Now(), e.tableARN(t)
	d := &api.TableDescription{
		AttributeDefinitions:      def.AttributeDefinitions,
		TableName:                 def.TableName,
		KeySchema:                 def.KeySchema,
		TableStatus:               t.Status.String(),
		CreationDateTime:          seconds(t.Created),
		ProvisionedThroughput:     throughputAt(now, def.Throughput),
		TableSizeBytes:            s.Bytes,
		ItemCount:                 s.Items,
		TableArn:                  arn,
		TableId:                   t.UUID,
		SSEDescription:            def.SSE,
		DeletionProtectionEnabled: def.DeletionProtection,
		OnDemandThroughput:        def.OnDemandThroughput,
		WarmThroughput:            describeWarm(warm(def.BillingMode, def.Throughput, def.WarmThroughput), statusActive),
	}
	if def.BillingModeReported {
		d.BillingModeSummary = &api.BillingModeSummary{
			BillingMode: def.BillingMode, LastUpdateToPayPerRequestDateTime: def.PayPerRequestSince,
		}
	}
	if def.TableClass != "" {
		d.TableClassSummary = &api.TableClassSummary{TableClass: def.TableClass, LastUpdateDateTime: def.TableClassSince}
	}
	for i, ix := range t.Indexes {
		n, ixARN := s.Indexes[ix.ID], arn+"/index/"+ix.Name
		if ix.Local {
			schema := def.LocalSecondaryIndexes[i-len(def.GlobalSecondaryIndexes)].KeySchema
			d.LocalSecondaryIndexes = append(d.LocalSecondaryIndexes, api.LocalSecondaryIndexDescription{
				IndexName: ix.Name, KeySchema: schema, Projection: ix.Projection,
				IndexSizeBytes: n.Bytes, ItemCount: n.Items, IndexArn: ixARN,
			})
			continue
		}
		g := &def.GlobalSecondaryIndexes[i]
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, api.GlobalSecondaryIndexDescription{
			IndexName: ix.Name, KeySchema: g.KeySchema, Projection: ix.Projection,
			IndexStatus:           t.Status.String(),
			ProvisionedThroughput: throughputAt(now, orZero(g.Throughput)),
			IndexSizeBytes:        n.Bytes, ItemCount: n.Items, IndexArn: ixARN,
			OnDemandThroughput: g.OnDemandThroughput,
			WarmThroughput:     describeWarm(warm(def.BillingMode, orZero(g.Throughput), g.WarmThroughput), statusActive),
		})
	}
	return d
}

// throughputAt is t as it reads at the given instant: decreases are counted
// per UTC day.
func throughputAt(now time.Time, t ddb.Throughput) ddb.Throughput {
	const day = 24 * 60 * 60
	if int64(t.LastDecreaseDateTime)/day != now.Unix()/day {
		t.NumberOfDecreasesToday = 0
	}
	return t
}

// warm is what a table or index can serve at once: what its billing mode and
// throughput give, or more when it was warmed or had more before.
func warm(billingMode string, t ddb.Throughput, kept *ddb.WarmThroughput) ddb.WarmThroughput {
	w := ddb.WarmThroughput{ReadUnitsPerSecond: t.ReadCapacityUnits, WriteUnitsPerSecond: t.WriteCapacityUnits}
	if billingMode == ddb.PayPerRequest {
		w = ddb.WarmThroughput{ReadUnitsPerSecond: onDemandWarmRead, WriteUnitsPerSecond: onDemandWarmWrite}
	}
	if kept != nil {
		w.ReadUnitsPerSecond = max(w.ReadUnitsPerSecond, kept.ReadUnitsPerSecond)
		w.WriteUnitsPerSecond = max(w.WriteUnitsPerSecond, kept.WriteUnitsPerSecond)
	}
	return w
}

func describeWarm(w ddb.WarmThroughput, status string) *api.WarmThroughputDescription {
	return &api.WarmThroughputDescription{
		ReadUnitsPerSecond: w.ReadUnitsPerSecond, WriteUnitsPerSecond: w.WriteUnitsPerSecond, Status: status,
	}
}

// orZero returns what p points at, the zero value for nil.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
