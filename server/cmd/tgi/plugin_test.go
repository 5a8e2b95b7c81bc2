package main

import (
	"bytes"
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
	"tgi/plugins/project"
	"tgi/sdk"
	"tgi/sdk/abi"
)

// runTgi runs a command line and returns what it printed.
func runTgi(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, &out, &errs); code != want {
		t.Fatalf("tgi %s: exit status %d, want %d\n%s\n%s", strings.Join(args, " "), code, want, &out, &errs)
	}
	return out.String(), errs.String()
}

// contains fails the test for each text that is not in got.
func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("not told: %s\ngot:\n%s", w, got)
		}
	}
}

// needs skips a test where a program is missing.
func needsProgram(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}

// tries are what new projects are checked with, by kind.
var tries = map[string][]string{
	abi.KindLogits:   {"--params", `{"ban":[1,2]}`, "--refuse", `{"ban":[100000]}`, "--refuse", `{"bar":1}`},
	abi.KindSampler:  {"--params", `{"epsilon":0.5}`, "--params", `{"epsilon":1}`, "--refuse", `{"epsilon":2}`},
	abi.KindTemplate: {"--params", `{}`, "--refuse", `{"bar":1}`, "--refuse", `{"baz":{}}`},
	abi.KindTools:    {"--params", `{}`, "--refuse", `{"bar":1}`, "--refuse", `{"baz":{}}`},
	abi.KindGrammar:  {"--params", `{}`, "--refuse", `{"bar":1}`, "--refuse", `{"baz":{}}`},
}

// newProject writes a new project, which can be built: where its tools are missing the test is skipped.
func newProject(t *testing.T, language, kind string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "first-one")
	out, _ := runTgi(t, 0, "plugin", "new", "--lang", language, "first-one", "--kind", kind, "--dir", dir)
	contains(t, out, " plugin build", "cd "+dir)
	if language == "as" {
		asc, err := filepath.Abs(filepath.Join("..", "..", "..", "sdk", "assemblyscript", "node_modules"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(asc); err != nil {
			t.Skip("asc is not installed: make guests-as")
		}
		if err := os.Symlink(asc, filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	p, err := project.Open(dir)
	if err != nil || p.Language != language {
		t.Fatalf("taken for %+v, %v", p, err)
	}
	if err := p.CheckTools(t.Context(), false); err != nil {
		t.Skip(err)
	}
	return dir
}

// tryProject goes the way of an author: new, test, build, check.
func tryProject(t *testing.T, language, kind string) (dir string) {
	t.Helper()
	dir = newProject(t, language, kind)
	runTgi(t, 0, "plugin", "test", dir)
	out, _ := runTgi(t, 0, append([]string{"plugin", "build", dir}, tries[kind]...)...)
	file := filepath.Join(dir, "first-one.wasm")
	contains(t, out, file+": sound", "first-one 0.1.0", "kinds     "+kind, "sha256", "3 sets of parameters")
	runTgi(t, 1, "plugin", "check", file, "--params", tries[kind][len(tries[kind])-1])
	return dir
}

// tryKinds tries further kinds. Where building takes long they are not all: the tests of package sdk run every project.
func tryKinds(t *testing.T, language string, kinds ...string) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { tryProject(t, language, kind) })
	}
}

// TestPluginForgotten: an author who forgot to register the kind hears so, in the words of the language.
func TestPluginForgotten(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOPROXY", "off")
	for _, c := range []struct{ language, file, registers, instead, want string }{
		{"go", "main.go", `(?m)^\tlogits\.Register.*$`, "_, _ = logits.Uses{}, open", "no kind is registered"},
		{"rust", "src/lib.rs", "(?m)^    logits: Sequence,$", "", `kind "logits" is described and not registered`},
		{"c", "first-one.c", `(?m)^TGI_LOGITS.*$`, "", `kind "logits" is described and not registered`},
		{"as", "src/index.ts", `(?m)^export .* from "../assembly/exports/logits";$`, "",
			`kind "logits" is described and not registered`},
		{"as", "src/index.ts", `(?s)\nlogits\(.*$`, "", "no logits is registered: call logits(...)"},
		{"go", "main.go", `(?ms)^\tplugin\.Describe.*?^\t}\)$`, "", "it has no name"},
		{"c", "first-one.c", `\\"name\\":\\"first-one\\",`, "", "it has no name"},
	} {
		t.Run(c.language+" "+c.want, func(t *testing.T) {
			dir := newProject(t, c.language, abi.KindLogits)
			file := filepath.Join(dir, filepath.FromSlash(c.file))
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			registers := regexp.MustCompile(c.registers)
			if !registers.Match(source) {
				t.Fatalf("%s lacks %s", c.file, registers)
			}
			if err := os.WriteFile(file, registers.ReplaceAllLiteral(source, []byte(c.instead)), 0o600); err != nil {
				t.Fatal(err)
			}
			out, _ := runTgi(t, 1, "plugin", "build", dir)
			contains(t, out, c.want)
			if strings.HasPrefix(c.want, "no logits") {
				return
			}
			remedy := sdk.Registration
			if c.want == "it has no name" {
				remedy = sdk.Description
			}
			contains(t, out, remedy(c.language))
			checked, _ := runTgi(t, 1, "plugin", "check", filepath.Join(dir, "first-one.wasm"))
			for _, l := range sdk.Languages {
				contains(t, checked, l+": ", remedy(l))
			}
		})
	}
}

