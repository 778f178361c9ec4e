// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

const arnPrefix = "arn:"

// partition returns the partition that a region belongs to.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// tableARN is the TableArn of the wire.
func (e *Engine) tableARN(t *storage.Table) string {
	return e.arn("dynamodb", t.Account, "table/"+t.Name())
}

// arn names a resource of a service in the engine's region.
func (e *Engine) arn(service, account, resource string) string {
	return arnPrefix + partition(e.region) + ":" + service + ":" + e.region + ":" + account + ":" + resource
}

// tableRef adds the constraints that a TableName which may also be an ARN
// breaks. A name of one or two characters passes: resolveTable refuses it, as
// the service does outside the envelope.
func (c *constraints) tableRef(ref *string) { c.tableRefAt(ref, "tableName") }

// tableRefAt is tableRef for a member of that path.
func (c *constraints) tableRefAt(ref *string, path string) {
	if ref == nil || strings.HasPrefix(*ref, arnPrefix) {
		return
	}
	c.length(ref, path, 1, maxNameLength)
	c.pattern(ref, path)
}

// resolveTable returns the name in a TableName, which may be the table's ARN.
// ARNs of other regions, partitions and resources are refused, those of other
// accounts with AccessDeniedException.
func (e *Engine) resolveTable(id auth.Identity, ref string) (string, error) {
	if !strings.HasPrefix(ref, arnPrefix) {
		if n := utf8.RuneCountInString(ref); n < minNameLength || n > maxNameLength {
			return "", api.Validation("TableName must be at least 3 characters long and at most 255 characters long")
		}
		return ref, nil
	}
	parts := strings.SplitN(ref, ":", 6)
	if len(parts) != 6 || parts[2] != "dynamodb" {
		return "", e.badARN(id, "ARN", ref)
	}
	switch {
	case parts[1] != partition(e.region):
		return "", e.badARN(id, "AWS partition", ref)
	case parts[3] != e.region:
		return "", e.badARN(id, "AWS region", ref)
	case parts[4] != id.Account:
		return "", api.AccessDenied("Access is denied")
	}
	name, ok := strings.CutPrefix(parts[5], "table/")
	if !ok || strings.Contains(name, "/") {
		return "", e.badARN(id, "resource type", ref)
	}
	if !isName(name) || len(name) < minNameLength || len(name) > maxNameLength {
		return "", e.badARN(id, "table name", ref)
	}
	return name, nil
}

// badARN says which part of an ARN is wrong and how ARNs look here.
func (e *Engine) badARN(id auth.Identity, part, arn string) error {
	return api.Validation(api.VE1 + "Invalid " + part + " in '" + arn + "'. Valid ARN format is " +
		e.arn("dynamodb", id.Account, "table/{table-name}"))
}
