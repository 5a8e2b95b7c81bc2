package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/server/client/terminal"
	"tgi/server/config"
)

// settingFlags returns the settings that a command line gives.
func settingFlags(t *testing.T, args ...string) *config.Flags {
	t.Helper()
	f := &config.Flags{}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddTo(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// verbs lists every command, as the words of its path.
func verbs(t *testing.T) (list [][]string) {
	t.Helper()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		list = append(list, strings.Fields(cmd.CommandPath())[1:])
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(console{out: &bytes.Buffer{}, errors: &bytes.Buffer{}}))
	if len(list) < 20 {
		t.Fatalf("%d commands", len(list))
	}
	return list
}

// TestHelp: the help of every command is the same however it is asked for, goes to stdout and names the exit codes.
func TestHelp(t *testing.T) {
	for _, verb := range verbs(t) {
		path := strings.Join(append([]string{"tgi"}, verb...), " ")
		want, errs := runTgi(t, 0, append(slices.Clone(verb), "--help")...)
		contains(t, want, "Usage:\n  "+path, "Exit codes: 0 done, 1 failed, 2 wrong usage")
		if errs != "" {
			t.Errorf("%s --help: printed %q to stderr", path, errs)
		}
		forms := [][]string{append(slices.Clone(verb), "-h"), append(slices.Clone(verb), "-help"),
			append([]string{"help"},
				verb...)}
		if len(verb) == 2 {
			forms = append(forms, []string{verb[0], "help", verb[1]})
		}
		for _, args := range forms {
			if got, _ := runTgi(t, 0, args...); got != want {
				t.Errorf("%q: got\n%s\nwant\n%s", args, got, want)
			}
		}
		for line := range strings.Lines(want) {
			if len(line) > 130 && !strings.Contains(line, "  --") {
				t.Errorf("%s: a line of %d bytes: %s", path, len(line), line)
			}
		}
	}
	out, _ := runTgi(t, 0, "serve", "--help")
	contains(t, out, "-p, --port number", "$PORT, $SAGEMAKER_BIND_TO_PORT", "server.port] (default 3000)",
		"--config file", "$TGI_CONFIG",
		"Flags of TGI's launcher that are accepted and have no effect:\n", "--lora-adapters string", "low-rank adapters of the model")
	out, _ = runTgi(t, 0, "plugin", "--help")
	contains(t, out, "steps", "tgi plugin new --lang go|rust|c|as")
	out, _ = runTgi(t, 0, "model", "pull", "--help")
	contains(t, out, "--models-folder", "130 interrupted")
	if strings.Contains(out, "--port") {
		t.Errorf("the help of a pull lists the port:\n%s", out)
	}
}

// TestUsage: a command line that is wrong exits with 2, says what was probably meant and names the help.
func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"srve", "tgi: unknown command srve; did you mean serve? (see `tgi --help`)\n"},
		{"srve --port 3", "tgi: unknown command srve; did you mean serve? (see `tgi --help`)\n"},
		{"model pul x", "tgi: unknown command model pul; did you mean pull? (see `tgi model --help`)\n"},
		{"plugin promote dog", "tgi: unknown command plugin promote; did you mean `tgi plugin canary --promote NAME " +
			"[FILE]`? (see `tgi plugin --help`)\n"},
		{"plugin json", "tgi: unknown command plugin json (see `tgi plugin --help`)\n"},
		{"help modle", "tgi: unknown command modle; did you mean model? (see `tgi help --help`)\n"},
		{"help model nope", "tgi: unknown command model nope (see `tgi help --help`)\n"},
		{"serve --prot 3", "tgi: unknown flag --prot; did you mean --port? (see `tgi serve --help`)\n"},
		{"serve -prot 3", "tgi: unknown flag --prot; did you mean --port? (see `tgi serve --help`)\n"},
		{"serve --zzzzzzzzzzzzzzzzzzzzz", "tgi: unknown flag --zzzzzzzzzzzzzzzzzzzzz (see `tgi serve --help`)\n"},
		{"serve --port", "tgi: --port wants a value (see `tgi serve --help`)\n"},
		{"serve -p", "tgi: --port wants a value (see `tgi serve --help`)\n"},
		{"serve --port x", "tgi: --port: \"x\" is no whole number\n"},
		{"serve word", "tgi: unexpected argument \"word\" (see `tgi serve --help`)\n"},
		{"serve --predict-route x", "tgi: server.predict_route"},
		{"check --port 99999", "tgi: server.port must be >= 0 and <= 65535, given 99999\n"},
		{"version 3", "tgi: unexpected argument \"3\" (see `tgi version --help`)\n"},
		{"version --output xml", "tgi: --output xml: want text or json (see `tgi version --help`)\n"},
		{"model synth", "tgi: model synth needs --shape"},
		{"eval --suite perplexity", "tgi: eval takes one file of text, got 0 (see `tgi eval --help`)\n"},
		{"eval --suite logic x", "tgi: eval needs --suite perplexity or accuracy (see `tgi eval --help`)\n"},
		{"eval --suite accuracy a b", "tgi: unexpected argument \"b\" (see `tgi eval --help`)\n"},
		{"eval --suite accuracy --stride 3", "tgi: --suite accuracy takes no --stride"},
		{"eval --suite perplexity x --forms int8", "tgi: --forms is for --suite accuracy (see `tgi eval --help`)\n"},
		{"eval --suite accuracy --weights int4", "--forms says which weights are compared"},
		{"model convert a b", "tgi: unexpected argument \"b\" (see `tgi model convert --help`)\n"},
		{"--prot 3", "tgi: unknown flag --prot"},
		{"completion", "a command is missing"},
		{"completion tcsh", "tgi: unknown command completion tcsh"},
		{"", "tgi: a command is missing\n"},
	} {
		t.Chdir(t.TempDir())
		var out, errs bytes.Buffer
		code := run(strings.Fields(c.args), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
			t.Errorf("tgi %s: exit code %d\n%s%s\nwant %s", c.args, code, &out, &errs, c.want)
		}
	}
}

