package generateapi

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/generateapi/store"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// The tests' tokenizer has a token for every byte, and these two; as with Llama's,
// every prompt begins with "<s> ".
const (
	fakeBOS   = 1
	fakeEOS   = 2
	fakeVocab = 300
	fakeTotal = 400
	fakeInput = 300
)

type bytesTokenizer struct{}

func (b bytesTokenizer) EncodePrompt(text string, o llm.Encoding) (llm.Encoded, error) {
	return generatetest.Within(b.encode(text, o.Special), o), nil
}

func (bytesTokenizer) encode(text string, special bool) []llm.Token {
	var out []llm.Token
	if special {
		out = append(out, fakeBOS)
	}
	for i := range len(text) {
		out = append(out, llm.Token(text[i]))
	}
	return out
}

func (b bytesTokenizer) Pieces(text string, special bool) iter.Seq[generate.Piece] {
	return func(yield func(generate.Piece) bool) {
		for _, id := range b.encode(text, special) {
			if !yield(generate.Piece{ID: id}) {
				return
			}
		}
	}
}

func (b bytesTokenizer) EncodeSpans(text string, _ []generate.Span) []llm.Token {
	return b.encode(text, false)
}

func (b bytesTokenizer) SpanPieces(text string, _ []generate.Span) iter.Seq[generate.Piece] {
	return b.Pieces(text, false)
}

func (b bytesTokenizer) Bytes(t llm.Token) ([]byte, bool) { return []byte{byte(t)}, t < 256 }

// bytesSpeech holds incomplete characters back.
type bytesSpeech struct{ held []byte }

func speak(context []llm.Token) dispatch.Decoder {
	s := &bytesSpeech{}
	for _, t := range context {
		s.Next(t)
	}
	return s
}

func (s *bytesSpeech) Next(t llm.Token) string {
	switch t {
	case fakeBOS:
		return "<s> "
	case fakeEOS:
		return s.Flush() + "</s>"
	}
	s.held = append(s.held, byte(t))
	if !utf8.FullRune(s.held) {
		return ""
	}
	out := string(s.held)
	s.held = s.held[:0]
	return out
}

func (s *bytesSpeech) Flush() string {
	out := strings.ToValidUTF8(string(s.held), "\uFFFD")
	s.held = nil
	return out
}

// stories are what the tests' model knows: a prompt that ends with the key goes on
// with the value. Other prompts go on with dots for ever.
var stories = map[string]string{
	"[INST] Generate a very long poem about 1000 cats [/INST]\n\n": "In the land of feline delight,\nWhere cats…",
	"[INST] Generate a short poem about 1000 dogs [/INST]\n\n":     "Tails wagging, eyes bright,\n“Wow”\x7f",
	"[INST] ... [/INST]\n\n":                                       "Words.",
	"...":                                                          "And so on.",
	"[INST] Break [/INST]":                                         "Then the",
	" ":                                                            "Nothing was asked.",
}

// tell is the script of the tests' model.
func tell(r engine.Request) []engine.Event {
	var known []byte
	for _, t := range r.Prompt {
		if t > fakeEOS {
			known = append(known, byte(t))
		}
	}
	rest, found := "", false
	for prompt, story := range stories {
		at := strings.Index(string(known), prompt)
		if at != 0 {
			continue
		}
		if said := string(known[len(prompt):]); strings.HasPrefix(story, said) {
			rest, found = story[len(said):], true
		}
	}
	var tokens []generate.Token
	end := llm.FinishLength
	for i := range r.Params.MaxNewTokens {
		switch {
		case !found:
			tokens = append(tokens, generate.Token{Token: '.'})
		case i < len(rest):
			tokens = append(tokens, generate.Token{Token: llm.Token(rest[i])})
		default:
			tokens = append(tokens, generate.Token{Token: fakeEOS, Special: true})
			if i+1 < r.Params.MaxNewTokens {
				end = llm.FinishEOS // the length limit beats it
			}
			return generatetest.Sequence(r, 0, end, tokens...)
		}
	}
	return generatetest.Sequence(r, 0, end, tokens...)
}

// kit is a server with this API over a scripted engine.
type kit struct {
	engine *generatetest.Engine
	model  dispatch.Model
	api    *API
	house  *server.Server
	url    string
}

func newKit(t testing.TB, change ...func(*Options, *generate.Limits, *config.Server)) *kit {
	t.Helper()
	k := &kit{engine: &generatetest.Engine{Script: tell}, model: dispatch.Model{
		ID: "fake", Vocab: fakeVocab, EOS: []llm.Token{fakeEOS}, Decoder: speak,
		Limits: config.Limits{MaxInputTokens: fakeInput, MaxTotalTokens: fakeTotal},
	}}
	l := generatetest.Limits()
	l.MaxInput, l.MaxTotal, l.Vocab = fakeInput, fakeTotal, fakeVocab
	c := config.Default()
	c.Server.GracefulTerminationTimeout = config.Duration(time.Minute)
	defaults := c.GenerateAPI
	defaults.MaxPrompts = 4
	o := Options{
		Store:  store.NewMemory(store.Limits{TTL: time.Hour, MaxState: 1 << 20, MaxEntries: 100, MaxMemory: 1 << 22}),
		Config: defaults, MessageLimit: 10_000, WriteTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		Log:   slog.New(slog.DiscardHandler),
		Ready: func() error { return k.house.Ready() },
	}
	for _, f := range change {
		f(&o, &l, &c.Server)
	}
	k.model.Service = generate.New(k.engine, bytesTokenizer{}, l, nil)
	o.Models = dispatchtest.One(&k.model)
	k.api = New(o)
	k.house = server.New(server.Options{Config: c.Server, APIs: []server.API{k.api}, Healthy: k.engine.Healthy,
		Log: o.Log})
	ts := httptest.NewServer(k.house)
	t.Cleanup(ts.Close)
	k.url = ts.URL
	return k
}

// answer is a reply that was read to its end.
type answer struct {
	*http.Response
	text string
	err  error // of reading
}

func (k *kit) do(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, k.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res, string(text), err}
}

// ask posts a body of generate-one with an id, a prompt unless it is empty, and
// further members.
func (k *kit) ask(t testing.TB, id, prompt, more string, header ...string) answer {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`{"request_id":` + quote(id))
	if prompt != "" {
		b.WriteString(`,"prompt":` + quote(prompt))
	}
	if more != "" {
		b.WriteString("," + more)
	}
	return k.do(t, http.MethodPost, "/api/generate-one", b.String()+"}", header...)
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// idle waits until nothing runs for nobody.
func (k *kit) idle(t testing.TB) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); k.engine.Running() != 0; runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatalf("%d requests run for nobody", k.engine.Running())
		}
	}
}
