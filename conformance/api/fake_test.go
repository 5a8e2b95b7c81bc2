package api

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fake is a server whose model says words of a list. It is small and slow and
// keeps every rule of the kit, as this server does or as TGI does.
type fake struct {
	ours bool
	key  string
	// name is the dialect of a server that does not look at the header.
	name string
	// plural has a second model and refuses names of none.
	plural bool

	// What follows is broken on purpose.
	mixed     bool // the same body again says other things
	deaf      bool // parts of messages are not read
	stuck     bool // nothing works once a client has left
	restless  bool // every text is another one
	hasty     bool // the prompt is checked before the settings
	contrary  bool // bodies without parameters are drawn, or not, as in another dialect
	boundless bool // any number of requests is taken
	leaky     bool // clients that left are still counted
	unbiased  bool // logit_bias does nothing

	gone   atomic.Bool
	ids    atomic.Int32
	inside atomic.Int32
	mu     sync.Mutex
	counts map[string]float64
	seen   map[string]bool
	texts  map[string]*kept
	second string // the state of the second model
	// responses are those that are kept, by id.
	responses sync.Map
	answered  atomic.Int32
	// stored are files and batches, by id; newest and batch are the last of each.
	stored sync.Map
	made   atomic.Int32
	newest *fakeFile
	batch  map[string]any
}

const (
	fakeTotal   = 140
	fakeInput   = 139
	fakePermits = 8
)

var words = strings.Fields("the old fox ran over a quiet hill and slept near warm stones until dawn came with rain")

// spot is a token of a text.
type spot struct {
	id          int
	text        string
	start, stop int
}

var pieceOf = regexp.MustCompile(` ?[^ ]+| `)

// split is the fake's tokenizer; places count characters.
func split(text string) (out []spot) {
	at := 0
	for _, s := range pieceOf.FindAllString(text, -1) {
		n := len([]rune(s))
		out = append(out, spot{idOf(s), s, at, at + n})
		at += n
	}
	return out
}

var spelled sync.Map // text of ids

func idOf(text string) int {
	h := fnv.New32a()
	h.Write([]byte(text))
	id := int(h.Sum32()%100000) + 10
	spelled.Store(id, text)
	return id
}

// ask is a request to the model.
type ask struct {
	prompt  []spot
	most    int
	stop    []string
	sample  bool
	seed    uint64
	banned  map[int]bool
	shift   int
	endless bool
	held    string // what a grammar has it write
}

// said is what it answered.
type said struct {
	tokens []map[string]any
	text   string
	reason string
}

func logprob(i int) float64 { return -0.25 * float64(i+1) }

func (a *ask) run() (s said) {
	if a.held != "" {
		return a.write()
	}
	text := ""
	for _, p := range a.prompt {
		text += p.text
	}
	ends := strings.Contains(text, "hello") && strings.Contains(text, "<bot>")
	pick := len(text) + a.shift
	if a.sample {
		pick = int(a.seed%97) + a.shift
	}
	for i := 0; ; i++ {
		pick += 3
		word := " " + words[(pick+i)%len(words)]
		if a.banned[idOf(word)] {
			word = " nothing"
		}
		special := ends && i == 4 && !a.endless
		if special {
			word = "</s>"
		} else {
			s.text += word
		}
		s.tokens = append(s.tokens, map[string]any{"id": idOf(word), "text": word, "logprob": logprob(i),
			"special": special})
		switch {
		case i+1 >= a.most:
			s.reason = "length"
		case special:
			s.reason = "eos_token"
		}
		for _, stop := range a.stop {
			if s.reason == "" && strings.HasSuffix(s.text, stop) {
				s.reason = "stop_sequence"
			}
		}
		if s.reason != "" {
			return s
		}
	}
}

// tops are two candidates for a token.
func tops(t map[string]any) []map[string]any {
	return []map[string]any{t, {"id": 5, "text": " rival", "logprob": t["logprob"].(float64) - 1, "special": false}}
}

