// Command list prints what `go test` needs to run the tests that do more where TGI_LONG is set, and no others: a -run
// flag and the folders of their packages. `make test-long` runs that behind `make test`, so that no test runs twice
// alike. A test is one of them if it, or whatever of its package it uses, mentions package long or reads TGI_LONG.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// asked is what a test mentions to learn how much it is to do.
const (
	asked    = `"tgi/conformance/long"`
	variable = `"TGI_LONG"`
	own      = "conformance/long/" // where both are declared
)

func main() {
	found, err := find(os.DirFS("."))
	if err == nil && len(found) == 0 {
		err = errors.New("no test takes long: run this at the root of the tree")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
	var names, folders []string
	for _, f := range found {
		names, folders = append(names, f.tests...), append(folders, "./"+f.folder)
	}
	slices.Sort(names)
	fmt.Printf("-run ^(%s)$ %s\n", strings.Join(slices.Compact(names), "|"), strings.Join(folders, " "))
}

// longTests are the tests of a folder that do more where TGI_LONG is set, in the order of their names.
type longTests struct {
	folder string
	tests  []string
}

// find returns the folders of a tree that have such tests, in their order.
func find(tree fs.FS) ([]longTests, error) {
	folders := map[string]declarations{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && (base == "testdata" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir // as the go command skips it
			}
			if _, err := fs.Stat(tree, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // another module
			}
		case strings.HasSuffix(base, ".go") && !strings.HasPrefix(name, own):
			source, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			if !strings.HasSuffix(base, "_test.go") {
				if bytes.Contains(source, []byte(asked)) {
					return fmt.Errorf("%s is no test and imports %s: the tests that use it would not be found", name, asked)
				}
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			folder := path.Dir(name)
			if folders[folder] == nil {
				folders[folder] = declarations{}
			}
			folders[folder].read(file)
		}
		return nil
	})
	var found []longTests
	for folder, d := range folders {
		if tests := d.tests(); len(tests) > 0 {
			found = append(found, longTests{folder, tests})
		}
	}
	slices.SortFunc(found, func(a, b longTests) int { return cmp.Compare(a.folder, b.folder) })
	return found, err
}

// declarations has, for each name that the tests of a folder declare (methods by their own names), the names that its
// declarations mention. More than is used may be among them: such a test runs a second time for nothing.
type declarations map[string]map[string]bool

// read adds what a file declares.
func (d declarations) read(file *ast.File) {
	name := "" // of package long in this file
	for _, i := range file.Imports {
		if i.Path.Value == asked {
			name = "long"
			if i.Name != nil {
				name = i.Name.Name
			}
		}
	}
	add := func(declared string, n ast.Node) {
		mentioned := d[declared]
		if mentioned == nil {
			mentioned = map[string]bool{}
			d[declared] = mentioned
		}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				mentioned[n.Name] = true
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && name != "" && x.Name == name {
					mentioned[asked] = true
				}
			case *ast.BasicLit:
				if n.Value == variable {
					mentioned[asked] = true
				}
			}
			return true
		})
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			add(decl.Name.Name, decl)
		case *ast.GenDecl:
			for _, s := range decl.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						add(n.Name, s)
					}
				case *ast.TypeSpec:
					add(s.Name.Name, s)
				}
			}
		}
	}
}

// tests returns the tests that reach package long, in their order; all of them if TestMain does.
func (d declarations) tests() []string {
	reach := map[string]bool{asked: true}
	for more := true; more; {
		more = false
		for declared, mentioned := range d {
			if reach[declared] {
				continue
			}
			for name := range mentioned {
				if reach[name] {
					reach[declared], more = true, true
					break
				}
			}
		}
	}
	var tests []string
	for declared := range d {
		if isTest(declared) && (reach[declared] || reach["TestMain"]) {
			tests = append(tests, declared)
		}
	}
	slices.Sort(tests)
	return tests
}

// isTest reports whether go test runs a function of this name.
func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && name != "TestMain" && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return true
		}
	}
	return false
}
