// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/proc"
)

// Targets of this part beside those of the others.
const (
	targetBare    = "bare"    // pgx: the same statement, or the usual ones
	targetCopies  = "copies"  // pgx: a table per index, with copies of the items
	targetStorage = "storage" // storage alone, in process
)

// The measurements, as they are named in the report.
const (
	cellGet      = "GetItem"
	cellPut      = "PutItem"
	cellQuery    = "Query of 100 items"
	cellHot      = "UpdateItem of 20 hot keys"
	cellIndexed  = "overwrite with 2 indexes"
	cellItems    = "index Query of 100 items"
	cellKeys     = "index Query of 100 keys"
	cellSmall    = "KEYS_ONLY Query, items of 400 bytes"
	cellLarge    = "KEYS_ONLY Query, large items"
	cellMany     = "GetItem of many tables"
	many, single = 16, 1 // clients
)

func cellPutIndexed(indexes int) string { return fmt.Sprintf("PutItem with %d indexes", indexes) }

func account() string { return auth.DefaultAccount }

// postgresTarget is one way of making a request.
type postgresTarget struct {
	rig  *postgresRig
	make func(ctx context.Context, i int) (func() error, error)
	http *httpTarget // instead of make
	op   operation   // of http
}

func (t *postgresTarget) client(ctx context.Context, _ operation, i int) (client, error) {
	if t.http != nil {
		return t.http.client(ctx, t.op, i)
	}
	request, err := t.make(ctx, i)
	return client{request: request, close: func() error { return nil }}, err
}

func (t *postgresTarget) cpu() (time.Duration, error) {
	if t.http != nil {
		return t.http.cpu()
	}
	return proc.CPU(os.Getpid())
}

func (t *postgresTarget) databaseCPU() (time.Duration, error) { return t.rig.cpu() }

// contest is what is measured side by side.
type contest struct {
	name    string
	clients []int
	targets []string
	warm    int // times as long as a cell: there is much to prepare
	each    map[string]*postgresTarget
}

// measurePostgres makes this part of the report.
func measurePostgres(ctx context.Context, o options, bin string, progress func(string, ...any)) (p *Postgres, err error) {
	r, err := newPostgresRig(ctx, o, bin)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p = &Postgres{Rows: r.sizes.catalog}
	if err := r.bare.QueryRow(ctx, "SHOW server_version").Scan(&p.Version); err != nil {
		return nil, err
	}
	contests, err := r.contests(ctx)
	if err != nil {
		return nil, err
	}
	for repeat := range o.repeats {
		for _, c := range contests {
			for _, clients := range c.clients {
				if err := p.measure(ctx, c, clients, repeat, o.time); err != nil {
					return nil, err
				}
				progress("repeat %d of %d: PostgreSQL, %s with %d clients", repeat+1, o.repeats, c.name, clients)
			}
		}
	}
	return p, nil
}

// measure lets the targets of a contest take turns, every other time in reverse
// order.
func (p *Postgres) measure(ctx context.Context, c contest, clients, repeat int, d time.Duration) error {
	targets := slices.Clone(c.targets)
	if repeat%2 == 1 {
		slices.Reverse(targets)
	}
	for _, name := range targets {
		if c.warm > 0 && repeat == 0 {
			if _, err := measure(ctx, c.each[name], operation{}, clients, time.Duration(c.warm)*d); err != nil {
				return fmt.Errorf("PostgreSQL, %s, warming up: %w", c.name, err)
			}
		}
		s, err := measure(ctx, c.each[name], operation{}, clients, d)
		if err != nil {
			return fmt.Errorf("PostgreSQL, %s, %d clients, %s: %w", c.name, clients, name, err)
		}
		cell := p.Cells.at(c.name, clients, name)
		if cell == nil {
			cell = &Cell{Operation: c.name, Clients: clients, Target: name}
			p.Cells = append(p.Cells, cell)
		}
		cell.Samples = append(cell.Samples, s)
	}
	return nil
}

