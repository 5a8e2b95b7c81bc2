package replay

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tgi/server/client/call"
)

// made is a receipt with one output.
func made(server, plugin, seed, output string) string {
	return fmt.Sprintf(`{"version": 1, "server": %q, "model": "m", "plugins": [%s], "prompt": {"tokens": 2, "sha256": %q},
		"seed": %s, "settings": {"sample": true, "temperature": 0.5}, "outputs": [{"tokens": 3, "sha256": %q}]}`, server, plugin,
		sum("p"), seed, sum(output))
}

// sum is a checksum that named shows as text.
func sum(text string) string { return fmt.Sprintf("%064x", text) }

var padded = regexp.MustCompile("0{50,}[0-9a-f]+")

// named is a text with the texts of its checksums.
func named(report string) string {
	return padded.ReplaceAllStringFunc(report, func(sum string) string {
		text, _ := hex.DecodeString(sum)
		return strings.TrimLeft(string(text), "\x00")
	})
}

// answering is a server that replies to every request with a body, and keeps what it was asked.
func answering(t *testing.T, status int, reply string) (*call.Caller, *string) {
	asked := new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		*asked = r.URL.String() + " " + r.Header.Get("X-TGI-Dialect") + " " + string(b)
		w.WriteHeader(status)
		io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	c, err := call.New(s.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, asked
}

func TestReplay(t *testing.T) {
	const seed = "15152195401968784498" // no float64, and no int64
	tgi := func(receipt, text string) string {
		return fmt.Sprintf(`{"generated_text": %q, "details": {"receipt": %s}}`, text, receipt)
	}
	chat := func(receipt, text string) string {
		return fmt.Sprintf(`{"choices": [{"message": {"content": %q}}], "receipts": [%s]}`, text, receipt)
	}
	a := made("1", "", seed, "o")
	p := `{"name": "x", "use": "logits", "sha256": "` + sum("aa") + `"}`
	q := strings.Replace(p, sum("aa"), sum("bb"), 1)
	for name, x := range map[string]struct {
		path, body, was string
		status          int
		is              string
		sent            string // with the path
		want            string
	}{
		"same": {"/generate", `{"inputs": "a", "parameters": {"stop": ["b"]}}`, tgi(a, "b"), 200, tgi(a, "b"),
			`/generate  {"inputs":"a","parameters":{"details":true,"seed":` + seed + `,"stop":["b"]}}`,
			"request 1: the same tokens (3 tokens)\n"},
		"no parameters": {"/generate_stream", `{"inputs": "a"}`, tgi(a, "b"), 200, tgi(a, "b"),
			`/generate_stream  {"inputs":"a","parameters":{"details":true,"do_sample":true,"seed":` + seed + `}}`,
			"request 1: the same tokens (3 tokens)\n"},
		"own seed": {"/generate", `{"inputs": "a", "parameters": {"seed": 1}}`, tgi(a, "b"), 200, tgi(a, "b"),
			`/generate  {"inputs":"a","parameters":{"details":true,"seed":1}}`, "request 1: the same tokens (3 tokens)\n"},
		"a seed as a text": {"/generate",
			`{"inputs": "a", "parameters": {}}`, tgi(made("1", "", `"`+seed+`"`, "o"), "b"), 200,
			tgi(a, "b"), `/generate  {"inputs":"a","parameters":{"details":true,"seed":` + seed + `}}`,
			"request 1: the same tokens (3 tokens)\n"},
		"a seed of JavaScript": {"/generate", `{"inputs": "a", "parameters": {"seed": 15152195401968785000}}`,
			tgi(made("1", "", "15152195401968785000", "o"), "b"), 200,
			tgi(made("1", "", "15152195401968785000", "u"), "b"),
			`/generate  {"inputs":"a","parameters":{"details":true,"seed":15152195401968785000}}`,
			"request 1: differs\n  output 0: was 3 tokens o, is 3 tokens u\n" +
				"  note: the receipt's seed, 15152195401968785000, may have been rounded by something that reads " +
				"numbers as JavaScript does\n"},
		"a seed of jq": {"/generate", `{"inputs": "a", "parameters": {"seed": 7}}`,
			tgi(made("1", "", "1.5152195401968785e+19", "o"), "b"), 200, tgi(made("1", "", "7", "u"), "b"),
			`/generate  {"inputs":"a","parameters":{"details":true,"seed":7}}`,
			"request 1: differs\n  seed: was 1.5152195401968785e+19, is 7\n" +
				"  output 0: was 3 tokens o, is 3 tokens u\n" +
				"  note: the receipt's seed, 1.5152195401968785e+19, is no whole number of 64 bits: something that " +
				"reads numbers as JavaScript does changed it\n"},
		"the first seed that JavaScript rounds": {"/generate", `{"inputs": "a", "parameters": {}}`,
			tgi(made("1", "", "9007199254740992", "o"), "b"), 200, tgi(made("1", "", "9007199254740992", "u"), "b"),
			`/generate  {"inputs":"a","parameters":{"details":true,"seed":9007199254740992}}`,
			"request 1: differs\n  output 0: was 3 tokens o, is 3 tokens u\n" +
				"  note: the receipt's seed, 9007199254740992, may have been rounded by something that reads numbers as " +
				"JavaScript does\n"},
		"a seed that is right all the same": {"/generate", `{"inputs": "a", "parameters": {}}`,
			tgi(made("1", "", "9007199254740992", "o"), "b"), 200, tgi(made("1", "", "9007199254740992", "o"), "b"), "",
			"request 1: the same tokens (3 tokens)\n"},
		"a seed that the request has otherwise": {"/generate",
			`{"inputs": "a", "parameters": {"seed": 9007199254740993}}`,
			tgi(made("1", "", "9007199254740992", "o"), "b"), 200, tgi(made("1", "", "9007199254740993", "u"), "b"),
			`/generate  {"inputs":"a","parameters":{"details":true,"seed":9007199254740993}}`,
			"request 1: differs\n  seed: was 9007199254740992, is 9007199254740993\n" +
				"  output 0: was 3 tokens o, is 3 tokens u\n  note: the request has the seed 9007199254740993, its " +
				"receipt 9007199254740992: one of them was changed\n" +
				"  note: the receipt's seed, 9007199254740992, may have been rounded by something that reads numbers as " +
				"JavaScript does\n"},
		"best_of": {"/generate", `{"inputs": "a", "parameters": {"best_of": 2}}`, tgi(a, "b"), 200, tgi(a, "b"),
			`/generate  {"inputs":"a","parameters":{"best_of":2,"best_of_seed":` + seed + `,"details":true}}`,
			"request 1: the same tokens (3 tokens)\n"},
		"chat": {"/v1/chat/completions?model=m", `{"messages": []}`, chat(a, "b"), 200, chat(a, "b"),
			`/v1/chat/completions?model=m  {"explain":{"tokens":0},"messages":[],"seed":` + seed + `}`,
			"request 1: the same tokens (3 tokens)\n"},
		"another plugin": {"/v1/chat/completions", `{"explain": true}`, chat(made("1", p, "1", "o"), "grüße"), 200,
			chat(made("1", q, "1", "u"), "grünes"), `/v1/chat/completions  {"explain":true,"seed":1}`,
			"request 1: differs\n  plugin x (logits): was aa, is bb\n  output 0: was 3 tokens o, is 3 tokens u\n" +
				"  text behind 4 bytes: was \"ße\", is \"nes\"\n"},
		"missing plugin": {"/v1/completions", `{}`, chat(made("1", p, "1", "o"), "a"), 200,
			chat(made("2", "", "1", "o"), "a"),
			`/v1/completions  {"explain":{"tokens":0},"seed":1}`,
			"request 1: the same tokens (3 tokens)\n  server: was 1, is 2\n  plugin x (logits): was aa, there is none\n"},
		"escapes": {"/v1/completions", `{}`, chat(made("1", "", "1", "o"), "a"), 200,
			chat(made("\u009b2J\n", "", "1", "o"), "a"), "",
			"request 1: the same tokens (3 tokens)\n  server: was 1, is \\u009b2J\\n\n"},
		"refused": {"/generate", `{"inputs": "a"}`, tgi(a, "b"), 422, `{"error": "plugin x is not installed"}`, "",
			"request 1: differs\n  status: was 200 OK, is 422 Unprocessable Entity: plugin x is not installed\n"},
		"text alone": {"/v1/messages", `{"max_tokens": 1}`, `{"content": [{"type": "text", "text": "hello"}]}`, 200,
			`{"content": [{"type": "text", "text": "help"}]}`, `/v1/messages  {"max_tokens":1}`,
			"request 1: differs\n  text behind 3 bytes: was \"lo\", is \"p\"\n  note: " + noSeed + "\n"},
		"streams": {"/v1/chat/completions", `{"stream": true}`,
			"data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"a\"}}]}\n\n" +
				"data: {\"choices\": [{\"index\": 0, \"delta\": {\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}}]}\n\ndata: [DONE]\n\n",
			200, `{"choices": [{"message": {"content": "a", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}]}`, "",
			"request 1: the same text\n"},
		"Ollama": {"/api/chat", `{"messages": [], "keep_alive": 0, "options": {"seed": -1}}`,
			`{"message": {"content": "a", "thinking": "t"}, "done": false}` + "\n" +
				`{"message": {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, "receipt": ` + a + "}\n", 200,
			`{"message": {"content": "a", "thinking": "t", "tool_calls": [{"function": {"name": "f", "arguments": { }}}]}, ` +
				`"receipt": ` + a + `}`,
			`/api/chat  {"explain":{"tokens":0},"messages":[],"options":{"seed":` + seed + `}}`,
			"request 1: the same tokens (3 tokens)\n"},
		"Ollama's generate": {"/api/generate", `{"prompt": "a", "options": null}`, `{"response": "b"}`, 200,
			"{\"response\": \"\", \"done\": false}\n{\"response\": \"b\", \"done\": true}\n",
			`/api/generate  {"options":null,"prompt":"a"}`, "request 1: the same text\n"},
		"generate API": {"/api/generate-batch", `{"prompts": [{"request_id": "a", "prompt": "b"}]}`,
			`[{"request_id": "a", "response": "b", "receipt": ` + a + `}, {"request_id": "x", "response": "c"}]`, 200,
			`[{"request_id": "r", "response": "b", "receipt": ` + a + `}, {"request_id": "s", "response": "d"}]`, "",
			"request 1: differs\n  text 1 behind 0 bytes: was \"c\", is \"d\"\n  note: the tokens that receipts tell of are " +
				"the same, but what the replies say is not\n"},
		"plain text": {"/api/generate-one", `{"request_id": "a", "prompt": "b"}`, `{"response": "a"}`, 200,
			`{"response": "b"}`, "",
			"request 1: differs\n  text behind 14 bytes: was \"a\\\"}\", is \"b\\\"}\"\n  note: " + noSeed + "\n"},
		"plain refusal": {"/api/generate-one", `{"request_id": "a", "prompt": "b"}`, `a`, 400, `no`, "",
			"request 1: differs\n  status: was 200 OK, is 400 Bad Request: no\n"},
		"goes on": {"/api/generate-one", `{"request_id": "a"}`, `a`, 200, `a`, "",
			"request 1: not compared: it goes on with a text that the server held: its body has no prompt\n"},
		"Vertex AI": {"/vertex", `{"instances": [{"inputs": "a"}]}`, `{"predictions": ["b", "c"]}`, 200,
			`{"predictions": ["b", "d"]}`, `/vertex  {"instances":[{"inputs":"a"}]}`,
			"request 1: differs\n  text 1 behind 0 bytes: was \"c\", is \"d\"\n"},
		"KServe": {"/v2/models/m/versions/1/infer", `{"id": "1", "inputs": [], "outputs": []}`,
			`{"id": "1", "outputs": [{"name": "a", "data": [104, 195, 169]}, {"name": "b", "data": [98]}]}`, 200,
			`{"id": "1", "outputs": [{"name": "a", "data": [104, 195, 168]}, {"name": "b", "data": ["b"]}]}`,
			`/v2/models/m/versions/1/infer  {"id":"1","inputs":[],"outputs":[]}`,
			"request 1: differs\n  text 0 behind 1 bytes: was \"é\", is \"è\"\n"},
		"nothing to compare": {"/generate", `{"inputs": "a"}`, "", 200, tgi(a, "b"), `/generate  {"inputs":"a"}`,
			"request 1: not compared: the reply that was kept has neither a receipt nor a text to compare with\n"},
		"no object": {"/generate", `[1]`, tgi(a, "b"), 200, "", "",
			"request 1: not compared: the body of /generate is no JSON object\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c, asked := answering(t, x.status, x.is)
			was, _ := json.Marshal(x.was)
			list, err := Read("f", strings.NewReader(fmt.Sprintf(`{"request": {"path": %q, "body": %s}, "reply": %s}`, x.path,
				x.body, was)))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), c, list[0], Options{})
			if err != nil || named(r.String()) != x.want {
				t.Errorf("%v, reports\n%s\nwant\n%s", err, named(r.String()), x.want)
			}
			if x.sent != "" && *asked != x.sent {
				t.Errorf("sent %s\nwant %s", *asked, x.sent)
			}
		})
	}
}