func (f *fake) count(name string, n float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]float64{}
	}
	f.counts[name] += n
}

// call is one request to the fake.
type fakeCall struct {
	*fake
	form
	w    http.ResponseWriter
	r    *http.Request
	body map[string]any
	// model is the one that was asked.
	model string
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	c := &fakeCall{fake: f, w: w, r: r}
	name := f.name
	if f.ours {
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = fmt.Sprintf("fake-%d", f.ids.Add(1))
		}
		h.Set("X-Request-Id", id)
		if name = r.Header.Get(dialectHeader); name == "" {
			name = TGI3
		}
	}
	form, ok := formOf(name, f.ours)
	c.form = form
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET,POST")
		h.Set("Access-Control-Allow-Headers", "content-type")
		if f.ours {
			h.Set("Access-Control-Allow-Headers", "content-type,authorization")
		}
		return
	}
	probe := r.Method == http.MethodGet && strings.Contains(" / /health /ping ", " "+r.URL.Path+" ")
	if probe {
		return
	}
	open := strings.Contains(" /metrics /docs /api/alive /api/ready ", " "+r.URL.Path+" ") ||
		!f.ours && (r.Method == http.MethodGet || strings.Contains(" /chat_tokenize /invocations ", " "+r.URL.Path+
			" ") || strings.HasPrefix(r.URL.Path, "/v2"))
	given := r.Header.Get("Authorization")
	if !open && f.key != "" && given != "Bearer "+f.key && !(given == "Bearer "+fakeAdmin &&
		strings.HasPrefix(r.URL.Path, modelsPath)) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if !ok {
		c.form, _ = formOf(TGI3, true)
		c.refuse(422, "validation", validation+"`X-TGI-Dialect` must be one of tgi-0.6, tgi-2.2, tgi-3. Given: \""+name+
			`"`)
		return
	}
	c.route()
}

