package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/models/store"
	"tgi/server/config"
)

// TestKeptStates: the second start of a program takes the plugins of conversations as they were loaded at the first,
// and answers the same; another format of tools and another program have states of their own.
func TestKeptStates(t *testing.T) {
	keepModules(t)
	cache, err := store.Dir()
	if err != nil {
		t.Fatal(err)
	}
	states := func() []string {
		list, err := filepath.Glob(filepath.Join(cache, "plugins", "compiled*", "state-*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := states()
	made := func() []string {
		return slices.DeleteFunc(states(), func(path string) bool { return slices.Contains(before, path) })
	}
	t.Cleanup(func() {
		for _, path := range made() {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	})
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
