// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

// maxCapacityUnits is the most that the service takes for a number of units;
// what an account may have is far below.
const maxCapacityUnits = 1_000_000_000_000

const (
	unitsMissing    = "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"
	unitsOnDemand   = "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
	onDemandInitial = "initial throughput for OnDemand. See: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/" +
		"on-demand-capacity-mode.html#on-demand-capacity-mode-initial"
)

// checkTableThroughput checks the billing mode of CreateTable against the
// table's throughput members, which have passed their constraints.
func checkTableThroughput(billingMode string, in *api.CreateTableInput) error {
	switch provisioned := billingMode == ddb.Provisioned; {
	case provisioned && in.ProvisionedThroughput == nil:
		return invalidParameter(unitsMissing)
	case !provisioned && in.ProvisionedThroughput != nil:
		return invalidParameter(unitsOnDemand)
	}
	if err := checkUnitBounds(in.ProvisionedThroughput, ""); err != nil {
		return err
	}
	if err := checkOnDemand(billingMode, in.OnDemandThroughput, "table"); err != nil {
		return err
	}
	return checkWarm(billingMode, in.ProvisionedThroughput, in.WarmThroughput, "table")
}

// checkIndexThroughput does the same for a global index.
func checkIndexThroughput(billingMode string, ix *api.GlobalSecondaryIndex) error {
	name := *ix.IndexName
	switch provisioned := billingMode == ddb.Provisioned; {
	case provisioned && ix.ProvisionedThroughput == nil:
		return invalidParameter("ProvisionedThroughput is not specified for index: " + name)
	case !provisioned && ix.ProvisionedThroughput != nil:
		return invalidParameter("ProvisionedThroughput should not be specified for index: " + name + " when BillingMode is PAY_PER_REQUEST")
	}
	if err := checkUnitBounds(ix.ProvisionedThroughput, " for index "+name); err != nil {
		return err
	}
	if err := checkOnDemand(billingMode, ix.OnDemandThroughput, "index "+name); err != nil {
		return err
	}
	return checkWarm(billingMode, ix.ProvisionedThroughput, ix.WarmThroughput, "index "+name)
}

// checkUnitBounds refuses absurd capacities; suffix names the index.
func checkUnitBounds(t *api.ProvisionedThroughput, suffix string) error {
	if t == nil {
		return nil
	}
	for _, m := range []struct {
		name  string
		value int64
	}{{"ReadCapacityUnits", *t.ReadCapacityUnits}, {"WriteCapacityUnits", *t.WriteCapacityUnits}} {
		if m.value > maxCapacityUnits {
			return api.Validation("Given value " + strconv.FormatInt(m.value, 10) + " for " + m.name + " is out of bounds" + suffix)
		}
	}
	return nil
}

// onDemandMember names the first member of o that was sent, "" when none was.
func onDemandMember(o *api.OnDemandThroughput) string {
	switch {
	case o == nil:
		return ""
	case o.MaxReadRequestUnits != nil:
		return "MaxReadRequestUnits"
	case o.MaxWriteRequestUnits != nil:
		return "MaxWriteRequestUnits"
	}
	return ""
}

// checkOnDemand checks the caps of CreateTable; of names what they are for.
func checkOnDemand(billingMode string, o *api.OnDemandThroughput, of string) error {
	name := onDemandMember(o)
	if name == "" {
		return nil
	}
	if billingMode == ddb.Provisioned {
		return invalidParameter(name + " for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED.")
	}
	return checkCaps(o, of, func(n int64) bool { return n >= 1 })
}

// checkCaps refuses caps that are not allowed.
func checkCaps(o *api.OnDemandThroughput, of string, allowed func(int64) bool) error {
	for _, m := range []struct {
		name  string
		value *int64
	}{{"MaxReadRequestUnits", o.MaxReadRequestUnits}, {"MaxWriteRequestUnits", o.MaxWriteRequestUnits}} {
		if m.value != nil && !allowed(*m.value) {
			return invalidParameter("Requested " + m.name + " for OnDemandThroughput for " + of + " is outside of valid range")
		}
	}
	return nil
}

// checkWarm refuses warm throughput below what the table or index has anyway.
func checkWarm(billingMode string, t *api.ProvisionedThroughput, w *api.WarmThroughput, of string) error {
	if w == nil {
		return nil
	}
	least := warm(billingMode, throughputOf(t), nil)
	lower := func(member, than string) error {
		return invalidParameter("Requested " + member + " for WarmThroughput for " + of + " is lower than " + than)
	}
	readFloor, writeFloor := onDemandInitial, onDemandInitial
	if billingMode == ddb.Provisioned {
		readFloor, writeFloor = "ReadCapacityUnits of ProvisionedThroughput", "WriteCapacityUnits of ProvisionedThroughput"
	}
	switch {
	case w.ReadUnitsPerSecond != nil && *w.ReadUnitsPerSecond < least.ReadUnitsPerSecond:
		return lower("ReadUnitsPerSecond", readFloor)
	case w.WriteUnitsPerSecond != nil && *w.WriteUnitsPerSecond < least.WriteUnitsPerSecond:
		return lower("WriteUnitsPerSecond", writeFloor)
	}
	return nil
}

// throughputOf is a request's throughput as it is kept: zeros when absent.
func throughputOf(t *api.ProvisionedThroughput) ddb.Throughput {
	if t == nil {
		return ddb.Throughput{}
	}
	return ddb.Throughput{ReadCapacityUnits: *t.ReadCapacityUnits, WriteCapacityUnits: *t.WriteCapacityUnits}
}

// onDemandOf is a request's caps as they are kept, nil when there are none.
func onDemandOf(o *api.OnDemandThroughput) *ddb.OnDemandThroughput {
	if onDemandMember(o) == "" {
		return nil
	}
	return &ddb.OnDemandThroughput{MaxReadRequestUnits: o.MaxReadRequestUnits, MaxWriteRequestUnits: o.MaxWriteRequestUnits}
}

// warmOf is a request's warm throughput as it is kept, nil when it asks for
// nothing; a member that is absent stands for what there is anyway.
func warmOf(w *api.WarmThroughput) *ddb.WarmThroughput {
	if w == nil || w.ReadUnitsPerSecond == nil && w.WriteUnitsPerSecond == nil {
		return nil
	}
	return &ddb.WarmThroughput{ReadUnitsPerSecond: orZero(w.ReadUnitsPerSecond), WriteUnitsPerSecond: orZero(w.WriteUnitsPerSecond)}
}