func (c *fakeCall) route() {
	if c.model = fakeFirst; c.ours && (c.r.URL.Path == modelsPath || strings.HasPrefix(c.r.URL.Path, modelsPath+"/")) {
		c.models()
		return
	}
	if strings.HasPrefix(c.r.URL.Path, "/api/") && c.ours {
		body, _ := io.ReadAll(c.r.Body)
		if v, err := parse(body); err == nil {
			c.body, _ = v.any.(map[string]any)
		}
		var refused bool
		if c.model, refused = c.chosen(); refused {
			return
		}
		switch strings.TrimPrefix(c.r.URL.Path, "/api/") {
		case "chat", "generate", "version", "copy":
			c.ollama()
		default:
			c.inference(body)
		}
		return
	}
	if strings.HasPrefix(c.r.URL.Path, responsesPath+"/") && c.ours {
		c.response()
		return
	}
	if c.ours && strings.HasPrefix(c.r.URL.Path, filesPath) {
		c.files()
		return
	}
	if c.ours && c.r.Method == http.MethodGet && strings.HasPrefix(c.r.URL.Path, batchesPath) {
		c.batches()
		return
	}
	switch c.r.Method + " " + c.r.URL.Path {
	case "GET /generate":
		c.w.Header().Set("Allow", "POST")
		c.absent(http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed: GET /generate; use POST")
	case "GET /info":
		var refused bool
		if c.model, refused = c.chosen(); !refused {
			c.info()
		}
	case "GET /metrics":
		c.metrics()
	case "GET /docs":
		c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(c.w, "<html>")
	case "GET " + documentPath:
		c.json(200, json.RawMessage(fakeDocument))
	case "GET /v1/models":
		c.json(200, map[string]any{"object": "list", "data": []any{c.described(fakeFirst, false)}})
	case "GET /v2":
		c.json(200, map[string]any{"name": "text-generation-inference", "version": "3.3.3",
			"extensions": []string{"health", "models", "metrics"}})
	case "GET /v2/health/live", "GET /v2/health/ready", "GET /v2/models/m/versions/1/ready":
		c.json(200, map[string]any{"live": true})
	case "GET /v2/models/some-model/versions/7":
		c.json(200, map[string]any{"name": "some-model", "version": "7", "extensions": []string{"infer", "ready"}})
	default:
		if c.r.Method == http.MethodPost && c.read() {
			c.post()
		} else if c.r.Method != http.MethodPost {
			c.absent(http.StatusNotFound, "not_found", "no such route: "+c.r.Method+" "+c.r.URL.Path)
		}
	}
}

// fakeDocument describes one route, so that the kit has something to hold.
const fakeDocument = `{"openapi":"3.0.3","info":{"title":"fake","version":"1"},"paths":{"/":{},"/generate":{"post":{"responses":{"200":{"content":{"application/json":{"schema":
	{"type":"object","required":["generated_text"],"properties":{"generated_text":{"type":"string"}}}}}}}}},"/generate_stream":{},"/info":{},"/metrics":{},"/health":{},
	"/tokenize":{},"/v1/chat/completions":{},"/v1/completions":{}},"components":{"schemas":{}}}`

func (c *fakeCall) info() {
	v := map[string]any{"model_id": c.model, "model_sha": nil, "model_pipeline_tag": "text-generation",
		"version": "3.3.3", "sha": nil}
	if c.infoLimits || !c.fake.ours {
		for name, n := range map[string]int{"max_concurrent_requests": 8, "max_best_of": 2, "max_stop_sequences": 4,
			"max_input_tokens": fakeInput, "max_total_tokens": fakeTotal, "validation_workers": 2,
			"max_client_batch_size": 4} {
			v[name] = n
		}
		v["router"], v["docker_label"] = "text-generation-router", nil
	}
	c.json(200, v)
}

// moreFigures are those that TGI does not have.
var moreFigures = []struct {
	name, kind string
	late       bool
}{
	{"tgi_kv_usage", "gauge", false}, {"tgi_kv_blocks", "gauge", false}, {"tgi_kv_blocks_used", "gauge", false},
	{"tgi_prefix_lookup_tokens", "counter", false},
	{"tgi_prefix_hit_tokens", "counter", false}, {"tgi_request_time_to_first_token_duration", "histogram", false},
	{"tgi_request_inter_token_duration", "histogram", false},
}

func (c *fakeCall) metrics() {
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	for _, f := range append(slices.Clone(tgiMetrics), moreFigures...) {
		kind, _, _ := strings.Cut(f.kind, "|")
		labels := ""
		switch {
		case strings.HasPrefix(f.name, "tgi_batch_inference"), strings.HasPrefix(f.name, "tgi_batch_forward"),
			strings.HasPrefix(f.name, "tgi_batch_decode"):
			labels = `method="decode"`
		case f.name == "tgi_request_failure":
			labels = `err="validation"`
		}
		fmt.Fprintf(c.w, "# HELP %s Something.\n# TYPE %s %s\n", f.name, f.name, kind)
		n := c.fake.counts[f.name]
		if strings.HasPrefix(labels, "method") && kind == "counter" {
			fmt.Fprintf(c.w, "%s{method=\"prefill\"} %v\n", f.name, n)
		}
		if kind != "histogram" {
			if labels != "" {
				labels = "{" + labels + "}"
			}
			fmt.Fprintf(c.w, "%s%s %v\n", f.name, labels, n)
			continue
		}
		if labels != "" {
			labels += ","
		}
		for k := 1; k <= 100; k++ {
			le := 0.0001 * math.Pow(1.5, float64(k))
			if strings.HasSuffix(f.name, "_input_length") {
				le = fakeInput * float64(k) / 100
			} else if !strings.HasSuffix(f.name, "duration") {
				le = fakeTotal * float64(k) / 100
			} else if k > 35 {
				break
			}
			fmt.Fprintf(c.w, "%s_bucket{%sle=\"%v\"} 0\n", f.name, labels, le)
		}
		fmt.Fprintf(c.w, "%s_bucket{%sle=\"+Inf\"} %v\n%s_sum %v\n%s_count %v\n", f.name, labels, n, f.name, n, f.name,
			n)
	}
}

func (c *fakeCall) json(status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	c.w.Write(b)
}

func (c *fakeCall) refuse(status int, kind, text string) {
	if kind == "validation" && status == 422 {
		c.count("tgi_request_count", 1)
		c.count("tgi_request_failure", 1)
	}
	if openAI(c.r.URL.Path) && c.errorObject {
		c.json(status, map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error",
			"param": nil, "code": kind}, "error_type": kind})
		return
	}
	c.json(status, map[string]any{"error": text, "error_type": kind})
}

