// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

func readMutants() []mutant {
	return []mutant{
		{"get of nothing is empty", "object/missing", func(s *stub, m *Memory) {
			s.get = func(ctx context.Context, key string) (io.ReadCloser, error) {
				r, err := m.Get(ctx, key)
				if errors.Is(err, backupstore.ErrNotFound) {
					return io.NopCloser(bytes.NewReader(nil)), nil
				}
				return r, err
			}
		}},
		{"get ignores its context", "context/ends during get", func(s *stub, m *Memory) {
			s.get = func(ctx context.Context, key string) (io.ReadCloser, error) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				return m.Get(context.WithoutCancel(ctx), key)
			}
		}},
		{"get looks the object up with every read", "object/a reader keeps its object", func(s *stub, m *Memory) {
			s.get = func(ctx context.Context, key string) (io.ReadCloser, error) {
				if r, err := m.Get(ctx, key); err != nil {
					return r, err
				}
				return io.NopCloser(&changing{m: m, key: key}), nil
			}
		}},
		{"head of nothing fails", "object/missing", func(s *stub, m *Memory) {
			s.head = func(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
				meta, err := m.Head(ctx, key)
				if meta == nil && err == nil {
					err = backupstore.ErrNotFound
				}
				return meta, err
			}
		}},
		{"head knows no time", "object/round trip", func(s *stub, m *Memory) {
			s.head = func(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
				meta, err := m.Head(ctx, key)
				if meta != nil {
					meta.LastModified = time.Time{}
				}
				return meta, err
			}
		}},
		{"head answers what was asked", "object/missing", func(s *stub, m *Memory) {
			s.head = func(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
				for meta, err := range m.List(ctx, key) {
					return &meta, err
				}
				return nil, backupstore.CheckKey(key)
			}
		}},
		{"reads take any key", "key/invalid", func(s *stub, m *Memory) {
			s.head = func(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
				meta, err := m.Head(ctx, key)
				if errors.Is(err, backupstore.ErrInvalidKey) {
					return nil, nil
				}
				return meta, err
			}
		}},
	}
}

// changing reads an object that is looked up with every read.
type changing struct {
	m   *Memory
	key string
	at  int
}

func (c *changing) Read(b []byte) (int, error) {
	o, _ := c.m.object(c.key)
	if c.at >= len(o.body) {
		return 0, io.EOF
	}
	n := copy(b, o.body[c.at:])
	c.at += n
	return n, nil
}

// listing lets a mutant change what is listed.
func listing(m *Memory, change func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta) listFunc {
	return func(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
		return func(yield func(backupstore.ObjectMeta, error) bool) {
			clean, err := backupstore.CleanPrefix(prefix)
			if err = errors.Join(err, ctx.Err()); err != nil {
				yield(backupstore.ObjectMeta{}, err)
				return
			}
			var all []backupstore.ObjectMeta
			for meta := range m.List(ctx, "") {
				all = append(all, meta)
			}
			for _, meta := range change(all, clean) {
				if err := ctx.Err(); err != nil {
					yield(backupstore.ObjectMeta{}, err)
					return
				}
				if !yield(meta, nil) {
					return
				}
			}
		}
	}
}

func under(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
	return slices.DeleteFunc(all, func(m backupstore.ObjectMeta) bool { return !backupstore.HasPrefix(m.Key, prefix) })
}

