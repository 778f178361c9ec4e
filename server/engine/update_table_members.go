// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

// requested lists the members that ask for a change: neither empty lists and
// structures nor AttributeDefinitions, which only serve new indexes, do.
func requested(in *api.UpdateTableInput) []string {
	var names []string
	for _, m := range []struct {
		name string
		asks bool
	}{
		{"ProvisionedThroughput", in.ProvisionedThroughput != nil},
		{"BillingMode", in.BillingMode != nil},
		{"StreamSpecification", in.StreamSpecification != nil},
		{"GlobalSecondaryIndexUpdates", len(in.GlobalSecondaryIndexUpdates) > 0},
		{"SSESpecification", in.SSESpecification != nil},
		{"ReplicaUpdates", len(in.ReplicaUpdates) > 0},
		{"MultiRegionConsistency", in.MultiRegionConsistency != nil},
		{"GlobalTableWitnessUpdates", len(in.GlobalTableWitnessUpdates) > 0},
		{"GlobalTableSettingsReplicationMode", in.GlobalTableSettingsReplicationMode != nil},
		{"VectorIndexUpdates", len(in.VectorIndexUpdates) > 0},
		{"DeletionProtectionEnabled", in.DeletionProtectionEnabled != nil},
		{"OnDemandThroughput", onDemandMember(in.OnDemandThroughput) != ""},
		{"WarmThroughput", warmOf(in.WarmThroughput) != nil},
		{"TableClass", in.TableClass != nil},
	} {
		if m.asks {
			names = append(names, m.name)
		}
	}
	return names
}

// checkUpdateMembers checks what can be told without the table: that something
// is asked for, that its parts may go together, and that we offer them.
func checkUpdateMembers(in *api.UpdateTableInput) error {
	asked := requested(in)
	switch {
	case len(asked) == 0:
		return nothingRequested(in)
	case in.GlobalSecondaryIndexUpdates != nil && len(in.GlobalSecondaryIndexUpdates) == 0:
		return invalidParameter("List of GlobalSecondaryIndexUpdates is empty")
	}
	if err := checkExclusive(in, asked); err != nil {
		return err
	}
	if err := checkUpdateStream(in); err != nil {
		return err
	}
	for _, name := range asked {
		switch name {
		case "GlobalSecondaryIndexUpdates", "ReplicaUpdates", "MultiRegionConsistency", "GlobalTableWitnessUpdates",
			"GlobalTableSettingsReplicationMode", "VectorIndexUpdates":
			return notSupported(name)
		}
	}
	if err := checkSSE(in.SSESpecification); err != nil {
		return err
	}
	if err := checkTableClass(in.TableClass); err != nil {
		return err
	}
	switch mode := orZero(in.BillingMode); {
	case mode == ddb.PayPerRequest && in.ProvisionedThroughput != nil:
		return invalidParameter(unitsOnDemand)
	case mode == ddb.Provisioned && in.ProvisionedThroughput == nil:
		return invalidParameter("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
	}
	return checkUnitBounds(in.ProvisionedThroughput, "")
}

// nothingRequested names what could have been asked for, but for members that
// were sent without asking for anything.
func nothingRequested(in *api.UpdateTableInput) error {
	names := []string{"ProvisionedThroughput", "BillingMode", "UpdateStreamEnabled"}
	if in.GlobalSecondaryIndexUpdates == nil {
		names = append(names, "GlobalSecondaryIndexUpdates")
	}
	names = append(names, "SSESpecification")
	if in.ReplicaUpdates == nil {
		names = append(names, "ReplicaUpdates")
	}
	names = append(names, "MultiAccountReplicaReady", "ReplicaTransitRoleArn", "MultiRegionConsistency",
		"DeletionProtectionEnabled", "OnDemandThroughput", "WarmThroughput")
	return api.Validation("At least one of " + strings.Join(names, ", ") + " or TableClass is required")
}

// checkExclusive refuses members that may not be combined.
func checkExclusive(in *api.UpdateTableInput, asked []string) error {
	has := func(name string) bool { return slices.Contains(asked, name) }
	for _, m := range [][2]string{
		{"SSESpecification", "Server-Side Encryption modification"},
		{"TableClass", "TableClass modification"},
		{"DeletionProtectionEnabled", "DeletionProtection modification"},
		{"WarmThroughput", "WarmThroughput"},
	} {
		if has(m[0]) && len(asked) > 1 {
			return invalidParameter(m[1] + " must be the only operation in the request")
		}
	}
	if has("OnDemandThroughput") && slices.ContainsFunc(asked, func(name string) bool {
		return name != "OnDemandThroughput" && name != "BillingMode"
	}) {
		return invalidParameter("OnDemandThroughput can only be combined with BillingMode in an UpdateTable request")
	}
	if has("StreamSpecification") && (has("ProvisionedThroughput") || orZero(in.BillingMode) == ddb.Provisioned) {
		return invalidParameter("You cannot modify stream status while updating table IOPS")
	}
	if has("ProvisionedThroughput") && slices.ContainsFunc(in.GlobalSecondaryIndexUpdates, func(u api.GlobalSecondaryIndexUpdate) bool {
		return u.Create != nil || u.Delete != nil
	}) {
		return invalidParameter("You cannot create or delete index while updating table IOPS")
	}
	return nil
}

// checkUpdateStream checks the form of a stream change. No table has a stream.
func checkUpdateStream(in *api.UpdateTableInput) error {
	s := in.StreamSpecification
	switch {
	case s == nil:
		return nil
	case *s.StreamEnabled && s.StreamViewType == nil:
		return invalidParameter("If stream is being enabled then UpdateViewType is required")
	case !*s.StreamEnabled && s.StreamViewType != nil:
		return invalidParameter("If stream is being disabled, then UpdateViewType must not be specified")
	case *s.StreamEnabled:
		return notSupported("StreamSpecification")
	}
	return nil
}
