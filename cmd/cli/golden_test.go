// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGoldenDocuments pins every JSON document of the commands of backups:
// docs/scripting.md promises that they only grow. EXTENDDB_TEST_UPDATE=1
// writes the file anew.
func TestGoldenDocuments(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 3)
	db, store := []string{"--storage", w.db, "--store", w.store}, []string{"--store", w.store}
	var out strings.Builder
	for _, c := range []struct {
		args  []string
		where []string
	}{
		{[]string{"store", "init", w.store}, nil},
		{[]string{"store", "check"}, store},
		{[]string{"backup", "list"}, store},
		{[]string{"backup", "verify", "--all"}, store},
		{[]string{"migrate", "--dry-run"}, db[:2]},
		{[]string{"migrate", "--yes"}, db[:2]},
		{[]string{"backup", "create", "music", "--name", "golden", "--progress", "none"}, db},
		{[]string{"backup", "list"}, store},
		{[]string{"backup", "show", "golden"}, store},
		{[]string{"backup", "verify", "golden", "--progress", "none"}, store},
		{[]string{"restore", "golden", "--as", "copy", "--dry-run", "--progress", "none"}, db},
		{[]string{"restore", "golden", "--as", "copy", "--progress", "none"}, db},
		{[]string{"restore", "golden", "--as", "copy", "--progress", "none"}, db},
		{[]string{"backup", "delete", "golden", "--yes"}, store},
		{[]string{"backup", "delete", "golden", "--yes"}, store},
	} {
		code, stdout, stderr := run(t.Context(), append(append([]string{"--output", "json"}, c.args...), c.where...)...)
		fmt.Fprintf(&out, "$ extenddb %s\n%s%s%d\n\n", strings.ReplaceAll(strings.Join(c.args, " "), w.store, "STORE"), stdout, stderr, code)
	}
	got := strings.ReplaceAll(strings.ReplaceAll(out.String(), w.store, "STORE"), w.db, "DATABASE")
	for _, m := range []struct{ of, is string }{
		{`\d{14}-[0-9a-f]{8}`, "ID"},
		{`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`, `"TIME"`},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UUID"},
		{`[0-9a-f]{64}`, "SHA256"},
		{`(_date_time": )[0-9.]+`, "${1}0.0"},
		{`(extenddb_version": )"[^"]*"`, `$1"VERSION"`},
		{`(seconds": )[0-9.e-]+`, "${1}0.0"},
		{`("(from|to)": )\d+`, "${1}9"},
	} {
		got = regexp.MustCompile(m.of).ReplaceAllString(got, m.is)
	}
	const file = "testdata/golden/documents.txt"
	if os.Getenv("EXTENDDB_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the documents are not as in %s, but\n%s", file, got)
	}
}
