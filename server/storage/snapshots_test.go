// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// openSnapshot is one of the register's.
type openSnapshot struct {
	Snapshot
	x *OpenSnapshots
}

func (s *openSnapshot) Close() error {
	s.x.Leave(s)
	return nil
}

func TestOpenSnapshots(t *testing.T) {
	t.Parallel()
	x := NewOpenSnapshots(3)
	a, b, c := &openSnapshot{x: x}, &openSnapshot{x: x}, &openSnapshot{x: x}
	for _, s := range []Snapshot{a, b, c} {
		if err := x.Enter(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Enter(&openSnapshot{}); !errors.Is(err, ErrTooManySnapshots) || x.Len() != 3 {
		t.Errorf("one too many: %v, %d open", err, x.Len())
	}
	x.Holds(a, 7)
	x.Holds(b, 7)
	for i, want := range []struct {
		s           Snapshot
		freed, idle bool
	}{{a, false, false}, {b, true, false}, {c, false, true}} { // c never knew its table
		if freed, idle := x.Leave(want.s); freed != want.freed || idle != want.idle {
			t.Errorf("%d: the table is free: %v, all are: %v", i, freed, idle)
		}
	}
	for _, s := range []Snapshot{a, b} {
		if err := x.Enter(s); err != nil {
			t.Fatal(err)
		}
	}
	if x.Close(); x.Len() != 0 {
		t.Errorf("%d are open", x.Len())
	}
}

// pages is a snapshot of rows that are read page by page.
type pages struct {
	t      *testing.T
	table  *Table
	pages  [][]string // sort keys
	err    error      // after the last page
	reader SnapshotReader
}

func (p *pages) Table() *Table            { return p.table }
func (p *pages) Marker() (string, string) { return "", "" }
func (p *pages) KeyOrdered() bool         { return true }
func (p *pages) Close() error             { p.reader.Close(); return nil }

func (p *pages) Rows(ctx context.Context) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		if !p.reader.Begin(yield) {
			return
		}
		if err := p.reader.Each(ctx, p, p.fill, yield); err != nil {
			yield(nil, err)
		}
	}
}

func (p *pages) fill(b *RowBuffer) (more bool, err error) {
	if b.Len() > 0 || len(p.pages) == 0 {
		p.t.Errorf("%d rows are in the way, %d pages are left", b.Len(), len(p.pages))
	}
	for _, sk := range p.pages[0] {
		it := ddb.Item{"pk": str("p"), "sk": str(sk)}
		k, err := p.table.KeyOf(it)
		if err != nil {
			return false, err
		}
		b.Add(&Row{Key: k, Item: ddb.AppendItem(nil, it)})
	}
	if p.pages = p.pages[1:]; len(p.pages) == 0 {
		return false, p.err
	}
	return true, nil
}

func TestSnapshotReader(t *testing.T) {
	t.Parallel()
	def := ddb.TableDefinition{
		TableName:            "t",
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}, {AttributeName: "sk", KeyType: ddb.Range}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "sk", AttributeType: "S"}},
	}
	table, err := NewTable(Table{ID: 1, Status: Active, Def: def}, nil)
	if err != nil {
		t.Fatal(err)
	}
	broken, cancelled := errors.New("broken"), context.Canceled
	for name, c := range map[string]struct {
		fault error
		at    int // row at which do is called
		do    func(p *pages, cancel func()) (goOn bool)
		rows  int
		err   error
	}{
		"to the end":            {at: -1, rows: 4},
		"stopped":               {at: 1, do: func(*pages, func()) bool { return false }, rows: 2},
		"closed":                {at: 1, do: func(p *pages, _ func()) bool { return p.Close() == nil }, rows: 2, err: ErrClosed},
		"cancelled":             {at: 2, do: func(_ *pages, cancel func()) bool { cancel(); return true }, rows: 3, err: cancelled},
		"failed":                {at: -1, fault: broken, rows: 3, err: broken},
		"failed, being closed":  {at: 2, do: func(p *pages, _ func()) bool { return p.Close() == nil }, fault: broken, rows: 3, err: ErrClosed},
		"read again meanwhile":  {at: 0, do: again, rows: 4},
		"row that is no row":    {at: 0, do: func(p *pages, _ func()) bool { p.table.Range.Name = "other"; return true }, rows: 1, err: ErrCorrupt},
		"closed before it read": {at: -2, rows: 0, err: ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			own, key := *table, *table.Range
			own.Range = &key
			p := &pages{t: t, table: &own, pages: [][]string{{"a", "b"}, {"c"}, {"d"}}, err: c.fault}
			if c.at == -2 {
				p.Close()
			}
			var got []string
			var failure error
			for row, err := range p.Rows(ctx) {
				if failure != nil {
					t.Errorf("after its error it yields %v, %v", row, err)
				}
				if failure = err; err != nil {
					continue
				}
				got = append(got, string(row.Key.SK))
				if len(got)-1 == c.at && !c.do(p, cancel) {
					break
				}
			}
			if want := []string{"a", "b", "c", "d"}[:c.rows]; !slices.Equal(got, want) || !errors.Is(failure, c.err) {
				t.Errorf("rows %q, want %q; %v, want %v", got, want, failure, c.err)
			}
		})
	}
}

// again reads the rows a second time, which is refused and disturbs nobody.
func again(p *pages, _ func()) bool {
	n := 0
	for row, err := range p.Rows(context.Background()) {
		if n++; row != nil || !errors.Is(err, ErrInvalid) {
			p.t.Error(fmt.Sprint(row, err))
		}
	}
	return n == 1
}
