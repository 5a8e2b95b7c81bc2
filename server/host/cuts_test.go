package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"tgi/conformance/long"
	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/runtime/llm"
	"tgi/runtime/token"
	"tgi/server/config"
)

// These tests have the demo model write a secret, in each of the ways to cut its bytes into tokens: in its thoughts, in
// its answer, in the arguments of a call. No other byte of a reply is as large as those of the secret, so whatever
// shows one, as a text, a byte or a token's id, shows what a guard took back.

// secret is of three characters of two bytes each, all of them different. Nothing else in a reply is no ASCII.
const secret = "Жщ¬"

// cutModel is a model whose vocabulary has each part of the secret.
type cutModel struct {
	folder string
	pieces []any              // the token of the bytes i to j at i*len(secret)+j
	secret map[llm.Token]bool // tokens that hold bytes of it, or others that are no ASCII
}

// newCutModel returns the demo model with a vocabulary where parts of the secret stand in the place of words that no
// other word is made of, and that the model does not list beside the tokens of these texts.
func newCutModel(t *testing.T) cutModel {
	t.Helper()
	m := cutModel{folder: t.TempDir(), secret: map[llm.Token]bool{}}
	if err := os.CopyFS(m.folder, demo.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.folder, "tokenizer.json")
	var file map[string]json.RawMessage
	var bpe map[string]json.RawMessage
	var vocab map[string]llm.Token
	var merges [][2]string
	read := func(b []byte, v any) {
		t.Helper()
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatal(err)
		}
	}
	read(sure(os.ReadFile(path)), &file)
	read(file["model"], &bpe)
	read(bpe["vocab"], &vocab)
	read(bpe["merges"], &merges)
	used := map[string]bool{}
	for _, x := range merges {
		used[x[0]], used[x[1]] = true, true
	}
	words := slices.DeleteFunc(slices.Collect(maps.Keys(vocab)), func(w string) bool {
		listed := strings.HasPrefix(w, "\u0120") || w == "ridge" // by the model itself, some of them
		return used[w] || len(w) < 3 || listed
	})
	slices.SortFunc(words, func(a, b string) int { return int(vocab[b]) - int(vocab[a]) })
	for i := range len(secret) {
		for j := range len(secret) {
			name := ""
			for _, b := range []byte(secret[i : max(i, j)+1]) {
				name += string(hf.ByteAlphabet[b])
			}
			if _, ok := vocab[name]; !ok {
				vocab[name] = vocab[words[0]]
				delete(vocab, words[0])
				merges = slices.DeleteFunc(merges, func(x [2]string) bool { return x[0]+x[1] == words[0] })
				words = words[1:]
			}
			m.pieces = append(m.pieces, int64(vocab[name]))
		}
	}
	for name, id := range vocab {
		m.secret[id] = strings.ContainsFunc(name, func(c rune) bool {
			return slices.Index(hf.ByteAlphabet[:], c) >= 0x80
		})
	}
	bpe["vocab"], bpe["merges"] = sure(json.Marshal(vocab)), sure(json.Marshal(merges))
	file["model"] = sure(json.Marshal(bpe))
	write(t, path, string(sure(json.Marshal(file))))
	return m
}

// guardsOfKeys are the guards that keep the secret, each from the key of its name; "free" has none.
var guardsOfKeys = []config.Plugin{
	{Name: "redact", Source: config.Builtin + "redact",
		Config: config.Table{"strings": []any{secret}, "with": "#", "locked": true}},
	{Name: "banned", Source: config.Builtin + "banned-strings",
		Config: config.Table{"strings": []any{secret}, "locked": true}},
	{Name: "insert", Config: config.Table{"string": secret, "with": "#", "do": "insert"}},
	{Name: "weaken", Config: config.Table{"string": secret, "with": "#", "do": "weaken"}},
	{Name: "stop", Config: config.Table{"string": secret, "do": "stop"}},
}

const freeKey = "free"

