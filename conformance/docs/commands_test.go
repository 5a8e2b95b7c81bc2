package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"tgi/conformance/live"
	"tgi/conformance/long"
)

// settings are those of the server that answers the commands: an administrator's key, a models folder of its own, a
// plugins folder that is looked at often, and the plugins that pages declare for servers of their own.
const settings = `
[server]
admin_keys = ["ADMIN"]
[models]
folder = "served"
[plugins]
folder = "my-plugins"
watch = "100ms"
[[plugin]]
name = "no-repeat"
source = "builtin:no-repeat-ngram"
[[plugin]]
name = "best-of-judge"
source = "builtin:best-of-judge"
[[plugin]]
name = "banned-strings"
source = "builtin:banned-strings"
`

// curl and tgi stand in the folder's PATH and bin. Each has the pages' address replaced by the server's, which is also
// the one that commands with an admin key ask by default.
const (
	curl = `#!/usr/bin/env bash
args=(--silent --show-error --max-time 60 $CURL_FAIL)
for a in "$@"; do args+=("${a//localhost:3000/$SERVER}"); done
exec %s "${args[@]}"
`
	tgi = `#!/usr/bin/env bash
args=()
for a in "$@"; do args+=("${a//localhost:3000/$SERVER}"); done
[[ " $*" != *" --key "* || " $*" == *" --url "* ]] || args+=(--url "http://$SERVER")
[ "${args[0]} ${args[1]:-}" = "serve --help" ] || [ "${args[0]}" != serve ] || args[0]=check
exec %s "${args[@]}"
`
)