// TestPartialContent: a reply that was kept without its status is compared with one of 206, which a batch has of which
// a text ended at its length.
func TestPartialContent(t *testing.T) {
	const reply = `[{"generated_text": "a"}]`
	c, _ := answering(t, http.StatusPartialContent, reply)
	for was, same := range map[string]bool{reply: true, `[{"generated_text": "b"}]`: false} {
		e, err := Of("/generate", []byte(`{"inputs": "a"}`), []byte(was))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), c, e, Options{})
		if err != nil || r.Same != same || strings.Contains(r.String(), "status") {
			t.Errorf("%s: %v, %v", was, err, r)
		}
		if e.Assumed = false; !same {
			continue
		}
		if r, err = Run(t.Context(), c, e, Options{}); err != nil || r.Same {
			t.Errorf("another status than the one that was kept: %v, %v", err, r)
		}
	}
}

// TestErrorsMove: where in a body an error was found says nothing, for it is written anew; what it says does.
func TestErrorsMove(t *testing.T) {
	const text = `{"error": "inputs: invalid type: integer %s, expected a string at line %d column %d"}`
	c, _ := answering(t, 422, fmt.Sprintf(text, "`3`", 1, 11))
	for _, x := range []struct {
		value string
		same  bool
	}{{"`3`", true}, {"`4`", false}} {
		e := Exchange{Method: "POST", Path: "/generate", Body: []byte("{\n  \"inputs\": 3}"), Status: 422,
			Reply: fmt.Appendf(nil, text, x.value, 2, 13)}
		r, err := Run(t.Context(), c, e, Options{})
		if err != nil || r.Same != x.same || x.same != (len(r.Differences) == 0) {
			t.Errorf("%s: %v %+v", x.value, err, r)
		}
	}
	// Where texts are cut a position does not move either.
	long := `{"error": "` + strings.Repeat("long ", 96) + ` at line %d column %d` + strings.Repeat(" and on", 9) + `"}`
	c, _ = answering(t, 422, fmt.Sprintf(long, 1, 11))
	r, err := Run(t.Context(), c, Exchange{Method: "POST", Path: "/generate", Body: []byte("{}"), Status: 422,
		Reply: fmt.Appendf(nil, long, 20, 1300)}, Options{})
	if err != nil || !r.Same {
		t.Errorf("%v %+v", err, r)
	}
}

