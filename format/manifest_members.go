// SPDX-License-Identifier: Apache-2.0

package format

import (
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
)

// attributeName is an object that holds one, {"AttributeName":"…"}.
type attributeName string

// StatusUnknown is the status of a vector index whose recorded one this
// version of the format does not have.
const StatusUnknown = "UNKNOWN"

// value reads raw into what dst points to.
func (p *parser) value(raw []byte, dst any) error {
	switch d := dst.(type) {
	case *string:
		return p.text(raw, d)
	case *int64:
		return integer(raw, d)
	case *float64:
		return float(raw, d)
	case *bool:
		return boolean(raw, d)
	case **string:
		return present(p, raw, d)
	case **int64:
		return present(p, raw, d)
	case **bool:
		return present(p, raw, d)
	case *[]string:
		return array(p, raw, d)
	case *SnapshotInfo:
		return p.object(raw, []field{{name: "kind", dst: &d.Kind}, {name: "marker", dst: &d.Marker}})
	case *[]DataFile:
		return array(p, raw, d)
	case *DataFile:
		return p.object(raw, []field{
			{name: "key", dst: &d.Key},
			{name: "item_count", dst: &d.Items},
			{name: "sha256", dst: &d.SHA256},
			{name: "bytes", dst: &d.Bytes},
		})
	}
	return p.definition(raw, dst)
}

// definition reads raw into a part of a table's definition.
func (p *parser) definition(raw []byte, dst any) error {
	switch d := dst.(type) {
	case *SourceTable:
		return p.table(raw, d)
	case *[]ddb.KeySchemaElement:
		return array(p, raw, d)
	case *ddb.KeySchemaElement:
		return p.object(raw, []field{{name: "AttributeName", dst: &d.AttributeName}, {name: "KeyType", dst: &d.KeyType}})
	case *[]ddb.AttributeDefinition:
		return array(p, raw, d)
	case *ddb.AttributeDefinition:
		return p.object(raw, []field{{name: "AttributeName", dst: &d.AttributeName}, {name: "AttributeType", dst: &d.AttributeType}})
	case **Throughput:
		return present(p, raw, d)
	case *Throughput:
		return p.object(raw, []field{
			{name: "ReadCapacityUnits", dst: &d.ReadCapacityUnits},
			{name: "WriteCapacityUnits", dst: &d.WriteCapacityUnits},
		})
	case **OnDemand:
		return present(p, raw, d)
	case *OnDemand:
		return p.object(raw, []field{
			{name: "MaxReadRequestUnits", dst: &d.MaxReadRequestUnits, optional: true},
			{name: "MaxWriteRequestUnits", dst: &d.MaxWriteRequestUnits, optional: true},
		})
	case **ddb.SSEDescription:
		return present(p, raw, d)
	case *ddb.SSEDescription:
		return p.object(raw, []field{
			{name: "Status", dst: &d.Status},
			{name: "SSEType", dst: &d.SSEType, optional: true},
			{name: "KMSMasterKeyArn", dst: &d.KMSMasterKeyArn, optional: true},
		})
	}
	return p.index(raw, dst)
}

// index reads raw into a part of an index's definition.
func (p *parser) index(raw []byte, dst any) error {
	switch d := dst.(type) {
	case *[]IndexInfo:
		return array(p, raw, d)
	case *IndexInfo:
		return p.object(raw, []field{
			{name: "IndexName", dst: &d.IndexName},
			{name: "KeySchema", dst: &d.KeySchema},
			{name: "Projection", dst: &d.Projection},
			{name: "ProvisionedThroughput", dst: &d.Throughput, optional: true},
		})
	case **ddb.Projection:
		return present(p, raw, d)
	case *ddb.Projection:
		return p.object(raw, []field{
			{name: "ProjectionType", dst: &d.ProjectionType},
			{name: "NonKeyAttributes", dst: &d.NonKeyAttributes, optional: true},
		})
	case *[]VectorIndexInfo:
		return array(p, raw, d)
	case *VectorIndexInfo:
		return p.vectorIndex(raw, d)
	case *attributeName:
		return p.object(raw, []field{{name: "AttributeName", dst: (*string)(d)}})
	case *[]SearchElement:
		return array(p, raw, d)
	case *SearchElement:
		return p.object(raw, []field{{name: "AttributeName", dst: &d.AttributeName}, {name: "SearchSchemaElementType", dst: &d.ElementType}})
	}
	return fmt.Errorf("no reading of a %T", dst)
}

func (p *parser) manifest(raw []byte, m *Manifest) error {
	return p.object(raw, []field{
		{name: "format_version", dst: &m.FormatVersion},
		{name: "backup_arn", dst: &m.BackupARN},
		{name: "backup_name", dst: &m.BackupName},
		{name: "backup_creation_date_time", dst: &m.Created},
		{name: "backup_size_bytes", dst: &m.SizeBytes},
		{name: "source_backend", dst: &m.SourceBackend},
		{name: "source_extenddb_version", dst: &m.SourceVersion},
		{name: "snapshot", dst: &m.Snapshot},
		{name: "source_table", dst: &m.Table},
		{name: "data_files", dst: &m.Files},
		{name: "manifest_sha256", dst: &m.SHA256},
	})
}

func (p *parser) table(raw []byte, t *SourceTable) error {
	err := p.object(raw, []field{
		{name: "table_name", dst: &t.Name},
		{name: "table_id", dst: &t.ID},
		{name: "table_arn", dst: &t.ARN},
		{name: "table_creation_date_time", dst: &t.Created},
		{name: "key_schema", dst: &t.KeySchema},
		{name: "attribute_definitions", dst: &t.AttributeDefinitions},
		{name: "billing_mode", dst: &t.BillingMode},
		{name: "provisioned_throughput", dst: &t.Throughput, optional: true},
		{name: "on_demand_throughput", dst: &t.OnDemand, optional: true},
		{name: "table_class", dst: &t.TableClass, optional: true},
		{name: "sse_specification", dst: &t.SSE, optional: true},
		{name: "global_secondary_indexes", dst: &t.GlobalIndexes, optional: true},
		{name: "local_secondary_indexes", dst: &t.LocalIndexes, optional: true},
		{name: "vector_indexes", dst: &t.VectorIndexes, optional: true},
		{name: "item_count", dst: &t.Items},
		{name: "table_size_bytes", dst: &t.SizeBytes},
	})
	for i := range t.LocalIndexes {
		t.LocalIndexes[i].Throughput = nil // unknown to them
	}
	return err
}

func (p *parser) vectorIndex(raw []byte, x *VectorIndexInfo) error {
	err := p.object(raw, []field{
		{name: "IndexName", dst: &x.IndexName},
		{name: "VectorAttribute", dst: (*attributeName)(&x.VectorAttribute)},
		{name: "Dimensions", dst: &x.Dimensions},
		{name: "SearchSchema", dst: &x.SearchSchema, optional: true},
		{name: "DistanceFunction", dst: &x.Distance},
		{name: "IndexStatus", dst: &x.Status},
		{name: "Backfilling", dst: &x.Backfilling, optional: true},
		{name: "IndexSizeBytes", dst: &x.SizeBytes},
		{name: "ItemCount", dst: &x.Items},
		{name: "IndexArn", dst: &x.ARN},
		{name: "Projection", dst: &x.Projection, optional: true},
	})
	switch x.Status {
	case "CREATING", "UPDATING", "DELETING", "ACTIVE":
	default:
		x.Status = StatusUnknown
	}
	return err
}
