// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// storageTarget measures storage alone: keys, rows and definition are there.
type storageTarget struct{ *local }

func (t storageTarget) client(ctx context.Context, op operation, i int) (client, error) {
	table, err := t.db.Table(ctx, auth.DefaultAccount, tableName)
	if err != nil {
		return client{}, err
	}
	row, err := newRow(table)
	if err != nil {
		return client{}, err
	}
	c, w := storageClient{t.db, table, row}, newWalk(t.partitions, i)
	request, ok := map[string]func(context.Context) error{
		"GetItem":    c.get,
		"PutItem":    c.put,
		"UpdateItem": c.update,
		"Query":      c.query,
	}[op.name]
	if !ok {
		return client{}, fmt.Errorf("operation %s is not known here", op.name)
	}
	return client{
		request: func() error {
			c.row.fill(w.next())
			return request(ctx)
		},
		close: func() error { return nil },
	}, nil
}

// rowTemplate is a row with holes in key and item.
type rowTemplate struct {
	key          storage.Key
	next         storage.Next
	pk, sk, item template
}

func newRow(t *storage.Table) (*rowTemplate, error) {
	text := newTemplate([]byte(itemText))
	text.fill(place{count: firstCount})
	it, err := ddb.ParseItem(text.text)
	if err != nil {
		return nil, err
	}
	next, err := storage.Derive(t, it)
	if err != nil {
		return nil, err
	}
	r := &rowTemplate{next: *next}
	if r.key, err = t.KeyOf(it); err != nil {
		return nil, err
	}
	// The holes are where the digits of the first row are.
	holes := func(b []byte) template {
		after := func(prefix string) int {
			if i := bytes.Index(b, []byte(prefix)); i >= 0 {
				return i + len(prefix)
			}
			return -1
		}
		return template{text: b, partition: after(`"pk":{"S":"p`), row: after(`"sk":{"S":"s`), count: after(`"count":{"N":"`)}
	}
	r.item = holes(r.next.Item)
	r.pk = template{text: r.key.PK, partition: len("p"), row: -1, count: -1}
	r.sk = template{text: r.key.SK, partition: -1, row: len("s"), count: -1}
	return r, nil
}

func (r *rowTemplate) fill(at place) {
	r.pk.fill(at)
	r.sk.fill(at)
	r.item.fill(at)
}

// storageClient makes the storage calls of the operations.
type storageClient struct {
	db    storage.Engine
	table *storage.Table
	row   *rowTemplate
}

func (c storageClient) get(ctx context.Context) error {
	row, err := c.db.Get(ctx, c.table, c.row.key)
	if err == nil && (row == nil || len(row.Item) != len(c.row.next.Item)) {
		err = fmt.Errorf("get answers %v", row)
	}
	return err
}

func (c storageClient) put(ctx context.Context) error { return c.write(ctx, true) }

func (c storageClient) update(ctx context.Context) error { return c.write(ctx, false) }

func (c storageClient) write(ctx context.Context, blind bool) error {
	_, err := c.db.Write(ctx, storage.Write{
		Table: c.table, Key: c.row.key, Blind: blind,
		Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) { return &c.row.next, nil },
	})
	return err
}

func (c storageClient) query(ctx context.Context) error {
	n := 0
	for row, err := range c.db.Range(ctx, c.table, storage.Range{P: c.row.key.PK, Want: storage.Items, Rows: perPartition}) {
		if err != nil {
			return err
		}
		if len(row.Item) == len(c.row.next.Item) {
			n++
		}
	}
	if n != perPartition {
		return fmt.Errorf("range yields %d rows instead of %d", n, perPartition)
	}
	return nil
}
