// Package generated holds what the server writes under a JSON Schema, as hot as
// it gets, to the schema: by a validator that shares nothing with the grammars.
package generated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tgi/conformance/live"
)

const (
	// texts are generated when TGI_GENERATED does not say how many.
	texts = 1000
	// streams are generated at the same time.
	streams = 16
	// room is the length limit of a text, in tokens.
	room = 800
	// cut is the largest share of texts that may end by the length limit: what was cut shows nothing.
	cut = 0.15
)

// sources are files of schemas. Those with a valid and an invalid instance say what the validator must know.
var sources = []string{"../grammar/schemas/realistic.json", "schemas/suite.json", "schemas/more.json"}

// schema is an entry of a source.
type schema struct {
	Name           string
	Schema         json.RawMessage
	Valid, Invalid json.RawMessage // nil where the source has only valid ones
}

// line is what the validator reads: a text, or a control.
type line struct {
	Name    string          `json:"name"`
	Schema  json.RawMessage `json:"schema"`
	Route   string          `json:"route,omitempty"`
	Seed    int             `json:"seed,omitempty"`
	Finish  string          `json:"finish,omitempty"`
	Text    *string         `json:"text,omitempty"`
	Valid   json.RawMessage `json:"valid,omitempty"`
	Invalid json.RawMessage `json:"invalid,omitempty"`
}

// route is a way to ask for a text of a schema.
type route struct {
	name, path, body string // body has places for the schema, the seed and the length
	read             func(reply []byte) (text, finish string, err error)
}

var routes = []route{
	{"response_format", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Tell me a story."}],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":%s}},"temperature":1.5,"seed":%d,"max_tokens":%d}`, choice},
	{"grammar", "/generate",
		`{"inputs":"<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n","parameters":{"details":true,"grammar":{"type":"json_schema","value":{"name":"x","schema":%s}},"temperature":1.5,"seed":%d,"max_new_tokens":%d}}`, generated},
	{"guided_json", "/v1/completions",
		`{"prompt":"Once upon a time","guided_json":%s,"temperature":1.5,"seed":%d,"max_tokens":%d}`, choice},
	{"structured_outputs", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Numbers, please."}],"structured_outputs":{"json":%s,"disable_any_whitespace":true},"temperature":1.5,"seed":%d,"max_tokens":%d}`, choice},
}

func choice(reply []byte) (text, finish string, err error) {
	var r struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(reply, &r); err != nil || len(r.Choices) != 1 {
		return "", "", fmt.Errorf("%d choices: %w", len(r.Choices), err)
	}
	c := r.Choices[0]
	return c.Text + c.Message.Content, c.Finish, nil
}

func generated(reply []byte) (text, finish string, err error) {
	var r struct {
		Text    string `json:"generated_text"`
		Details struct {
			Finish string `json:"finish_reason"`
		}
	}
	err = json.Unmarshal(reply, &r)
	return r.Text, r.Details.Finish, err
}

// whole lists the reasons that say that the text ended by itself.
var whole = []string{"stop", "eos_token", "stop_sequence"}

// TestGenerated: at temperature 1.5 every text that ended is of its schema.
func TestGenerated(t *testing.T) {
	if os.Getenv("TGI_CLIENTS") == "" {
		t.Skip("the validator is installed from its registry and run where TGI_CLIENTS is set: make generated")
	}
	n := texts
	if s := os.Getenv("TGI_GENERATED"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("TGI_GENERATED=%s: want a number of texts", s)
		}
	}
	python := installed(t)
	list := schemas(t)
	server := live.Start(t, "")
	lines := generate(t, server.URL, list, n)
	for _, s := range list {
		if s.Valid != nil {
			lines = append(lines, line{Name: s.Name, Schema: s.Schema, Valid: s.Valid, Invalid: s.Invalid})
		}
	}
	weigh(t, lines, judged(t, python, lines))
}

// schemas reads the sources.
func schemas(t *testing.T) (list []schema) {
	t.Helper()
	for _, file := range sources {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var part []schema
		if err := json.Unmarshal(b, &part); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, part...)
	}
	return list
}

