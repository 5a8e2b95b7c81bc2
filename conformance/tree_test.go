package conformance

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the tree.
type source struct {
	path    string // slash-separated, from the root
	dir     string
	imports []string
	file    *ast.File
	lines   int
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// importRule forbids packages below From to import packages below any of Deny
// but not below any of Allow, unless the importing directory is below one of
// Except.
type importRule struct {
	From, Why           string
	Deny, Allow, Except []string
	Tests               bool // the rule holds for test files too
}

var importRules = []importRule{
	{
		From: "runtime", Deny: []string{"tgi/server", "tgi/plugins", "tgi/models"},
		Why: "runtime turns token ids into token ids: it knows neither HTTP nor wasm nor checkpoints, so that each can change alone",
	},
	{
		From: "plugins", Deny: []string{"tgi/server", "tgi/runtime", "tgi/models"},
		Allow: []string{"tgi/runtime/llm", "tgi/runtime/filestamp", "tgi/runtime/regular"},
		Why:   "plugins runs guests; server/host/bridge alone joins them to the engine, through interfaces over the plain types of runtime/llm",
	},
	{
		From: "runtime/llm", Deny: []string{"tgi"},
		Why: "its plain types cross every border, and each is declared there once: all packages may import it, so it imports none",
	},
	{
		From: "runtime/filestamp", Deny: []string{"tgi"},
		Why: "all worlds watch files by it, so it imports none",
	},
	{
		From: "runtime/regular", Deny: []string{"tgi"},
		Why: "all worlds read files by it, so it imports none",
	},
	{
		From: "server", Except: []string{"server/host", "server/cmd/tgi"},
		Deny: []string{"tgi/plugins", "tgi/models", "tgi/runtime/ort", "tgi/runtime/kv", "tgi/runtime/sched",
			"tgi/runtime/token"},
		Why: "server speaks to clients: it may know the engine's request and stream, not tensors, blocks, tokenizers or wasm; server/host, with its bridge, joins the three worlds",
	},
	{
		From: "server", Except: []string{"server/host", "server/cmd/tgi"}, Deny: []string{"tgi/server/host"},
		Why: "the model manager is built on the APIs and requests: what it manages knows nothing of it",
	},
	{
		From: "server/host/bridge", Deny: []string{"tgi/server/api", "tgi/server/host", "tgi/models", "net/http"},
		Why: "the bridge adapts types of one world to interfaces of another: it knows neither models, checkpoints nor HTTP",
	},
	{
		From: "server/cmd/tgi", Deny: []string{"tgi/runtime/kv", "tgi/runtime/sched", "tgi/runtime/token",
			"tgi/runtime/sample", "tgi/runtime/llm", "tgi/plugins/grammar", "tgi/plugins/logits", "tgi/server/generate",
			"tgi/server/dispatch", "tgi/server/host/bridge"},
		Why: "the commands parse flags, print and exit: what a request or a model needs is in server/host",
	},
	{
		From: "models", Deny: []string{"tgi/server", "tgi/plugins", "tgi/runtime"},
		Why: "models reads checkpoints and writes graphs; who runs them is the wiring's business (tests may run them)",
	},
	{
		From: "sdk", Deny: []string{"tgi"}, Allow: []string{"tgi/sdk"}, Tests: true,
		Why: "guest authors import sdk alone: it depends on the standard library only",
	},
	{
		From: ".", Except: []string{"runtime/ort", "runtime/cuda"}, Deny: []string{"C"}, Tests: true,
		Why: "C memory and pointers live in the two packages where their rules are written down and tested",
	},
	{
		From: ".", Except: []string{"plugins/internal/sandbox"}, Deny: []string{"github.com/tetratelabs/wazero"},
		Tests: true,
		Why:   "only the sandbox knows how guests are run, so that its limits cannot be passed by",
	},
	{
		From: ".", Except: []string{"runtime/ort"}, Deny: []string{"github.com/yalue/onnxruntime_go"}, Tests: true,
		Why: "only runtime/ort knows how long a tensor lives",
	},
}

// commandLines bounds the files of server/cmd/tgi together, tests left out: the flags and help of all commands take
// about that much. The text of a report belongs to the package that makes the report.
const commandLines = 4150

// TestTreeCommand: what has grown beyond the bound does more than parse flags, print and exit.
func TestTreeCommand(t *testing.T) {
	lines := 0
	for _, s := range tree(t) {
		if s.dir == "server/cmd/tgi" && !s.isTest() {
			lines += s.lines
		}
	}
	if lines >= commandLines {
		t.Errorf("server/cmd/tgi has %d lines, its bound is %d: the commands parse flags, print and exit, and the rest belongs to a package that can be imported and tested", lines, commandLines)
	}
}

// maxLines bounds a file that is not a test: beyond it a file holds more than one concept.
const maxLines = 650

func TestTreeImports(t *testing.T) {
	for _, s := range tree(t) {
		for _, r := range importRules {
			if !below(s.dir, r.From) || slices.ContainsFunc(r.Except, func(e string) bool { return below(s.dir, e) }) ||
				s.isTest() && !r.Tests {
				continue
			}
			for _, imp := range s.imports {
				among := func(dir string) bool { return below(imp, dir) }
				if slices.ContainsFunc(r.Deny, among) && !slices.ContainsFunc(r.Allow, among) {
					t.Errorf("%s imports %q: %s", s.path, imp, r.Why)
				}
			}
		}
	}
}

func TestTreeSDKStandardLibraryOnly(t *testing.T) {
	for _, s := range tree(t) {
		if !below(s.dir, "sdk") {
			continue
		}
		for _, imp := range s.imports {
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %q: sdk depends on the standard library only", s.path, imp)
			}
		}
	}
}

func TestTreePackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range tree(t) {
		if s.isTest() {
			continue
		}
		documented[s.dir] = documented[s.dir] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment: say what it owns", dir)
		}
	}
}

func TestTreeExportedNamesDocumented(t *testing.T) {
	for _, s := range tree(t) {
		if s.isTest() || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s: %s has no comment", s.path, d.Name.Name)
				}
			case *ast.GenDecl:
				checkSpecs(t, s, d)
			}
		}
	}
}

func checkSpecs(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
				t.Errorf("%s: type %s has no comment", s.path, spec.Name.Name)
			}
		case *ast.ValueSpec:
			if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				t.Errorf("%s: %s has no comment", s.path, spec.Names[0].Name)
			}
		}
	}
}

// exportedReceiver reports whether d is a function, or a method of an exported type.
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

func TestTreeNamesAndSizes(t *testing.T) {
	for _, s := range tree(t) {
		for part := range strings.SplitSeq(s.dir, "/") {
			switch part {
			case "pkg", "util", "utils", "common", "helpers", "helper", "misc", "base", "impl":
				t.Errorf("%s: a package is named after what it owns, not %q", s.path, part)
			}
		}
		if !s.isTest() && s.lines > maxLines {
			t.Errorf("%s has %d lines, more than %d: does it still hold one concept?", s.path, s.lines, maxLines)
		}
	}
}

// TestTreeTopLevel: the top level is fixed; whatever else is committed there is in the wrong place. Files that git does
// not track, such as a project of a plugin, are the developer's own.
func TestTreeTopLevel(t *testing.T) {
	allowed := map[string]bool{
		"server": true, "runtime": true, "plugins": true, "sdk": true, "models": true, "conformance": true,
		"examples": true,
		"go.mod":   true, "go.sum": true, "tgi.toml": true, "Makefile": true,
		"README.md": true, "RATIONALE.md": true, "CHANGELOG.md": true, "CONTRIBUTING.md": true, "SECURITY.md": true,
		"LICENSE": true, "docs": true,
	}
	for name := range topLevel(t) {
		if !allowed[name] && !strings.HasPrefix(name, ".") {
			t.Errorf("%s does not belong to the top level", name)
		}
	}
}

// topLevel has the names of the files and folders at the root that git tracks.
func topLevel(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files, which says which files belong to the tree: %v", err)
	}
	names := map[string]bool{}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		name, _, _ := strings.Cut(file, "/")
		names[name] = true
	}
	return names
}

const root = ".."

// tree parses every Go file of the module.
func tree(t *testing.T) []source {
	t.Helper()
	var out []source
	fset, committed := token.NewFileSet(), topLevel(t)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(name, ".") || name == "testdata" ||
				name == "node_modules" || filepath.Dir(p) == root && !committed[name]) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, b, parser.ParseComments)
		if err != nil {
			return err
		}
		s := source{path: filepath.ToSlash(rel), file: f, lines: bytes.Count(b, []byte("\n"))}
		s.dir = path.Dir(s.path)
		for _, imp := range f.Imports {
			v, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, v)
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("no Go files found: the rules checked nothing")
	}
	return out
}

// below reports whether directory dir is parent or lies below it.
func below(dir, parent string) bool {
	return parent == "." || dir == parent || strings.HasPrefix(dir, parent+"/")
}
