// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// When statistics are taken again. A table that grows fast is counted often
// at first, so that parallel scans soon find a sample; the work stays in
// proportion, for it must have doubled.
const (
	countAfter   = time.Minute     // when a tenth changed
	recountAfter = 5 * time.Second // when as much changed as there was
	countAtLast  = 6 * time.Hour   // when anything did, as the service does
	countAnyway  = 24 * time.Hour  // so that a sample held back is renewed
	fewChanges   = 100
	smallTable   = 1000      // rows; it is counted again after any change, at most once in countAfter
	sampleHeld   = time.Hour // after the last scan on it
	maxCached    = 16        // samples, of up to 1 MB
)

// tracker knows the statistics of all tables, how much changed since they were
// taken, and when samples were used.
type tracker struct {
	mu     sync.Mutex
	tables map[storage.TableID]*tracked
	cached int // samples in memory
}

type tracked struct {
	items, bytes int64
	indexes      map[storage.IndexID]storage.IndexStats
	at           time.Time // zero: never counted
	unknown      bool      // how much changed before the process started
	changed      int64     // rows since at
	used         map[storage.IndexID]time.Time
	samples      map[storage.IndexID][]storage.Position // cached
	dirty        bool                                   // differs from the database
	later        bool                                   // a scan held the first sample off
	storing      chan struct{}                          // closed when new samples are committed; nil: none are under way
}

// loadTracker reads what is kept. After a crash nobody knows how much changed,
// if anything did, nor who scans: tables are counted again, samples kept for
// their hour.
func loadTracker(ctx context.Context, c *conn, crashed bool, now time.Time) (*tracker, error) {
	k := &tracker{tables: map[storage.TableID]*tracked{}}
	clean, err := c.queryInt("SELECT v FROM meta WHERE k = 'clean'")
	if err != nil {
		return nil, err
	}
	tables := c.each(ctx, "SELECT t, items, bytes, at, changed FROM table_stats", func(s *stmt) error {
		t := k.get(storage.TableID(s.colInt(0)))
		t.items, t.bytes, t.changed, t.unknown = s.colInt(1), s.colInt(2), s.colInt(4), clean == 0
		if at := s.colInt(3); at != 0 {
			t.at = time.UnixMilli(at)
		}
		return nil
	})
	indexes := c.each(ctx, "SELECT t, ix, items, bytes FROM index_stats", func(s *stmt) error {
		k.get(storage.TableID(s.colInt(0))).indexes[storage.IndexID(s.colInt(1))] =
			storage.IndexStats{Items: s.colInt(2), Bytes: s.colInt(3)}
		return nil
	})
	samples := c.each(ctx, "SELECT t, ix, used, length(positions) FROM samples", func(s *stmt) error {
		used := time.UnixMilli(s.colInt(2))
		if crashed || clean == 0 {
			used = now
		}
		t := k.get(storage.TableID(s.colInt(0)))
		t.used[storage.IndexID(s.colInt(1))] = used
		t.later = t.later || s.colInt(3) == 0
		return nil
	})
	if !crashed && clean != 0 {
		return k, errors.Join(tables, indexes, samples)
	}
	// Of those without a sample too, anybody may have been scanning.
	unsampled := c.each(ctx, sqlUnsampled, func(s *stmt) error {
		t := k.get(storage.TableID(s.colInt(0)))
		if t.items > 0 || t.changed > 0 || t.unknown || t.at.IsZero() {
			t.used[storage.IndexID(s.colInt(1))], t.later = now, true
		}
		return nil
	})
	return k, errors.Join(tables, indexes, samples, unsampled)
}

// get returns what is known of a table; the lock is held.
func (k *tracker) get(id storage.TableID) *tracked {
	t := k.tables[id]
	if t == nil {
		t = &tracked{
			indexes: map[storage.IndexID]storage.IndexStats{},
			used:    map[storage.IndexID]time.Time{},
			samples: map[storage.IndexID][]storage.Position{},
		}
		k.tables[id] = t
	}
	return t
}

// of returns the latest statistics of a table.
func (k *tracker) of(id storage.TableID) storage.Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tables[id]
	if t == nil {
		return storage.Stats{}
	}
	return storage.Stats{Items: t.items, Bytes: t.bytes, Indexes: maps.Clone(t.indexes)}
}

// total is about how many rows and entries a table has; 0 unknown.
func (k *tracker) total(id storage.TableID) int64 {
	s := k.of(id)
	n := s.Items
	for _, ix := range s.Indexes {
		n += ix.Items
	}
	return n
}

// touch notes that a row of the table changed.
func (k *tracker) touch(id storage.TableID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	t.changed++
	t.dirty = true
}