// generate asks for n texts, the schemas in turn, by all routes. A text that the server does not give is a failure of
// the test, and is not among the lines.
func generate(t *testing.T, url string, list []schema, n int) []line {
	t.Helper()
	lines := make([]line, n)
	next := make(chan int)
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			for i := range next {
				s, r := list[i%len(list)], routes[(i+i/len(list))%len(routes)]
				text, finish, err := ask(t.Context(), url, r, s.Schema, i+1)
				if err != nil {
					t.Errorf("%s by %s: %v", s.Name, r.name, err)
					continue
				}
				lines[i] = line{Name: s.Name, Schema: s.Schema, Route: r.name, Seed: i + 1, Finish: finish, Text: &text}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return slices.DeleteFunc(lines, func(l line) bool { return l.Text == nil })
}

func ask(ctx context.Context, url string, r route, schema json.RawMessage, seed int) (text, finish string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+r.path,
		strings.NewReader(fmt.Sprintf(r.body, schema, seed, room)))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("%d %s: %w", reply.StatusCode, b, err)
	}
	return r.read(b)
}

// installed returns the Python that has the validator, which it installs into the user's cache unless it is there.
func installed(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	to := filepath.Join(cache, "tgi", "clients", "jsonschema-"+hex.EncodeToString(sum[:6]))
	python, done := filepath.Join(to, "bin", "python"), filepath.Join(to, "installed")
	if _, err := os.Stat(done); err == nil {
		return python
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command("python3", "-m", "venv", to),
		exec.Command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
			"requirements.txt"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// judged returns what the validator says of each line, nothing for valid. The
// lines stay in TGI_GENERATED_LINES where that names a file.
func judged(t *testing.T, python string, lines []line) []string {
	t.Helper()
	file := os.Getenv("TGI_GENERATED_LINES")
	if file == "" {
		file = filepath.Join(t.TempDir(), "lines.jsonl")
	}
	var in bytes.Buffer
	e := json.NewEncoder(&in)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, in.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(python, "validate.py", file)
	cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("validate.py: %v\n%s", err, &stderr)
	}
	errors := make([]string, 0, len(lines))
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var v struct {
			Line           int
			Verdict, Error string
		}
		if err := d.Decode(&v); err != nil || v.Line != len(errors) || (v.Verdict == "valid") != (v.Error == "") {
			t.Fatalf("validate.py: %+v behind %d verdicts: %v", v, len(errors), err)
		}
		errors = append(errors, v.Error)
	}
	if len(errors) != len(lines) {
		t.Fatalf("%d verdicts on %d lines", len(errors), len(lines))
	}
	return errors
}

// weigh holds the verdicts to what is owed, and logs the counts.
func weigh(t *testing.T, lines []line, errors []string) {
	t.Helper()
	var ended, short, controls int
	known := map[string]bool{} // schemas with a text that ended
	for i, l := range lines {
		switch {
		case l.Text == nil:
			controls++
			if errors[i] != "" {
				t.Errorf("the validator and the schema %s: %s", l.Name, errors[i])
			}
		case l.Finish == "length":
			short++
		case !slices.Contains(whole, l.Finish):
			t.Errorf("%s by %s, seed %d: ended by %q", l.Name, l.Route, l.Seed, l.Finish)
		default:
			ended++
			known[l.Name] = true
			if errors[i] != "" {
				t.Errorf("%s by %s, seed %d: %s\n\tschema: %s\n\ttext: %s", l.Name, l.Route, l.Seed, errors[i],
					l.Schema, *l.Text)
			}
		}
	}
	t.Logf("%d texts: %d ended, of %d schemas; %d cut by the length limit; %d controls", ended+short, ended, len(known),
		short, controls)
	if share := float64(short) / float64(ended+short); share > cut {
		t.Errorf("%.0f %% of the texts were cut: at most %.0f %% may be", 100*share, 100*cut)
	}
	if want := min(100, ended+short); len(known) < want*9/10 {
		t.Errorf("texts of %d schemas ended, want %d", len(known), want)
	}
}
