package scale

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tgi/conformance/live"
)

// operator runs the program's commands for several replicas.
type operator struct {
	program string
	urls    []string
}

// does runs a command and returns its output and its exit code.
func (o operator) does(t *testing.T, words ...string) (string, int) {
	t.Helper()
	for _, url := range o.urls {
		words = append(words, "--url", url)
	}
	cmd := exec.CommandContext(t.Context(), o.program, append(words, "--key", "boss")...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// serves fails unless the replicas serve these versions of the plugin, "" for none, as `tgi top` tells.
func (o operator) serves(t *testing.T, versions ...string) {
	t.Helper()
	text, _ := o.does(t, "top", "--json")
	var top struct {
		Servers []struct {
			Live struct {
				Plugins []struct{ Name, Version string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text[:strings.LastIndex(text, "}")+1]), &top); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for i, want := range versions {
		got := ""
		for _, p := range top.Servers[i].Live.Plugins {
			if p.Name == "marker" {
				got = p.Version
			}
		}
		if got != want {
			t.Errorf("replica %d serves %q, want %q", i, got, want)
		}
	}
}

// TestFleet: plugins of two replicas are uploaded, tried, promoted and rolled back as one; what one cannot do is done
// at none, and what one missed is done again without harm.
func TestFleet(t *testing.T) {
	module := func(n string) string {
		path, err := filepath.Abs("../../examples/hot-swap/marker/marker-" + n + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	begin := func() *live.Server {
		return live.Start(t, "[server]\nadmin_keys = [\"boss\"]\n[plugins]\nuploads = \""+t.TempDir()+"\"\n")
	}
	a, b := begin(), begin()
	both := operator{live.Program(t), []string{a.URL, b.URL}}
	first, second := operator{both.program, []string{a.URL}}, operator{both.program, []string{b.URL}}
	must := func(o operator, want string, words ...string) string {
		t.Helper()
		out, code := o.does(t, words...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, want %q in\n%s", words, code, want, out)
		}
		return out
	}
	fails := func(o operator, want string, words ...string) {
		t.Helper()
		if out, code := o.does(t, words...); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, want 1 and %q in\n%s", words, code, want, out)
		}
	}

	must(both, "serves", "plugin", "upload", "marker", module("1"))
	both.serves(t, "1.0.0", "1.0.0")
	must(both, "1 earlier version kept", "plugin", "upload", "marker", module("2"))
	must(both, "serves", "plugin", "upload", "marker", module("2")) // again
	both.serves(t, "2.0.0", "2.0.0")

	// They differ, and top says so; the missing one is brought back.
	must(first, "serves", "plugin", "rollback", "marker")
	both.serves(t, "1.0.0", "2.0.0")
	if out := must(both, "2 of 2 servers answer", "top", "--once"); strings.Count(out, "\nmarker ") != 2 {
		t.Errorf("two versions of a plugin have no two lines:\n%s", out)
	}
	must(both, "1 plugin not the same at all servers", "plugin", "list")
	var kept struct {
		Servers []struct {
			Result []struct {
				SHA256, Version string
				Serving         bool
			}
		}
	}
	if err := json.Unmarshal([]byte(must(both, "", "plugin", "versions", "marker", "--json")), &kept); err != nil {
		t.Fatal(err)
	}
	old := kept.Servers[0].Result[0].SHA256
	for range 2 {
		must(both, "serves already", "plugin", "rollback", "marker", "--to", old[:12])
		both.serves(t, "1.0.0", "1.0.0")
	}

	// A canary at both; one is promoted alone before.
	must(both, "for 50% of the requests", "plugin", "canary", "marker", module("2"), "--share", "50%")
	must(both, "canary of version \"2.0.0\"", "plugin", "canary", "marker")
	must(second, "serves", "plugin", "canary", "marker", "--promote")
	must(both, "serves already", "plugin", "canary", "marker", "--promote")
	both.serves(t, "2.0.0", "2.0.0")
	must(both, "there is no canary", "plugin", "canary", "marker", "--end")

	// A replica that is down: nothing is changed at the other, and top tells of it.
	b.Kill()
	fails(both, "nothing was changed at any of them", "plugin", "upload", "marker", module("1"))
	fails(both, "nothing was changed at any of them", "plugin", "rollback", "marker", "--to", old[:12])
	fails(both, "1 of 2 servers did not answer", "top", "--once")
	both.serves(t, "2.0.0", "")
}