// contests lists all that is measured.
func (r *postgresRig) contests(ctx context.Context) ([]contest, error) {
	table, err := r.local.db.Table(ctx, account(), tableName)
	if err != nil {
		return nil, err
	}
	indexed, err := r.local.db.Table(ctx, account(), indexedName(2))
	if err != nil {
		return nil, err
	}
	if r.local.sizes, err = answerSizes(r.local.call(ctx)); err != nil {
		return nil, err
	}
	all := []contest{}
	for i, name := range []string{cellGet, cellPut, cellQuery} {
		op := operations()[[]int{0, 1, 3}[i]]
		all = append(all, contest{name: name, clients: []int{single, many, hotClients}, targets: []string{targetBare, targetStorage, targetEngine, targetHTTP}, each: map[string]*postgresTarget{
			targetBare:    r.bareTarget(table, op.name),
			targetStorage: r.storageTarget(op),
			targetEngine:  r.engineTarget(r.local, op.name, op.body, r.local.sizes[op.name], r.sizes.partitions),
			targetHTTP:    {rig: r, op: op, http: &httpTarget{srv: r.http, partitions: r.sizes.partitions, sizes: r.local.sizes}},
		}})
	}
	for _, n := range []int{2, 6, 20} {
		body := `{"TableName":"` + indexedName(n) + `","Item":` + indexedText(n, "") + `}`
		all = append(all, engineOnly(cellPutIndexed(n), r.engineTarget(r.local, "PutItem", body, len("{}"), r.sizes.indexed)))
	}
	body := `{"TableName":"` + indexedName(2) + `","Item":` + indexedText(2, "") + `}`
	all = append(all,
		contest{name: cellHot, clients: []int{hotClients}, targets: []string{targetBare, targetEngine}, each: map[string]*postgresTarget{
			targetBare:   r.hotTarget(table),
			targetEngine: r.hotEngine(),
		}},
		contest{name: cellIndexed, clients: []int{many}, targets: []string{targetCopies, targetEngine}, each: map[string]*postgresTarget{
			targetCopies: r.copyTarget(func(c copyRequests) func(context.Context) error { return c.overwrite }),
			targetEngine: r.engineTarget(r.local, "PutItem", body, len("{}"), r.sizes.indexed),
		}},
		contest{name: cellItems, clients: []int{single, many}, targets: []string{targetCopies, targetStorage}, each: map[string]*postgresTarget{
			targetCopies:  r.copyTarget(func(c copyRequests) func(context.Context) error { return c.query("s, pk, sk, item") }),
			targetStorage: r.indexTarget(indexed, storage.Items),
		}},
		contest{name: cellKeys, clients: []int{single, many}, targets: []string{targetCopies, targetStorage}, each: map[string]*postgresTarget{
			targetCopies:  r.copyTarget(func(c copyRequests) func(context.Context) error { return c.query("s, pk, sk") }),
			targetStorage: r.indexTarget(indexed, storage.Keys),
		}},
	)
	for i, name := range []string{cellSmall, cellLarge} {
		body := `{"TableName":"` + []string{"small", "large"}[i] + `","IndexName":"by-g01","KeyConditionExpression":"g01 = :p","ExpressionAttributeValues":{":p":{"S":"q` + markIndex + `"}}}`
		all = append(all, engineOnly(name, r.engineTarget(r.local, "Query", body, 0, r.sizes.large)))
	}
	last := engineOnly(cellMany, r.manyTarget())
	last.warm = 10 // each connection prepares a statement for each table
	return append(all, last), nil
}

func engineOnly(name string, t *postgresTarget) contest {
	return contest{name: name, clients: []int{many}, targets: []string{targetEngine}, each: map[string]*postgresTarget{targetEngine: t}}
}

// bareTarget makes one of the requests by hand.
func (r *postgresRig) bareTarget(t *storage.Table, op string) *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		row, err := newRow(t)
		if err != nil {
			return nil, err
		}
		b, w := bareRequests{r.bare, t, row}, newWalk(r.sizes.partitions, i)
		do := map[string]func(context.Context) error{"GetItem": b.get, "PutItem": b.put, "Query": b.query}[op]
		return func() error {
			row.fill(w.next())
			return do(ctx)
		}, nil
	}}
}