func TestPluginGo(t *testing.T) {
	needsProgram(t, "go", "make")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOPROXY", "off")
	file := filepath.Join(tryProject(t, "go", abi.KindLogits), "first-one.wasm")
	out, _ := runTgi(t, 0, "plugin", "bench", file, "--vocab", "600", "--steps", "20", "--params", `{}`, "--params",
		`{"ban":[1,2]}`)
	contains(t, out, "a vocabulary of 600 tokens", "parameters {}\n", "process, pass", `parameters {"ban":[1,2]}`,
		"process, deny", "tgi_init", "copying a row of 2400 bytes")
}

// TestPluginGoKinds tries the further kinds, of which each takes the compiler of plugins seconds.
func TestPluginGoKinds(t *testing.T) {
	long.Test(t)
	needsProgram(t, "go", "make")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOPROXY", "off")
	tryKinds(t, "go", abi.KindTemplate, abi.KindTools)
	t.Run(abi.KindGrammar, func(t *testing.T) {
		tryGrammar(t, "go", "first-one: compile", "first-one: mask by the host")
	})
}

// tryGrammar tries a grammar's project, and the flags that give it a source. A bench of it tells what is wanted.
func tryGrammar(t *testing.T, language string, wanted ...string) {
	file := filepath.Join(tryProject(t, language, abi.KindGrammar), "first-one.wasm")
	for _, command := range []string{"bench", "check"} {
		_, errs := runTgi(t, 2, "plugin", command, file, "--source", "A-##")
		contains(t, errs, "--source needs its --language")
	}
	checked, _ := runTgi(t, 0, "plugin", "check", file)
	contains(t, checked, "sound", "untried   no source was given in first-one")
	checked, _ = runTgi(t, 0, "plugin", "check", file, "--language", "first-one", "--source", "A-##")
	contains(t, checked, "sound")
	if strings.Contains(checked, "untried") {
		t.Errorf("a source was given:\n%s", checked)
	}
	out, _ := runTgi(t, 0, "plugin", "bench", file, "--vocab", "600", "--steps", "20", "--language", "first-one",
		"--source", "A-##")
	contains(t, out, append(wanted, " steps a second")...)
}