// TestKeys: requests are sent with the keys that they name, as far as they are given, and others with the caller's.
func TestKeys(t *testing.T) {
	sent := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent = r.Header.Get("Authorization"); sent == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		io.WriteString(w, `{"generated_text": "b"}`)
	}))
	t.Cleanup(s.Close)
	keys := map[string]string{"school": "sk-1"}
	for _, x := range []struct{ name, own, want, note string }{
		{"school", "sk-0", "Bearer sk-1", ""}, {"school", "", "Bearer sk-1", ""}, {"home", "sk-0", "Bearer sk-0", ""},
		{"", "sk-0", "Bearer sk-0", ""}, {"home", "", "", `it came with the key called "home"`}, {"", "", "", ""},
	} {
		c, err := call.New(s.URL, x.own, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Read("f", strings.NewReader(fmt.Sprintf(`{"request": {"path": "/generate", "key": %q,
			"body": {"inputs": "a"}}, "reply": {"generated_text": "b"}}`, x.name)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), c, list[0], Options{Keys: keys})
		if err != nil || sent != x.want || r.Same != (x.want != "") || (len(r.Notes) > 0) != (x.note != "") ||
			!strings.Contains(r.String(), x.note) {
			t.Errorf("%+v: %v, sent %q, %+v", x, err, sent, r)
		}
	}
	// Another key may give another reply.
	c, err := call.New(s.URL, "sk-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{0, 404} {
		e := Exchange{Method: "POST", Path: "/generate", Key: "home", Status: status,
			Body: []byte(`{"inputs": "a", "parameters": {"seed": 1}}`), Reply: []byte(`{"generated_text": "c"}`)}
		r, err := Run(t.Context(), c, e, Options{Keys: keys})
		if err != nil || r.Same || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], `the key called "home"`) {
			t.Errorf("%v, %+v", err, r)
		}
	}
}

