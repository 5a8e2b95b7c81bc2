package project

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/sdk"
)

func write(t *testing.T, dir string, files ...sdk.File) string {
	t.Helper()
	if err := Create(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCreate: folders are made, and what is in one stays.
func TestCreate(t *testing.T) {
	dir := write(t, filepath.Join(t.TempDir(), "new"), sdk.File{Path: "a/b.txt", Data: []byte("x")})
	if got, err := os.ReadFile(filepath.Join(dir, "a", "b.txt")); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	err := Create(dir, []sdk.File{{Path: "a/b.txt", Data: []byte("y")}})
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a folder that is not empty: %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "a", "b.txt")); string(got) != "x" {
		t.Errorf("it holds %q now", got)
	}
}

// TestOpen: every project of the SDK is known by its files.
func TestOpen(t *testing.T) {
	for _, language := range sdk.Languages {
		files, err := sdk.Project(language, "logits", "first")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Open(write(t, t.TempDir(), files...))
		if err != nil || p.Language != language {
			t.Errorf("%s is taken for %+v, %v", language, p, err)
		}
	}
	for want, files := range map[string][]sdk.File{
		"holds no plugin's project": {{Path: "a.txt"}},
		"has no Makefile":           {{Path: "go.mod"}},
	} {
		if _, err := Open(write(t, t.TempDir(), files...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Open(filepath.Join(write(t, t.TempDir(), sdk.File{Path: "f"}), "f")); err == nil {
		t.Error("a file is a project")
	}
}

// TestBuild runs a Makefile: its output is passed on, its module is found, its failure is told.
func TestBuild(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"go", "make"} { // stand-ins: what is tested is how they are run
		script := "#!/bin/sh\necho $0 $@ | sed 's,.*/,,'\n[ -f fail ] && exit 3\nexit 0\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	base := []sdk.File{{Path: "go.mod"}, {Path: "Makefile"}}
	for _, c := range []struct {
		name   string
		files  []string
		module string
		err    string
	}{
		{"one", []string{"x.wasm"}, "x.wasm", ""},
		{"named", []string{"x.wasm", "named.wasm"}, "named.wasm", ""},
		{"none", nil, "", "holds 0 .wasm files after the build"},
		{"several", []string{"x.wasm", "y.wasm"}, "", "holds 2 .wasm files after the build"},
		{"fails", []string{"fail", "x.wasm"}, "", "make in "},
	} {
		files := slices.Clone(base)
		for _, name := range c.files {
			files = append(files, sdk.File{Path: name})
		}
		dir := write(t, filepath.Join(t.TempDir(), c.name), files...)
		p, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		file, err := p.Build(t.Context(), &log)
		if c.err == "" && (err != nil || file != filepath.Join(dir, c.module)) ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %q, %v", c.name, file, err)
		}
		if log.String() != "make\n" {
			t.Errorf("%s: ran %q", c.name, &log)
		}
		log.Reset()
		if err := p.Test(t.Context(), &log, &log); (err != nil) != (c.name == "fails") ||
			log.String() != "make test\n" {
			t.Errorf("%s: the tests ran %q, %v", c.name, &log, err)
		}
	}
}

// TestCheckTools: what is missing is named with what to install.
func TestCheckTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CLANG", "")
	for language, want := range map[string][]string{
		"go":   {"make is missing", "go is missing: install Go 1.24"},
		"rust": {"cargo or rustc is missing", "rustup"},
		"c":    {"clang is missing", "apt install clang lld"},
		"as":   {"node or npm is missing", "asc is missing: run `npm ci` in"},
	} {
		files, err := sdk.Project(language, "logits", "ban")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Open(write(t, t.TempDir(), files...))
		if err != nil {
			t.Fatal(err)
		}
		err = p.CheckTools(t.Context(), false)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not tell %s", language, err, w)
			}
		}
	}
}
