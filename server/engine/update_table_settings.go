// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// updated returns the definition that a request with good members makes of a
// table; it changes nothing itself and shares nothing it changes with t.
func (e *Engine) updated(t *storage.Table, in *api.UpdateTableInput, now time.Time) (ddb.TableDefinition, error) {
	def := t.Def
	if err := checkActive(t); err != nil {
		return def, err
	}
	if in.StreamSpecification != nil { // to be disabled
		return def, api.Validation("Table has no stream to disable: TableName: " + t.Name())
	}
	if in.DeletionProtectionEnabled != nil {
		def.DeletionProtection = *in.DeletionProtectionEnabled
	}
	if c := in.TableClass; c != nil && *c != cmp.Or(def.TableClass, ddb.ClassStandard) {
		def.TableClass, def.TableClassSince = *c, seconds(now)
	}
	if in.SSESpecification != nil {
		var err error
		if def.SSE, err = e.changeSSE(t.Account, def.SSE, in.SSESpecification); err != nil {
			return def, err
		}
	}
	if err := changeWarm(&def, in.WarmThroughput); err != nil {
		return def, err
	}
	if err := changeBilling(&def, in, now); err != nil {
		return def, err
	}
	return def, changeCaps(&def, in.OnDemandThroughput)
}

// changeWarm warms a table up. It cannot cool down.
func changeWarm(def *ddb.TableDefinition, w *api.WarmThroughput) error {
	if warmOf(w) == nil {
		return nil
	}
	has := warm(def.BillingMode, def.Throughput, def.WarmThroughput)
	for _, m := range []struct {
		name  string
		wants *int64
		has   int64
	}{{"ReadUnitsPerSecond", w.ReadUnitsPerSecond, has.ReadUnitsPerSecond}, {"WriteUnitsPerSecond", w.WriteUnitsPerSecond, has.WriteUnitsPerSecond}} {
		if m.wants != nil && *m.wants < m.has {
			return invalidParameter("Requested " + m.name +
				" for WarmThroughput for table is lower than current WarmThroughput, decreasing WarmThroughput is not supported")
		}
	}
	has.ReadUnitsPerSecond = max(has.ReadUnitsPerSecond, orZero(w.ReadUnitsPerSecond))
	has.WriteUnitsPerSecond = max(has.WriteUnitsPerSecond, orZero(w.WriteUnitsPerSecond))
	def.WarmThroughput = &has
	return nil
}

// changeCaps merges the caps of an on-demand table member by member; -1 lifts
// one.
func changeCaps(def *ddb.TableDefinition, o *api.OnDemandThroughput) error {
	name := onDemandMember(o)
	if name == "" {
		return nil
	}
	if def.BillingMode == ddb.Provisioned {
		return invalidParameter(name + " for OnDemandThroughput cannot be specified when the table BillingMode is PROVISIONED")
	}
	if err := checkCaps(o, "table", func(n int64) bool { return n >= 1 || n == -1 }); err != nil {
		return err
	}
	caps := orZero(def.OnDemandThroughput)
	merge := func(have, want *int64) *int64 {
		switch {
		case want == nil:
			return have
		case *want == -1:
			return nil
		}
		return want
	}
	caps.MaxReadRequestUnits = merge(caps.MaxReadRequestUnits, o.MaxReadRequestUnits)
	caps.MaxWriteRequestUnits = merge(caps.MaxWriteRequestUnits, o.MaxWriteRequestUnits)
	def.OnDemandThroughput = &caps
	if caps == (ddb.OnDemandThroughput{}) {
		def.OnDemandThroughput = nil
	}
	return nil
}

// changeBilling switches the billing mode or changes the throughput.
func changeBilling(def *ddb.TableDefinition, in *api.UpdateTableInput, now time.Time) error {
	mode := cmp.Or(orZero(in.BillingMode), def.BillingMode)
	switch {
	case mode == ddb.PayPerRequest && in.ProvisionedThroughput != nil:
		return invalidParameter(unitsOnDemand)
	case mode == def.BillingMode && in.ProvisionedThroughput == nil:
		return nil
	case mode == def.BillingMode:
		return changeThroughput(def, throughputOf(in.ProvisionedThroughput), now)
	case mode == ddb.Provisioned && len(def.GlobalSecondaryIndexes) > 0:
		return invalidParameter("ProvisionedThroughput must be specified for index: " + def.GlobalSecondaryIndexes[0].IndexName)
	}
	keepWarm(def)
	for i := range def.GlobalSecondaryIndexes { // keepWarm made them our own
		def.GlobalSecondaryIndexes[i].Throughput = &ddb.Throughput{}
	}
	def.BillingMode, def.BillingModeReported = mode, true
	def.Throughput = throughputOf(in.ProvisionedThroughput)
	if mode == ddb.PayPerRequest {
		def.PayPerRequestSince = seconds(now)
	} else {
		def.OnDemandThroughput = nil
	}
	return nil
}

// changeThroughput sets the units of a provisioned table.
func changeThroughput(def *ddb.TableDefinition, want ddb.Throughput, now time.Time) error {
	t := throughputAt(now, def.Throughput)
	reads, writes := cmp.Compare(want.ReadCapacityUnits, t.ReadCapacityUnits), cmp.Compare(want.WriteCapacityUnits, t.WriteCapacityUnits)
	if reads == 0 && writes == 0 {
		return api.Validation(fmt.Sprintf("The provisioned throughput for the table will not change. The requested value equals the current value. "+
			"Current ReadCapacityUnits provisioned for the table: %d. Requested ReadCapacityUnits: %d. "+
			"Current WriteCapacityUnits provisioned for the table: %d. Requested WriteCapacityUnits: %d. "+
			"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
			t.ReadCapacityUnits, want.ReadCapacityUnits, t.WriteCapacityUnits, want.WriteCapacityUnits))
	}
	if reads < 0 || writes < 0 {
		keepWarm(def)
		t.NumberOfDecreasesToday++ // both dimensions at once count as one
		t.LastDecreaseDateTime = seconds(now)
	}
	if reads > 0 || writes > 0 {
		t.LastIncreaseDateTime = seconds(now)
	}
	t.ReadCapacityUnits, t.WriteCapacityUnits = want.ReadCapacityUnits, want.WriteCapacityUnits
	def.Throughput = t
	return nil
}

// keepWarm records what the table and its global indexes can serve, because
// that does not shrink when throughput or billing mode change.
func keepWarm(def *ddb.TableDefinition) {
	w := warm(def.BillingMode, def.Throughput, def.WarmThroughput)
	def.WarmThroughput = &w
	def.GlobalSecondaryIndexes = slices.Clone(def.GlobalSecondaryIndexes)
	for i := range def.GlobalSecondaryIndexes {
		ix := &def.GlobalSecondaryIndexes[i]
		w := warm(def.BillingMode, orZero(ix.Throughput), ix.WarmThroughput)
		ix.WarmThroughput = &w
	}
}
