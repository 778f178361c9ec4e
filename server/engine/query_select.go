// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"iter"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// listing is the part of a request that Query and Scan have in common, read as
// far as that goes without the table.
type listing struct {
	index      *string
	query      bool // a Query
	selects    string
	filter     *expr.Condition
	legacy     bool // the filter is QueryFilter or ScanFilter
	projection *expr.Projection
	start      *api.AttributeMap // ExclusiveStartKey
	limit      *int32
	consistent bool
	capacity   capacityDetail
}

// Values of Select.
const (
	selectAll       = "ALL_ATTRIBUTES"
	selectProjected = "ALL_PROJECTED_ATTRIBUTES"
	selectSpecific  = "SPECIFIC_ATTRIBUTES"
	selectCount     = "COUNT"
)

// readSelect checks Select against the members that name attributes.
func (l *listing) readSelect(sel *string, attributesToGet, projection bool) error {
	if sel == nil {
		return nil
	}
	l.selects = *sel
	named := ""
	switch {
	case projection:
		named = "ProjectionExpression"
	case attributesToGet:
		named = "AttributesToGet"
	}
	switch {
	case *sel == selectSpecific && named == "":
		return api.Validation(api.VE1 + "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case *sel == selectCount && named != "":
		return api.Validation(api.VE1 + "Cannot specify the " + named + " when choosing to get only the Count")
	case *sel != selectSpecific && named != "":
		return api.Validation(api.VE1 + "Cannot specify the " + named + " when choosing to get " + *sel)
	case *sel == selectProjected && l.index == nil:
		return api.Validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// findIndex returns the index the request names, nil for the table.
func (l *listing) findIndex(t *storage.Table) (*storage.Index, error) {
	if l.index == nil {
		return nil, nil
	}
	ix := t.Index(*l.index)
	switch {
	case ix == nil:
		return nil, api.Validation("The table does not have the specified index: " + *l.index)
	case l.consistent && !ix.Local:
		return nil, api.Validation("Consistent reads are not supported on global secondary indexes")
	}
	return ix, nil
}

// page starts a page over the table (ix nil) or an index.
func (l *listing) page(t *storage.Table, ix *storage.Index) *page {
	p := &page{
		table: t, index: ix, filter: l.filter, projection: l.projection, count: l.selects == selectCount,
		consistent: l.consistent, capacity: l.capacity,
	}
	if ix != nil {
		p.rng.Index = ix.ID
	}
	if l.limit != nil {
		p.limit = int(*l.limit)
	}
	return p
}

// finish checks which attributes the request names and decides what the page
// has to read of each row.
func (l *listing) finish(p *page) error {
	t, ix := p.table, p.index
	if err := checkProjectedKeys(l.projection, t); err != nil {
		return err
	}
	if l.filter != nil {
		if err := l.checkFilter(t, ix); err != nil {
			return err
		}
	}
	if ix == nil || ix.Projection.ProjectionType == ddb.ProjectAll {
		return nil
	}
	p.view = projectedItem
	if ix.Projection.ProjectionType == ddb.ProjectKeysOnly {
		p.view = keysOnly
	}
	if l.selects == selectAll && !ix.Local {
		return api.Validation(api.InvalidParameters + "Select type ALL_ATTRIBUTES is not supported for global secondary index " +
			ix.Name + " because its projection type is not ALL")
	}
	var named []string
	if l.projection != nil {
		named = unprojected(t, ix, l.projection.Refs())
	}
	if len(named) > 0 && !ix.Local {
		return api.Validation(api.InvalidParameters + "Global secondary index " + ix.Name + " does not project [" + strings.Join(named, ", ") + "]")
	}
	if l.filter != nil {
		if missing := unprojected(t, ix, l.filter.Refs()); len(missing) > 0 {
			slices.Sort(missing)
			return api.Validation(api.InvalidParameters + "Secondary index " + ix.Name +
				" does not project one or more filter attributes: [" + strings.Join(missing, ", ") + "]")
		}
	}
	if l.selects == selectAll || len(named) > 0 {
		p.view, p.fetch = wholeItem, true
	}
	return nil
}

// checkFilter refuses paths into key attributes, and filters on attributes that
// a Query's key condition is for.
func (l *listing) checkFilter(t *storage.Table, ix *storage.Index) error {
	if err := checkScalarKeys(l.filter.Refs(), t, t.Indexes); err != nil {
		return err
	}
	if l.query {
		text := "Filter Expression"
		if l.legacy {
			text = "QueryFilter"
		}
		hash, ranges := keySchema(t, ix)
		for _, a := range slices.Concat(hash, ranges) {
			for r := range l.filter.Refs() {
				if r.Name == a.Name {
					return api.Validation(text + " can only contain non-primary key attributes: Primary key attribute: " + a.Name)
				}
			}
		}
	}
	return nil
}

// unprojected lists the attributes among refs that an index does not carry,
// each once, in the order of refs.
func unprojected(t *storage.Table, ix *storage.Index, refs iter.Seq[expr.Ref]) (names []string) {
	keys := ix.KeyAttrs(t)
	for r := range refs {
		if slices.ContainsFunc(keys, func(a storage.KeyAttr) bool { return a.Name == r.Name }) ||
			slices.Contains(ix.Projection.NonKeyAttributes, r.Name) || slices.Contains(names, r.Name) {
			continue
		}
		names = append(names, r.Name)
	}
	return names
}
