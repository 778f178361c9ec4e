// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestHostileArguments: whatever stands in the place of a name, the program
// refuses it in harmless words and leaves everything as it was.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 1)
	create := []string{"backup", "create", "music", "--storage", w.db, "--store", w.store}
	w.mustRun(t, create...)
	before := tree(t, w.dir)
	for _, bad := range []string{
		"../music", "..", ".", "/", "music/..", "a/b/c/d", `..\music`, "\x1b[31mred", "new\nline", "\x00", "\xff\xfe", "é键😀",
		"latest:", "latest:../x", "latest:\x1b", "arn:", "arn:aws:dynamodb:us-east-1:000000000000:table/../backup/x",
		"arn:aws:dynamodb:us-east-1:000000000000:table/music/backup/\x1b[2J", "000000000000/music/../../x",
		"%2e%2e", "~", "*", "''", "\u202e", strings.Repeat("x", 300), strings.Repeat("../", 2000), strings.Repeat("é", 40_000),
	} {
		for _, args := range [][]string{
			{"backup", "create", "--storage", w.db, "--store", w.store, "--", bad},
			append(slices.Clone(create), "--name="+bad),
			{"backup", "show", "--store", w.store, "--", bad},
			{"backup", "verify", "--store", w.store, "--", bad},
			{"backup", "delete", "--yes", "--store", w.store, "--", bad},
			{"restore", "--as", "copy", "--storage", w.db, "--store", w.store, "--", bad},
			{"restore", "latest:music", "--as=" + bad, "--storage", w.db, "--store", w.store},
			{"restore", "latest:music", "--dry-run", "--as=" + bad, "--storage", w.db, "--store", w.store},
			{"store", "init", "--", "s3://" + bad},
			{"store", "check", "--", bad},
			{"backup", "list", "--store=" + bad},
			{"backup", "list", "--progress-interval=" + bad},
			{"backup", bad},
			{bad},
		} {
			for _, form := range []string{"text", "json"} {
				code, stdout, stderr := run(t.Context(), append([]string{"--output", form}, args...)...)
				if code != exitUsage && code != exitNotFound || stdout != "" {
					t.Errorf("%.80q: exit code %d, stdout %.200q, stderr %.200q", args, code, stdout, stderr)
				}
				if strings.ContainsFunc(stderr, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
					t.Errorf("%.80q: control characters in %.200q", args, stderr)
				}
			}
		}
		if code, stdout, stderr := run(t.Context(), "backup", "list", "--table="+bad, "--store", w.store, "--output", "json"); code != exitOK || stdout != "[]\n" {
			t.Errorf("backup list --table %.80q: exit code %d, stdout %.200q, stderr %.200q", bad, code, stdout, stderr)
		}
	}
	if after := tree(t, w.dir); !slices.Equal(after, before) {
		t.Errorf("left behind: %q, there was %q", after, before)
	}
}

// tree is the names of everything below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