// openCuts opens a server of the model whose replies are the texts between places of the secret.
func openCuts(t *testing.T, m cutModel) *plugged {
	t.Helper()
	format := filepath.Join(t.TempDir(), "x.json")
	write(t, format, `{"name":"mine","reasoning":{"begin":["<muse>"],"end":["</muse>"]},"call":{"begin":["[["],`+
		`"end":["]]"]},"named":{"separators":[" "]}}`)
	tokenizer := sure(token.Load(sure(os.ReadFile(filepath.Join(m.folder, "tokenizer.json")))))
	var parts []any
	for _, text := range []string{"<muse>\nHm, ", " so.</muse>\nWell, ", ` then. [[get_weather {"city": "`, `"}]]`} {
		var ids []any
		for _, id := range tokenizer.Encode(text, false) {
			ids = append(ids, int64(id))
		}
		parts = append(parts, ids)
	}
	return openChat(t, func(c *config.Config) {
		c.Model.Path, c.Model.Tools = m.folder, format
		c.Server.Ollama = true
		c.Batches.Folder = t.TempDir()
		c.Plugin = append(c.Plugin, config.Plugin{Name: "script", Source: "testdata/cuts/script.wasm",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways, Config: config.Table{"parts": parts,
				"pieces": m.pieces, "bytes": int64(len(secret)), "end": int64(2)}})
		c.Key = append(c.Key, config.Key{Name: freeKey, Key: freeKey, Scopes: []string{config.ScopeGenerate}})
		for _, g := range guardsOfKeys {
			if g.Source == "" {
				g.Source = "testdata/cuts/rules.wasm"
			}
			g.OnError, g.Apply, g.Keys = config.OnErrorFail, config.ApplyAlways, []string{g.Name}
			c.Plugin = append(c.Plugin, g)
			c.Key = append(c.Key, config.Key{Name: g.Name, Key: g.Name, Scopes: []string{config.ScopeGenerate}})
		}
	})
}

// cutRoute gets a reply: all bytes that a client has of it, in the forms that they have.
type cutRoute struct {
	name string
	ask  func(t *testing.T, p *plugged, key, prompt string) (status int, reply string)
	slow bool // it takes several requests, or polls
}

