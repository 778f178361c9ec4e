// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"fmt"

	"github.com/extenddb/extenddb/server/storage"
)

// Finish implements storage.Loading.
func (l *loading) Finish(ctx context.Context, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	err := l.step(func() error {
		if err := l.index(ctx, progress); err != nil {
			return err
		}
		return l.publish(ctx)
	})
	if err != nil {
		return err
	}
	l.over, l.ended = errOver, true
	l.discard()
	l.db.loads.remove(l)
	return nil
}

// index stores the entries, in order.
func (l *loading) index(ctx context.Context, progress func(done, total int64)) error {
	m, err := l.entries.merge()
	if err != nil {
		return err
	}
	defer m.close()
	done, total := int64(0), l.entries.n
	progress(done, total)
	var batch entryBatch
	for {
		if err := m.take(&batch, loadRows); err != nil {
			return err
		}
		if len(batch.ends) == 0 {
			break
		}
		for from := 0; from < len(batch.ends); {
			n, err := l.enter(ctx, &batch, from)
			if err != nil {
				return err
			}
			from += n
			done += int64(n)
			progress(done, total)
		}
	}
	if done != total {
		return &damage{fmt.Sprintf("%d of %d index entries are left after sorting", done, total)}
	}
	return nil
}

// enter stores the next n entries of a batch in one transaction.
func (l *loading) enter(ctx context.Context, b *entryBatch, from int) (n int, err error) {
	err = l.db.bulk(ctx, func(tx *tx) (bytes int, err error) {
		if _, err := tx.loading(l.table.ID); err != nil {
			return 0, err
		}
		st, err := tx.w.s.stmt(sqlEnter)
		if err != nil {
			return 0, err
		}
		begin := l.db.o.Clock.Now()
		for n = 0; from+n < len(b.ends) && !tx.enough(begin, n, bytes); n++ {
			r := b.at(from + n)
			p, s, pk, sk := r.position()
			st.bindInt(1, r.index())
			st.bindBlob(2, p)
			st.bindBlob(3, s)
			st.bindBlob(4, pk)
			st.bindBlob(5, sk)
			st.bindInt(6, r.row())
			st.bindInt(7, r.size())
			if err := st.run(); err != nil {
				return 0, err
			}
			bytes += len(r)
		}
		return bytes, nil
	})
	if err != nil {
		return 0, err
	}
	l.done += int64(n)
	return n, nil
}

// publish makes the table ACTIVE. Its samples are left to the job, to which
// it is due at once.
func (l *loading) publish(ctx context.Context) error {
	return l.db.change(ctx, false, func(tx *tx) error {
		e, err := tx.loading(l.table.ID)
		if err != nil {
			return err
		}
		t, err := e.table()
		if err != nil {
			return err
		}
		if _, err := tx.redefine(t, storage.Active, t.Def); err != nil {
			return err
		}
		id := int64(t.ID)
		if err := tx.run(sqlSetStats, id, l.stats.Items, l.stats.Bytes, int64(0), int64(0)); err != nil {
			return err
		}
		for ix, s := range l.stats.Indexes {
			if err := tx.run(sqlSetIxStats, int64(ix), id, s.Items, s.Bytes); err != nil {
				return err
			}
		}
		l.db.stats.loaded(t.ID, l.stats) // now: who sees the table ACTIVE must see them
		return nil
	})
}

// loaded notes what a load counted. The table is still due to be sampled.
func (k *tracker) loaded(id storage.TableID, s storage.Stats) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	*t = tracked{items: s.Items, bytes: s.Bytes, indexes: s.Indexes, used: t.used, samples: t.samples}
}
