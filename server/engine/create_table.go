// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	tableNameMissing = "The parameter 'TableName' is required but was not present in the request"
	badTableClass    = "Invalid table-class parameter provided. Please try again with a valid table-class value: [STANDARD, STANDARD_INFREQUENT_ACCESS]."
	tooManyTables    = "Subscriber limit exceeded: There is a limit of 2500 tables per subscriber"
)

// CreateTable adds a table with its indexes. The response says CREATING as the
// service's does, but the table can be used as soon as it is sent.
func (e *Engine) CreateTable(ctx context.Context, id auth.Identity, in *api.CreateTableInput, out *api.Body) error {
	if err := checkCreateShape(in); err != nil {
		return err
	}
	if err := checkCreateSettings(in); err != nil {
		return err
	}
	tags, err := readTags(in.Tags)
	if err != nil {
		return err
	}
	now := e.clock.Now()
	def := e.newDefinition(id.Account, in, now)
	def.Tags = tags
	if err := checkTableThroughput(def.BillingMode, in); err != nil {
		return err
	}
	if err := checkTableKeys(&def); err != nil {
		return err
	}
	if err := checkIndexes(in, &def); err != nil {
		return err
	}
	slices.SortFunc(def.AttributeDefinitions, func(a, b ddb.AttributeDefinition) int {
		return cmp.Compare(a.AttributeName, b.AttributeName)
	})
	t, err := e.store.CreateTable(ctx, id.Account, def, now)
	switch {
	case errors.Is(err, storage.ErrTableExists):
		return nameTaken(err, def.TableName)
	case errors.Is(err, storage.ErrTooManyTables):
		return api.LimitExceeded(tooManyTables)
	case err != nil:
		return err
	}
	return out.JSON(api.CreateTableOutput{TableDescription: e.describeCreated(t)})
}

// nameTaken words what the service answers to a name that is in use; it tells a
// table that is still being restored from others.
func nameTaken(err error, name string) error {
	var exists *storage.TableExists
	if errors.As(err, &exists) && exists.Table.Status == storage.Creating {
		return api.ResourceInUse(stillInUse + "Table is being used: " + name)
	}
	return api.ResourceInUse("Table already exists: " + name)
}

// describeCreated is the description in CreateTable's own response: it knows
// nothing yet of what the service works out later.
func (e *Engine) describeCreated(t *storage.Table) *api.TableDescription {
	d := e.describe(t, storage.Stats{})
	d.TableStatus = statusCreating
	if d.BillingModeSummary != nil {
		d.BillingModeSummary.LastUpdateToPayPerRequestDateTime = 0
	}
	d.WarmThroughput = nil
	if t.Def.WarmThroughput != nil {
		d.WarmThroughput = describeWarm(warm(t.Def.BillingMode, t.Def.Throughput, t.Def.WarmThroughput), statusUpdating)
	}
	for i := range d.GlobalSecondaryIndexes {
		d.GlobalSecondaryIndexes[i].IndexStatus = statusCreating
		d.GlobalSecondaryIndexes[i].WarmThroughput = nil
	}
	return d
}

// checkCreateShape checks the member constraints. A bad name is reported
// without what else is wrong.
func checkCreateShape(in *api.CreateTableInput) error {
	if in.TableName == nil {
		return api.Validation(tableNameMissing)
	}
	var name, rest constraints
	name.length(in.TableName, "tableName", minNameLength, maxNameLength)
	name.pattern(in.TableName, "tableName")
	if err := name.err(); err != nil {
		return err
	}
	rest.createTable(in)
	return rest.err()
}

