package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestSettings: each TOML block of a page is a settings file that loads.
func TestSettings(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "toml" {
				continue
			}
			c := config.Default()
			err := config.Decode("tgi.toml", []byte(b.text), &c)
			if err == nil {
				err = c.Validate()
			}
			if err != nil {
				t.Errorf("%s:%d: %v", p.path, b.line, err)
			}
		}
	}
}

// TestJSON: each JSON block is JSON.
func TestJSON(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "json" && !json.Valid([]byte(b.text)) {
				t.Errorf("%s:%d is no JSON", p.path, b.line)
			}
		}
	}
}

// TestPython: each Python block is Python.
func TestPython(t *testing.T) {
	var sources []string
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "python" {
				sources = append(sources, b.text)
			}
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not there")
	}
	for _, source := range sources {
		cmd := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s\n%s", source, out)
		}
	}
}

// sdkPackages are what a part of a plugin in Go may use without saying so.
var sdkPackages = []string{"chat", "logits", "sampler", "template", "tools", "grammar", "grammar/form", "steps", "params", "plugin", "plugintest"}

// TestGoSnippets: each Go block compiles, with the imports and the main function that a part of a plugin leaves out.
func TestGoSnippets(t *testing.T) {
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	var packages []string
	folder := t.TempDir()
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" || strings.HasSuffix(b.file, "_test.go") {
				continue
			}
			text := whole(b.text)
			if err := parses(text); err != nil {
				t.Errorf("%s:%d: %v", p.path, b.line, err)
				continue
			}
			name := fmt.Sprintf("snippet%d", len(packages))
			file := filepath.Join(folder, name+".go")
			write(t, file, "//line "+p.path+fmt.Sprintf(":%d\n", b.line-strings.Count(text, "\n")+strings.Count(b.text, "\n"))+text)
			overlay.Replace[filepath.Join(tree, "conformance", "docs", name, "main.go")] = file
			packages = append(packages, "./conformance/docs/"+name)
		}
	}
	if len(packages) == 0 {
		t.Fatal("no page has a plugin in Go")
	}
	list := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	write(t, list, string(text))
	cmd := exec.Command("go", append([]string{"build", "-overlay", list, "-o", os.DevNull}, packages...)...)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// whole completes a part of a plugin.
func whole(text string) string {
	if strings.HasPrefix(text, "package ") || strings.Contains(text, "\npackage ") {
		return text
	}
	var imports []string
	for _, name := range append(slices.Clone(sdkPackages), "errors", "strings", "strconv", "slices") {
		last := name[strings.LastIndexByte(name, '/')+1:]
		if !regexp.MustCompile(`\b` + last + `\.[A-Z]`).MatchString(text) {
			continue
		}
		if slices.Contains(sdkPackages, name) {
			name = "tgi/sdk/go/" + name
		}
		imports = append(imports, fmt.Sprintf("%q", name))
	}
	main := "\nfunc main() {}\n"
	if strings.Contains(text, "func main()") {
		main = ""
	}
	return "package main\n\nimport (" + strings.Join(imports, "; ") + ")\n" + text + main
}

// TestCSnippets: each C block compiles with the machine's own compiler.
func TestCSnippets(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "c" {
				continue
			}
			text := b.text
			if !strings.Contains(text, "#include") {
				text = "#include \"tgi.h\"\n#include \"tgi_json.h\"\n" + text
			}
			// The parts of one page may have functions of the same name.
			file := filepath.Join(t.TempDir(), "plugin.c")
			write(t, file, text)
			cmd := exec.Command("cc", "-std=c11", "-fsyntax-only", "-Wno-attributes", "-I", filepath.Join(root, "sdk/c"), file)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %s", p.path, b.line, out)
			}
		}
	}
}