// TestSpellings: what TGI's launcher and this program took before stays: one dash, -p80, =, switches with
// values, flags after words, and what stands behind -- is no flag.
func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "-port", "80"}, "serve --port=80"},
		{[]string{"serve", "-port=80"}, "serve --port=80"},
		{[]string{"serve", "-p", "80"}, "serve -p 80"},
		{[]string{"serve", "-p80"}, "serve -p80"},
		{[]string{"serve", "---port", "80"}, "serve --port=80"},
		{[]string{"serve", "--json-output", "--trust-remote-code=false"},
			"serve --json-output --trust-remote-code=false"},
		{[]string{"serve", "--api-key", "-x"}, "serve --api-key=-x"},
		{[]string{"run", "--set", "a", "b", "c"}, "run --set=a=b c"},
		{[]string{"run", "--set=a", "b"}, "run --set=a=b"},
		{[]string{"run", "--set", "a=b", "c"}, "run --set=a=b c"},
		{[]string{"run", "-", "--", "-set", "a"}, "run - -- -set a"},
		{[]string{"model", "help", "pull"}, "help model pull"},
		{[]string{"model", "ls", "-json"}, "model ls --json"},
		{[]string{"bench", "-shape", "s", "-json"}, "bench --shape=s --json"},
	} {
		got, err := normalise(newRoot(console{}), c.args)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: got %q, %v, want %s", c.args, got, err, c.want)
		}
	}
	out, _ := runTgi(t, 0, "check", "-port=81", "-p", "82", "--cors-allow-origin", "a", "-cors-allow-origin=b",
		"--json-output")
	contains(t, out, "port = 82 ", "# flag --port", `cors_allow_origin = ["a", "b"]`, `format = "json" `)
}

// TestCheckLog: the log of a check is that of a server with the same settings: for programs on a pipe, and apart from
// what is printed.
func TestCheckLog(t *testing.T) {
	t.Chdir(t.TempDir())
	out, errs := runTgi(t, 0, "check")
	for line := range strings.Lines(errs) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if !strings.Contains(errs, `"msg":"plugin loaded"`) || strings.Contains(out, "plugin loaded") {
		t.Errorf("printed\n%s\nlogged\n%s", out, errs)
	}
	if _, errs = runTgi(t, 0, "check", "--log-level", "warn"); errs != "" {
		t.Errorf("with log level warn it logs %s", errs)
	}
}

// TestSettingsExit: where the settings of plugins are wrong, a check and a start say so by their exit code, and the
// text names the setting.
func TestSettingsExit(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, want := range map[string]string{
		"[model]\nplugins = [\"drr\"]\n[[plugin]]\nname = \"dre\"\nsource = \"builtin:dry\"\n": `tgi.toml:2:1: ` +
			`model.plugins: there is no plugin "drr"; did you mean dre?`,
		"[model]\nplugins = [\"dry\"]\n": `tgi.toml:2:1: model.plugins: there is no plugin "dry": it is built in and ` +
			`becomes one by a block [[plugin]] with source = "builtin:dry"`,
		"[[plugin]]\nname = \"x\"\nsource = \"builtin:dry\"\n[plugin.config]\nbogus = 1\n": `tgi.toml:5:1: ` +
			`plugin.config.bogus: x: unknown parameter: bogus`,
		"[[plugin]]\nname = \"x\"\nsource = \"builtin:drr\"\n": `tgi.toml:3:1: plugin.source: x: source "builtin:drr"`,
		"[[plugin]]\nname = \"x\"\nsource = \"gone.wasm\"\n":   `tgi.toml:3:1: plugin[0].source: there is no file `,
	} {
		if err := os.WriteFile("tgi.toml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, said := runTgi(t, 2, "check"); !strings.Contains(said, want) {
			t.Errorf("%s: %s", text, said)
		}
	}
	runTgi(t, 2, "check", "--json")
	var said strings.Builder
	err := errors.Join(errReported, fmt.Errorf("start: %w", config.Wrong(errors.New("x"))))
	if code := (console{errors: &said}).exit(err); code != exitUsage || said.Len() > 0 {
		t.Errorf("a start exits with %d, and prints %q", code, &said)
	}
}

