// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// files makes a directory m of files, each holding its own name.
func files(names ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, name := range names {
		fsys["m/"+name] = &fstest.MapFile{Data: []byte(name)}
	}
	return fsys
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files []string
		want  []string // names; nil: refused
		says  string
	}{
		{name: "none", want: []string{}},
		{name: "in order", files: []string{"0002_two_words.sql", "0001_one.sql", "README.md"}, want: []string{"one", "two_words"}},
		{name: "a gap", files: []string{"0001_one.sql", "0003_three.sql"}, says: "0003_three.sql is not number 2"},
		{name: "not from 1", files: []string{"0002_two.sql"}, says: "is not number 1"},
		{name: "twice", files: []string{"0001_a.sql", "0001_b.sql"}, says: "0001_b.sql is not number 2"},
		{name: "no number", files: []string{"first.sql"}, says: "first.sql is not number 1"},
		{name: "order of names", files: []string{"1_a.sql", "10_j.sql", "2_b.sql"}, says: "10_j.sql is not number 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps, err := Load(files(c.files...), "m")
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("error %v, want one with %q", err, c.says)
				}
				return
			}
			if err != nil || len(steps) != len(c.want) {
				t.Fatalf("steps %v (%v), want %q", steps, err, c.want)
			}
			for i, s := range steps {
				if s.Name != c.want[i] || s.Version != i+1 || s.Digest != sha256.Sum256([]byte(s.SQL)) || !strings.Contains(s.SQL, s.Name) {
					t.Errorf("step %+v, want %q", s, c.want[i])
				}
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	steps, err := Load(files("0001_a.sql", "0002_b.sql", "0003_c.sql"), "m")
	if err != nil {
		t.Fatal(err)
	}
	applied := func(versions ...int) []Applied {
		var list []Applied
		for _, v := range versions {
			a := Applied{Version: v, Digest: []byte("of a later program")}
			if v <= len(steps) {
				a.Digest = steps[v-1].Digest[:]
			}
			list = append(list, a)
		}
		return list
	}
	edited := applied(1, 2)
	edited[1].Digest = edited[0].Digest
	for _, c := range []struct {
		name    string
		applied []Applied
		pending int
		want    error
		says    string
	}{
		{name: "empty", pending: 3},
		{name: "behind", applied: applied(1), pending: 2},
		{name: "up to date", applied: applied(1, 2, 3)},
		{name: "newer", applied: applied(1, 2, 3, 4), want: ErrNewer, says: "its catalog has version 4, this program knows 3"},
		{name: "far newer", applied: applied(1, 99), want: ErrNewer, says: "its catalog has version 99, this program knows 3"},
		{name: "edited", applied: edited, want: ErrEdited, says: "step 2 (b)"},
		{name: "a gap", applied: applied(1, 3), want: ErrEdited, says: "step 2 is missing before step 3"},
		{name: "not from 1", applied: applied(2), want: ErrEdited, says: "step 1 is missing before step 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := Compare(steps, c.applied)
			if c.want != nil {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("error %v, want %v with %q", err, c.want, c.says)
				}
				return
			}
			if err != nil || plan.From != len(c.applied) || plan.To != 3 || len(plan.Steps) != c.pending {
				t.Fatalf("plan %+v (%v)", plan, err)
			}
			for i, s := range plan.Steps {
				if s.Version != plan.From+1+i {
					t.Errorf("step %d is number %d", i, s.Version)
				}
			}
		})
	}
}

func TestErrorsNameBothVersions(t *testing.T) {
	t.Parallel()
	pending := &Pending{Plan: Plan{From: 2, To: 5}}
	if text := pending.Error(); !errors.Is(pending, ErrPending) || !strings.Contains(text, "has version 2, this program needs 5") {
		t.Errorf("%q", text)
	}
	newer := &Newer{Database: 7, Program: 5}
	if text := newer.Error(); !errors.Is(newer, ErrNewer) || !strings.Contains(text, "has version 7, this program knows 5") {
		t.Errorf("%q", text)
	}
}

// TestTelling: nobody need listen.
func TestTelling(t *testing.T) {
	t.Parallel()
	Options{}.Begin(Step{}, 1, 1)
	Options{}.Wait("x")
	var told []string
	o := Options{Waiting: func(h string) { told = append(told, h) }, Report: func(s Step, i, n int) {
		if i != 1 || n != 2 {
			t.Errorf("step %d of %d", i, n)
		}
		told = append(told, s.Name)
	}}
	o.Wait("somebody")
	o.Begin(Step{Name: "a"}, 1, 2)
	if strings.Join(told, " ") != "somebody a" {
		t.Errorf("told %q", told)
	}
}
