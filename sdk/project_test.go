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
func write(t *testing.T, language, kind, name string) string {
	t.Helper()
	files, err := sdk.Project(language, kind, name)
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
	flags := "GOFLAGS=" + os.Getenv("GOFLAGS") + " -mod=mod" // those of the tests, whose build cache serves then
	c.Env = append(os.Environ(), "GOPROXY=off", flags, "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// takesLong skips a test unless everything is to be tested, as tgi/conformance/long does: the SDK imports the standard
// library alone.
func takesLong(t *testing.T) {
	t.Helper()
	if os.Getenv("TGI_LONG") != "1" {
		t.Skip("takes long: make test-long runs it")
	}
}

// eachKind runs a test for a new project of each kind in a language.
func eachKind(t *testing.T, language string, try func(t *testing.T, dir string)) {
	for _, kind := range sdk.KindsOf(language) {
		t.Run(kind, func(t *testing.T) { try(t, write(t, language, kind, "first-one")) })
	}
}

// TestGoProject: a new project passes its own tests, without network.
func TestGoProject(t *testing.T) {
	eachKind(t, "go", func(t *testing.T, dir string) { command(t, dir, "go", "test", ".") })
}

func TestCProject(t *testing.T) {
	eachKind(t, "c", func(t *testing.T, dir string) {
		command(t, dir, "cc", "-std=c11", "-Wall", "-Werror", "-I", "tgi", "-o", "t", "first-one_test.c", "-lm")
		command(t, dir, filepath.Join(dir, "t"))
	})
}

func TestRustProject(t *testing.T) {
	takesLong(t)
	target := t.TempDir() // the SDK's own crate lies elsewhere in each project, so little is shared but the folder
	eachKind(t, "rust", func(t *testing.T, dir string) {
		command(t, dir, "cargo", "test", "--offline", "--quiet", "--target-dir", target)
	})
}

func TestASProject(t *testing.T) {
	takesLong(t)
	asc := asc(t)
	eachKind(t, "as", func(t *testing.T, dir string) {
		command(t, dir, asc, "src/index.ts", "--config", "asconfig.json", "--outFile", "first-one.wasm")
		command(t, dir, "node", "--test", "test/")
	})
}

// TestExamplesInProjects: an example of an SDK builds in a new project, in place of the generated plugin.
func TestExamplesInProjects(t *testing.T) {
	place := func(t *testing.T, language, example, to string) (dir string) {
		t.Helper()
		text, err := os.ReadFile(example)
		if err != nil {
			t.Fatal(err)
		}
		dir = write(t, language, "program", "first-one")
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(to)), text, 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("go", func(t *testing.T) {
		dir := place(t, "go", "go/examples/thinkthenanswer/main.go", "main.go")
		command(t, dir, "go", "build", "-o", os.DevNull, ".")
	})
	t.Run("c", func(t *testing.T) {
		examples, err := filepath.Glob("c/examples/*.c")
		if err != nil || len(examples) < 8 {
			t.Fatalf("%d examples, %v", len(examples), err)
		}
		for _, example := range examples {
			if strings.HasSuffix(example, "_test.c") {
				continue
			}
			dir := place(t, "c", example, "first-one.c")
			command(t, dir, "cc", "-std=c11", "-Wall", "-Wno-attributes", "-fsyntax-only", "-I", "tgi", "first-one.c")
		}
	})
	t.Run("rust", func(t *testing.T) {
		takesLong(t)
		dir := place(t, "rust", "rust/examples/think-then-answer/src/lib.rs", "src/lib.rs")
		command(t, dir, "cargo", "check", "--offline", "--quiet", "--target-dir", t.TempDir())
	})
	t.Run("as", func(t *testing.T) {
		takesLong(t)
		dir := place(t, "as", "assemblyscript/examples/think-then-answer.ts", "src/index.ts")
		command(t, dir, asc(t), "src/index.ts", "--config", "asconfig.json", "--outFile", "first-one.wasm")
	})
}

// asc is the compiler of AssemblyScript; where it is not there the test is skipped.
func asc(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("assemblyscript/node_modules/.bin/asc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("asc is not installed: make guests-as")
	}
	return path
}

func TestProjectFaults(t *testing.T) {
	for _, c := range [][3]string{{"go", "logits", ""}, {"go", "logits", "Ban"}, {"go", "logits", "a--b"},
		{"go", "logits", "../x"},
		{"go", "logits", "1a"}, {"rust", "logits", "tgi"}, {"perl", "logits", "ban"}, {"go", "", "ban"},
		{"go", "gramar", "ban"}, {"c", "judge", "ban"}} {
		if _, err := sdk.Project(c[0], c[1], c[2]); err == nil {
			t.Errorf("%q of kind %q in %q is accepted", c[2], c[1], c[0])
		}
	}
}

// ofSDK reports whether a file of a project is the SDK's own.
func ofSDK(path string) bool {
	return strings.HasPrefix(path, "tgi/") || strings.HasPrefix(path, "assembly/")
}

// TestProjectFiles: every file is there once, and filled in.
func TestProjectFiles(t *testing.T) {
	for _, language := range sdk.Languages {
		for _, kind := range sdk.KindsOf(language) {
			files, err := sdk.Project(language, kind, "ban")
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, want := range []string{"README.md", ".gitignore"} {
				if !slices.ContainsFunc(files, func(f sdk.File) bool { return f.Path == want }) {
					t.Errorf("%s %s: no %s", language, kind, want)
				}
			}
			for _, f := range files {
				open := strings.Contains(string(f.Data), "NAME") || strings.Contains(string(f.Data), "SDKDOC") ||
					strings.Contains(string(f.Data), "KIND")
				if seen[f.Path] || len(f.Data) == 0 || open && !ofSDK(f.Path) {
					t.Errorf("%s %s: %s is there twice, empty, or not filled in", language, kind, f.Path)
				}
				seen[f.Path] = true
			}
		}
	}
}

// TestProjectParams: what requests name declares its parameters, for the forms and the checks of servers.
func TestProjectParams(t *testing.T) {
	for _, language := range sdk.Languages {
		for _, kind := range []string{"logits", "sampler", "guard", "draft", "program"} {
			files, err := sdk.Project(language, kind, "ban")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(f sdk.File) bool {
				text := strings.ReplaceAll(string(f.Data), `\"`, `"`)
				return !ofSDK(f.Path) && strings.Contains(text, `"additionalProperties":false`) &&
					strings.Contains(text, `"description":`)
			}) {
				t.Errorf("%s %s declares no schema", language, kind)
			}
		}
	}
}