// cutRoutes are all routes and ways to get a text, with all that they can tell of its tokens.
func cutRoutes() (out []cutRoute) {
	add := func(name, path, body string, more ...string) {
		for _, x := range append([]string{""}, more...) {
			to := path
			if strings.HasPrefix(x, "/") {
				to, x = x, ""
			}
			out = append(out, cutRoute{name: name + to + x,
				ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) {
					return p.withKey(t, key, http.MethodPost, to, fmt.Sprintf(body, prompt, x))
				}})
		}
	}
	const (
		stream   = `,"stream":true`
		settings = `"max_new_tokens":120,"details":true,"top_n_tokens":5,"explain":{"top":5}`
		ask      = `"messages":[{"role":"user","content":"Weather? %s"}]`
		schema   = `{"type":"object","properties":{"city":{"type":"string"}}}`
		tools    = `,"tools":[{"type":"function","function":{"name":"get_weather","parameters":` + schema + `}}]`
		logprobs = `,"logprobs":true,"top_logprobs":5`
		explain  = `,"explain":{"top":5}`
		chat     = `{"model":"x","max_tokens":120,"temperature":0,` + ask + logprobs + explain
	)
	add("", "/generate", `{"inputs":"Once %s","parameters":{`+settings+`}%s}`, "/generate_stream",
		"/v1/completions/generate", "/v1/completions/generate_stream", "/invocations", "/", "/invocations")
	add("", "/", `{"inputs":"Once %s","stream":true,"parameters":{`+settings+`}%s}`)
	// It always draws: without a seed a draw in the place of what was taken back may be a byte of the secret.
	add("", "/vertex", `{"instances":[{"inputs":"Once %s","parameters":{"max_new_tokens":120,"seed":1}}]%s}`)
	add("", "/v1/completions", `{"model":"x","prompt":"Once %s","max_tokens":120,"temperature":0,"logprobs":5,"n":2`+
		explain+`%s}`, stream)
	add("plain", "/v1/chat/completions", chat+`,"n":2%s}`, stream)
	add("tools", "/v1/chat/completions", chat+tools+`%s}`, stream)
	add("", "/v1/responses", `{"model":"x","input":"Weather? %s","max_output_tokens":120,"temperature":0,`+
		`"include":["message.output_text.logprobs"],"top_logprobs":5`+explain+`,"tools":[{"type":"function",`+
		`"name":"get_weather","parameters":`+schema+`}]%s}`, stream)
	add("", "/v1/messages", `{"model":"x","max_tokens":120,"temperature":0,`+ask+explain+
		`,"tools":[{"name":"get_weather","input_schema":`+schema+`}]%s}`, stream)
	for _, stream := range []string{"true", "false"} {
		options := `,"options":{"num_predict":120,"temperature":0},"stream":` + stream
		add("", "/api/chat", `{"model":"x",`+ask+tools+logprobs+options+`%s}`)
		add("", "/api/generate", `{"model":"x","prompt":"Once %s"`+logprobs+options+`%s}`)
	}
	out = append(out, cutRoute{name: "KServe", ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) {
		var data []int
		for _, b := range []byte("Once " + prompt) {
			data = append(data, int(b))
		}
		return p.withKey(t, key, http.MethodPost, "/v2/models/x/versions/1/infer", fmt.Sprintf(`{"id":"1","inputs":[{`+
			`"name":"a","shape":[%d],"datatype":"UINT8","data":%s}],"parameters":{"max_new_tokens":120},"outputs":[{"name":"a"}]}`,
			len(data), sure(json.Marshal(data))))
	}})
	var made atomic.Int64
	id := func() string { return fmt.Sprint("cut-", made.Add(1)) }
	for _, stream := range []string{"true", "false"} {
		out = append(out, cutRoute{name: "generate-one" + stream,
			ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) {
				return p.withKey(t, key, http.MethodPost, "/api/generate-one", one(id(), "Once "+prompt, 120,
					`,"stream_response":`+stream))
			}})
	}
	return append(out, cutRoute{name: "generate-batch",
		ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) {
			return p.withKey(t, key, http.MethodPost, "/api/generate-batch", fmt.Sprintf(`{"prompts":[{`+
				`"request_id":%q,"prompt":"Once %s"}],"generation_config":{"do_sample":false,"max_new_tokens":120}}`, id(), prompt))
		}}, cutRoute{name: "socket", ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) {
		return http.StatusOK, p.socket(t, key, fmt.Sprintf(`{"prompts":[{"request_id":%q,"prompt":"Once %s"}],`+
			`"stream_response":true,"generation_config":{"do_sample":false,"max_new_tokens":120}}`, id(), prompt))
	}}, cutRoute{name: "in the background", slow: true,
		ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) { return p.background(t, key, prompt) }},
		cutRoute{name: "batches", slow: true, ask: func(t *testing.T, p *plugged, key, prompt string) (int, string) {
			return http.StatusOK, p.batch(t, key, "/v1/chat/completions", fmt.Sprintf(chat+tools+"}", prompt))
		}})
}

// socket sends a message to the generate API's socket, and returns all that comes back.
func (p *plugged) socket(t *testing.T, key, message string) string {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), p.url+"/api/ws", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Error(err)
	}
	var all strings.Builder
	for !strings.Contains(all.String(), "COMPLETE") && !strings.Contains(all.String(), "ERROR") {
		_, b, err := c.Read(t.Context())
		if err != nil {
			t.Errorf("%v behind %s", err, all.String())
			break
		}
		fmt.Fprintf(&all, "%s\n", b)
	}
	return all.String()
}

// background runs a response in the background, reads it as it is and as a stream, and has it followed up.
func (p *plugged) background(t *testing.T, key, prompt string) (int, string) {
	t.Helper()
	const more = `"max_output_tokens":120,"temperature":0,"include":["message.output_text.logprobs"],"top_logprobs":5`
	status, began := p.withKey(t, key, http.MethodPost, "/v1/responses",
		fmt.Sprintf(`{"model":"x","input":"Weather? %s","background":true,%s}`, prompt, more))
	var r struct{ ID string }
	if err := json.Unmarshal([]byte(began), &r); err != nil || status != http.StatusOK {
		return status, began
	}
	_, stream := p.withKey(t, key, http.MethodGet, "/v1/responses/"+r.ID+"?stream=true", "") // ends with the response
	_, whole := p.withKey(t, key, http.MethodGet, "/v1/responses/"+r.ID, "")
	status, next := p.withKey(t, key, http.MethodPost, "/v1/responses", fmt.Sprintf(
		`{"model":"x","input":"And? %s","previous_response_id":%q,%s}`, prompt, r.ID, more))
	_, items := p.withKey(t, key, http.MethodGet, "/v1/responses/"+r.ID+"/input_items", "")
	return status, strings.Join([]string{began, stream, whole, next, items}, "\n")
}

