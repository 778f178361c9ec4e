// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

type (
	putFunc    = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error)
	getFunc    = func(ctx context.Context, key string) (io.ReadCloser, error)
	headFunc   = func(ctx context.Context, key string) (*backupstore.ObjectMeta, error)
	listFunc   = func(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error]
	deleteFunc = func(ctx context.Context, prefix string) (int, error)
)

// stub is a store made of functions.
type stub struct {
	put      putFunc
	get      getFunc
	head     headFunc
	list     listFunc
	delete   deleteFunc
	validate func(ctx context.Context) error
}

func (s *stub) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
	return s.put(ctx, key, body, o)
}
func (s *stub) Get(ctx context.Context, key string) (io.ReadCloser, error) { return s.get(ctx, key) }
func (s *stub) Head(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
	return s.head(ctx, key)
}
func (s *stub) List(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
	return s.list(ctx, prefix)
}
func (s *stub) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	return s.delete(ctx, prefix)
}
func (s *stub) Validate(ctx context.Context) error { return s.validate(ctx) }

// mutant is the reference store with one fault, and the check that must find
// it.
type mutant struct {
	name, by string
	damage   func(s *stub, m *Memory)
}

func (x mutant) store() backupstore.Store {
	m := NewMemory()
	s := &stub{m.Put, m.Get, m.Head, m.List, m.DeletePrefix, m.Validate}
	x.damage(s, m)
	return s
}

// attempts is how often a check may miss a race that takes a microsecond.
const attempts = 30

// TestMutants: the suite fails stores that are not sound.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, x := range slices.Concat(putMutants(), conditionMutants(), readMutants(), listMutants(), deleteMutants()) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(checks(), func(c check) bool { return c.name == x.by })
			if i < 0 {
				t.Fatalf("there is no check %q", x.by)
			}
			for range attempts {
				if fs := record(t, checks()[i], x.store()); len(fs) > 0 {
					return
				}
			}
			t.Errorf("%q passes", x.by)
		})
	}
}

// TestRecorder: the same way of running a check passes a sound store.
func TestRecorder(t *testing.T) {
	t.Parallel()
	whole := mutant{damage: func(*stub, *Memory) {}}
	for _, c := range checks() {
		if fs := record(t, c, whole.store()); len(fs) > 0 {
			t.Errorf("%s: %q", c.name, fs)
		}
	}
}

// edit lets a mutant change the arguments of a put.
func edit(m *Memory, change func(key *string, body *[]byte, o *backupstore.PutOptions)) putFunc {
	return func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
		b, err := io.ReadAll(body)
		if err != nil {
			return backupstore.PutResult{}, err
		}
		change(&key, &b, &o)
		return m.Put(ctx, key, bytes.NewReader(b), o)
	}
}

