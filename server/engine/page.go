// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

const (
	// maxPage ends a page: bytes of the rows it evaluated, as the service
	// counts them. The row that reaches it belongs to the page.
	maxPage = 1 << 20
	// maxStored bounds the stored bytes behind one response: numbers with
	// extreme exponents are stored in far more bytes than the service counts.
	maxStored = 16 << 20
)

// view says which attributes of a row a page may show.
type view uint8

const (
	wholeItem     view = iota // the item as stored
	projectedItem             // what an index of projection INCLUDE carries
	keysOnly                  // what an index of projection KEYS_ONLY carries
)

// page is one page of a Query or Scan, ready to be read.
type page struct {
	table      *storage.Table
	index      *storage.Index // nil: the table
	rng        storage.Range
	empty      bool // nothing is to be read: a segment beyond the sample
	single     bool // at most one row qualifies, so that the page is the last
	view       view
	fetch      bool // each row of a local index is completed from the table
	count      bool // Select COUNT
	limit      int  // rows to evaluate, 0 unbounded
	filter     *expr.Condition
	projection *expr.Projection
	consistent bool
	capacity   capacityDetail

	// The page so far.
	matched, scanned int
	size             int // of the evaluated rows, as the page limit counts them
	charged          int // of the evaluated rows in the table or index itself
	stored           int // bytes of the items read
	more             bool
	last             storage.Row // the last row evaluated, in buffers of the page
	used             consumed

	// What is the same for all rows, and used again with each.
	keys       *storage.KeyWriter // nil until a key is written
	shown      *expr.Projection   // of what the view has; nil for all of it
	tested     []string           // attributes that the filter looks at
	attributes ddb.Item           // those, of a row
	buf, part  []byte
}

// want is the least that the page needs of each row.
func (p *page) want() storage.Want {
	switch {
	case p.view == keysOnly:
		return storage.Keys
	case !p.count || p.filter != nil:
		return storage.Items
	case p.index == nil: // Keys over a table come with sizes
		return storage.Keys
	}
	return storage.Sizes
}

// write reads the page and appends the response.
func (p *page) write(ctx context.Context, store storage.Reader, room *room) error {
	p.rng.Want, p.rng.Rows, p.rng.Bytes = p.want(), p.limit, maxPage
	if p.single {
		p.rng.Rows = 1
	}
	p.rng.AtMost = p.rng.Rows
	if err := p.prepare(); err != nil {
		return err
	}
	out := room.out
	start := len(out.B)
	lastKey, err := p.read(ctx, store, room)
	if errors.Is(err, keyenc.ErrShortened) && p.rng.Want == storage.Sizes {
		// The page ended at a row whose key only its item tells.
		p.rng.Want, out.B = storage.Items, out.B[:start]
		lastKey, err = p.read(ctx, store, room)
	}
	if err != nil {
		return err
	}
	out.Raw(`"Count":`)
	out.B = strconv.AppendInt(out.B, int64(p.matched), 10)
	out.Raw(`,"ScannedCount":`)
	out.B = strconv.AppendInt(out.B, int64(p.scanned), 10)
	if lastKey != nil {
		out.Raw(`,"LastEvaluatedKey":`)
		out.B = append(out.B, lastKey...)
	}
	if p.capacity != capacityNone {
		p.charge()
		out.Raw(`,"ConsumedCapacity":`)
		out.B = p.used.appendJSON(out.B, p.table.Name(), p.capacity)
	}
	out.Raw("}")
	return nil
}

// prepare sets what is the same for all rows.
func (p *page) prepare() (err error) {
	p.shown = p.projection
	if p.shown == nil && p.view == projectedItem {
		if p.shown, err = expr.NewProjection(p.index.Projected()); err != nil {
			return err
		}
	}
	if p.filter != nil {
		p.attributes = ddb.Item{}
	}
	for ref := range p.filter.Refs() {
		if !slices.Contains(p.tested, ref.Name) {
			p.tested = append(p.tested, ref.Name)
		}
	}
	return nil
}

