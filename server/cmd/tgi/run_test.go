package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"tgi/server/config"
	"tgi/server/host"
)

// sum is a question that the demo model answers, and its answer.
const (
	sumAsked  = "What is 3 plus 4?"
	sumAnswer = "3 plus 4 is 7.\n"
	greedy    = "--set=temperature=0"
)

// runOn runs `tgi run` on a console and returns what it printed.
func runOn(t *testing.T, c console, args ...string) (out, errs string, code int) {
	t.Helper()
	t.Chdir(t.TempDir()) // which holds no settings
	var stdout, stderr bytes.Buffer
	c.out, c.errors = &stdout, &stderr
	code = c.execute(t.Context(), append([]string{"run"}, args...))
	return stdout.String(), told(&stderr), code
}

// told is what went to stderr, without the line of a slow machine.
func told(stderr *bytes.Buffer) string {
	return strings.TrimPrefix(stderr.String(), "tgi: "+openingNotice+"\n")
}

// TestRunPipe asks the demo model through real pipes, as a shell does.
func TestRunPipe(t *testing.T) {
	t.Chdir(t.TempDir())
	in, question, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = before }()
	io.WriteString(question, sumAsked+"\n")
	question.Close()
	answer, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	code := run([]string{"run", greedy}, out, &stderr)
	out.Close()
	text, err := io.ReadAll(answer)
	if code != 0 || err != nil || string(text) != sumAnswer || told(&stderr) != "" {
		t.Errorf("status %d, %v, printed %q and %q", code, err, text, &stderr)
	}
}

// TestRunOnce asks by arguments, of a model in this process and of a server.
func TestRunOnce(t *testing.T) {
	h := openServer(t, testConfig())
	ts := httptest.NewServer(h)
	defer ts.Close()
	locked := testConfig()
	locked.Server.APIKeys = []string{"k"}
	hk := openServer(t, locked)
	tk := httptest.NewServer(hk)
	defer tk.Close()
	for name, c := range map[string]struct {
		in   string
		args []string
		out  string
		errs string // a part of what stderr has; empty for nothing there
		code int
	}{
		"word":     {"", []string{greedy, sumAsked}, sumAnswer, "", 0},
		"words":    {"", append([]string{"--url", ts.URL, greedy}, strings.Fields(sumAsked)...), sumAnswer, "", 0},
		"mixed":    {sumAsked + "\n", []string{"--url", ts.URL, greedy, "-"}, sumAnswer, "", 0},
		"own keys": {"", []string{"--api-key", "k", "--dialect=tgi-0.6", greedy, sumAsked}, sumAnswer, "", 0},
		"server":   {"", []string{"--url", ts.URL, greedy, sumAsked}, sumAnswer, "", 0},
		"key": {"", []string{"--url=" + tk.URL + "/v1", "--key", "k", "--model", "tgi", greedy, "--", sumAsked},
			sumAnswer, "", 0},
		"no key": {"", []string{"--url", tk.URL, sumAsked}, "",
			"find the model of " + tk.URL + ": 401 Unauthorized: no key given: send the header `Authorization: Bearer KEY`; --model names one", 1},
		"no key at a secret address": {"", []string{"--url", strings.Replace(tk.URL, "://", "://USER:PASS@", 1),
			sumAsked}, "",
			"find the model of " + strings.Replace(tk.URL, "://", "://***@", 1) + ": 401 Unauthorized: ", 1},
		"a secret in a query": {"", []string{"--url", tk.URL + "?key=PASS", sumAsked}, "",
			`"` + tk.URL + `?***" is no URL of a server`, 1},
		"no answer": {"", []string{"--url", ts.URL, "--set", "temperature=-1", sumAsked}, "",
			"422 Unprocessable Entity: ", 1},
		"no server": {"", []string{"--url", "http://127.0.0.1:1", sumAsked}, "", "connection refused", 1},
		"cut": {"", []string{"--url", ts.URL, "--set", "max_tokens=2", greedy, sumAsked}, "3 plus\n",
			"cut at the length", 0},
		"empty":    {" \n", nil, "", "the message is empty", 2},
		"no model": {"", []string{"--model-id", "nowhere", sumAsked}, "", "nowhere", 1},
		"flag": {"", []string{"--weihgts", "int8", sumAsked}, "", "unknown flag --weihgts; did you mean --weights?",
			2},
		"url flag": {"", []string{"--url", ts.URL, "--sytem", "x"}, "", "unknown flag --sytem; did you mean --system?",
			2},
		"setting flag": {"", []string{"--url", ts.URL, "--weights", "int8", "x"}, "",
			"--weights is for a model in this process", 2},
		"setting": {"", []string{"--set", "stream=false", sumAsked}, "", "--set: stream is set by nothing", 2},
		"notice":  {" ", []string{"--quantize", "fp8"}, "", "tgi: --quantize has no effect: ", 2},
		"apart": {"", []string{"--url", ts.URL, "--set", "max_tokens", "2", greedy, sumAsked}, "3 plus\n",
			"cut at the length", 0},
		"misspelt": {"", []string{"--set", "temprature=1", sumAsked}, "",
			"temprature is not a member of chat requests; did you mean temperature?", 2},
		"misfit": {"", []string{"--set", "temperature", "abc", sumAsked}, "",
			`--set: temperature cannot be abc: invalid type: string "abc", expected f32`, 2},
		"theirs": {"", []string{"--url", ts.URL, "--set", "min_tokens=5", sumAsked}, "",
			"422 Unprocessable Entity: ", 1},
		"bare":  {"", []string{"--set"}, "", "--set wants a value", 2},
		"alone": {"", []string{"--model", "x", sumAsked}, "", "--model belongs to the server at --url", 2},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := runOn(t, console{in: strings.NewReader(c.in)}, c.args...)
			if out != c.out || code != c.code || !strings.Contains(errs, c.errs) || (c.errs == "") != (errs == "") {
				t.Errorf("status %d, printed %q and %q", code, out, errs)
			}
		})
	}
	for _, args := range [][]string{{"-h"}, {"--url", "http://x", "--help"}} {
		out, errs, code := runOn(t, console{}, args...)
		if code != 0 || errs != "" || !strings.HasPrefix(out, "Talk with a model") ||
			!strings.Contains(out, "--model-id") {
			t.Errorf("%v: status %d, printed %q and %q", args, code, out, errs)
		}
	}
}

