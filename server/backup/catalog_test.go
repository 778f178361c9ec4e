// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/storetest"
	"github.com/extenddb/extenddb/format"
)

// shelf is a store with backups of three tables in two accounts, some of them
// unusable or unfinished.
//
//	123456789012/Music   1-a "nightly" (newest of all), 2-b "nightly"
//	123456789012/Other   1-a "weekly"
//	999999999999/Music   9-z "foreign"
//	123456789012/Broken  1-x: manifest cut short
//	123456789012/Music   5-u: no manifest
func shelf(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	for _, b := range []struct {
		account, table, id, name string
		created                  float64
	}{
		{account, "Music", "1-a", "nightly", 1_700_000_900},
		{account, "Music", "2-b", "nightly", 1_700_000_100},
		{account, "Other", "1-a", "weekly", 1_700_000_200},
		{"999999999999", "Film", "9-z", "foreign", 1_700_000_300},
	} {
		h := newHandmade(lineA)
		h.m.Table.Name = b.table
		h.m.Table.ARN = "arn:aws:dynamodb:us-east-1:" + b.account + ":table/" + b.table
		h.m.BackupARN = h.m.Table.ARN + "/backup/" + b.id
		h.m.BackupName, h.m.Created = b.name, b.created
		h.store(r, nil)
	}
	r.put("123456789012/Broken/1-x/extenddb-manifest.json", `{"format_version":1`)
	r.put("123456789012/Music/5-u/data/000001.json.gz", "")
	r.put("_leases/123456789012/Music.json", "{}")
	r.put("123456789012/Music/changelog/extenddb-manifest.json", "{}")
	r.put("123456789012/Music/1-a/extenddb-protect.json", "")
	r.put("notes.txt", "")
	return r
}

func prefixes(list []Summary) []string {
	var ps []string
	for _, s := range list {
		ps = append(ps, s.ref().Prefix())
	}
	return ps
}

func TestList(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	const music1, music2, other, film = "123456789012/Music/1-a", "123456789012/Music/2-b", "123456789012/Other/1-a", "999999999999/Film/9-z"
	for _, c := range []struct {
		filter   Filter
		want     []string
		problems int
	}{
		{Filter{}, []string{music2, other, film, music1}, 1},
		{Filter{Account: account}, []string{music2, other, music1}, 1},
		{Filter{Account: account, Table: "Music"}, []string{music2, music1}, 0},
		{Filter{Table: "Film"}, []string{film}, 0},
		{Filter{Table: "Broken"}, nil, 1},
		{Filter{Account: "12345678901"}, nil, 0},
		{Filter{Account: account, Table: "Mus"}, nil, 0},
	} {
		list, problems, err := List(t.Context(), r.env, c.filter)
		if err != nil || !slices.Equal(prefixes(list), c.want) || len(problems) != c.problems || list == nil || problems == nil {
			t.Errorf("%+v: %q %+v %v", c.filter, prefixes(list), problems, err)
		}
		for _, p := range problems {
			if p.Object != "123456789012/Broken/1-x/extenddb-manifest.json" || !strings.Contains(p.Message, "invalid backup manifest") {
				t.Errorf("problem %+v", p)
			}
		}
		for _, s := range list {
			if s.Protected != (s.ref().Prefix() == music1) {
				t.Errorf("%s is protected: %v", s.ARN, s.Protected)
			}
		}
	}
	unfinished, err := Unfinished(t.Context(), r.env)
	if err != nil || !slices.Equal(unfinished, []string{"123456789012/Music/5-u"}) {
		t.Errorf("unfinished %q, %v", unfinished, err)
	}
	_, _, err = List(t.Context(), r.env, Filter{Account: ".."})
	wantError(t, err, Invalid, "invalid key")
}

