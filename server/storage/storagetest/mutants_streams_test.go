// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// answeredRecords changes the records that are read.
func answeredRecords(change func(rs []storage.Record) []storage.Record) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnRecords = func(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
			rs, err := m.Records(ctx, t, after, upTo, limit, bytes)
			return change(rs), err
		}
	}
}

// eachRecord changes every record that is read.
func eachRecord(change func(r *storage.Record)) func(s *Stub, m *Memory) {
	return answeredRecords(func(rs []storage.Record) []storage.Record {
		for i := range rs {
			change(&rs[i])
		}
		return rs
	})
}

// asked changes what is asked for.
func asked(change func(t *storage.TableID, after, upTo *int64, limit, bytes *int)) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnRecords = func(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
			change(&t, &after, &upTo, &limit, &bytes)
			return m.Records(ctx, t, after, upTo, limit, bytes)
		}
	}
}

// locked runs f with the lock of m.
func (m *Memory) locked(f func(d *disk)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.disk)
}

// insertion is a record of a row that was not there.
func (d *disk) insertion(t *storage.Table, k storage.Key) *storage.Record {
	d.lastSeq++
	return &storage.Record{Seq: d.lastSeq, Table: t.ID, Kind: storage.RecordInsert, Key: k, Keys: []byte("{}"), Size: 1, At: start}
}

// outOfStep draws the number of a change first, and makes the change later.
func outOfStep(waits bool) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		drawn := map[int64]bool{} // and not committed; guarded by the lock of m
		written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
			seq := int64(0)
			m.locked(func(d *disk) {
				d.lastSeq++
				seq = d.lastSeq
				drawn[seq] = true
			})
			yieldAWhile()
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(drawn, seq)
			mt, next, err := m.decide(w)
			if err != nil {
				return storage.Result{Table: tableOf(mt, w), Err: err}, err
			}
			n := len(m.disk.records)
			if err := m.record(mt, w, next); err != nil {
				return storage.Result{}, err
			}
			m.apply(mt, w.Key, next)
			if len(m.disk.records) > n {
				m.disk.records[n].Seq = seq
				slices.SortFunc(m.disk.records, func(a, b *storage.Record) int { return int(a.Seq - b.Seq) })
			}
			return storage.Result{Table: mt.def}, nil
		})
		s.OnHorizon = func(context.Context) (h int64, _ error) {
			m.locked(func(d *disk) {
				h = d.lastSeq
				for seq := range drawn {
					if waits {
						h = min(h, seq-1)
					}
				}
			})
			return h, nil
		}
	}
}

func streamMutants() []mutant {
	return slices.Concat(recordMutants(), []mutant{
		{"the records of one table are left out", "streams/apart", answeredRecords(func(rs []storage.Record) []storage.Record {
			return slices.DeleteFunc(rs, func(r storage.Record) bool { return r.Table == 2 })
		})},
		{"the horizon is ahead of what is committed", "streams/at once", outOfStep(false)},
		{"numbers are drawn before the row is locked", "streams/at once", outOfStep(true)},
		{"transactions are not recorded", "streams/at once", func(s *Stub, m *Memory) {
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
				rs, err := m.WriteAll(ctx, ws, token)
				m.locked(func(d *disk) {
					d.records = slices.DeleteFunc(d.records, func(r *storage.Record) bool { return r.Table == ws[0].Table.ID && r.Key.Equal(ws[0].Key) })
				})
				return rs, err
			}
		}},
		{"the caller's definition decides on images", "streams/view switched", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				r, err := m.Write(ctx, w)
				m.locked(func(d *disk) {
					for _, rec := range d.records {
						if rec.Table == w.Table.ID && rec.Key.Equal(w.Key) && w.Table.Def.StreamViewType == ddb.ViewBoth {
							rec.New = rec.Keys
						}
					}
				})
				return r, err
			})
		}},
		{"records are lost", "streams/reopen", func(_ *Stub, m *Memory) { m.disk.records = nil }},
		{"numbers begin again", "streams/reopen", func(_ *Stub, m *Memory) { m.disk.lastSeq = 0 }},
		{"the horizon is what is left", "work/record-trim", func(s *Stub, m *Memory) {
			s.OnHorizon = func(context.Context) (h int64, _ error) {
				m.locked(func(d *disk) {
					if n := len(d.records); n > 0 {
						h = d.records[n-1].Seq
					}
				})
				return h, nil
			}
		}},
		{"records go with their table", "streams/dropped", func(s *Stub, m *Memory) {
			s.OnCreateTable = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
				t, err := m.CreateTable(ctx, account, def, at)
				m.locked(func(d *disk) {
					d.records = slices.DeleteFunc(d.records, func(r *storage.Record) bool {
						return !slices.ContainsFunc(d.all(), func(mt *memTable) bool { return mt.def.ID == r.Table })
					})
				})
				return t, err
			}
		}},
		{"a drop is a change of rows", "streams/dropped", func(s *Stub, m *Memory) {
			s.OnDropTable = func(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
				t, err := m.DropTable(ctx, account, name, check)
				m.locked(func(d *disk) {
					for _, r := range d.tables[account][name].rows {
						d.records = append(d.records, d.insertion(t, r.row.Key))
					}
				})
				return t, err
			}
		}},
		{"loads are recorded", "streams/loads", func(s *Stub, m *Memory) {
			s.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
				l, err := m.Load(ctx, account, def, at)
				if err == nil {
					m.locked(func(d *disk) { d.records = append(d.records, d.insertion(l.Table(), keyOf(l.Table(), rowOf(1)))) })
				}
				return l, err
			}
		}},
	})
}