// read appends the response up to the items and returns the LastEvaluatedKey,
// nil when nothing can follow.
func (p *page) read(ctx context.Context, store storage.Reader, room *room) (lastKey []byte, err error) {
	out := room.out
	p.matched, p.scanned, p.size, p.charged, p.stored, p.more, p.used = 0, 0, 0, 0, 0, false, consumed{}
	out.Raw("{")
	if !p.count {
		out.Raw(`"Items":[`)
	}
	if !p.empty {
		for row, err := range store.Range(ctx, p.table, p.rng) {
			if err != nil {
				return nil, err
			}
			if ended, err := p.add(row, room); ended || err != nil {
				if err != nil {
					return nil, err
				}
				break
			}
		}
	}
	if !p.count {
		out.Raw("],")
	}
	if !p.more || p.single {
		return nil, nil
	}
	lastKey, _, err = p.appendKeys(p.buf[:0], &p.last)
	return lastKey, err
}

// add evaluates a row and appends what the response shows of it. It tells
// whether the page ends, with that row or, when there is no room for it,
// before.
func (p *page) add(row *storage.Row, room *room) (ended bool, err error) {
	out := room.out
	if p.scanned > 0 && p.stored+len(row.Item) > maxStored {
		p.more = true
		return true, nil
	}
	shown, match, cost, err := p.show(row)
	if err != nil {
		return false, err
	}
	if match && !p.count {
		switch {
		case p.scanned == 0:
			if err := room.must(len(shown)); err != nil {
				p.buf, p.part = nil, nil
				clear(p.attributes)
				return true, err
			}
		case !out.Room(len(shown) + 1):
			p.more = true
			return true, nil
		}
		if p.matched > 0 {
			out.B = append(out.B, ',')
		}
		out.B = append(out.B, shown...)
	}
	if match {
		p.matched++
	}
	p.scanned++
	p.stored += len(row.Item)
	p.charged += cost.own
	p.size += max(cost.own, cost.fetched)
	if p.fetch {
		p.used.table += readUnits(cost.fetched, p.consistent)
	}
	p.keep(row)
	p.more = p.scanned == p.limit || p.size >= maxPage
	return p.more, nil
}

// rowCost is what evaluating a row counts, in bytes: in the table or index that
// is read, and in the table a local index reaches back to.
type rowCost struct{ own, fetched int }

// show returns the JSON of what the response shows of a row that passes the
// filter; anything when it only counts. The text is valid until the next call
// or row.
func (p *page) show(row *storage.Row) (text []byte, match bool, cost rowCost, err error) {
	cost.own, text = row.Size, row.Item
	if p.view != keysOnly && !p.count {
		if _, err := wholeText(row); err != nil {
			return nil, false, cost, err
		}
	}
	switch {
	case p.view == keysOnly:
		if p.buf, cost.own, err = p.appendKeys(p.buf[:0], row); err != nil {
			return nil, false, cost, err
		}
		text = p.buf
	case p.fetch:
		it, err := storedItem(row)
		if err != nil {
			return nil, false, cost, err
		}
		cost.fetched = it.Size()
	}
	if p.filter != nil {
		if err := readAttributes(p.attributes, text, p.tested); err != nil {
			return nil, false, cost, err
		}
		if !p.filter.Eval(p.attributes) {
			return nil, false, cost, nil
		}
	}
	if p.shown != nil && !p.count {
		if p.part, err = projected(p.part[:0], text, p.shown); err != nil {
			return nil, false, cost, err
		}
		text = p.part
	}
	return text, true, cost, nil
}

// appendKeys appends the keys of a row and returns their size.
func (p *page) appendKeys(dst []byte, row *storage.Row) (json []byte, size int, err error) {
	if p.keys == nil {
		p.keys = storage.NewKeyWriter(p.table, p.index)
	}
	return p.keys.Append(dst, row)
}

// keep remembers where the page is.
func (p *page) keep(row *storage.Row) {
	l := &p.last
	l.P, l.S = append(l.P[:0], row.P...), append(l.S[:0], row.S...)
	l.Key.PK, l.Key.SK = append(l.Key.PK[:0], row.Key.PK...), append(l.Key.SK[:0], row.Key.SK...)
	l.Item = nil
	if keyenc.IsShortened(row.Key.PK) || keyenc.IsShortened(row.P) {
		l.Item = bytes.Clone(row.Item)
	}
}

// charge adds what the evaluated rows cost, before filter and projection.
func (p *page) charge() {
	units := readUnits(p.charged, p.consistent)
	if p.index == nil {
		p.used.table += units
	} else {
		p.used.chargeIndex(p.index, units)
	}
}
