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

	"tgi/conformance/long"
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
var sdkPackages = []string{"chat", "logits", "sampler", "template", "tools", "grammar", "grammar/form", "steps",
	"params", "plugin", "plugintest", "guard", "program", "draft"}

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
			write(t, file, "//line "+p.path+fmt.Sprintf(":%d\n", b.line-strings.Count(text, "\n")+strings.Count(b.text,
				"\n"))+text)
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
	// With -export they are compiled; go build would link each of them too.
	cmd := exec.Command("go", append([]string{"list", "-export", "-overlay", list}, packages...)...)
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
	others := []string{"bytes", "errors", "strings", "strconv", "slices", "tgi/sdk/abi"}
	for _, name := range slices.Concat(sdkPackages, others) {
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
			cmd := exec.Command("cc", "-std=c11", "-fsyntax-only", "-Wno-attributes", "-I",
				filepath.Join(root, "sdk/c"), file)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %s", p.path, b.line, out)
			}
		}
	}
}

// TestRustSnippets: each Rust block is a plugin, or a part of one, that compiles.
func TestRustSnippets(t *testing.T) {
	long.Test(t) // it takes Rust's toolchain
	sdk, err := filepath.Abs(filepath.Join(root, "sdk/rust"))
	if err != nil {
		t.Fatal(err)
	}
	folder, manifest := t.TempDir(),
		"[package]\nname = \"snippets\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\n"
	manifest += fmt.Sprintf("tgi-plugin = { path = %q }\n[lib]\npath = \"lib.rs\"\n", sdk)
	write(t, filepath.Join(folder, "lib.rs"), "")
	found := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "rust" || !strings.Contains(b.text, "tgi_plugin") {
				continue
			}
			found++
			name := fmt.Sprintf("snippet%d", found)
			text := b.text
			if !strings.Contains(text, "extern crate alloc") {
				text = "extern crate alloc;\n" + text
			}
			if !strings.Contains(text, "plugin! {") { // a part, which the block before shows how to complete
				text += "\nplugin! { description: \"\", tools: Whole, }\n"
			}
			manifest += fmt.Sprintf("[[example]]\nname = %q\npath = \"%s.rs\"\ncrate-type = [\"cdylib\"]\n", name, name)
			write(t, filepath.Join(folder, name+".rs"), "// "+p.path+fmt.Sprintf(":%d\n", b.line)+text)
		}
	}
	if found == 0 {
		t.Fatal("no page has a plugin in Rust")
	}
	write(t, filepath.Join(folder, "Cargo.toml"), manifest)
	cmd := exec.Command("cargo", "check", "--offline", "--quiet", "--examples")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "CARGO_TARGET_DIR="+filepath.Join(folder, "target"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAssemblyScriptSnippets: each TypeScript block is a plugin, or a part of one, that compiles.
func TestAssemblyScriptSnippets(t *testing.T) {
	long.Test(t) // it takes asc
	sdk, err := filepath.Abs(filepath.Join(root, "sdk/assemblyscript"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(sdk, "snippets-") // beside assembly, as the imports of the page say
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	exports := regexp.MustCompile(`"\.\./assembly/exports/(\w+)"`)
	found := 0
	for _, p := range pages(t) {
		kind := "" // of the exports that the text before a part names
		for _, b := range p.blocks {
			if b.lang != "ts" {
				continue
			}
			found++
			text := b.text
			before := strings.Join(strings.Split(p.text, "\n")[:b.line], "\n")
			if m := exports.FindAllStringSubmatch(before, -1); m != nil {
				kind = m[len(m)-1][1]
			}
			if !strings.Contains(text, "import ") {
				text = "import { describe, template, tools, steps, Template, Tools, Steps, Conversation, Content, Output, Offer, Events, Source, Mask, vocabSize, guard, Guard, Held, Ending, Reader, Tokens, utf8, draft, Drafter, Guess, program, Program, Request, Settings, generate, why } from \"../assembly\";\n" +
					"export * from \"../assembly/exports/common\";\nexport * from \"../assembly/exports/" + kind +
					"\";\n" + text
			}
			if !strings.Contains(text, "describe(") {
				text += "\ndescribe('{}');\n"
			}
			file := filepath.Join(folder, fmt.Sprintf("snippet%d.ts", found))
			write(t, file, text)
			cmd := exec.Command("node_modules/.bin/asc", file, "--config", "asconfig.json", "--outFile",
				filepath.Join(t.TempDir(), "x.wasm"))
			cmd.Dir = sdk
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", p.path, b.line, err, out)
			}
		}
	}
	if found == 0 {
		t.Fatal("no page has a plugin in AssemblyScript")
	}
}
