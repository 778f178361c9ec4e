// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format"
)

// latest, before a table's name, stands for its newest backup.
const latest = "latest:"

// Named is the backup that a text names.
type Named struct {
	Ref format.Ref
	// Passed tells of the backups that are newer than the one that latest:TABLE
	// names: their manifests cannot be used. Objects are keys within the store.
	Passed []Finding
}

// Resolve is Find for who is content with a warning in the log about backups
// that were passed over.
func Resolve(ctx context.Context, e Env, text string) (format.Ref, error) {
	e = e.withDefaults()
	n, err := Find(ctx, e, text)
	for _, p := range n.Passed {
		e.Log.WarnContext(ctx, "backup cannot be used", "object", p.Object, "err", p.Message)
	}
	return n.Ref, err
}

// Find finds the one complete backup that the text names: an ARN, a path
// account/table/id, table/id, an id, a backup name, or latest:TABLE. The
// error is an *Error: NotFound, or Invalid when several fit, which it names.
func Find(ctx context.Context, e Env, text string) (n Named, err error) {
	e = e.withDefaults()
	if table, newest := strings.CutPrefix(text, latest); newest {
		return resolveLatest(ctx, e, table)
	}
	n.Ref, err = resolve(ctx, e, text)
	return n, err
}

func resolve(ctx context.Context, e Env, text string) (format.Ref, error) {
	switch slashes := strings.Count(text, "/"); {
	case strings.HasPrefix(text, "arn:"):
		arn, err := format.ParseARN(text)
		if err != nil {
			return format.Ref{}, &Error{Code: Invalid, Err: err}
		}
		return existing(ctx, e, text, arn.Ref().Prefix())
	case slashes == 2:
		return existing(ctx, e, text, text)
	case slashes > 2 || text == "":
		return format.Ref{}, notAName(text)
	case slashes == 1:
		return resolvePath(ctx, e, text)
	}
	return resolveName(ctx, e, text)
}

func notAName(text string) error {
	return errorf(Invalid, "%q names no backup", text).
		hint("name it by its ARN, ACCOUNT/TABLE/ID, TABLE/ID, ID, its name, or latest:TABLE")
}

// existing resolves a whole prefix.
func existing(ctx context.Context, e Env, text, prefix string) (format.Ref, error) {
	ref, ok := format.ParseRef(prefix)
	if !ok {
		return format.Ref{}, notAName(text)
	}
	o, err := e.Store.Head(ctx, ref.Key(format.ManifestName))
	switch {
	case err != nil:
		return format.Ref{}, Classify(ctx, err)
	case o == nil:
		return format.Ref{}, noBackup(text)
	}
	return ref, nil
}

// resolvePath resolves table/id, of any account.
func resolvePath(ctx context.Context, e Env, text string) (format.Ref, error) {
	all, err := scan(ctx, e, Filter{})
	if err != nil {
		return format.Ref{}, Classify(ctx, err)
	}
	var refs []format.Ref
	for _, f := range all {
		if f.complete && f.ref.Table+"/"+f.ref.ID == text {
			refs = append(refs, f.ref)
		}
	}
	return only(text, refs)
}

// resolveName resolves an id or a name, of any table. Only when no id fits the
// manifests are read.
func resolveName(ctx context.Context, e Env, text string) (format.Ref, error) {
	all, err := scan(ctx, e, Filter{})
	if err != nil {
		return format.Ref{}, Classify(ctx, err)
	}
	var refs []format.Ref
	for _, f := range all {
		if f.complete && f.ref.ID == text {
			refs = append(refs, f.ref)
		}
	}
	if len(refs) > 0 {
		return only(text, refs)
	}
	list, _, err := List(ctx, e, Filter{})
	if err != nil {
		return format.Ref{}, err
	}
	for _, s := range list {
		if s.Name == text {
			refs = append(refs, s.ref())
		}
	}
	return only(text, refs)
}

// only returns the single candidate for text.
func only(text string, refs []format.Ref) (format.Ref, error) {
	switch len(refs) {
	case 0:
		return format.Ref{}, noBackup(text)
	case 1:
		return refs[0], nil
	}
	const most = 10
	var names []string
	for _, r := range refs[:min(len(refs), most)] {
		names = append(names, r.Prefix())
	}
	more := ""
	if len(refs) > most {
		more = " …"
	}
	return format.Ref{}, errorf(Invalid, "%q names %d backups: %s%s", text, len(refs), strings.Join(names, " "), more).
		hint("name one of them in full")
}

// resolveLatest finds the newest backup of a table whose manifest can be used,
// and tells of those that are newer by their ids.
func resolveLatest(ctx context.Context, e Env, table string) (n Named, err error) {
	if err := checkName("table name", table); err != nil {
		return n, err
	}
	list, problems, err := List(ctx, e, Filter{Table: table})
	switch {
	case err != nil:
		return n, err
	case len(list) == 0 && len(problems) > 0:
		p := problems[len(problems)-1]
		return n, errorf(NotFound, "no backup %q in the store can be used: %s: %s", latest+table, p.Object, p.Message).hint("%s", p.hint())
	case len(list) == 0:
		return n, noBackup(latest + table)
	}
	newest := list[len(list)-1]
	rivals := slices.DeleteFunc(list, func(s Summary) bool { return s.Account == newest.Account })
	if len(rivals) > 0 {
		refs := []format.Ref{newest.ref()}
		for _, s := range rivals {
			refs = append(refs, s.ref())
		}
		n.Ref, err = only(latest+table, refs)
		return n, err
	}
	for _, p := range problems {
		if ref, _, ok := split(p.Object); ok && ref.ID > newest.ID { // which begins with the time
			n.Passed = append(n.Passed, p)
		}
	}
	n.Ref = newest.ref()
	return n, nil
}

// hint tells what can be done about a manifest that cannot be used.
func (f *Finding) hint() string {
	if f.Newer {
		return hintNewer
	}
	return "see what there is: extenddb backup list"
}

func (s *Summary) ref() format.Ref { return format.Ref{Account: s.Account, Table: s.Table, ID: s.ID} }