// TestVersion: two ways to ask.
func TestVersion(t *testing.T) {
	word, _ := runTgi(t, 0, "version")
	flag, _ := runTgi(t, 0, "--version")
	if word != flag || !strings.HasPrefix(word, "tgi dev go") {
		t.Errorf("printed %q and %q", word, flag)
	}
	out, _ := runTgi(t, 0, "version", "--output=json")
	var v map[string]string
	if err := json.Unmarshal([]byte(out), &v); err != nil || v["version"] != version || v["os"] == "" {
		t.Errorf("%v in %s", err, out)
	}
}

// TestOutputJSON: what is listed or reported is JSON where that is asked for, by either flag.
func TestOutputJSON(t *testing.T) {
	_, flags := modelFolder(t, nil)
	if err := os.MkdirAll("plugins", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("plugins", "mine.wasm"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	story := strings.Repeat("a short story ", 9)
	if err := os.WriteFile(filepath.Join("plugins", "text"), []byte(story), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append([]string{"model", "list"}, flags...), `"id": "tgi-demo"`},
		{append([]string{"model", "info"}, flags...), `"architecture": "LlamaForCausalLM"`},
		{[]string{"plugin", "list"}, `"source": "plugins/mine.wasm"`},
		{[]string{"plugin", "list"}, `"source": "builtin:jinja"`},
		{[]string{"conformance", "--list", "--only", "health"}, `"id": "health"`},
		{[]string{"check", "--plugins-folder="}, `"id": "tgi-demo"`},
		{[]string{"eval", "--suite", "perplexity", "plugins/text", "--window", "20", "--plugins-folder="},
			`"stride":10`},
		{append([]string{"model", "convert", "--weights", "int8"}, flags...), `"reference":"fp32"`},
		{[]string{"check", "--plugins-folder=", "--port", "81"}, `"origin": "flag --port"`},
	} {
		for _, form := range []string{"--json", "--output=json"} {
			out, _ := runTgi(t, 0, append(slices.Clone(c.args), form)...)
			contains(t, out, c.want)
			if !json.Valid([]byte(out)) {
				t.Errorf("%q: not JSON: %s", c.args, out)
			}
		}
	}
}

// TestCompletion: scripts for three shells, and what they ask the program for.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, _ := runTgi(t, 0, "completion", shell)
		contains(t, out, "__complete", shell+" completion")
		if path, err := exec.LookPath(shell); err == nil {
			cmd := exec.Command(path, "-n")
			cmd.Stdin = strings.NewReader(out)
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s does not read its script: %v\n%s", shell, err, text)
			}
		}
	}
	_, flags := modelFolder(t, nil)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"mo"}, []string{"model\t"}},
		{[]string{"model", ""}, []string{"pull\tFetch", "info\t", "synth\t"}},
		{[]string{"help", "plugin", ""}, []string{"bench\t", "new\t"}},
		{[]string{"serve", "--model-"}, []string{"--model-id\t"}},
		{[]string{"serve", "--weights", ""}, []string{"fp32\n", "int4\n"}},
		{[]string{"serve", "--dialect="}, []string{"tgi-2.2\n"}},
		{[]string{"run", "--set", "temp"}, []string{"temperature="}},
		{[]string{"plugin", "new", "--kind", ""}, []string{"logits\n", "steps\n"}},
		{[]string{"plugin", "new", "--lang", ""}, []string{"rust\n"}},
		{[]string{"version", "--output", ""}, []string{"text\n", "json\n"}},
		{slices.Concat([]string{"model", "info"}, flags, []string{"tgi"}), []string{"tgi-demo\n"}},
	} {
		out, _ := runTgi(t, 0, append([]string{"__complete"}, c.args...)...)
		contains(t, out, c.want...)
	}
}

// TestSettingChoices: the values that shells complete are some that the settings take.
func TestSettingChoices(t *testing.T) {
	t.Chdir(t.TempDir())
	for flag, values := range settingChoices {
		for _, value := range values {
			if _, err := loadConfig(settingFlags(t, "--"+flag, value)); err != nil {
				t.Errorf("--%s %s: %v", flag, value, err)
			}
		}
	}
}

// TestNoTerminal: a device that is no terminal is none.
func TestNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if terminal.Is(null) || terminal.Is(&bytes.Buffer{}) {
		t.Error("taken for a terminal")
	}
}
