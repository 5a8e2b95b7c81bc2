package host

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tgi/models/store"
	"tgi/server/config"
)

// ownStates gives the process a cache without states, which goes with the test, and returns its folder. Other programs
// on the machine, such as servers and tests of other folders, keep states in the usual one, and remove them there. The
// modules that it has compiled are lent from there.
func ownStates(t *testing.T) string {
	t.Helper()
	usual, err := store.Dir()
	if err != nil {
		t.Fatal(err)
	}
	ownCache(t)
	own, err := store.Dir()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(own, "plugins")
	if err := os.Remove(cache); err != nil { // the link to the usual one
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(usual, "plugins", "compiled*", "[0-9a-f]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range entries {
		to := filepath.Join(cache, filepath.Base(filepath.Dir(from)), filepath.Base(from))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Symlink(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	return cache
}

// TestKeptStates: the second start of a program takes the plugins of conversations as they were loaded at the first,
// and answers the same; another format of tools and another program have states of their own.
func TestKeptStates(t *testing.T) {
	keepModules(t)
	cache := ownStates(t)
	made := func() []string {
		list, err := filepath.Glob(filepath.Join(cache, "compiled*", "state-*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	build := fmt.Sprint("TestKeptStates ", time.Now().UnixNano())
	start := func(build string, change func(*config.Config)) (reply string) {
		t.Helper()
		c := chatConfig()
		change(&c)
		h, err := Open(t.Context(), Options{Config: c, Version: "dev", Build: build,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		p := plug(t, h)
		prompt, _ := p.prompt(t, hi)
		r := p.chat(t, http.StatusOK, `{"role":"user","content":"What is three plus four?"}`,
			`,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`)
		for _, s := range h.defaultModel().control.set.List() {
			if s.Version == "" || len(s.Kinds) == 0 || s.Stats.Loads != 1 {
				t.Errorf("%+v", s)
			}
		}
		said := ""
		if c := r.Choices[0].Message.Content; c != nil {
			said = *c
		}
		return fmt.Sprintf("%s%s%d", prompt, said, len(r.Choices[0].Message.ToolCalls))
	}
	same := func(*config.Config) {}
	first := start(build, same)
	n := len(made())
	if n < 2 {
		t.Fatalf("%d states are kept, want those of jinja and toolcalls at least", n)
	}
	for range 2 {
		if again := start(build, same); again != first {
			t.Errorf("the next start answers\n%s\nthe first\n%s", again, first)
		}
		if got := len(made()); got != n {
			t.Errorf("%d states after the next start, %d before", got, n)
		}
	}
	start("", same)
	if got := len(made()); got != n {
		t.Errorf("a program that has no name keeps %d states", got-n)
	}
	start(build, func(c *config.Config) { c.Model.Tools = "hermes" })
	if got := len(made()); got <= n {
		t.Error("another format of tools keeps no state of its own")
	}
	n = len(made())
	start(build+" other", same)
	if got := len(made()); got < n+2 {
		t.Errorf("another program keeps %d states of its own", got-n)
	}
}

// TestBuildID: a program of Go on Linux has a name; one whose linker gave it none is named by what it is.
func TestBuildID(t *testing.T) {
	if id := BuildID(); runtime.GOOS == "linux" && strings.Count(id, "/") != 3 {
		t.Errorf("build %q", id)
	}
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	var ids []string
	for _, text := range []string{"1", "2"} {
		program := filepath.Join(folder, "program")
		text = "package main\n\nfunc main() { println(" + text + ") }\n"
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", program, source)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		ids = append(ids, buildID(program))
	}
	if len(ids[0]) != 64 || ids[0] == ids[1] {
		t.Errorf("two programs without a name of the linker's are %q", ids)
	}
	if id := buildID(filepath.Join(folder, "nothing")); id != "" {
		t.Errorf("what is not there is %q", id)
	}
}
