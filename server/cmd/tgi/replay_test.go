package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// commandOn runs a command on a console without a terminal, and returns what it printed.
func commandOn(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	c := console{in: strings.NewReader(""), out: &stdout, errors: &stderr}
	code = c.execute(t.Context(), args)
	return stdout.String(), stderr.String(), code
}

// TestExplainReceiptAlone: of a reply with a receipt alone the receipt is the answer, and a note is beside it.
func TestExplainReceiptAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.json", []byte(`{"choices":[{"index":0}],"receipts":[{"version":1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := commandOn(t, "explain", "a.json")
	if code != 0 || out != "{\n  \"version\": 1\n}\n" ||
		!strings.HasPrefix(errs, "tgi: a.json: the reply has a receipt and no explanation") {
		t.Errorf("status %d, printed %q and %q", code, out, errs)
	}
}

// TestExplainAndReplay: a reply is explained and kept, and comes again; a changed one is told apart.
func TestExplainAndReplay(t *testing.T) {
	t.Chdir(t.TempDir())
	h := openServer(t, testConfig())
	ts := httptest.NewServer(h)
	defer ts.Close()
	out, errs, code := commandOn(t, "explain", "--url", ts.URL, "--save", "kept.json", "--candidates",
		"--set", "max_tokens=20", "--set", `response_format={"type": "regex", "value": "It is [0-9]\\."}`, sumAsked)
	if code != 0 || errs != "" || !strings.HasPrefix(out, "It is ") ||
		!strings.Contains(out, "mask       grammar: leaves ") || strings.Contains(out, "\x1b") {
		t.Errorf("status %d, printed %q and %q", code, out, errs)
	}
	again, _, code := commandOn(t, "explain", "--candidates", "kept.json")
	if code != 0 || again != out {
		t.Errorf("status %d, the file gives %q", code, again)
	}
	if out, errs, code := commandOn(t, "replay", "--url", ts.URL, "kept.json"); code != 0 || errs != "" ||
		!strings.HasPrefix(out, "request 1: the same tokens (") {
		t.Errorf("status %d, printed %q and %q", code, out, errs)
	}
	kept, err := os.ReadFile("kept.json")
	if err != nil {
		t.Fatal(err)
	}
	reply := strings.Index(string(kept), `"reply":`)
	other := strings.ReplaceAll(string(kept[reply:]), `"model":"`, `"model":"another-`)
	other = string(kept[:reply]) + strings.Replace(other, "It is ", "So is ", 1)
	at := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(at, []byte(strings.Replace(other, `"outputs":[{"tokens":`, `"outputs":[{"tokens":1`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code = commandOn(t, "replay", "--url", ts.URL, at)
	if code != 1 || errs != "" || !strings.Contains(out, "request 1: differs\n  model: was another-") ||
		!strings.Contains(out, "text behind 0 bytes: was \"So is") {
		t.Errorf("status %d, printed %q and %q", code, out, errs)
	}
	drawn := strings.Replace(string(kept), `"seed":`, `"seed":-1,"was":`, 1)
	drawn = strings.Replace(drawn, `"sample":false`, `"sample":true`, 1)
	if err := os.WriteFile("drawn.json", []byte(drawn), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		was, is, out string
		code         int
	}{
		{`"content":"It is`, `"content":"So is`, "request 1: differs\n  text behind 0 bytes: was \"So is ", 1},
		{`"receipts":[{"version":1`, `"receipts":[{"version":2`, "request 1: not compared: the reply that was kept: " +
			"receipt.version: this tgi reads version 1, given 2\n", 3},
		{`"finish_reason":"stop"`, `"finish_reason":"length"`, "request 1: differs\n  finish_reason: was \"length\", is " +
			"\"stop\"\n", 1},
		{`"temperature":`, `"temperature":{"a":1},"was":`, "request 1: not compared: the reply that was kept: " +
			"receipt.settings.temperature: want a number, given {\"a\":1}\n", 3},
		{`"receipts":[`, `"receipts":"x","was":[`, "request 1: not compared: the reply that was kept: receipts: want an " +
			"array of receipts, given a string\n", 3},
	} {
		changed := strings.Replace(string(kept), x.was, x.is, 1)
		if err := os.WriteFile("changed.json", []byte(changed), 0o600); err != nil || changed == string(kept) {
			t.Fatal(err, x.was)
		}
		out, errs, code = commandOn(t, "replay", "--url", ts.URL, "changed.json")
		if code != x.code || errs != "" || !strings.HasPrefix(out, x.out) {
			t.Errorf("%s: status %d, printed %q and %q", x.is, code, out, errs)
		}
		out, _, code = commandOn(t, "replay", "--json", "--url", ts.URL, "changed.json")
		if code != x.code || !strings.Contains(out, `"same":false`) && !strings.Contains(out, `"same": false`) {
			t.Errorf("%s: status %d, printed %q", x.is, code, out)
		}
	}
	if err := os.WriteFile("list.json", []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code = commandOn(t, "replay", "--url", ts.URL, "drawn.json")
	if code != 3 || errs != "" || out != "request 1: not compared: the receipt's seed, -1, is no whole number from 0 to "+
		"2^64-1, and the request has none: what was drawn cannot be drawn again\n" {
		t.Errorf("status %d, printed %q and %q", code, out, errs)
	}
	for _, x := range []struct {
		args []string
		errs string
		code int
	}{
		{[]string{"replay", "--url", ts.URL, "nowhere"}, "no such file", 1},
		{[]string{"replay", "--request", "kept.json", "kept.json"}, "--request and --path go together", 2},
		{[]string{"replay"}, "replay takes one file, got 0", 2},
		{[]string{"replay", "--key-of", "a=b", "kept.json"}, "--key-of belongs to the server at --url", 2},
		{[]string{"replay", "--url", ts.URL, "--key-of", "sk-secret", "kept.json"},
			"--key-of: want NAME=KEY or NAME=@FILE", 2},
		{[]string{"replay", "--url", ts.URL, "--key-of", "a=@nowhere", "kept.json"}, "no such file", 2},
		{[]string{"replay", "--url", ts.URL, "--key-of", "scool=b", "kept.json"},
			`--key-of: no request of kept.json came with a key called "scool"`, 2},
		{[]string{"replay", "--url", ts.URL, "--path", "/generate", "--request", "list.json", "kept.json"},
			"list.json: the request's body: it is no JSON: it ends too early", 1},
		{[]string{"replay", "--url", ts.URL, "-"}, "the input holds no request", 1},
		{[]string{"replay", "--path", "/generate", "--request", "-", "-"}, "FILE and --request are not both on the pipe", 2},
		{[]string{"explain", "-"}, "the input: it is no JSON: it ends too early", 1},
		{[]string{"explain", "list.json"}, "list.json: it is no JSON: it ends too early", 1},
		{[]string{"explain", "--key", "x", "hi"}, "--key belongs to the server at --url", 2},
		{[]string{"explain", "--url", ts.URL, "--top", "99", "hi"}, "`explain.top` must be >= 0 and <= 20", 1},
		{[]string{"explain", "--url", ts.URL, "--set", "temprature=1", "hi"}, "did you mean temperature?", 2},
	} {
		if out, errs, code := commandOn(t, x.args...); code != x.code || !strings.Contains(errs, x.errs) || out != "" {
			t.Errorf("%v: status %d, printed %q and %q", x.args, code, out, errs)
		}
	}
}

// TestForeignText: neither what a server says nor a file has a terminal obey, and a file names no other host.
func TestForeignText(t *testing.T) {
	t.Chdir(t.TempDir())
	asked := ""
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was asked with %s", r.Header.Get("Authorization"))
	}))
	defer away.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "bad\x1b]0;t\a\u009b2J\u202e\u2028\x9b")
	}))
	defer home.Close()
	host := strings.TrimPrefix(away.URL, "http://")
	files := map[string]string{
		"host.json":  `{"request": {"path": "@` + host + `/generate", "body": {}}, "reply": {"generated_text": "a"}}`,
		"admin.json": `{"request": {"path": "/admin/reload", "body": {}}, "reply": {"generated_text": "a"}}`,
		"bad.json":   `{"request": {"path": "/generate", "body": {}}, "reply": {"generated_text": "a\u202e\u001b"}}`,
		"told.json": `{"details": {"explain": [{"text": "a\u001b\u009b\u202e", "picked": "sampler", "by": "b\u001b\u202e",
			"changes": [{"kind": "c\u001b\u200f", "name": "d\u2028"}]}]}}`,
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct{ args, want, asked string }{
		{"replay --url " + home.URL + " --key k host.json", `"POST" "@` + host + `/generate" is not sent`, ""},
		{"replay --url " + home.URL + " admin.json", `"POST" "/admin/reload" is not sent`, ""},
		{"replay --url " + home.URL + " bad.json", "500", "POST /generate"},
		{"replay --json --url " + home.URL + " bad.json", "500", "POST /generate"},
		{"explain --url " + home.URL + " hi", `500 Internal Server Error: bad\x1b]0;t\a\u009b2J\u202e`,
			"POST /v1/chat/completions"},
		{"explain told.json", `chosen by b\x1b\u202e`, ""},
		{"explain --json told.json", `"by": "b\u001b\u202e"`, ""},
	} {
		asked = ""
		out, errs, _ := commandOn(t, strings.Fields(x.args)...)
		all := out + errs
		if !strings.Contains(all, x.want) || asked != x.asked {
			t.Errorf("%s: asked %q, printed %q", x.args, asked, all)
		}
		if at := strings.IndexFunc(all, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); at >= 0 {
			t.Errorf("%s: byte %d of %q", x.args, at, all)
		}
	}
}