// A store that fails gives an error, not a shorter list; a backup that is
// deleted meanwhile is left out.
func TestListFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []storetest.Fault{
		{Method: "List", Err: errFault}, {Method: "List", Err: errFault, After: 3},
		{Method: "Get", Err: errFault}, {Method: "Get", Err: errFault, After: 10, Skip: 2},
	} {
		r := shelf(t)
		r.store.Inject(f)
		list, _, err := List(t.Context(), r.env, Filter{})
		wantError(t, err, Failed, "injected fault")
		if list != nil {
			t.Errorf("%+v: list %+v", f, list)
		}
		r.store.Inject(storetest.Fault{Method: "List", Err: errFault})
		_, err = Unfinished(t.Context(), r.env)
		wantError(t, err, Failed, "injected fault")
	}
	r := shelf(t)
	r.store.Inject(storetest.Fault{Method: "Get", Key: "Other", Err: backupstore.ErrNotFound})
	list, _, err := List(t.Context(), r.env, Filter{})
	if err != nil || len(list) != 3 {
		t.Errorf("%d backups, %v", len(list), err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	for text, want := range map[string]struct {
		prefix string
		code   Code
		says   string
	}{
		"arn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/2-b": {prefix: "123456789012/Music/2-b"},
		"arn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/7":   {code: NotFound, says: "no backup"},
		"arn:aws:dynamodb:us-east-1:123456789012:table/Music":            {code: Invalid, says: "invalid backup ARN: arn:aws"},
		"999999999999/Film/9-z":   {prefix: "999999999999/Film/9-z"},
		"123456789012/Broken/1-x": {prefix: "123456789012/Broken/1-x"}, // so that verify can say what is wrong
		"123456789012/Music/5-u":  {code: NotFound, says: `no backup "123456789012/Music/5-u" in the store`},
		"12/Music/5-u":            {code: Invalid, says: `"12/Music/5-u" names no backup`},
		"a/b/c/d":                 {code: Invalid, says: "names no backup"},
		"":                        {code: Invalid, says: "names no backup"},
		"Film/9-z":                {prefix: "999999999999/Film/9-z"},
		"Film/1-a":                {code: NotFound},
		"2-b":                     {prefix: "123456789012/Music/2-b"},
		"1-a":                     {code: Invalid, says: `"1-a" names 2 backups: 123456789012/Music/1-a 123456789012/Other/1-a`},
		"weekly":                  {prefix: "123456789012/Other/1-a"},
		"nightly":                 {code: Invalid, says: "names 2 backups"},
		"5-u":                     {code: NotFound},
		"latest:Music":            {prefix: "123456789012/Music/1-a"},
		"latest:Film":             {prefix: "999999999999/Film/9-z"},
		"latest:Broken":           {code: NotFound, says: `no backup "latest:Broken" in the store can be used: 123456789012/Broken/1-x/extenddb-manifest.json: `},
		"latest:a/b":              {code: Invalid, says: `table name "a/b" is not valid`},
	} {
		ref, err := Resolve(t.Context(), r.env, text)
		if want.code == "" {
			if err != nil || ref.Prefix() != want.prefix {
				t.Errorf("%q: %s, %v", text, ref.Prefix(), err)
			}
			continue
		}
		wantError(t, err, want.code, want.says)
		if e, _ := errors.AsType[*Error](err); e.Hint == "" && !strings.HasPrefix(text, "arn:") {
			t.Errorf("%q: no hint", text)
		}
	}
	for _, text := range []string{"Film/9-z", "2-b", "nightly", "latest:Music", "123456789012/Music/2-b"} {
		r.store.Inject(storetest.Fault{Method: "List", Err: errFault}, storetest.Fault{Method: "Head", Err: errFault})
		_, err := Resolve(t.Context(), r.env, text)
		wantError(t, err, Failed, "injected fault")
		r = shelf(t)
	}
}

// The newest backup of a table of two accounts is ambiguous, and many
// candidates are not all named.
func TestResolveAmbiguous(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 12 {
		h := newHandmade(lineA)
		acc := fmt.Sprintf("%012d", i/6)
		h.m.Table.ARN = "arn:aws:dynamodb:us-east-1:" + acc + ":table/Music"
		h.m.BackupARN = fmt.Sprintf("%s/backup/%d", h.m.Table.ARN, i)
		h.store(r, nil)
	}
	_, err := Resolve(t.Context(), r.env, "latest:Music")
	wantError(t, err, Invalid, "names 7 backups: 000000000001/Music/")
	_, err = Resolve(t.Context(), r.env, "by-another")
	wantError(t, err, Invalid, "names 12 backups", "000000000001/Music/7 …")
}

func TestShowFaults(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	ref := format.Ref{Account: account, Table: "Music", ID: "1-a"}
	s, m, err := Show(t.Context(), r.env, ref)
	if err != nil || !s.Protected || m.Table.Name != "Music" {
		t.Errorf("%+v %+v %v", s, m, err)
	}
	for _, method := range []string{"Get", "Head"} {
		r.store.Inject(storetest.Fault{Method: method, Err: errFault})
		_, _, err := Show(t.Context(), r.env, ref)
		wantError(t, err, Failed, "injected fault")
		r.store.Inject(storetest.Fault{Method: method, Err: errFault})
		_, err = Verify(t.Context(), r.env, ref)
		wantError(t, err, Failed, "injected fault")
	}
	bad := newHandmade(lineA).store(r, func(m *format.Manifest) { m.SizeBytes++ })
	_, _, err = Show(t.Context(), r.env, bad)
	wantError(t, err, Failed, "backup "+bad.Prefix()+" is damaged: extenddb-manifest.json: invalid backup manifest")
	ref.ID = "7"
	_, _, err = Show(t.Context(), r.env, ref)
	wantError(t, err, NotFound, "no backup")
	_, err = Verify(t.Context(), r.env, ref)
	wantError(t, err, NotFound, "no backup")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(60)
	s := r.create("source")
	objects := len(r.keys())
	var order []string
	inspect := func() {
		order = append(order, strings.Join(r.keys(), " "))
	}
	r.store.Inject(storetest.Fault{Method: "DeletePrefix", Before: inspect}, storetest.Fault{Method: "DeletePrefix", Before: inspect})
	n, err := Delete(t.Context(), r.env, s.ref())
	if err != nil || n != objects || len(r.keys()) != 0 {
		t.Errorf("deleted %d of %d, left %q, %v", n, objects, r.keys(), err)
	}
	if len(order) != 2 || !strings.Contains(order[0], format.ManifestName) || strings.Contains(order[1], format.ManifestName) ||
		strings.Count(order[1], " ") != objects-2 {
		t.Errorf("before the steps: %q", order)
	}
	_, err = Delete(t.Context(), r.env, s.ref())
	wantError(t, err, NotFound, "no backup")
}

func TestDeleteRefuses(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	before := r.keys()
	_, err := Delete(t.Context(), r.env, format.Ref{Account: account, Table: "Music", ID: "1-a"})
	wantError(t, err, Refused, "backup 123456789012/Music/1-a is protected")
	for _, f := range []storetest.Fault{{Method: "List", Err: errFault}, {Method: "DeletePrefix", Err: errFault}} {
		r.store.Inject(f)
		_, err = Delete(t.Context(), r.env, format.Ref{Account: account, Table: "Music", ID: "2-b"})
		wantError(t, err, Failed, "injected fault")
	}
	if !slices.Equal(r.keys(), before) {
		t.Errorf("left %q", r.keys())
	}
}

// A backup without manifest may be one being written: it is left alone for a
// day, whatever it is.
func TestDeleteWithoutManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.memory.Now = r.clock.Now
	r.rich(60)
	s := r.create("source")
	r.store.Inject(storetest.Fault{Method: "DeletePrefix", Skip: 1, Err: errFault})
	n, err := Delete(t.Context(), r.env, s.ref())
	wantError(t, err, Incomplete, "is deleted, but 123456789012/source/", "/_started could not be removed: injected fault")
	if n != 1 || len(r.listed()) != 0 {
		t.Errorf("deleted %d, listed %v", n, r.listed())
	}
	_, err = Delete(t.Context(), r.env, s.ref())
	wantError(t, err, Busy, "has no manifest")
	r.clock.Advance(24*time.Hour - time.Millisecond)
	_, err = Delete(t.Context(), r.env, s.ref())
	wantError(t, err, Busy)
	r.clock.Advance(time.Millisecond)
	if n, err := Delete(t.Context(), r.env, s.ref()); err != nil || n != s.Files+6 || len(r.keys()) != 0 {
		t.Errorf("deleted %d, left %q, %v", n, r.keys(), err)
	}
}