// shown lists the places of a reply that show bytes which are no ASCII, in any form.
func (m *cutModel) shown(reply string) (places []string) {
	for line := range strings.SplitSeq(reply, "\n") {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil {
			places = m.within(v, "", places)
		} else if foreign(line) {
			places = append(places, "text")
		}
	}
	return places
}

// foreign reports whether a text holds what is no ASCII, or names a byte that is none.
func foreign(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c >= 0x80 }) || strings.Contains(s, `\x`) ||
		strings.Contains(s, "bytes:")
}

func (m *cutModel) within(v any, at string, places []string) []string {
	found := false
	switch v := v.(type) {
	case string:
		found = foreign(v)
	case float64:
		switch at {
		case "bytes", "data":
			found = v >= 0x80
		case "id", "context", "token", "tokens", "forced":
			found = m.secret[llm.Token(v)]
		}
	case []any:
		for _, x := range v {
			places = m.within(x, at, places)
		}
	case map[string]any:
		for key, x := range v {
			if foreign(key) {
				places = append(places, "key in "+at)
			}
			if _, count := x.(float64); count && key == "tokens" { // ids are in a list
				continue
			}
			places = m.within(x, key, places)
		}
	}
	if found {
		places = append(places, at)
	}
	return places
}

// secretPlaces find what stands in the three places of the secret: in the thoughts, the answer and the call.
var secretPlaces = [3]*regexp.Regexp{regexp.MustCompile(`(?s)Hm, (.{0,20}?) so\.`),
	regexp.MustCompile(`(?s)Well, (.{0,20}?) then\.`), regexp.MustCompile(`(?s)"city": ?"(.{0,20}?)"`)}

// beginsText is in each reply that shows thoughts, before the first place of the secret.
const beginsText = "Hm,"

// textsAt adds the strings within v to those at the same places of a reply, such as the deltas of a stream. Choices are
// apart.
func textsAt(v any, at, choice string, texts map[string]string) {
	switch v := v.(type) {
	case string:
		texts[at+choice] += v
	case []any:
		var data []byte
		for _, x := range v {
			if n, ok := x.(float64); ok && at == "/outputs/data" { // KServe's
				data = append(data, byte(n))
			}
			textsAt(x, at, choice, texts)
		}
		texts[at+choice] += string(data)
	case map[string]any:
		if i, ok := v["index"].(float64); ok && strings.HasSuffix(at, "/choices") {
			choice = fmt.Sprint(" of choice ", i)
		}
		for key, x := range v {
			textsAt(x, at+"/"+key, choice, texts)
		}
	}
}

// inPlaces returns what a reply shows in each of the places of the secret, and whether it shows the text before them.
func inPlaces(reply string) (list [3][]string, begins bool) {
	texts := map[string]string{}
	for line := range strings.SplitSeq(reply, "\n") {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil {
			textsAt(v, "", "", texts)
		} else {
			texts["lines"] += line + "\n"
		}
	}
	for at, text := range texts {
		for i, place := range secretPlaces {
			for _, found := range place.FindAllStringSubmatch(text, -1) {
				list[i] = append(list[i], found[1])
			}
		}
		if strings.HasSuffix(at, "/city") { // of arguments that are no text
			list[2] = append(list[2], text)
		}
		begins = begins || strings.Contains(text, beginsText)
	}
	return list, begins
}