func listMutants() []mutant {
	list := func(name, by string, change func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta) mutant {
		return mutant{name, by, func(s *stub, m *Memory) { s.list = listing(m, change) }}
	}
	return []mutant{
		list("list matches parts of components", "list/whole components", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			return slices.DeleteFunc(all, func(m backupstore.ObjectMeta) bool { return !strings.HasPrefix(m.Key, prefix) })
		}),
		list("list leaves out the object that is the prefix", "list/prefixes", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			return slices.DeleteFunc(under(all, prefix), func(m backupstore.ObjectMeta) bool { return m.Key == prefix })
		}),
		list("list sorts by components", "list/order", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			slices.SortFunc(all, func(a, b backupstore.ObjectMeta) int {
				return slices.Compare(strings.Split(a.Key, "/"), strings.Split(b.Key, "/"))
			})
			return under(all, prefix)
		}),
		list("list has no order", "list/order", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			slices.Reverse(all)
			return under(all, prefix)
		}),
		list("list ends after 1,000", "list/more than 1,000", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			all = under(all, prefix)
			return all[:min(len(all), 1000)]
		}),
		list("list repeats the last of a page", "list/more than 1,000", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			if all = under(all, prefix); len(all) > 1000 {
				all = slices.Insert(all, 1000, all[999])
			}
			return all
		}),
		list("list knows no sizes", "object/round trip", func(all []backupstore.ObjectMeta, prefix string) []backupstore.ObjectMeta {
			for i := range all {
				all[i].Size = 0
			}
			return under(all, prefix)
		}),
		{"list works once", "list/stopped early", func(s *stub, m *Memory) {
			s.list = func(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
				next, stop := iter.Pull2(m.List(ctx, prefix))
				return func(yield func(backupstore.ObjectMeta, error) bool) {
					defer stop()
					for meta, err, ok := next(); ok && yield(meta, err); meta, err, ok = next() {
						continue
					}
				}
			}
		}},
		{"list goes on after its context", "context/ends during list", func(s *stub, m *Memory) {
			s.list = func(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
				return m.List(context.WithoutCancel(ctx), prefix)
			}
		}},
		{"list ends silently", "context/ends during list", func(s *stub, m *Memory) {
			s.list = func(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
				return func(yield func(backupstore.ObjectMeta, error) bool) {
					for meta, err := range m.List(ctx, prefix) {
						if err != nil || !yield(meta, err) {
							return
						}
					}
				}
			}
		}},
		{"list is what it was when asked for", "list/prefixes", func(s *stub, m *Memory) {
			var old map[string]iter.Seq2[backupstore.ObjectMeta, error]
			s.list = func(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
				if old == nil {
					old = map[string]iter.Seq2[backupstore.ObjectMeta, error]{}
				}
				if old[prefix] == nil {
					frozen := NewMemory()
					for meta := range m.List(ctx, prefix) {
						_, _ = frozen.Put(ctx, meta.Key, bytes.NewReader(nil), backupstore.PutOptions{})
					}
					old[prefix] = frozen.List(ctx, prefix)
				}
				return old[prefix]
			}
		}},
	}
}

func deleteMutants() []mutant {
	return []mutant{
		{"delete matches parts of components", "delete/whole components", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				n, err := m.DeletePrefix(ctx, prefix)
				for _, key := range m.keys("") {
					if err == nil && strings.HasPrefix(key, strings.TrimSuffix(prefix, "/")) {
						more, _ := m.DeletePrefix(ctx, key)
						n += more
					}
				}
				return n, err
			}
		}},
		{"delete does not count", "delete/counts", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				_, err := m.DeletePrefix(ctx, prefix)
				return 0, err
			}
		}},
		{"delete counts one for a directory", "delete/counts", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				n, err := m.DeletePrefix(ctx, prefix)
				return min(n, 1), err
			}
		}},
		{"delete of nothing fails", "delete/counts", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				n, err := m.DeletePrefix(ctx, prefix)
				if n == 0 && err == nil {
					err = backupstore.ErrNotFound
				}
				return n, err
			}
		}},
		{"delete takes no object for a prefix", "delete/one object", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				if _, found := m.object(prefix); found {
					return 0, nil
				}
				return m.DeletePrefix(ctx, prefix)
			}
		}},
		{"delete removes one page", "list/more than 1,000", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				keys := m.keys(strings.TrimSuffix(prefix, "/"))
				for _, key := range keys[:min(len(keys), 1000)] {
					if _, err := m.DeletePrefix(ctx, key); err != nil {
						return 0, err
					}
				}
				return len(keys), nil
			}
		}},
		{"delete takes any prefix", "key/invalid prefix", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				return m.DeletePrefix(ctx, strings.ReplaceAll(prefix, "../a", "b"))
			}
		}},
		{"delete ignores its context", "context/ended before", func(s *stub, m *Memory) {
			s.delete = func(ctx context.Context, prefix string) (int, error) {
				return m.DeletePrefix(context.WithoutCancel(ctx), prefix)
			}
		}},
	}
}
