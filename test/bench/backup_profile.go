// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/extenddb/extenddb/backupstore/fs"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// profile makes a backup and restores it, in this process, each with a CPU
// profile in the directory.
func (b *backupRig) profile(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := b.path("store-4")
	if err := fs.Init(root); err != nil {
		return err
	}
	store, err := fs.Open(fs.Options{Root: root})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: b.path("source.db"), Clock: clock.Real{}})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer func() { err = errors.Join(err, db.Close(), store.Close(), os.RemoveAll(root)) }()
	env := backup.Env{Store: store}
	err = profiled(filepath.Join(dir, "backup.pprof"), func() error {
		_, err := backup.Create(ctx, env, backup.CreateOptions{
			Source: db, Backend: "sqlite", Version: "bench", Region: "us-east-1", Account: auth.DefaultAccount, Table: syntheticTable,
		})
		return err
	})
	if err != nil {
		return err
	}
	ref, err := backup.Resolve(ctx, env, "latest:"+syntheticTable)
	if err != nil {
		return err
	}
	return profiled(filepath.Join(dir, "restore.pprof"), func() error {
		_, err := backup.Restore(ctx, env, ref, backup.RestoreOptions{Target: db, Account: auth.DefaultAccount, As: "restored"})
		return err
	})
}

// profiled writes a CPU profile of f.
func profiled(file string, f func() error) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}