// recordMutants record the wrong thing.
func recordMutants() []mutant {
	return []mutant{
		{"deletes are not recorded", "streams/kinds of write", answeredRecords(func(rs []storage.Record) []storage.Record {
			return slices.DeleteFunc(rs, func(r storage.Record) bool { return r.Kind == storage.RecordRemove })
		})},
		{"images that the view type leaves out", "streams/kinds of write", eachRecord(func(r *storage.Record) {
			if r.Kind != storage.RecordRemove && r.New == nil {
				r.New = r.Keys
			}
		})},
		{"sizes miss the keys", "streams/kinds of write", eachRecord(func(r *storage.Record) { r.Size = max(1, len(r.New)+len(r.Old)) })},
		{"blind writes look at nothing", "streams/kinds of write", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				r, err := m.Write(ctx, w)
				m.locked(func(d *disk) {
					if n := len(d.records); w.Blind && n > 0 && d.records[n-1].Kind == storage.RecordModify {
						d.records[n-1].Kind, d.records[n-1].Old = storage.RecordInsert, nil
					}
				})
				return r, err
			})
		}},
		{"every write is recorded", "streams/silent", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				r, err := m.Write(ctx, w)
				if err == nil {
					m.locked(func(d *disk) { d.records = append(d.records, d.insertion(w.Table, w.Key)) })
				}
				return r, err
			})
		}},
		{"cancelled transactions are recorded", "streams/silent", func(s *Stub, m *Memory) {
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
				rs, err := m.WriteAll(ctx, ws, token)
				if c := new(storage.Cancelled); errors.As(err, &c) {
					m.locked(func(d *disk) { d.records = append(d.records, d.insertion(ws[0].Table, ws[0].Key)) })
				}
				return rs, err
			}
		}},
		{"replayed transactions are recorded", "streams/silent", func(s *Stub, m *Memory) {
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
				rs, err := m.WriteAll(ctx, ws, token)
				if errors.Is(err, storage.ErrReplayed) {
					m.locked(func(d *disk) { d.records = append(d.records, d.insertion(ws[0].Table, ws[0].Key)) })
				}
				return rs, err
			}
		}},
		{"all that is recorded happens at once", "streams/instant and service", eachRecord(func(r *storage.Record) { r.At = start })},
		{"records have no instant of their own", "streams/instant and service", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				if w.Change.At.IsZero() {
					w.Change.At = time.Unix(0, 0)
				}
				return m.Write(ctx, w)
			})
		}},
		{"who changed a row is not recorded", "streams/instant and service", eachRecord(func(r *storage.Record) { r.Service = false })},
		{"pages overlap", "streams/paging", asked(func(_ *storage.TableID, after, _ *int64, _, _ *int) { *after = max(0, *after-1) })},
		{"pages leave gaps", "streams/paging", asked(func(_ *storage.TableID, after, _ *int64, _, _ *int) {
			if *after > 0 {
				*after += 2
			}
		})},
		{"limits are ignored", "streams/paging", asked(func(_ *storage.TableID, _, _ *int64, limit, _ *int) { *limit = 1000 })},
		{"the end is ignored", "streams/paging", asked(func(_ *storage.TableID, _, upTo *int64, _, _ *int) { *upTo += 1000 })},
		{"sizes are ignored", "streams/paging", asked(func(_ *storage.TableID, _, _ *int64, _, bytes *int) { *bytes = 0 })},
		{"what does not fit is never read", "streams/paging", func(s *Stub, m *Memory) {
			s.OnRecords = func(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
				rs, err := m.Records(ctx, t, after, upTo, limit, bytes)
				if bytes == 1 {
					rs = nil
				}
				return rs, err
			}
		}},
		{"records are lent", "streams/paging", func(s *Stub, m *Memory) {
			s.OnRecords = func(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
				rs, err := m.Records(ctx, t, after, upTo, limit, bytes)
				m.locked(func(d *disk) {
					for i := range rs {
						j := slices.IndexFunc(d.records, func(r *storage.Record) bool { return r.Seq == rs[i].Seq })
						rs[i] = *d.records[j]
					}
				})
				return rs, err
			}
		}},
		{"records of all tables", "streams/apart", func(s *Stub, m *Memory) {
			s.OnRecords = func(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) (all []storage.Record, err error) {
				for id := range storage.TableID(10) {
					rs, err := m.Records(ctx, id, after, upTo, limit, bytes)
					if err != nil {
						return nil, err
					}
					for _, r := range rs {
						r.Table = t
						all = append(all, r)
					}
				}
				slices.SortFunc(all, func(a, b storage.Record) int { return int(a.Seq - b.Seq) })
				return all, nil
			}
		}},
	}
}