func putMutants() []mutant {
	return []mutant{
		{"put stores what came before the body failed", "object/failing body", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				b, err := io.ReadAll(body)
				res, stored := m.Put(ctx, key, bytes.NewReader(b), o)
				return res, errors.Join(err, stored)
			}
		}},
		{"put removes the old object before reading the body", "object/failing body keeps the old", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				b, err := io.ReadAll(body)
				if err != nil {
					_, _ = m.DeletePrefix(ctx, key)
					return backupstore.PutResult{}, err
				}
				return m.Put(ctx, key, bytes.NewReader(b), o)
			}
		}},
		{"put takes a failing body for the end", "object/failing body", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				b, _ := io.ReadAll(body)
				return m.Put(ctx, key, bytes.NewReader(b), o)
			}
		}},
		{"put hides why the body failed", "object/failing body", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				res, err := m.Put(ctx, key, body, o)
				if errors.Is(err, errBody) {
					err = errors.New("put failed")
				}
				return res, err
			}
		}},
		{"put reads once", "object/odd readers", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				b := make([]byte, 1<<20)
				n, err := body.Read(b)
				if err != nil && !errors.Is(err, io.EOF) {
					return backupstore.PutResult{}, err
				}
				return m.Put(ctx, key, bytes.NewReader(b[:n]), o)
			}
		}},
		{"put stops at one part", "object/large body", func(s *stub, m *Memory) {
			s.put = edit(m, func(_ *string, body *[]byte, _ *backupstore.PutOptions) { *body = (*body)[:min(len(*body), part)] })
		}},
		{"put trusts the size", "object/large body", func(s *stub, m *Memory) {
			s.put = edit(m, func(_ *string, body *[]byte, o *backupstore.PutOptions) { *body = (*body)[:o.Size] })
		}},
		{"put in two steps", "race/readers see whole objects", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				b, err := io.ReadAll(body)
				if err != nil {
					return backupstore.PutResult{}, err
				}
				if _, err := m.Put(ctx, key, bytes.NewReader(b[:len(b)/2]), o); err != nil {
					return backupstore.PutResult{}, err
				}
				return m.Put(ctx, key, bytes.NewReader(b), o)
			}
		}},
		{"put ignores its context", "context/ends during put", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				return m.Put(context.WithoutCancel(ctx), key, body, o)
			}
		}},
		{"put returns another ETag", "object/round trip", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				res, err := m.Put(ctx, key, body, o)
				res.ETag = `"` + res.ETag + `"`
				return res, err
			}
		}},
		{"put takes any key", "key/invalid", func(s *stub, m *Memory) {
			s.put = edit(m, func(key *string, _ *[]byte, _ *backupstore.PutOptions) { *key = strings.ReplaceAll(*key, `\`, "_") })
		}},
		{"put cuts keys at 1,000 bytes", "key/longest", func(s *stub, m *Memory) {
			s.put = edit(m, func(key *string, _ *[]byte, _ *backupstore.PutOptions) {
				if len(*key) <= 1024 {
					*key = (*key)[:min(len(*key), 1000)]
				}
			})
		}},
		{"put decodes keys", "key/unusual", func(s *stub, m *Memory) {
			s.put = edit(m, func(key *string, _ *[]byte, _ *backupstore.PutOptions) { *key = strings.ReplaceAll(*key, "%41", "A") })
		}},
		{"put works once", "object/overwrite", func(s *stub, m *Memory) {
			s.put = edit(m, func(_ *string, _ *[]byte, o *backupstore.PutOptions) { o.IfAbsent = true })
		}},
		{"validate leaves its probe", "object/validate", func(s *stub, m *Memory) {
			s.validate = func(ctx context.Context) error {
				_, err := m.Put(ctx, ".probe", strings.NewReader("x"), backupstore.PutOptions{})
				return err
			}
		}},
	}
}

func conditionMutants() []mutant {
	return []mutant{
		{"if-absent is ignored", "condition/if absent", func(s *stub, m *Memory) {
			s.put = edit(m, func(_ *string, _ *[]byte, o *backupstore.PutOptions) { o.IfAbsent = false })
		}},
		{"if-match is ignored", "condition/if match", func(s *stub, m *Memory) {
			s.put = edit(m, func(_ *string, _ *[]byte, o *backupstore.PutOptions) { o.IfMatch = "" })
		}},
		{"if-absent is judged before the body", "condition/judged at the end", early},
		{"if-absent is looked up, then put", "race/if absent", early},
		{"if-match is looked up, then put", "race/if match", early},
		{"if-match takes what is gone", "condition/if match", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				if meta, _ := m.Head(ctx, key); meta == nil {
					o.IfMatch = ""
				}
				return m.Put(ctx, key, body, o)
			}
		}},
		{"a lost race is no conflict", "condition/if match", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				res, err := m.Put(ctx, key, body, o)
				if errors.Is(err, backupstore.ErrConflict) {
					err = backupstore.ErrExists
				}
				return res, err
			}
		}},
		{"the ETag is the size", "condition/tags never return", func(s *stub, m *Memory) {
			s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
				res, err := m.Put(ctx, key, body, o)
				res.ETag = time.Duration(res.Size).String()
				return res, err
			}
		}},
		{"both conditions are one", "condition/both", func(s *stub, m *Memory) {
			s.put = edit(m, func(_ *string, _ *[]byte, o *backupstore.PutOptions) {
				if o.IfMatch != "" {
					o.IfAbsent = false
				}
			})
		}},
	}
}

// early judges a condition before it reads the body.
func early(s *stub, m *Memory) {
	s.put = func(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (backupstore.PutResult, error) {
		meta, err := m.Head(ctx, key)
		switch {
		case err != nil:
			return backupstore.PutResult{}, err
		case o.IfAbsent && meta != nil:
			return backupstore.PutResult{}, backupstore.ErrExists
		case o.IfMatch != "" && (meta == nil || meta.ETag != o.IfMatch):
			return backupstore.PutResult{}, backupstore.ErrConflict
		}
		runtime.Gosched() // a service takes its time, too
		return m.Put(ctx, key, body, backupstore.PutOptions{})
	}
}