// TestRunTalk talks with the demo model: it keeps to the conversation and what
// was saved is loaded by the next run.
func TestRunTalk(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "talk.json")
	typed := strings.Join([]string{"/set temperature 0", sumAsked, "/save " + saved, "What pet does Tomas have?",
		"What colour is it?", ""}, "\n")
	out, errs, code := runOn(t, console{in: strings.NewReader(typed), typed: true})
	answers := strings.SplitAfter(out, "\n")
	if code != 0 || len(answers) != 4 || answers[0] != sumAnswer || strings.Contains(errs, "error") {
		t.Fatalf("status %d, printed %q and %q", code, out, errs)
	}
	again, errs, code := runOn(t, console{in: strings.NewReader("/set temperature 0\n/load " + saved +
		"\nWhat pet does Tomas have?\n"), typed: true})
	if code != 0 || again != answers[1] {
		t.Errorf("status %d, printed %q and %q, want %q", code, again, errs, answers[1])
	}
	text, err := os.ReadFile(saved)
	if want := "[\n  {\"role\":\"user\",\"content\":\"" + sumAsked +
		"\"},\n  {\"role\":\"assistant\",\"content\":\"3 plus 4 is 7.\"}\n]\n"; err != nil || string(text) != want {
		t.Errorf("saved %q, %v", text, err)
	}
	shown, _, _ := runOn(t, console{in: strings.NewReader(sumAsked + "\n"), typed: true, shown: true, colour: true},
		greedy)
	if !strings.Contains(shown, "\x1b[1m> \x1b[0m") || !strings.Contains(shown, sumAnswer) || !strings.Contains(shown,
		"tokens/s") {
		t.Errorf("a terminal shows %q", shown)
	}
}

// TestRunTools has the demo model call a tool and gives it the result.
func TestRunTools(t *testing.T) {
	tools := filepath.Join(t.TempDir(), "tools.json")
	const list = `[{"type":"function","function":{"name":"get_weather","description":"Get the current weather of a city",
		"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`
	if err := os.WriteFile(tools, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	typed := "/tools " + tools + "\nWhat is the weather in Lisbon?\n{\"temperature\": 21, \"sky\": \"sunny\"}\n"
	out, errs, code := runOn(t, console{in: strings.NewReader(typed), typed: true}, greedy)
	if code != 0 || !strings.Contains(errs, "> call get_weather {\"city\": \"Lisbon\"}\nresult of get_weather ") {
		t.Errorf("status %d, printed %q and %q", code, out, errs)
	}
	if !strings.Contains(out, "Lisbon") || !strings.Contains(out, "sunny") || strings.Contains(out, "tool_call") {
		t.Errorf("answered %q", out)
	}
}

// TestRunColours: colours are off where the environment says so.
func TestRunColours(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{map[string]string{"TERM": "dumb"}, false},
	} {
		got := colours(func(name string) (string, bool) {
			v, ok := c.env[name]
			return v, ok
		})
		if got != c.want {
			t.Errorf("%v: got %v", c.env, got)
		}
	}
}

// TestRunMessage: words are joined by spaces, what is piped stands on its own
// lines.
func TestRunMessage(t *testing.T) {
	for want, words := range map[string][]string{
		"a b":          {"a", "b"},
		"a b\nin\n in": {"a", "b", "-"},
		"in\n in\nb c": {"-", "b", "c"},
		"in\n in":      nil,
	} {
		got, err := console{in: strings.NewReader("in\n in\r\n\n")}.message(words)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", words, got, err, want)
		}
	}
}

// TestRunLog: opening a model says what takes long; later only warnings are told.
func TestRunLog(t *testing.T) {
	var b bytes.Buffer
	h := &progressLog{Handler: slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}), progress: &b}
	log := slog.New(h)
	log.Debug("never")
	log.Info("converting: 40%")
	h.showProgress(openingNotice)
	log.Info("plugin loaded", "plugin", "a")
	h.open()
	h.showProgress(openingNotice)
	log.Info("converting: 50%")
	log.Warn("faulty", "plugin", "a")
	got := b.String()
	if !strings.HasPrefix(got, "tgi: converting: 40%\ntgi: opening the model ...\ntime=") || !strings.HasSuffix(got,
		" level=WARN msg=faulty plugin=a\n") || strings.Count(got, "\n") != 3 {
		t.Errorf("got %q", got)
	}
}

func testConfig() config.Config {
	c := config.Default()
	c.Runtime.Verify = true
	c.Models.Folder = "no-models" // not those of whoever tests
	c.Plugins.Uploads = ""
	return c
}

// openServer returns a server of the demo model.
func openServer(t *testing.T, c config.Config) *host.Server {
	t.Helper()
	h, err := host.Open(t.Context(), host.Options{Config: c, Version: version, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}
