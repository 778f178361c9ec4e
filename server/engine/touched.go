// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// touched is one item that a request on several tables has read or written.
type touched struct {
	table *storage.Table
	key   storage.Key
	item  ddb.Item // or the key
	cost  *consumed
}

// perTable calls f with the items of each table, tables in the order they
// first occur in.
func perTable(list []touched, f func(t *storage.Table, items []touched)) {
	byTable := map[storage.TableID][]touched{}
	var order []storage.TableID
	for _, x := range list {
		if byTable[x.table.ID] == nil {
			order = append(order, x.table.ID)
		}
		byTable[x.table.ID] = append(byTable[x.table.ID], x)
	}
	for _, t := range order {
		f(byTable[t][0].table, byTable[t])
	}
}

// appendCapacities appends the list of what each table was charged.
func appendCapacities(dst []byte, list []touched, detail capacityDetail, split unitSplit) []byte {
	dst = append(dst, '[')
	sep := ""
	perTable(list, func(t *storage.Table, items []touched) {
		sum := consumed{split: split}
		for _, x := range items {
			sum.add(x.cost)
		}
		dst = sum.appendJSON(append(dst, sep...), t.Name(), detail)
		sep = ","
	})
	return append(dst, ']')
}

// appendCollections appends the ItemCollectionMetrics of what was written: each
// item collection once.
func (e *Engine) appendCollections(ctx context.Context, id auth.Identity, dst []byte, list []touched) (_ []byte, err error) {
	dst = append(dst, '{')
	table := ""
	perTable(list, func(t *storage.Table, items []touched) {
		if !t.HasLocal() || err != nil {
			return
		}
		seen := map[string]bool{}
		for _, x := range items {
			if seen[string(x.key.PK)] {
				continue
			}
			seen[string(x.key.PK)] = true
			gb, failed := e.collectionGB(ctx, id, t, x.key.PK)
			if errors.Is(failed, storage.ErrTableNotFound) { // dropped since: there is no collection
				return
			}
			if err = failed; err != nil {
				return
			}
			switch {
			case table == t.Name():
				dst = append(dst, ',')
			case table != "":
				dst = append(dst, ']', ',')
				fallthrough
			default:
				dst = append(ddb.AppendString(dst, t.Name()), ':', '[')
				table = t.Name()
			}
			dst = appendMetrics(dst, t, x.item, gb)
		}
	})
	if table != "" {
		dst = append(dst, ']')
	}
	return append(dst, '}'), err
}
