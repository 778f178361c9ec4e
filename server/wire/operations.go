// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/engine"
)

// operation is an entry of the dispatch table.
type operation struct {
	run  func(ctx context.Context, id auth.Identity, c *call) error
	page bool // may answer up to a page: room is reserved before it starts
}

const target = "DynamoDB_20120810."

// operations is everything a client can call.
func operations(e *engine.Engine) map[string]operation {
	return map[string]operation{
		target + "BatchGetItem":       paged(op(e.BatchGetItem)),
		target + "BatchWriteItem":     op(e.BatchWriteItem),
		target + "CreateTable":        op(e.CreateTable),
		target + "DeleteItem":         op(e.DeleteItem),
		target + "DeleteTable":        op(e.DeleteTable),
		target + "DescribeEndpoints":  opWith(e.DescribeEndpoints, setHost),
		target + "DescribeLimits":     op(e.DescribeLimits),
		target + "DescribeTable":      op(e.DescribeTable),
		target + "GetItem":            op(e.GetItem),
		target + "ListTables":         op(e.ListTables),
		target + "ListTagsOfResource": op(e.ListTagsOfResource),
		target + "PutItem":            op(e.PutItem),
		target + "Query":              paged(op(e.Query)),
		target + "Scan":               paged(op(e.Scan)),
		target + "TagResource":        op(e.TagResource),
		target + "TransactGetItems":   paged(op(e.TransactGetItems)),
		target + "TransactWriteItems": op(e.TransactWriteItems),
		target + "UntagResource":      op(e.UntagResource),
		target + "UpdateItem":         op(e.UpdateItem),
		target + "UpdateTable":        op(e.UpdateTable),
	}
}

// setHost tells DescribeEndpoints how the client reached us.
func setHost(in *api.DescribeEndpointsInput, c *call) { in.Host = c.r.Host }

// op makes an entry of a method of the engine.
func op[T any](f func(context.Context, auth.Identity, *T, *api.Body) error) operation {
	return opWith(f, nil)
}

// opWith is op for a request that holds more than its body; set adds it.
func opWith[T any](f func(context.Context, auth.Identity, *T, *api.Body) error, set func(*T, *call)) operation {
	decoder := api.NewDecoder[T]()
	return operation{run: func(ctx context.Context, id auth.Identity, c *call) error {
		in := new(T)
		switch err := decoder.DecodeBounded(c.body, in, freeParse, c.parseRoom); {
		case errors.Is(err, errBusy) || errors.Is(err, errEvicted) || errors.Is(err, context.Canceled):
			return api.Unavailable()
		case err != nil:
			return api.Serialization(err)
		}
		if set != nil {
			set(in, c)
		}
		return f(ctx, id, in, &c.out)
	}}
}

func paged(o operation) operation {
	o.page = true
	return o
}
