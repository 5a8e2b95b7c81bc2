package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/server/client/bench"
)

// benched is a server that takes each byte of a prompt for a token and answers requests by generate.
func benched(t *testing.T, generate http.HandlerFunc) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Inputs string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		var tokens []string
		for i := range len(body.Inputs) {
			tokens = append(tokens, fmt.Sprintf(`{"id":1,"text":"a","start":%d,"stop":%d}`, i, i+1))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(tokens, ","))
	})
	mux.HandleFunc("POST /generate_stream", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // a server that answers first closes the connection
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		generate(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// oneToken answers with one token.
func oneToken(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `data: {"index":1,"token":{"id":1,"text":"a","logprob":-1,"special":false},"generated_text":"a",`+
		`"details":{"finish_reason":"length","generated_tokens":1,"input_length":5}}`+"\n\n")
}

// manyTokens answers with as many tokens as are asked for, one every two milliseconds.
func manyTokens(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Parameters struct {
			Tokens int `json:"max_new_tokens"`
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	for range body.Parameters.Tokens - 1 {
		fmt.Fprint(w, `data: {"index":1,"token":{"id":1,"text":"a","logprob":-1,"special":false}}`+"\n\n")
		if w.(http.Flusher).Flush(); r.Context().Err() != nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	oneToken(w, r)
}

func TestBenchTable(t *testing.T) {
	server := benched(t, manyTokens)
	for _, c := range []struct{ flag, want string }{
		{"-concurrency=2", "2 streams     3    0       0"}, // one dash will do
		{"--rate=1000", "1000/s     3    0       0"},
		{"--repeat", "repeated"},
		{"--beside=900", "of 900"},
	} {
		out, _ := runTgi(t, 0, "bench", "--url", server.URL, "--requests", "3", "--prompt-tokens", "64", c.flag)
		contains(t, out, c.want)
	}
	out, errs := runTgi(t, 0, "bench", "--url", server.URL, "--requests", "3", "--prompt-tokens", "64", "--concurrency",
		"1, 2", "--json")
	var r bench.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Runs) != 2 || r.Runs[1].Completed != 3 {
		t.Errorf("%v in %s", err, out)
	}
	contains(t, errs, "3 requests over 2 streams")
}

func TestBenchFails(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	full := benched(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown flag", []string{"--concurency", "4"}, 2, "unknown flag --concurency; did you mean --concurrency?"},
		{"unknown flag after others", []string{"--json", "--rate", "-1", "--promt-tokens=4"}, 2,
			"did you mean --prompt-tokens?"},
		{"no number", []string{"--concurrency", "1,x"}, 2, `"x" is no number`},
		{"no value", []string{"--rate"}, 2, "--rate wants a value"},
		{"argument", []string{"--json", "http://x"}, 2, `unexpected argument "http://x"`},
		{"bad url", []string{"--url", "ftp://x"}, 2, "url must be"},
		{"a load on a model", []string{"--shape", "smollm2-135m", "--rate", "3"}, 2, "--rate is for a server at --url, not with --shape, --model-id or --start"},
		{"both", []string{"--url", full.URL, "--shape", "smollm2-135m"}, 2,
			"--url measures a server that runs, --shape, --model-id and --start one of their own: give one"},
		{"weights of a server", []string{"--weights", "int8"}, 2, "--weights needs --shape, --model-id or --start"},
		{"weights of the demo", []string{"--start", "--weights", "int8"}, 2, "--weights needs --shape or --model-id"},
		{"both loads", []string{"--url", full.URL, "--beside", "900", "--rate", "3"}, 2, "exclude"},
		{"a start of a server", []string{"--url", full.URL, "--start"}, 2, "give one"},
		{"no such weights", []string{"--model-id", ".", "--weights", "int5"}, 2, "int5"},
		{"no such route", []string{"--url", none.URL}, 1, "POST /tokenize: status 404"},
		{"no server", []string{"--url", "http://127.0.0.1:1"}, 1, "making prompts"},
		{"all refused", []string{"--url", full.URL, "--requests", "3", "--prompt-tokens", "64"}, 1, ""},
	} {
		var stdout, stderr strings.Builder
		if code := run(append([]string{"bench"}, c.args...), &stdout,
			&stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", c.name, code, stderr.String(), c.code, c.want)
		}
	}
}
