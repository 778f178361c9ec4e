// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The budgets: what a reader can hold in mind.
const (
	maxFileLines        = 500
	maxFuncLines        = 80
	maxInterfaceMethods = 6
	spdx                = "// SPDX-License-Identifier: Apache-2.0\n"
)

// data files hold tables, not code; they may be long.
var data = map[string]bool{"server/expr/reserved.go": true}

func TestBudgets(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"cmd", "server", "backupstore", "format", "catalogcheck", "tui", "test"} {
		root := filepath.Join("../..", dir)
		if _, err := os.Stat(root); err != nil {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			checkFile(t, path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkFile(t *testing.T, path string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := filepath.Rel("../..", path)
	name = filepath.ToSlash(name)
	if !strings.Contains(string(src), spdx) || (strings.Index(string(src), spdx) != 0 && !strings.HasPrefix(string(src), "//go:build ")) {
		t.Errorf("%s: does not begin with the SPDX line", name)
	}
	isTest := strings.HasSuffix(path, "_test.go")
	if n := strings.Count(string(src), "\n"); n > maxFileLines && !isTest && !data[name] {
		t.Errorf("%s: %d lines, more than %d", name, n, maxFileLines)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	c := checker{t: t, fset: fset, name: name, isTest: isTest, isMain: file.Name.Name == "main"}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			c.function(d)
		case *ast.GenDecl:
			c.declaration(d)
		}
	}
}

type checker struct {
	t              *testing.T
	fset           *token.FileSet
	name           string
	isTest, isMain bool
}

func (c checker) function(d *ast.FuncDecl) {
	lines := c.fset.Position(d.End()).Line - c.fset.Position(d.Pos()).Line + 1
	if lines > maxFuncLines && !c.isTest {
		c.t.Errorf("%s: func %s has %d lines, more than %d", c.name, d.Name.Name, lines, maxFuncLines)
	}
	if d.Name.Name == "init" && d.Recv == nil {
		c.t.Errorf("%s: init() hides what runs", c.name)
	}
	if d.Name.IsExported() && d.Doc == nil && !c.isTest && exportedReceiver(d) && !trivial[d.Name.Name] {
		c.t.Errorf("%s: exported func %s has no doc", c.name, d.Name.Name)
	}
}

// trivial are methods that implement a standard interface and say nothing more.
var trivial = map[string]bool{"Error": true}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func (c checker) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		ts, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil && ts.Comment == nil && !c.isTest {
			c.t.Errorf("%s: exported type %s has no doc", c.name, ts.Name.Name)
		}
		if iface, ok := ts.Type.(*ast.InterfaceType); ok {
			methods := 0
			for _, f := range iface.Methods.List {
				methods += len(f.Names)
			}
			if methods > maxInterfaceMethods {
				c.t.Errorf("%s: interface %s has %d methods, more than %d", c.name, ts.Name.Name, methods, maxInterfaceMethods)
			}
		}
	}
}
