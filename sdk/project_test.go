package sdk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/sdk"
)

// write puts a project into a new folder.
func write(t *testing.T, language, name string) string {
	t.Helper()
	files, err := sdk.Project(language, name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		to := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// TestGoProject: a new project passes its own tests, without network.
func TestGoProject(t *testing.T) {
	dir := write(t, "go", "ban-tokens")
	command(t, dir, "go", "test", ".")
}

func TestCProject(t *testing.T) {
	dir := write(t, "c", "ban-tokens")
	command(t, dir, "cc", "-std=c11", "-Wall", "-Werror", "-o", "t", "ban-tokens_test.c", "-lm")
	command(t, dir, filepath.Join(dir, "t"))
}

func TestRustProject(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a crate")
	}
	dir := write(t, "rust", "ban-tokens")
	command(t, dir, "cargo", "test", "--offline", "--quiet")
}

func TestASProject(t *testing.T) {
	asc, err := filepath.Abs("assemblyscript/node_modules/.bin/asc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(asc); err != nil {
		t.Skip("asc is not installed: make guests-as")
	}
	dir := write(t, "as", "ban-tokens")
	command(t, dir, asc, "index.ts", "--config", "asconfig.json", "--outFile", "ban-tokens.wasm")
	command(t, dir, "node", "--test", "test/")
}

func TestProjectFaults(t *testing.T) {
	for _, c := range [][2]string{{"go", ""}, {"go", "Ban"}, {"go", "a--b"}, {"go", "../x"}, {"go", "1a"}, {"rust", "tgi"}, {"perl", "ban"}} {
		if _, err := sdk.Project(c[0], c[1]); err == nil {
			t.Errorf("%q in %q is accepted", c[1], c[0])
		}
	}
	for _, language := range sdk.Languages {
		files, err := sdk.Project(language, "ban")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, want := range []string{"README.md", ".gitignore"} {
			if !slices.ContainsFunc(files, func(f sdk.File) bool { return f.Path == want }) {
				t.Errorf("%s: no %s", language, want)
			}
		}
		for _, f := range files {
			if seen[f.Path] || len(f.Data) == 0 || (strings.Contains(string(f.Data), "NAME") || strings.Contains(string(f.Data), "SDKDOC")) && !strings.HasPrefix(f.Path, "tgi/") {
				t.Errorf("%s: %s is there twice, empty, or not filled in", language, f.Path)
			}
			seen[f.Path] = true
		}
	}
}