// created notes a new table, which is empty: it need not be counted.
func (k *tracker) created(id storage.TableID, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	t.at, t.dirty = at, true
}

func (k *tracker) forget(id storage.TableID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tables, id)
}

// due reports whether a table should be counted.
func (k *tracker) due(id storage.TableID, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tables[id]
	if t == nil || t.at.IsZero() || t.unknown {
		return true
	}
	age := now.Sub(t.at)
	return t.changed > max(fewChanges, t.items/10) && age >= countAfter ||
		t.changed > max(fewChanges, t.items) && age >= recountAfter ||
		t.changed > 0 && age >= countAfter && t.items+t.changed <= smallTable ||
		t.changed > 0 && age >= countAtLast ||
		t.later && age >= sampleHeld ||
		age >= countAnyway
}

// changes tells how much changed so far, for counted.
func (k *tracker) changes(id storage.TableID) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.get(id).changed
}

// counted takes new statistics; before is what had changed when the count
// began. What changed meanwhile may be in it or not, and stays to be counted.
// later tells that a first sample was held off.
func (k *tracker) counted(id storage.TableID, s storage.Stats, now time.Time, before int64, later bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	t.items, t.bytes, t.indexes, t.at, t.unknown, t.later = s.Items, s.Bytes, s.Indexes, now, false, later
	t.changed -= before
}

// held reports whether scans may still rely on the sample of an index, or on
// there being none.
func (k *tracker) held(id storage.TableID, ix storage.IndexID, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	used, ok := k.get(id).used[ix]
	return ok && now.Sub(used) < sampleHeld
}

// store makes use wait until the function it returns is called. Otherwise a
// scan could begin on a sample that was just found not to be held, and go on
// with the next one: rows between their bounds would be read twice or never.
func (k *tracker) store(id storage.TableID) (stored func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	t.storing = make(chan struct{})
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		close(t.storing)
		t.storing = nil
	}
}

// use notes that a scan asked for a sample, which it returns if it is cached.
func (k *tracker) use(
	ctx context.Context, id storage.TableID, ix storage.IndexID, now time.Time,
) (sample []storage.Position, cached bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	for t.storing != nil {
		stored := t.storing
		k.mu.Unlock()
		select {
		case <-stored:
		case <-ctx.Done():
			err = ctx.Err()
		}
		k.mu.Lock()
		if err != nil {
			return nil, false, err
		}
	}
	sample, cached = t.samples[ix]
	if now.After(t.used[ix]) {
		t.used[ix], t.dirty = now, true
	}
	return sample, cached, nil
}

// cache keeps a sample in memory for the next scan.
func (k *tracker) cache(id storage.TableID, ix storage.IndexID, sample []storage.Position) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cached >= maxCached {
		for _, t := range k.tables {
			clear(t.samples)
		}
		k.cached = 0
	}
	k.get(id).samples[ix] = sample
	k.cached++
}

// uncache forgets a sample that was replaced.
func (k *tracker) uncache(id storage.TableID, ix storage.IndexID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.get(id).samples, ix)
}

// dirty reports whether save has anything to do.
func (k *tracker) dirty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.tables {
		if t.dirty {
			return true
		}
	}
	return false
}

// save writes what is only in memory of the tables of c: a read may have asked
// for a sample just as its table went.
func (k *tracker) save(s *session, c *catalog) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, t := range k.tables {
		if !t.dirty || c.byID[id] == nil {
			continue
		}
		at := int64(0)
		if !t.at.IsZero() && !t.unknown && !t.later {
			at = millis(t.at)
		}
		if err := s.run(sqlSetStats, int64(id), t.items, t.bytes, at, t.changed); err != nil {
			return err
		}
		for ix, used := range t.used {
			if err := s.run(sqlUseSample, millis(used), int64(id), int64(ix)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sample implements storage.Reader. The positions are shared: they must not be
// changed.
func (db *DB) Sample(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) (sample []storage.Position, err error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if err := errors.Join(ctx.Err(), db.cat.Load().proves(t)); err != nil {
		return nil, err
	}
	sample, cached, err := db.stats.use(ctx, t.ID, ix, now)
	if err != nil || cached {
		return sample, err
	}
	err = db.readInside(ctx, func(s *session) error {
		st, err := s.stmt(sqlSample)
		if err != nil {
			return err
		}
		st.bindInt(1, int64(t.ID))
		st.bindInt(2, int64(ix))
		found, err := st.step()
		if err != nil || !found {
			return err
		}
		defer st.reset()
		if sample, err = storage.DecodeSample(append([]byte(nil), st.colBlob(0)...), ix != 0); err == nil {
			db.stats.cache(t.ID, ix, sample)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return sample, nil
}