func TestPluginRust(t *testing.T) {
	long.Test(t)
	needsProgram(t, "make", "cargo")
	dir := tryProject(t, "rust", abi.KindLogits)
	// What a panic leaves is the line that it happened at.
	lib := filepath.Join(dir, "src", "lib.rs")
	source, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(source), "s.deny(")
	if err := os.WriteFile(lib, []byte(strings.Replace(string(source), "s.deny(", `panic!("stuck"); s.deny(`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := runTgi(t, 1, "plugin", "build", dir, "--params", `{"ban":[1]}`)
	contains(t, out, fmt.Sprintf("panicked at src/lib.rs:%d\"", 1+strings.Count(before, "\n")))
	tryKinds(t, "rust", sdk.Kinds[1:]...)
}

func TestPluginC(t *testing.T) {
	needsProgram(t, "make", "cc", "clang")
	tryProject(t, "c", abi.KindLogits)
	tryKinds(t, "c", abi.KindSampler, abi.KindTemplate, abi.KindTools)
	t.Run(abi.KindGrammar, func(t *testing.T) { tryGrammar(t, "c") })
}

func TestPluginAssemblyScript(t *testing.T) {
	needsProgram(t, "npm", "node")
	tryProject(t, "as", abi.KindLogits)
	tryKinds(t, "as", abi.KindTools, abi.KindGrammar)
}

// TestPluginNewKeeps: what is in a folder stays.
func TestPluginNewKeeps(t *testing.T) {
	dir := t.TempDir()
	runTgi(t, 0, "plugin", "new", "first", "--lang=c", "--dir="+dir) // empty
	before, err := os.ReadFile(filepath.Join(dir, "first.c"))
	if err != nil {
		t.Fatal(err)
	}
	_, errs := runTgi(t, 1, "plugin", "new", "first", "--lang", "c", "--dir", dir)
	contains(t, errs, "is not empty", "--dir")
	if after, err := os.ReadFile(filepath.Join(dir, "first.c")); err != nil || !bytes.Equal(before, after) {
		t.Error("it is changed")
	}
	for _, language := range sdk.Languages {
		runTgi(t, 0, "plugin", "new", "ban", "--lang", language, "--dir", filepath.Join(dir, language))
	}
}

// TestPluginFaults: command lines that are wrong, each with what it is told.
func TestPluginFaults(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		code int
		args string
		want string
	}{
		{2, "", "Usage:"},
		{2, "chek", "did you mean check?"},
		{2, "new", "plugin new needs --lang (go, rust, c, as) and a name"},
		{2, "new --lang perl x", `language "perl": want one of go, rust, c, as`},
		{2, "new --lang go Ban", `plugin name "Ban"`},
		{2, "new --lang go --kind gramar x", `kind "gramar": want one of logits, sampler, template, tools, grammar`},
		{2, "new --lan go x", "unknown flag --lan; did you mean --lang?"},
		{2, "new --lang go x y", `unexpected argument "y"`},
		{2, "check", "plugin check takes one .wasm file or builtin:NAME, got 0"},
		{2, "check x.wasm --params", "--params wants a value"},
		{2, "check x.wasm --params [1]", "--params [1]: want a JSON object"},
		{2, "check x.wasm --params null", "want a JSON object"},
		{2, "check x.wasm --memory much", `"much" is no size`},
		{2, "check x.wasm --fuel-per-step x", "--fuel-per-step x"},
		{2, "check x.wasm --config {} --config {}", "--config is given 2 times"},
		{1, "check " + empty + "/none.wasm", "no such file"},
		{2, "bench x.wasm --vocab 3", "--vocab 3"},
		{1, "build " + empty, "holds no plugin's project"},
		{1, "test " + empty + "/none", "no such file"},
	} {
		_, errs := runTgi(t, c.code, append([]string{"plugin"}, strings.Fields(c.args)...)...)
		contains(t, errs, c.want)
	}
	out, _ := runTgi(t, 0, "plugin", "check", "--help")
	contains(t, out, "tgi plugin check FILE.wasm", "--fuel-per-step", "default 64MiB")
}

// TestPluginToolchains: what is missing is named with what to install.
func TestPluginToolchains(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CLANG", "")
	for language, want := range map[string][]string{
		"go": {"make is missing", "go is missing: install Go 1.24"}, "rust": {"cargo or rustc is missing", "rustup"},
		"c": {"clang is missing", "apt install clang lld"}, "as": {"node or npm is missing",
			"asc is missing: run `npm ci` in"},
	} {
		dir := t.TempDir()
		runTgi(t, 0, "plugin", "new", "ban", "--lang", language, "--dir", dir)
		_, errs := runTgi(t, 1, "plugin", "build", dir)
		contains(t, errs, want...)
	}
}

// TestPluginCheckReports: for people and as JSON, sound and broken.
func TestPluginCheckReports(t *testing.T) {
	file := filepath.Join("..", "..", "..", "sdk", "testdata", "guests", "c", "every-mode.wasm")
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type report struct {
		File       string
		Bytes      int
		SHA256     string
		Violations []struct{ Rule, Found, Text, Source string }
		Summary    *struct{ Kinds, Exports []string }
	}
	parse := func(text string) (r report) {
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Bytes != len(wasm) || len(r.SHA256) != 64 {
			t.Errorf("%v: %s", err, text)
		}
		return r
	}
	out, _ := runTgi(t, 0, "plugin", "check", file, "--json")
	if r := parse(out); r.File != file || len(r.Violations) != 0 || r.Summary == nil || !slices.Equal(r.Summary.Kinds,
		[]string{"logits", "sampler"}) ||
		!slices.Contains(r.Summary.Exports, "tgi_init(i32, i32) -> i64") {
		t.Errorf("%+v", r)
	}
	out, _ = runTgi(t, 0, "plugin", "check", file)
	contains(t, out, "every-mode", "all logits", "most likely tokens", "candidates", "allow", "tgi.vocab_size",
		"limit 64MiB")

	broken := filepath.Join(t.TempDir(), "broken.wasm")
	if err := os.WriteFile(broken, bytes.Replace(wasm, []byte("tgi_logits_begin"), []byte("tgi_logits_bigin"), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, _ = runTgi(t, 1, "plugin", "check", broken)
	contains(t, out, "tgi_logits_bigin(i32, i32, i32, i32) -> i64 is not part of version 1",
		"export: tgi_logits_begin(i32, i32, i32, i32) -> i64 is missing", "2 violations")
	out, _ = runTgi(t, 1, "plugin", "check", broken, "--json")
	if r := parse(out); len(r.Violations) != 2 || r.Summary != nil || r.Violations[0].Text == "" {
		t.Errorf("%+v", r)
	}
	out, _ = runTgi(t, 1, "plugin", "check", file, "--params", `{"mode":"none"}`)
	contains(t, out, "1 violation ", "validate", `with config {} and parameters {"mode":"none"}`)
	if _, errs := runTgi(t, 1, "plugin", "bench", broken, "--vocab", "600"); !strings.Contains(errs,
		"tgi_logits_begin") {
		t.Errorf("bench of a broken module: %s", errs)
	}
	out, _ = runTgi(t, 1, "plugin", "bench", file, "--vocab", "600", "--steps", "5", "--json", "--params",
		`{"mode":"none"}`)
	contains(t, out, `"fault":"it refuses the parameters: mode`, `"fuel_p50":`)
}
