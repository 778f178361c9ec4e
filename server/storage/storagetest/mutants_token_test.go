// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"

	"github.com/extenddb/extenddb/server/storage"
)

func tokenMutants() []mutant {
	return []mutant{
		{"tokens are ignored", "many/token", func(s *Stub, m *Memory) {
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, _ *storage.Token) ([]storage.Result, error) {
				return m.WriteAll(ctx, ws, nil)
			}
		}},
		{"tokens of all accounts are one", "many/token", tokens(func(t *storage.Token) { t.Account = "same" })},
		{"tokens live for ever", "many/token", tokens(func(t *storage.Token) { t.Now = start })},
		{"tokens live for nine minutes", "many/token", tokens(func(t *storage.Token) { t.Now = start.Add(t.Now.Sub(start) * 10 / 9) })},
		{"digests are not compared", "many/token", tokens(func(t *storage.Token) { t.Digest = [32]byte{} })},
		{"the end of a digest is not compared", "many/token", tokens(func(t *storage.Token) { t.Digest[31] = 0 })},
		{"tokens are not kept", "many/token", func(_ *Stub, m *Memory) { clear(m.disk.tokens) }},
		{"refused requests use tokens up", "many/token", answered(func(m *Memory, token *storage.Token, err error) error {
			if c := new(storage.Cancelled); errors.As(err, &c) && token != nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.disk.tokens[[2]string{token.Account, token.Token}] = memToken{token.Digest, token.Now}
			}
			return err
		})},
		{"whoever comes later is told nothing", "many/token at once", answered(func(_ *Memory, _ *storage.Token, err error) error {
			if errors.Is(err, storage.ErrReplayed) {
				err = nil
			}
			return err
		})},
		{"other requests are taken for the first", "many/token of two requests at once", answered(func(_ *Memory, _ *storage.Token, err error) error {
			if errors.Is(err, storage.ErrTokenMismatch) {
				err = storage.ErrReplayed
			}
			return err
		})},
		{"a token is looked up and kept in two steps", "many/token at once", func(s *Stub, m *Memory) {
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
				m.mu.Lock()
				err := m.seen(token)
				m.mu.Unlock()
				if err != nil {
					return nil, err
				}
				yieldAWhile()
				rs, err := m.WriteAll(ctx, ws, nil)
				m.mu.Lock()
				defer m.mu.Unlock()
				m.disk.tokens[[2]string{token.Account, token.Token}] = memToken{token.Digest, token.Now}
				return rs, err
			}
		}},
	}
}