// insteadOf returns why a reply does not show what a guard leaves of the text where the secret is in these places
// without it, "" if it does: "#" in its place, other words between those around it, or nothing from it on.
func insteadOf(key, reply string, places [3]bool) string {
	list, begins := inPlaces(reply)
	if places[0] && !begins {
		return "the text does not begin"
	}
	for i, shown := range list {
		switch {
		case key == "stop" && len(shown) > 0:
			return fmt.Sprintf("the text goes on at place %d: %q", i, shown)
		case key == "stop" || !places[i]:
		case key == "banned" && len(shown) == 0, key != "banned" && !slices.Contains(shown, "#"):
			return fmt.Sprintf("at place %d is %q", i, shown)
		}
	}
	return ""
}

// TestNoCutOfASecretIsShown: whatever the tokens are that a secret is written in, no route shows a byte of it, in no
// form, where an operator's guard replaces it, takes it back, has others inserted, or ends the text: in thoughts, texts
// and calls of tools, whole and streamed, in log-probabilities, ids, bytes and explanations; and each shows what the
// guard leaves in its place. Without a guard each of the routes shows the secret.
func TestNoCutOfASecretIsShown(t *testing.T) {
	m := newCutModel(t)
	p := openCuts(t, m)
	const cuts = 1 << (len(secret) - 1)
	var wg sync.WaitGroup
	room := make(chan struct{}, 16)
	var mu sync.Mutex
	forms, asked, shownAt := map[string]int{}, 0, [3]int{}
	check := func(r cutRoute, key string, cut int, at [3]bool) {
		status, reply := r.ask(t, p, key, fmt.Sprint("#", cut))
		places := m.shown(reply)
		mu.Lock()
		defer mu.Unlock()
		asked++
		switch {
		case status != http.StatusOK:
			t.Errorf("%s, %s, cut %06b: %d %s", r.name, key, cut, status, reply)
		case key == freeKey && len(places) == 0:
			t.Errorf("%s, cut %06b: no byte of the secret without a guard: %s", r.name, cut, reply)
		case key == freeKey:
			for _, at := range places {
				forms[at]++
			}
		case len(places) > 0:
			t.Errorf("%s, %s, cut %06b: shown as %v in\n%s", r.name, key, cut, places, reply)
		default:
			if why := insteadOf(key, reply, at); why != "" {
				t.Errorf("%s, %s, cut %06b: %s in\n%s", r.name, key, cut, why, reply)
			}
		}
	}
	for i, r := range cutRoutes() {
		var at [3]bool // the places of the secret that the route shows
		_, free := r.ask(t, p, freeKey, "#0")
		list, _ := inPlaces(free)
		for i := range list {
			if at[i] = slices.Contains(list[i], secret); at[i] {
				shownAt[i]++
			}
		}
		if at == [3]bool{} {
			t.Errorf("%s: the secret is in none of its places without a guard: %s", r.name, free)
		}
		keys := []string{freeKey}
		for _, g := range guardsOfKeys {
			keys = append(keys, g.Name)
		}
		for k, key := range keys {
			for cut := range cuts {
				few := (cut+i+k)%8 != 0 || r.slow && cut >= 8 // TGI_LONG=1 has all of them
				if few && !long.Enabled() || key == freeKey && cut > 8 {
					continue
				}
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					check(r, key, cut, at)
				})
			}
		}
	}
	wg.Wait()
	t.Logf("%d requests; without a guard the secret is shown as %v, and %v of %d routes show its places", asked, forms,
		shownAt, len(cutRoutes()))
	for _, form := range []string{"generated_text", "text", "content", "reasoning_content", "thinking", "arguments",
		"partial_json", "delta", "response", "bytes", "id", "context", "token", "tokens", "data", "city",
		"predictions"} {
		if forms[form] == 0 {
			t.Errorf("the secret is never shown as %q without a guard: %v", form, forms)
		}
	}
}

// place is what a reply tells of one token: its text, and those of the tokens that might have been there.
type place struct {
	token string
	other []string
}

