// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
)

// manifestReads is how many manifests are read at a time.
const manifestReads = 4

// Filter narrows a List; zero members let everything pass.
type Filter struct {
	Account string
	Table   string
}

// found is a prefix of the store that holds objects of a backup.
type found struct {
	ref       format.Ref
	complete  bool // has a manifest
	protected bool
	newest    time.Time // of its objects
}

// List tells the complete backups of the store, by creation time and then ARN.
// A backup whose manifest cannot be used is a problem, not in the list;
// Finding.Object is then the key within the store. A prefix without manifest
// is neither: see Unfinished. An error is that of the store.
func List(ctx context.Context, e Env, f Filter) (list []Summary, problems []Finding, err error) {
	e = e.withDefaults()
	all, err := scan(ctx, e, f)
	if err != nil {
		return nil, nil, Classify(ctx, err)
	}
	all = slices.DeleteFunc(all, func(f found) bool { return !f.complete })
	type result struct {
		sum *Summary
		err error
	}
	results := make([]result, len(all))
	slots := make(chan struct{}, manifestReads)
	var wg sync.WaitGroup
	for i, f := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			m, err := readManifest(ctx, e, f.ref)
			if err == nil {
				results[i].sum = summarize(f.ref, m, f.protected)
			}
			results[i].err = err
		})
	}
	wg.Wait()
	list, problems = []Summary{}, []Finding{}
	for i, r := range results {
		switch {
		case r.err == nil:
			list = append(list, *r.sum)
		case invalidManifest(r.err):
			problems = append(problems, Finding{all[i].ref.Key(format.ManifestName), r.err.Error(), isNewer(r.err)})
		case errors.Is(r.err, backupstore.ErrNotFound): // deleted meanwhile
		default:
			return nil, nil, Classify(ctx, r.err)
		}
	}
	slices.SortFunc(list, func(a, b Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ARN, b.ARN))
	})
	return list, problems, nil
}

// Unfinished lists the prefixes that hold objects but no manifest: backups
// being written, and what is left of those that failed.
func Unfinished(ctx context.Context, e Env) ([]string, error) {
	e = e.withDefaults()
	all, err := scan(ctx, e, Filter{})
	if err != nil {
		return nil, Classify(ctx, err)
	}
	prefixes := []string{}
	for _, f := range all {
		if !f.complete {
			prefixes = append(prefixes, f.ref.Prefix())
		}
	}
	return prefixes, nil
}

// scan groups the objects of the store by backup, in the order of their keys.
// Objects that can belong to none are ignored.
func scan(ctx context.Context, e Env, f Filter) ([]found, error) {
	var all []found
	prefix := ""
	if f.Account != "" {
		prefix = f.Account
		if f.Table != "" {
			prefix += "/" + f.Table
		}
	}
	for o, err := range e.Store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list backups: %w", err)
		}
		ref, object, ok := split(o.Key)
		if !ok || f.Account != "" && f.Account != ref.Account || f.Table != "" && f.Table != ref.Table {
			continue
		}
		if n := len(all); n == 0 || all[n-1].ref != ref {
			all = append(all, found{ref: ref})
		}
		b := &all[len(all)-1]
		b.complete = b.complete || object == format.ManifestName
		b.protected = b.protected || object == format.ProtectName
		if o.LastModified.After(b.newest) {
			b.newest = o.LastModified
		}
	}
	return all, nil
}

// split takes a store key apart into a backup and an object of it.
func split(key string) (ref format.Ref, object string, ok bool) {
	parts := strings.SplitN(key, "/", 4)
	if len(parts) < 4 {
		return ref, "", false
	}
	ref, ok = format.ParseRef(strings.Join(parts[:3], "/"))
	return ref, parts[3], ok
}

// Show tells what a backup is.
func Show(ctx context.Context, e Env, ref format.Ref) (*Summary, *format.Manifest, error) {
	e = e.withDefaults()
	m, err := readManifest(ctx, e, ref)
	var version *format.VersionError
	switch {
	case err == nil:
	case invalidManifest(err) && !errors.As(err, &version):
		return nil, nil, damaged(ref, format.ManifestName, err.Error())
	default:
		return nil, nil, Classify(ctx, notFound(ref, err))
	}
	protected, err := isProtected(ctx, e, ref)
	if err != nil {
		return nil, nil, Classify(ctx, err)
	}
	return summarize(ref, m, protected), m, nil
}

// notFound makes an error of a manifest that is not there one about the backup.
func notFound(ref format.Ref, err error) error {
	if errors.Is(err, backupstore.ErrNotFound) {
		return noBackup(ref.Prefix())
	}
	return err
}

func noBackup(text string) *Error {
	return errorf(NotFound, "no backup %q in the store", text).hint("see what there is: extenddb backup list")
}

func isProtected(ctx context.Context, e Env, ref format.Ref) (bool, error) {
	o, err := e.Store.Head(ctx, ref.Key(format.ProtectName))
	if err != nil {
		return false, fmt.Errorf("look whether backup %s is protected: %w", ref.Prefix(), err)
	}
	return o != nil, nil
}

// readManifest reads and checks the manifest of a backup.
func readManifest(ctx context.Context, e Env, ref format.Ref) (*format.Manifest, error) {
	key := ref.Key(format.ManifestName)
	r, err := e.Store.Get(ctx, key)
	if err != nil {
		return nil, about("read", key, err)
	}
	defer r.Close() //nolint:errcheck // was only read
	src := &source{r: r}
	m, err := format.ReadManifest(src, e.Limits.MaxManifest)
	switch {
	case src.err != nil:
		return nil, about("read", key, src.err)
	case err != nil:
		return nil, err
	}
	return m, m.Check(ref)
}

// invalidManifest reports whether err, of readManifest, is about what the
// manifest says, not about reading it.
func invalidManifest(err error) bool {
	var version *format.VersionError
	var sum *format.ChecksumError
	return errors.Is(err, format.ErrManifest) || errors.As(err, &version) || errors.As(err, &sum)
}

func isNewer(err error) bool {
	var version *format.VersionError
	return errors.As(err, &version)
}

func summarize(ref format.Ref, m *format.Manifest, protected bool) *Summary {
	return &Summary{
		ARN: m.BackupARN, ID: ref.ID, Name: m.BackupName, Account: ref.Account, Table: ref.Table,
		Created: format.Time(m.Created),
		Items:   m.Table.Items, TableSize: m.Table.SizeBytes, Size: m.SizeBytes, Files: len(m.Files),
		Protected: protected,
	}
}