// absent replies that something is not there, with no body or with this server's.
func (c *fakeCall) absent(status int, kind, text string) {
	if c.fake.ours {
		c.json(status, map[string]any{"error": text, "error_type": kind})
		return
	}
	c.w.WriteHeader(status)
}

// plain refuses a body as axum does, or as this server does.
func (c *fakeCall) plain(status int, text string) {
	if c.fake.ours {
		c.refuse(status, "body", text)
		return
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.WriteHeader(status)
	fmt.Fprint(c.w, text)
}

// events begins a stream and returns what sends an event.
func (c *fakeCall) events() func(v any) bool {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	fmt.Fprint(c.w, ":\n\n") // a comment, as servers send in silence
	return func(v any) bool {
		b, _ := json.Marshal(v)
		if s, ok := v.(string); ok {
			b = []byte(s)
		}
		fmt.Fprintf(c.w, "%s%s\n\n", c.prefixOf(c.r.URL.Path), b)
		if f, ok := c.w.(http.Flusher); ok {
			f.Flush()
		}
		return c.r.Context().Err() == nil
	}
}

func (c *fakeCall) finger() string { return "3.3.3-native" }

func (c *fakeCall) costs(inputs string, prompt, generated int) {
	h := c.w.Header()
	c.known(inputs)
	for _, name := range []string{"x-total-time", "x-validation-time", "x-queue-time", "x-inference-time",
		"x-time-per-token"} {
		h.Set(name, "1")
	}
	h.Set("X-Compute-Time", "0.0012")
	if !c.computeSeconds && !openAI(c.r.URL.Path) {
		h.Set("X-Compute-Time", "1")
	}
	if c.tokenHeaders || openAI(c.r.URL.Path) {
		h.Set("X-Prompt-Tokens", strconv.Itoa(prompt))
		h.Set("X-Generated-Tokens", strconv.Itoa(generated))
	}
	c.count("tgi_request_count", 1)
	for _, name := range []string{"tgi_request_success", "tgi_request_duration", "tgi_batch_inference_count",
		"tgi_request_time_to_first_token_duration", "tgi_request_inter_token_duration"} {
		c.count(name, 1)
	}
	c.count("tgi_request_generated_tokens", float64(generated))
}

func (c *fakeCall) known(inputs string) {
	c.w.Header().Set("X-Compute-Type", "cpu")
	c.w.Header().Set("X-Compute-Characters", strconv.Itoa(len([]rune(inputs))))
}

func now() int64 { return time.Now().Unix() }

// broken returns servers that break rules which no single reply shows.
func broken() map[string]map[string]*fake {
	return map[string]map[string]*fake{
		"stream-no-parameters": {"without parameters": {contrary: true}},
		"overloaded": {"requests are never too many": {boundless: true},
			"clients that left take room": {leaky: true}},
		"together-same":   {"later texts": {mixed: true, seen: map[string]bool{}}},
		"together-apart":  {"later texts": {mixed: true, seen: map[string]bool{}}},
		"cancel":          {"nothing works when a client has left": {stuck: true}},
		"generate-seed":   {"draws do not follow the seed": {restless: true}},
		"chat-parts":      {"the parts of a message are lost": {deaf: true}},
		"chat-greedy":     {"temperature 0 draws": {restless: true}},
		"shared-models":   {"later texts": {mixed: true, seen: map[string]bool{}, plural: true}},
		"completion-bias": {"logit_bias is not applied": {unbiased: true}},
	}
}
