// SPDX-License-Identifier: Apache-2.0

// Package layers checks the structure of the tree: which package may import
// which, and the budgets that keep files and functions readable.
package layers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/extenddb/extenddb/"

// allowed names, for each package, the packages of this module that it may
// import directly. Arrows point down only: a package may not be imported by
// anything it imports, which Go itself sees to. "…" after a name stands for
// the packages below it.
var allowed = map[string][]string{
	"format/ddb":                 {},
	"format":                     {"format/ddb"},
	"backupstore":                {},
	"backupstore/fs":             {"backupstore"},
	"backupstore/storetest":      {"backupstore"},
	"server/progress":            {"server/clock"},
	"server/clock":               {},
	"server/auth":                {},
	"server/api":                 {"format/ddb"},
	"server/expr":                {"format/ddb"},
	"server/storage/keyenc":      {"format/ddb"},
	"server/storage":             {"server/storage/keyenc", "server/clock", "format/ddb"},
	"server/storage/sqlite":      {"server/storage", "server/storage/migrate", "server/storage/keyenc", "server/clock", "format/ddb"},
	"server/storage/postgres":    {"server/storage", "server/storage/migrate", "server/storage/keyenc", "server/clock", "format/ddb"},
	"server/storage/migrate":     {},
	"server/storage/storagetest": {"server/storage", "server/storage/keyenc", "server/clock", "format/ddb"},
	"server/engine":              {"server/api", "server/auth", "server/expr", "server/storage", "server/storage/keyenc", "server/clock", "format/ddb"},
	"server/wire":                {"server/engine", "server/api", "server/auth", "server/clock", "format/ddb"},
	"server/backup":              {"server/storage", "format", "format/ddb", "backupstore", "server/progress", "server/clock"},
	"server/jobs":                {"server/storage", "server/backup", "backupstore", "format", "server/progress", "server/clock", "format/ddb"},
	"server/admin":               {"server/progress", "server/clock"},
	"server":                     {"server/wire", "server/engine", "server/api", "server/auth", "server/jobs", "server/admin", "server/backup", "server/progress", "server/storage", "server/clock", "backupstore"},
	"tui":                        {"server/admin", "server/progress"},
	"cmd/cli":                    {"…"},
	"cmd/extenddb":               {"cmd/cli"},
}

// testsOnly are packages that nothing shipped may import.
var testsOnly = []string{"server/storage/storagetest", "backupstore/storetest", "test"}

type pkg struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if under(name, "test") {
			continue // black box: may use anything
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s has no row in the table of allowed imports", name)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			imp = strings.TrimPrefix(imp, module)
			if slices.ContainsFunc(testsOnly, func(d string) bool { return under(imp, d) }) {
				t.Errorf("%s imports %s, which is for tests only", name, imp)
			}
			if !slices.Contains(may, imp) && !slices.Contains(may, "…") {
				t.Errorf("%s may not import %s", name, imp)
			}
		}
	}
}

func under(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func TestTableHasNoStaleRows(t *testing.T) {
	t.Parallel()
	var have []string
	for _, p := range list(t) {
		have = append(have, strings.TrimPrefix(p.ImportPath, module))
	}
	for name := range allowed {
		if !slices.Contains(have, name) {
			t.Errorf("the table names %s, which does not exist", name)
		}
	}
}

// topLevel is what may lie in the root of the tree.
var topLevel = []string{
	"cmd", "server", "backupstore", "format", "catalogcheck", "tui", "docs", "test",
	"go.mod", "go.sum", "goreleaser.yaml", "Makefile", "Dockerfile",
	"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "NOTICE",
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", "../..", "ls-files").Output()
	if err != nil {
		t.Skip("not a git checkout: ", err)
	}
	for _, file := range strings.Fields(string(out)) {
		top, _, _ := strings.Cut(path.Clean(file), "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(topLevel, top) {
			t.Errorf("%s is outside the top-level folders", file)
		}
	}
}
