// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

// appendRequestItems appends the RequestItems of a BatchGetItem as compact
// JSON, as the service echoes them.
func appendRequestItems(dst []byte, items map[string]api.KeysAndAttributes) []byte {
	dst = append(dst, '{')
	for i, ref := range slices.Sorted(maps.Keys(items)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		r := items[ref]
		dst = appendKeysAndAttributes(appendName(dst, ref), &r)
	}
	return append(dst, '}')
}

// appendKeysAndAttributes appends what a BatchGetItem asks of one table.
func appendKeysAndAttributes(dst []byte, r *api.KeysAndAttributes) []byte {
	dst = append(appendName(append(dst, '{'), "Keys"), '[')
	for i := range r.Keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = ddb.AppendItem(dst, r.Keys[i].Item)
	}
	dst = append(dst, ']')
	if r.AttributesToGet != nil {
		dst = append(appendName(append(dst, ','), "AttributesToGet"), '[')
		for i, name := range r.AttributesToGet {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = ddb.AppendString(dst, name)
		}
		dst = append(dst, ']')
	}
	if r.ConsistentRead != nil {
		dst = appendName(append(dst, ','), "ConsistentRead")
		if *r.ConsistentRead {
			dst = append(dst, "true"...)
		} else {
			dst = append(dst, "false"...)
		}
	}
	if r.ProjectionExpression != nil {
		dst = ddb.AppendString(appendName(append(dst, ','), "ProjectionExpression"), *r.ProjectionExpression)
	}
	if r.ExpressionAttributeNames != nil {
		dst = append(appendName(append(dst, ','), "ExpressionAttributeNames"), '{')
		for i, name := range slices.Sorted(maps.Keys(r.ExpressionAttributeNames)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = ddb.AppendString(appendName(dst, name), r.ExpressionAttributeNames[name])
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendName appends the name of a JSON member and its colon.
func appendName(dst []byte, name string) []byte { return append(ddb.AppendString(dst, name), ':') }