// TestReadKeys: keys are given as they are or in files; errors show none.
func TestReadKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("sk-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadKeys([]string{"school=sk-1=", "api_keys[0]=@" + file})
	if err != nil || len(got) != 2 || got["school"] != "sk-1=" || got["api_keys[0]"] != "sk-2" {
		t.Errorf("%q, %v", got, err)
	}
	for _, list := range [][]string{{"sk-1"}, {"=sk-1"}, {"a="}, {"a=sk-1", "a=sk-1"}, {"a=@" + file + "sk-1"}} {
		if got, err := ReadKeys(list); err == nil || len(list[0]) < 9 && strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
}

// TestUnchanged: headers go along, and the body is as it was.
func TestUnchanged(t *testing.T) {
	c, asked := answering(t, 200, `{"generated_text": "b"}`)
	list, err := Read("f", strings.NewReader(`{"request": {"path": "/generate", "headers": {"X-TGI-Dialect": "tgi-0.6"},
		"body": {"inputs": "a"}}, "reply": {"generated_text": "b"}}{"request": {"path": "/", "body": {}}}`))
	if err != nil || len(list) != 2 || list[1].Label != "request 2" {
		t.Fatal(list, err)
	}
	r, err := Run(t.Context(), c, list[0], Options{Unchanged: true})
	if err != nil || !r.Same || r.Compared != "text" || *asked != `/generate tgi-0.6 {"inputs": "a"}` {
		t.Errorf("%+v, %v, sent %s", r, err, *asked)
	}
}

func TestReadRefuses(t *testing.T) {
	const form = `want an object such as {"request": {"path": "/generate", "body": {...}}, "reply": {...}}, given `
	for text, want := range map[string]string{
		``:                          "f holds no request",
		`{"a`:                       "f: after 0 requests: it is no JSON: it ends too early",
		`{}`:                        "f: request 1: " + form + "another one",
		`[1] []`:                    "f: request 1: " + form + "an array",
		`null`:                      "f: request 1: " + form + "null",
		`x`:                         "f: after 0 requests: it is no JSON: invalid character 'x' looking for beginning of value at byte 1",
		`{"request": {"body": {}}}`: "f: request 1: request.path is missing",
		`{"generated_text": "", "details": {"receipt": {}}}`: "f: request 1: this is a reply: --request names the file with the body of its request",
	} {
		if _, err := Read("f", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzOutcome: whatever a file or a server says is read without a panic.
func FuzzOutcome(f *testing.F) {
	f.Add([]byte(`[{"generated_text": "a", "details": {"best_of_sequences": [{"generated_text": "b"}]}}]`))
	f.Add([]byte("data: {\"choices\": [{\"index\": -1}, {\"index\": 99999999999}]}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := outcomeOf(data)
		for _, r := range o.receipts {
			_, _ = r.origin(&receipt{}), r.tokenDifferences(&receipt{})
		}
		other := outcomeOf([]byte(`[{"generated_text": "ä"}, {"generated_text": "b"}]`))
		if len(textDifferences(&o, &o)) != 0 || len(textDifferences(&o, &other)) == 0 && len(o.said) == 0 {
			t.Errorf("%q", data)
		}
	})
}

// TestReceiptOfResponses: a response has its receipt whole, and in the last event of a stream.
func TestReceiptOfResponses(t *testing.T) {
	const whole = `{"object":"response","output":[],"receipt":{"version":1,"model":"m"}}`
	const stream = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + whole + "}\n\n"
	for _, reply := range []string{whole, stream} {
		list, err := Receipts([]byte(reply))
		if err != nil || len(list) != 1 || string(list[0]) != `{"version":1,"model":"m"}` {
			t.Errorf("%s: %s", reply, list)
		}
	}
}