func trimMutants() []mutant {
	// never: work of a kind is not found.
	never := func(kind storage.WorkKind) func(s *Stub, m *Memory) {
		return func(s *Stub, m *Memory) {
			s.OnPending = func(ctx context.Context, now time.Time) ([]storage.Work, error) {
				ws, err := m.Pending(ctx, now)
				return slices.DeleteFunc(ws, func(w storage.Work) bool { return w.Kind == kind }), err
			}
		}
	}
	// early: steps of a kind are ahead of the time.
	early := func(kind storage.WorkKind, by time.Duration) func(s *Stub, m *Memory) {
		return func(s *Stub, m *Memory) {
			s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
				l, err := m.Claim(ctx, w)
				if err != nil || w.Kind != kind {
					return l, err
				}
				return &mutantLease{l, func(now time.Time) (storage.Progress, error) { return l.Step(ctx, now.Add(by)) }}, nil
			}
		}
	}
	// partly: a kind is finished after one step.
	partly := func(kind storage.WorkKind) func(s *Stub, m *Memory) {
		return func(s *Stub, m *Memory) {
			s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
				l, err := m.Claim(ctx, w)
				if err != nil || w.Kind != kind {
					return l, err
				}
				return &mutantLease{l, func(now time.Time) (storage.Progress, error) {
					p, err := l.Step(ctx, now)
					p.Finished = true
					return p, err
				}}, nil
			}
		}
	}
	ahead := func(by time.Duration) func(s *Stub, m *Memory) {
		return func(s *Stub, m *Memory) {
			s.OnPending = func(ctx context.Context, now time.Time) ([]storage.Work, error) { return m.Pending(ctx, now.Add(by)) }
		}
	}
	return []mutant{
		{"tokens are never removed", "work/token-expiry", never(storage.TokenExpiry)},
		{"young tokens are removed", "work/token-expiry", early(storage.TokenExpiry, 10*time.Minute)},
		{"some tokens are removed", "work/token-expiry", partly(storage.TokenExpiry)},
		{"token expiry is due at any time", "work/token-expiry", ahead(10 * time.Minute)},
		{"token expiry has many owners", "work/token-expiry", func(s *Stub, m *Memory) {
			s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
				m.locked(func(d *disk) { delete(d.claims, w) })
				return m.Claim(ctx, w)
			}
		}},
		{"records are never removed", "work/record-trim", never(storage.RecordTrim)},
		{"young records are removed", "work/record-trim", early(storage.RecordTrim, storage.RecordLife)},
		{"some records are removed", "work/record-trim", partly(storage.RecordTrim)},
		{"a trim is due at any time", "work/record-trim", ahead(storage.RecordLife)},
		{"a trim removes the rows too", "work/record-trim", func(s *Stub, m *Memory) {
			s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
				l, err := m.Claim(ctx, w)
				if err == nil && w.Kind == storage.RecordTrim {
					m.locked(func(d *disk) {
						mt := d.tables[account]["t"]
						mt.apply(mt.rows[0].row.Key, nil, 0)
					})
				}
				return l, err
			}
		}},
	}
}