// TestCommands runs the commands of the handbook, page by page, in one folder and against one server.
func TestCommands(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "tgi.toml"), settings)
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"models", "examples", "docs", "Makefile", "sdk", "plugins/std"} {
		to := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(tree, name), to); err != nil {
			t.Fatal(err)
		}
	}
	program := live.Program(t) // which is built from here
	t.Chdir(folder)            // paths of flags are relative to the working folder
	server := live.Serve(t, filepath.Join(folder, "tgi.toml"))
	r := runner{tree: tree, folder: folder, env: append(os.Environ(), "SERVER="+strings.TrimPrefix(server.URL,
		"http://"),
		"PATH="+filepath.Join(folder, "path")+":"+os.Getenv("PATH"), "GOFLAGS=-trimpath", "GOWORK=off", "NO_COLOR=1",
		"no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")}
	real, err := exec.LookPath("curl")
	if err != nil {
		t.Fatalf("the commands of the pages need curl: %v", err)
	}
	for name, text := range map[string]string{"path/curl": fmt.Sprintf(curl, real), "bin/tgi": fmt.Sprintf(tgi,
		program)} {
		write(t, filepath.Join(folder, name), text)
		if err := os.Chmod(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	blocks := 0
	for _, p := range pagesOf(t, tree) {
		if p.handbook() {
			t.Run(p.path, func(t *testing.T) { r.page(t, p) })
		}
		for _, b := range p.blocks {
			if p.handbook() && b.lang == "sh" && (b.mode == "" || b.mode == "retry") {
				blocks++
			}
		}
	}
	if blocks < 40 {
		t.Errorf("%d blocks are run: are they still marked sh?", blocks)
	}
}

// pagesOf is pages from another working folder.
func pagesOf(t *testing.T, tree string) []page {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(filepath.Join(tree, "conformance", "docs")); err != nil {
		t.Fatal(err)
	}
	defer os.Chdir(here)
	return pages(t)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runner runs the blocks of pages in a folder.
type runner struct {
	tree   string
	folder string
	env    []string
}

// page runs the blocks of a page in their order.
func (r *runner) page(t *testing.T, p page) {
	for i, b := range p.blocks {
		at := fmt.Sprintf("%s:%d", p.path, b.line)
		switch {
		case b.file != "":
			write(t, filepath.Join(r.folder, b.file), b.text)
		case b.lang != "sh" || b.mode == "long" && !long.Enabled():
		case b.mode == "parse":
			r.parse(t, at, b.text)
		default:
			var want string
			if next := i + 1; next < len(p.blocks) && p.blocks[next].lang == "json" && follows(p, b, p.blocks[next]) {
				want = p.blocks[next].text
			}
			if !r.run(t, at, b, want) {
				return // what comes next builds on it
			}
		}
	}
}

// follows reports whether nothing but empty lines stands between two blocks.
func follows(p page, a, b block) bool {
	lines := strings.Split(p.text, "\n")[a.line+strings.Count(a.text, "\n")-1 : b.line-1]
	return strings.Trim(strings.Join(lines, ""), "`\n ") == "json" || strings.Trim(strings.Join(lines, ""),
		"`\n ") == "json long"
}

// blockTimeout bounds the run of one block, far above what any takes.
const blockTimeout = 5 * time.Minute

// run executes a block, and compares the JSON that it prints at its end with what the page shows.
func (r *runner) run(t *testing.T, at string, b block, want string) bool {
	t.Helper()
	fail := "--fail-with-body"
	if want != "" {
		fail = "" // an error's body may be what is shown
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out, err := r.bash(b.text, fail)
		why := ""
		switch {
		case err != nil:
			why = fmt.Sprintf("%v\n%s", err, out)
		case want != "":
			why = different(out, want)
		}
		if why == "" {
			return true
		}
		if b.mode != "retry" || time.Now().After(end) {
			t.Errorf("%s: %s\n%s", at, b.text, why)
			return false
		}
	}
}

func (r *runner) bash(text, fail string) (string, error) {
	cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+text)
	cmd.Dir, cmd.Env = r.folder, append(r.env, "CURL_FAIL="+fail)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	timer := time.AfterFunc(blockTimeout, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// different says where the JSON in the last line of out lacks what want shows; empty is nowhere.
func different(out, want string) string {
	out = strings.TrimSpace(out)
	var got, shown any
	if err := json.Unmarshal([]byte(out[strings.LastIndexByte(out, '\n')+1:]), &got); err != nil {
		return fmt.Sprintf("the last line is no JSON (%v): %s", err, out)
	}
	if err := json.Unmarshal([]byte(want), &shown); err != nil {
		return fmt.Sprintf("what the page shows is no JSON: %v", err)
	}
	if at := lacks(got, shown, ""); at != "" {
		return fmt.Sprintf("differs at %s: the reply is\n%s", at, out)
	}
	return ""
}

// lacks returns the place at which got has not what shown has.
func lacks(got, shown any, at string) string {
	switch want := shown.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return at + "/"
		}
		for key, v := range want {
			one, ok := have[key]
			if !ok {
				return at + "/" + key
			}
			if where := lacks(one, v, at+"/"+key); where != "" {
				return where
			}
		}
		return ""
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return at + "/"
		}
		for i, v := range want {
			if where := lacks(have[i], v, fmt.Sprintf("%s/%d", at, i)); where != "" {
				return where
			}
		}
		return ""
	case string:
		if want == "..." {
			return ""
		}
	}
	if !reflect.DeepEqual(got, shown) {
		return at
	}
	return ""
}

func TestLacks(t *testing.T) {
	reply := `{"id":"x","a":[{"b":1,"c":2}]}`
	for shown, want := range map[string]string{
		`{"id":"...","a":[{"b":1}]}`:  "",
		`{"a":[{"b":2}]}`:             "/a/0/b",
		`{"a":[{"b":1},{}]}`:          "/a/",
		`{"a":[{"b":1,"d":"..."}]}`:   "/a/0/d",
		`{"id":"y"}`:                  "/id",
		`{"id":{"x":1}}`:              "/id/",
		`{"a":[{"b":"...","c":"x"}]}`: "/a/0/c",
	} {
		if got := different("words\n"+reply, shown); got == "" != (want == "") || want != "" &&
			!strings.Contains(got, "at "+want+":") {
			t.Errorf("%s: %s, want %q", shown, got, want)
		}
	}
}