func (r *postgresRig) storageTarget(op operation) *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		c, err := storageTarget{r.local}.client(ctx, op, i)
		return c.request, err
	}}
}

// engineTarget makes requests with the body of an operation. Its answer has so
// many bytes, if that is not 0.
func (r *postgresRig) engineTarget(l *local, op, text string, want, partitions int) *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		f, body, w := l.operations(ctx)[op], newHoles(text, partitions), newWalk(partitions, i)
		var out api.Body
		return func() error {
			body.fill(w.next())
			out.B = out.B[:0]
			return checkAnswer(op, f(body.text, &out), out.B, want)
		}, nil
	}}
}

func checkAnswer(op string, err error, answer []byte, want int) error {
	if err == nil && (want > 0 && len(answer) != want || want == 0 && !strings.Contains(string(answer), `"Count":100,`)) {
		err = fmt.Errorf("%s: %d bytes instead of %d: %.200s", op, len(answer), want, answer)
	}
	return err
}

// hot chooses one of the hot keys.
func hot(at place) place { return place{at.partition, 0, at.count} }

func (r *postgresRig) hotTarget(t *storage.Table) *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		row, err := newRow(t)
		if err != nil {
			return nil, err
		}
		b, w := bareRequests{r.open, t, row}, newWalk(min(hotKeys, r.sizes.partitions), i)
		return func() error {
			row.fill(hot(w.next()))
			return b.lockAndUpdate(ctx)
		}, nil
	}}
}

func (r *postgresRig) hotEngine() *postgresTarget {
	op := operations()[2]
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		f, body, w := r.wide.operations(ctx)[op.name], newHoles(op.body, r.sizes.partitions), newWalk(min(hotKeys, r.sizes.partitions), i)
		var out api.Body
		return func() error {
			body.fill(hot(w.next()))
			out.B = out.B[:0]
			return checkAnswer(op.name, f(body.text, &out), out.B, len("{}"))
		}, nil
	}}
}

func (r *postgresRig) copyTarget(of func(copyRequests) func(context.Context) error) *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		c, w := copyRequests{r.bare, newRowBytes(r.sizes.indexed)}, newWalk(r.sizes.indexed, i)
		do := of(c)
		return func() error {
			c.row.fill(w.next())
			return do(ctx)
		}, nil
	}}
}

// indexTarget reads a partition of the second index of a table.
func (r *postgresRig) indexTarget(t *storage.Table, want storage.Want) *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		row, w := newRowBytes(r.sizes.indexed), newWalk(r.sizes.indexed, i)
		return func() error {
			row.fill(w.next())
			n := 0
			for _, err := range r.local.db.Range(ctx, t, storage.Range{Index: t.Indexes[1].ID, P: row.g1.text, Want: want, Bytes: 1 << 20}) {
				if err != nil {
					return err
				}
				n++
			}
			if n != perPartition {
				return fmt.Errorf("range yields %d rows", n)
			}
			return nil
		}, nil
	}}
}

// manyTarget gets an item of one table after another.
func (r *postgresRig) manyTarget() *postgresTarget {
	return &postgresTarget{rig: r, make: func(ctx context.Context, i int) (func() error, error) {
		get := operations()[0]
		f, w := r.local.operations(ctx)[get.name], newWalk(1, i)
		bodies := make([]holes, r.sizes.many)
		for n := range bodies {
			bodies[n] = newHoles(strings.Replace(get.body, tableName, manyName(n), 1), 1)
		}
		var out api.Body
		return func() error {
			body := bodies[w.r.IntN(len(bodies))]
			body.fill(w.next())
			out.B = out.B[:0]
			return checkAnswer(get.name, f(body.text, &out), out.B, r.local.sizes[get.name])
		}, nil
	}}
}
