// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/extenddb/extenddb/format"
)

// grace is how long a prefix without manifest is left alone: it may be a
// backup that is being written.
const grace = 24 * time.Hour

// Delete removes a backup and counts its objects. The manifest goes first, so
// that what is left after a failure is no backup to anybody. A protected
// backup is refused. What an earlier Delete left behind is removed once it is
// a day old; before, it could be a backup being written (Busy). Incomplete:
// it is no backup any more, but objects of it are left.
func Delete(ctx context.Context, e Env, ref format.Ref) (objects int, err error) {
	e = e.withDefaults()
	prefix := ref.Prefix()
	b, err := lookAt(ctx, e, ref)
	switch {
	case err != nil:
		return 0, Classify(ctx, err)
	case b == nil:
		return 0, noBackup(prefix)
	case b.protected:
		return 0, errorf(Refused, "backup %s is protected", prefix).hint("remove its %s first, if that is what you want", format.ProtectName)
	case !b.complete && e.Clock.Now().Sub(b.newest) < grace:
		return 0, errorf(Busy, "%s has no manifest: a backup may be being written there", prefix).
			hint("what a failed backup left can be deleted when it is a day old; before, and only when no backup runs anywhere, "+
				"remove %s from the store by hand", prefix)
	}
	if b.complete {
		n, err := e.Store.DeletePrefix(ctx, ref.Key(format.ManifestName))
		if err != nil {
			return n, Classify(ctx, fmt.Errorf("delete the manifest of backup %s: %w", prefix, err))
		}
		objects += n
	}
	n, err := e.Store.DeletePrefix(ctx, prefix)
	objects += n
	if err != nil {
		left := prefix
		for o, lerr := range e.Store.List(ctx, prefix) {
			if lerr == nil {
				left = o.Key
			}
			break
		}
		return objects, &Error{
			Code: Incomplete,
			Err:  fmt.Errorf("backup %s is deleted, but %s could not be removed: %w", prefix, left, err),
			Hint: "it is no longer listed; delete it again in a day, or remove what is left by hand",
		}
	}
	e.Log.InfoContext(ctx, "backup deleted", "prefix", prefix, "objects", objects)
	return objects, nil
}

// lookAt tells what there is of a backup; nil when nothing is.
func lookAt(ctx context.Context, e Env, ref format.Ref) (*found, error) {
	b := found{ref: ref}
	any := false
	for o, err := range e.Store.List(ctx, ref.Prefix()) {
		if err != nil {
			return nil, fmt.Errorf("list backup %s: %w", ref.Prefix(), err)
		}
		any = true
		switch o.Key {
		case ref.Key(format.ManifestName):
			b.complete = true
		case ref.Key(format.ProtectName):
			b.protected = true
		}
		if o.LastModified.After(b.newest) {
			b.newest = o.LastModified
		}
	}
	if !any {
		return nil, nil
	}
	return &b, nil
}