// checkCreateSettings checks members that depend on nothing else, and refuses
// those that this server does not offer.
func checkCreateSettings(in *api.CreateTableInput) error {
	if s := in.StreamSpecification; s != nil {
		switch {
		case *s.StreamEnabled && s.StreamViewType == nil:
			return invalidParameter("Table is being created with a stream enabled, UpdateViewType is required")
		case !*s.StreamEnabled && s.StreamViewType != nil:
			return invalidParameter("Table is being created with a stream disabled, UpdateViewType should not be specified")
		case *s.StreamEnabled:
			return notSupported("StreamSpecification")
		}
	}
	if err := checkSSE(in.SSESpecification); err != nil {
		return err
	}
	if err := checkTableClass(in.TableClass); err != nil {
		return err
	}
	switch {
	case in.VectorIndexes != nil && len(in.VectorIndexes) == 0:
		return invalidParameter("List of VectorIndexes is empty")
	case in.VectorIndexes != nil:
		return notSupported("VectorIndexes")
	case in.ResourcePolicy != nil:
		return notSupported("ResourcePolicy")
	case in.GlobalTableSourceArn != nil:
		return notSupported("GlobalTableSourceArn")
	case in.GlobalTableSettingsReplicationMode != nil:
		return notSupported("GlobalTableSettingsReplicationMode")
	}
	return nil
}

// notSupported refuses a member of the API that this server does not offer:
// ignoring it would promise what is not done.
func notSupported(member string) error {
	return invalidParameter(member + " is not supported by this server")
}

func checkTableClass(class *string) error {
	if class != nil && *class != ddb.ClassStandard && *class != ddb.ClassInfrequentAccess {
		return api.Validation(badTableClass)
	}
	return nil
}

// newDefinition is the definition that a well-formed request asks for. The
// attribute definitions stay in the order of the request, which texts show.
func (e *Engine) newDefinition(account string, in *api.CreateTableInput, now time.Time) ddb.TableDefinition {
	def := ddb.TableDefinition{
		TableName:          *in.TableName,
		KeySchema:          keySchemaOf(in.KeySchema),
		BillingMode:        ddb.Provisioned,
		Throughput:         throughputOf(in.ProvisionedThroughput),
		OnDemandThroughput: onDemandOf(in.OnDemandThroughput),
		WarmThroughput:     warmOf(in.WarmThroughput),
		TableClass:         orZero(in.TableClass),
		DeletionProtection: orZero(in.DeletionProtectionEnabled),
	}
	if orZero(in.BillingMode) == ddb.PayPerRequest {
		def.BillingMode, def.BillingModeReported, def.PayPerRequestSince = ddb.PayPerRequest, true, seconds(now)
	}
	if enablesSSE(in.SSESpecification) {
		def.SSE = e.sse(account, in.SSESpecification.KMSMasterKeyId)
	}
	for _, d := range in.AttributeDefinitions {
		def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{
			AttributeName: *d.AttributeName, AttributeType: *d.AttributeType,
		})
	}
	for _, ix := range in.GlobalSecondaryIndexes {
		t := throughputOf(ix.ProvisionedThroughput)
		def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ddb.IndexDefinition{
			IndexName: *ix.IndexName, KeySchema: keySchemaOf(ix.KeySchema), Projection: projectionOf(ix.Projection),
			Throughput: &t, OnDemandThroughput: onDemandOf(ix.OnDemandThroughput), WarmThroughput: warmOf(ix.WarmThroughput),
		})
	}
	for _, ix := range in.LocalSecondaryIndexes {
		def.LocalSecondaryIndexes = append(def.LocalSecondaryIndexes, ddb.IndexDefinition{
			IndexName: *ix.IndexName, KeySchema: keySchemaOf(ix.KeySchema), Projection: projectionOf(ix.Projection),
		})
	}
	return def
}

func keySchemaOf(ks []api.KeySchemaElement) []ddb.KeySchemaElement {
	out := make([]ddb.KeySchemaElement, len(ks))
	for i, k := range ks {
		out[i] = ddb.KeySchemaElement{AttributeName: *k.AttributeName, KeyType: *k.KeyType}
	}
	return out
}

// projectionOf sorts the attributes, as the service tells them.
func projectionOf(p *api.Projection) ddb.Projection {
	return ddb.Projection{ProjectionType: orZero(p.ProjectionType), NonKeyAttributes: slices.Sorted(slices.Values(p.NonKeyAttributes))}
}