// placesOf reads the places of a whole reply, in the forms of all APIs that have them.
func placesOf(t *testing.T, reply string) (out []place) {
	t.Helper()
	type token struct {
		Token, Text string
		Top         []struct{ Token string } `json:"top_logprobs"`
		Candidates  []struct{ Text string }
	}
	type scored struct {
		Content []token
		Tokens  []string
		Top     []map[string]float64 `json:"top_logprobs"`
	}
	var r struct {
		Choices []struct {
			Logprobs scored
			Explain  []token
		}
		Details struct {
			Tokens  []token
			Top     [][]token `json:"top_tokens"`
			Explain []token
		}
		Logprobs []token // Ollama's
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil {
		t.Fatalf("%v: %s", err, reply)
	}
	list, explained := append(r.Details.Tokens, r.Logprobs...), r.Details.Explain
	for _, c := range r.Choices {
		list, explained = append(list, c.Logprobs.Content...), append(explained, c.Explain...)
		for i, text := range c.Logprobs.Tokens {
			out = append(out, place{text, slices.Collect(maps.Keys(c.Logprobs.Top[i]))})
		}
	}
	for i, x := range list {
		out = append(out, place{token: x.Token + x.Text})
		for _, o := range x.Top {
			out[i].other = append(out[i].other, o.Token)
		}
		if i < len(r.Details.Top) {
			for _, o := range r.Details.Top[i] {
				out[i].other = append(out[i].other, o.Text)
			}
		}
	}
	for i, x := range explained {
		for _, o := range x.Candidates {
			out[i].other = append(out[i].other, o.Text)
		}
	}
	return out
}

// TestNoAlternativeWasTakenBack: at each place of a text, a token that a guard took back there is among no likeliest
// tokens and candidates of that place, where the guard forbids it, leaves it possible, or inserts others; on all routes
// that tell of such tokens.
func TestNoAlternativeWasTakenBack(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Server.Ollama = true
		c.Plugin = append(c.Plugin, config.Plugin{Name: "rules", Source: "testdata/cuts/rules.wasm",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	checked, inserted := 0, 0
	for _, r := range [][2]string{
		{"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"details":true,"top_n_tokens":5,` +
			`"explain":{"top":5}},"plugins":[%s]}`},
		{"/v1/completions", `{"model":"x","prompt":"Once upon a time","max_tokens":12,"temperature":0,"logprobs":5,` +
			`"explain":{"top":5},"plugins":[%s]}`},
		{"/v1/chat/completions", `{"model":"x","max_tokens":12,"temperature":0,"logprobs":true,"top_logprobs":5,` +
			`"explain":{"top":5},` + story + `,"plugins":[%s]}`},
		{"/api/chat", `{"model":"x","logprobs":true,"top_logprobs":5,"options":{"num_predict":12,"temperature":0},` + story +
			`,"stream":false,"plugins":[%s]}`},
	} {
		places := func(guard string) []place {
			status, reply := p.call(t, http.MethodPost, r[0], fmt.Appendf(nil, r[1], guard))
			if status != http.StatusOK {
				t.Fatalf("%s, %s: %d %s", r[0], guard, status, reply)
			}
			return placesOf(t, reply)
		}
		plain := places("")
		if len(plain) != 12 {
			t.Fatalf("%s: %d places", r[0], len(plain))
		}
		for i := range 10 {
			before, gone := "", plain[i].token+plain[i+1].token
			for _, x := range plain[:i] {
				before += x.token
			}
			at := strings.Index(before+gone, gone)
			if at < len(before) || !slices.Contains(plain[i].other, plain[i].token) {
				t.Fatalf("%s: %q comes twice, or is no likely token itself: %v", r[0], gone, plain)
			}
			for _, guard := range []string{
				fmt.Sprintf(`{"name":"banned-strings","params":{"strings":[%q]}}`, gone),
				fmt.Sprintf(`{"name":"rules","params":{"string":%q,"with":"#","do":"insert"}}`, gone),
				fmt.Sprintf(`{"name":"rules","params":{"string":%q,"with":"#","do":"weaken"}}`, gone),
			} {
				got := places(guard)
				if got[i].token == "#" {
					inserted++
				}
				if got[i].token == plain[i].token { // it was weakened, and picked again with another behind it
					continue
				}
				checked++
				if slices.Contains(got[i].other, plain[i].token) || len(got[i].other) < 5 {
					t.Errorf("%s, %s: place %d, %q, names %q", r[0], guard, i, got[i].token, got[i].other)
				}
			}
		}
	}
	if checked < 80 || inserted < 40 {
		t.Errorf("%d places checked, %d inserted", checked, inserted)
	}
}