var (
	goal = regexp.MustCompile(`(?m)^([a-z-]+):`)
	word = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z0-9-]*)`)
)

// parse checks commands that are not run: targets of make, subcommands and flags of tgi, packages and tests of go test,
// and scripts of the tree.
func (r *runner) parse(t *testing.T, at, text string) {
	t.Helper()
	known := map[string]bool{"cd": true, "git": true, "pip": true, "docker": true, "systemctl": true, "sudo": true,
		"kill": true,
		"curl": true, "cp": true, "mv": true, "openssl": true, "export": true, "mkdir": true, "useradd": true,
		"install": true, "source": true, "cosign": true, "haproxy": true, "python3": true, "router/bin/pip": true,
		"npm": true, "rm": true, "router/bin/smg": true, "envoy/bin/pip": true, "envoy/bin/envoy": true, "epp": true}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		line, _, _ = strings.Cut(line, " #")
		for command := range strings.SplitSeq(line, "&&") {
			command = strings.TrimPrefix(strings.TrimSpace(command), "(") // a subshell's
			words := strings.Fields(strings.TrimSuffix(command, ")"))
			for len(words) > 0 && strings.Contains(words[0], "=") {
				words = words[1:] // the environment
			}
			switch {
			case len(words) == 0 || strings.HasPrefix(words[0], "#"):
			case words[0] == "make":
				r.makes(t, at, words[1:])
			case strings.HasSuffix(words[0], "/tgi") || words[0] == "tgi":
				r.flags(t, at, words[1:])
			case words[0] == "go":
				r.tests(t, at, words[1:])
			case strings.HasPrefix(words[0], "conformance/"): // a script of the tree
				if st, err := os.Stat(filepath.Join(r.tree, words[0])); err != nil || st.Mode()&0o111 == 0 {
					t.Errorf("%s: %s cannot be run: %v", at, words[0], err)
				}
			case !known[words[0]]:
				t.Errorf("%s: %s: nobody checks this command", at, command)
			}
		}
	}
}

// makes checks that make has the targets.
func (r *runner) makes(t *testing.T, at string, words []string) {
	t.Helper()
	there := map[string]bool{}
	for _, file := range []string{"Makefile", "sdk/guests.mk", "plugins/std/std.mk", "examples/examples.mk",
		"examples/deploy/deploy.mk"} {
		b, err := os.ReadFile(filepath.Join(r.folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range goal.FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
	}
	for i, word := range words {
		switch {
		case word == "-f" || i > 0 && words[i-1] == "-f" || strings.Contains(word, "="):
		case !there[word]:
			t.Errorf("%s: make has no target %s", at, word)
		}
	}
}

// flags checks that a subcommand of tgi has the flags.
func (r *runner) flags(t *testing.T, at string, words []string) {
	t.Helper()
	var command []string
	for _, w := range words {
		if strings.HasPrefix(w, "-") || len(command) == 2 || !regexp.MustCompile(`^[a-z]+$`).MatchString(w) {
			break
		}
		if command = append(command, w); w != "model" && w != "plugin" && w != "completion" && w != "help" {
			break
		}
	}
	help, err := r.bash("bin/tgi "+strings.Join(command, " ")+" --help", "")
	if err != nil {
		t.Errorf("%s: tgi %s: %v\n%s", at, strings.Join(command, " "), err, help)
	}
	for _, m := range word.FindAllStringSubmatch(strings.Join(words, " "), -1) {
		if !regexp.MustCompile(`(?m)(^|[\s,-])` + regexp.QuoteMeta(strings.TrimPrefix(m[1], "-")) +
			`([\s,=]|$)`).MatchString(help) {
			t.Errorf("%s: tgi %s has no flag %s", at, strings.Join(command, " "), m[1])
		}
	}
}

// tests checks that go test has a package and a test or benchmark that fits.
func (r *runner) tests(t *testing.T, at string, words []string) {
	t.Helper()
	var pattern, sources string
	for i, w := range words {
		switch {
		case i > 0 && (words[i-1] == "-run" || words[i-1] == "-bench") &&
			!regexp.MustCompile(`(?i)^(x+|\.|'\^\$')$`).MatchString(w):
			pattern, _, _ = strings.Cut(strings.Trim(w, "'^$"), "/") // what follows names a part of it
		case strings.HasPrefix(w, "./") && !strings.HasSuffix(w, "..."):
			files, err := filepath.Glob(filepath.Join(r.tree, w, "*.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s: there is no package %s", at, w)
			}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources += string(b)
			}
		}
	}
	if pattern != "" && sources != "" && !regexp.MustCompile(`func (Test|Benchmark)\w*`+pattern).MatchString(sources) &&
		!regexp.MustCompile(`func `+pattern).MatchString(sources) {
		t.Errorf("%s: no test or benchmark fits %s", at, pattern)
	}
}
