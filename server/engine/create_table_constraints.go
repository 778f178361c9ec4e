// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/extenddb/extenddb/server/api"
)

const (
	maxAttributeNameLength = 255 // of key attributes and projected ones
	maxKeyElements         = 2   // of a table or a local index
	maxNonKeyAttributes    = 20  // of one index
)

// createTable adds what is wrong with the shape of a request but for its
// TableName. Indexes are checked global ones first.
func (c *constraints) createTable(in *api.CreateTableInput) {
	c.required(in.AttributeDefinitions != nil, "attributeDefinitions")
	c.attributeDefinitions(in.AttributeDefinitions)
	c.keySchema(in.KeySchema, "keySchema", maxKeyElements)
	for i := range in.GlobalSecondaryIndexes {
		ix, path := &in.GlobalSecondaryIndexes[i], memberPath("globalSecondaryIndexes", i)
		// How many elements the schema of a global index may have depends on
		// their types: that is no constraint of the list.
		c.index(ix.IndexName, ix.KeySchema, ix.Projection, path, 0)
		c.throughput(ix.ProvisionedThroughput, path+"provisionedThroughput")
	}
	for i := range in.LocalSecondaryIndexes {
		ix := &in.LocalSecondaryIndexes[i]
		c.index(ix.IndexName, ix.KeySchema, ix.Projection, memberPath("localSecondaryIndexes", i), maxKeyElements)
	}
	c.tableSettings(in.BillingMode, in.ProvisionedThroughput, in.StreamSpecification, in.SSESpecification)
}

// tableSettings adds what is wrong with the shape of members that CreateTable
// and UpdateTable share.
func (c *constraints) tableSettings(billing *string, t *api.ProvisionedThroughput, st *api.StreamSpecification, sse *api.SSESpecification) {
	c.enum(billing, "billingMode", enumBillingMode)
	c.throughput(t, "provisionedThroughput")
	if st != nil {
		c.required(st.StreamEnabled != nil, "streamSpecification.streamEnabled")
		c.enum(st.StreamViewType, "streamSpecification.streamViewType", enumStreamViewType)
	}
	if sse != nil {
		c.enum(sse.SSEType, "sSESpecification.sSEType", enumSSEType)
		c.length(sse.KMSMasterKeyId, "sSESpecification.kMSMasterKeyId", 1, 0)
	}
}

// memberPath is the path of an element's members: "keySchema.1.member.".
func memberPath(list string, i int) string { return list + "." + strconv.Itoa(i+1) + ".member." }

func (c *constraints) attributeDefinitions(defs []api.AttributeDefinition) {
	for i, d := range defs {
		path := memberPath("attributeDefinitions", i)
		c.required(d.AttributeType != nil, path+"attributeType")
		c.enum(d.AttributeType, path+"attributeType", enumAttributeType)
		c.attributeName(d.AttributeName, path)
	}
}

func (c *constraints) attributeName(name *string, path string) {
	c.required(name != nil, path+"attributeName")
	c.length(name, path+"attributeName", 1, maxAttributeNameLength)
}

// keySchema checks a required list of key elements; maximum 0 means no bound.
func (c *constraints) keySchema(ks []api.KeySchemaElement, path string, maximum int) {
	switch {
	case ks == nil:
		c.null(path)
	case len(ks) == 0:
		c.value("[]", path, ruleMinLength(1))
	case maximum > 0 && len(ks) > maximum:
		c.value(printKeySchema(ks), path, ruleMaxLength(maximum))
	}
	for i, k := range ks {
		p := memberPath(path, i)
		c.attributeName(k.AttributeName, p)
		c.required(k.KeyType != nil, p+"keyType")
		c.enum(k.KeyType, p+"keyType", enumKeyType)
	}
}

// index checks the members that indexes of both kinds have.
func (c *constraints) index(name *string, ks []api.KeySchemaElement, p *api.Projection, path string, maxKeys int) {
	c.required(name != nil, path+"indexName")
	c.length(name, path+"indexName", minNameLength, maxNameLength)
	c.pattern(name, path+"indexName")
	c.keySchema(ks, path+"keySchema", maxKeys)
	c.required(p != nil, path+"projection")
	if p == nil {
		return
	}
	c.enum(p.ProjectionType, path+"projection.projectionType", enumProjectionType)
	if p.NonKeyAttributes == nil {
		return
	}
	names, namesPath := "["+strings.Join(p.NonKeyAttributes, ", ")+"]", path+"projection.nonKeyAttributes"
	switch n := len(p.NonKeyAttributes); {
	case n == 0:
		c.value(names, namesPath, ruleMinLength(1))
	case n > maxNonKeyAttributes:
		c.value(names, namesPath, ruleMaxLength(maxNonKeyAttributes))
	}
	for _, a := range p.NonKeyAttributes {
		if n := utf8.RuneCountInString(a); n < 1 || n > maxAttributeNameLength {
			c.value(names, namesPath, "Member must satisfy constraint: ["+ruleMaxLength(maxAttributeNameLength)+", "+ruleMinLength(1)+"]")
			break
		}
	}
}

// throughput checks capacity units that may be absent, writing first.
func (c *constraints) throughput(t *api.ProvisionedThroughput, path string) {
	if t == nil {
		return
	}
	c.required(t.WriteCapacityUnits != nil, path+".writeCapacityUnits")
	c.atLeast(t.WriteCapacityUnits, path+".writeCapacityUnits", 1)
	c.required(t.ReadCapacityUnits != nil, path+".readCapacityUnits")
	c.atLeast(t.ReadCapacityUnits, path+".readCapacityUnits", 1)
}

// printKeySchema echoes a schema as the service prints its structures.
func printKeySchema(ks []api.KeySchemaElement) string {
	or := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	out := make([]string, len(ks))
	for i, k := range ks {
		out[i] = "KeySchemaElement(attributeName=" + or(k.AttributeName) + ", keyType=" + or(k.KeyType) + ")"
	}
	return "[" + strings.Join(out, ", ") + "]"
}
