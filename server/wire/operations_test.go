// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/engine"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	ops := operations(engine.New(engine.Options{}))
	var names, pages []string
	for _, name := range slices.Sorted(maps.Keys(ops)) {
		short, ok := strings.CutPrefix(name, "DynamoDB_20120810.")
		if !ok {
			t.Errorf("target %s", name)
		}
		names = append(names, short)
		if ops[name].page {
			pages = append(pages, short)
		}
	}
	if got, want := strings.Join(names, " "), "BatchGetItem BatchWriteItem CreateTable DeleteItem DeleteTable DescribeEndpoints DescribeLimits "+
		"DescribeTable GetItem ListTables ListTagsOfResource PutItem Query Scan TagResource TransactGetItems TransactWriteItems UntagResource UpdateItem UpdateTable"; got != want {
		t.Errorf("operations %s, want %s", got, want)
	}
	if got, want := strings.Join(pages, " "), "BatchGetItem Query Scan TransactGetItems"; got != want {
		t.Errorf("operations with pages %s, want %s", got, want)
	}
}

func TestDescribeEndpointsNamesTheHostCalled(t *testing.T) {
	t.Parallel()
	e := start(t, operations(engine.New(engine.Options{})), Options{})
	e.call("DescribeEndpoints", `{"Host":"elsewhere"}`).check(t, 200, `{"Endpoints":[{"Address":"`+e.addr+`","CachePeriodInMinutes":1440}]}`)
}
