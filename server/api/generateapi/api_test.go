package generateapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/generateapi/store"
	"tgi/server/config"
	"tgi/server/generate"
)

const (
	cats = "[INST] Generate a very long poem about 1000 cats [/INST]\n\n"
	dogs = "[INST] Generate a short poem about 1000 dogs [/INST]\n\n"
)

type change = func(*Options, *generate.Limits, *config.Server)

// TestGenerateAPIPieces: a text in pieces of any length is the text in one piece.
func TestGenerateAPIPieces(t *testing.T) {
	k := newKit(t)
	want := k.ask(t, "whole", cats, "").text
	for length := 1; length < 20; length++ {
		got, id := "", fmt.Sprint("pieces", length)
		for i := 0; !strings.HasSuffix(got, "</s>"); i++ {
			stream := fmt.Sprint(i%2 == 0)
			a := k.ask(t, id, cats, fmt.Sprintf(`"stream_response":%s,"generation_config":{"max_new_tokens":%d}`,
				stream, length))
			if a.StatusCode != 200 || i > 60 {
				t.Fatalf("%d: %d %s", length, a.StatusCode, a.text)
			}
			got += a.text
		}
		if got != want {
			t.Errorf("in pieces of %d: %q, want %q", length, got, want)
		}
	}
}

// TestGenerateAPISettings: what the engine is asked for.
func TestGenerateAPISettings(t *testing.T) {
	plain := llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, WatermarkGamma: 0.5,
		WatermarkDelta: 2, MaxNewTokens: 2048}
	with := func(f func(*llm.Params)) llm.Params { p := plain; f(&p); return p }
	for config, want := range map[string]llm.Params{
		`{}`: with(func(p *llm.Params) { p.Sample, p.TopK = true, 50 }),
		`{"do_sample":false,"temperature":3,"top_k":3,"top_p":0.3}`: plain,
		`{"temperature":0.5,"top_p":0.25,"top_k":7,"max_new_tokens":9,"repetition_penalty":1.5,"length_penalty":2}`: with(func(p *llm.Params) {
			p.Sample, p.Temperature, p.TopP, p.TopK, p.MaxNewTokens, p.RepetitionPenalty = true, 0.5, 0.25, 7, 9, 1.5
		}),
		`{"top_k":0,"top_p":7}`:          with(func(p *llm.Params) { p.Sample = true }),
		`{"top_p":0}`:                    plain,
		`{"top_k":99999999999999999999}`: with(func(p *llm.Params) { p.Sample, p.TopK = true, 1<<31-1 }),
		`{"max_new_tokens":100000}`:      with(func(p *llm.Params) { p.Sample, p.TopK = true, 50 }),
		`{"repetition_penalty":2,"x":[1]}`: with(func(p *llm.Params) {
			p.Sample, p.TopK, p.RepetitionPenalty = true, 50,
				2
		}),
	} {
		k := newKit(t)
		if a := k.ask(t, "a", "p", `"generation_config":`+config); a.StatusCode != 200 {
			t.Errorf("%s: %d %s", config, a.StatusCode, a.text)
			continue
		}
		r := k.engine.Requests()[0]
		want.MaxNewTokens = min(want.MaxNewTokens, fakeTotal-2)
		r.Params.Seed = 0
		if !reflect.DeepEqual(r.Params, want) || !reflect.DeepEqual(r.Prompt, []llm.Token{fakeBOS, 'p'}) || r.N > 1 {
			t.Errorf("%s:\n got %+v\nwant %+v", config, r.Params, want)
		}
	}
}

// TestGenerateAPIStreams: each piece comes when there is one.
func TestGenerateAPIStreams(t *testing.T) {
	k := newKit(t)
	k.engine.Step = make(chan struct{})
	res := k.open(t, `{"request_id":"a","prompt":`+quote(dogs)+
		`,"only_new_tokens":false,"generation_config":{"max_new_tokens":3}}`)
	want := "<s> " + dogs
	for i := range 4 {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("piece %d is %q, %v, want %q", i, got, err, want)
		}
		if i < 3 {
			want = "Tai"[i : i+1]
			k.engine.Step <- struct{}{}
		}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 || res.Trailer.Get(generatedTokens) != "3" {
		t.Errorf("then %q, %v, %v", rest, err, res.Trailer)
	}
}

// open posts a body of generate-one and does not read the reply.
func (k *kit) open(t testing.TB, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.url+"/api/generate-one",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// TestGenerateAPIInUse: an id has one request at a time; a client that leaves
// ends its request, gives the id back and leaves the state as it was.
func TestGenerateAPIInUse(t *testing.T) {
	left := make(chan struct{})
	var once sync.Once
	k := newKit(t, func(o *Options, _ *generate.Limits, _ *config.Server) {
		o.Store = watched{o.Store, func() { once.Do(func() { close(left) }) }}
	})
	if a := k.ask(t, "a", dogs, `"generation_config":{"max_new_tokens":6}`); a.text != "Tails " {
		t.Fatalf("%q", a.text)
	}
	k.engine.Step = make(chan struct{})
	res := k.open(t, `{"request_id":"a","generation_config":{"max_new_tokens":100}}`)
	k.engine.Step <- struct{}{}
	if b := make([]byte, 1); must(io.ReadFull(res.Body, b)) != 1 || b[0] != 'w' {
		t.Fatalf("the first piece is %q", b)
	}
	for _, body := range []string{`{"request_id":"a","prompt":"x"}`,
		`{"request_id":"a","prompt":"x","stream_response":false}`} {
		a := k.do(t, "POST", "/api/generate-one", body)
		if a.StatusCode != http.StatusConflict ||
			a.text != "request_id `a` is in use: the request before has not ended" ||
			a.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %q %v", a.StatusCode, a.text, a.Header)
		}
	}
	res.Body.Close()
	<-left
	k.idle(t)
	k.engine.Step = nil
	if a := k.ask(t, "a", "", `"generation_config":{"max_new_tokens":7}`); a.text != "wagging" ||
		a.Header.Get(continuedHeader) != "true" {
		t.Errorf("after a client left: %q", a.text)
	}
}

// TestGenerateAPILeavesLate: a client that leaves before it can have got all leaves
// the state as it was, though all was generated.
func TestGenerateAPILeavesLate(t *testing.T) {
	k := newKit(t)
	k.ask(t, "a", dogs, `"generation_config":{"max_new_tokens":6}`)
	ctx, leave := context.WithCancel(t.Context())
	j, err := k.api.begin(ctx, &k.model, "", &request{ids: []string{"a"}, prompts: []string{" "}})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := j.texts[0].rest(ctx); err != nil || text != "waggin" {
		t.Fatalf("%q, %v", text, err)
	}
	leave()
	if err := j.settle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("settle: %v", err)
	}
	j.close()
	if a := k.ask(t, "a", "", ""); a.text != "waggin" {
		t.Errorf("then %q", a.text)
	}
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// watched calls released when a claim was released.
type watched struct {
	store.Store
	released func()
}

func (w watched) Claim(ctx context.Context, key store.Key) (store.Claim, error) {
	c, err := w.Store.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	return watchedClaim{c, w.released}, nil
}

type watchedClaim struct {
	store.Claim
	released func()
}

func (c watchedClaim) Release() {
	c.Claim.Release()
	c.released()
}

// TestGenerateAPIBreaksOff: an error behind the first byte is the last piece, and
// the reply does not end as a whole one does.
func TestGenerateAPIBreaksOff(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("%w: no memory", llm.ErrBackend): "Error: forward pass failed: no memory",
		llm.ErrDraining:        "Server is shutting down.",
		errors.New("a secret"): "Internal server error",
		io.EOF:                 "Error: incomplete generation",
	} {
		k := newKit(t)
		k.engine.Break = err
		k.engine.Script = func(r engine.Request) []engine.Event { return tell(r)[:4] }
		a := k.ask(t, "a", dogs, "")
		if a.StatusCode != 200 || a.err == nil || a.text != "Tail"+want || a.Trailer.Get(finishReason) != "" {
			t.Errorf("%v: %d %q %v %v", err, a.StatusCode, a.text, a.err, a.Trailer)
		}
		// In one piece, and in a batch, it has a status.
		status := map[error]int{llm.ErrDraining: 503}[err]
		if status == 0 {
			status = 500
		}
		if a = k.ask(t, "a", dogs, `"stream_response":false`); a.StatusCode != status || a.text != want {
			t.Errorf("%v: %d %q", err, a.StatusCode, a.text)
		}
		if a = k.do(t, "POST", "/api/generate-batch", `{"prompts":[{"request_id":"a"}]}`); a.StatusCode != status ||
			a.text != want {
			t.Errorf("%v: %d %q", err, a.StatusCode, a.text)
		}
	}
}

// TestGenerateAPIRefusals: what the server cannot do now.
func TestGenerateAPIRefusals(t *testing.T) {
	small := func(o *Options, l *generate.Limits, _ *config.Server) { l.MaxConcurrent = 4; o.Config.MaxPrompts = 8 }
	two := `{"prompts":[{"request_id":"a","prompt":"x"},{"request_id":"b","prompt":"x"}]}`
	k := newKit(t, small)
	three := strings.Replace(two, `[`, `[{"request_id":"c","prompt":"x"},`, 1)
	if a := k.do(t, "POST", "/api/generate-batch", three); a.StatusCode != 400 || a.text !=
		"`prompts` must have at most 2 entries with as many sequences each: together they may be 2, "+
			"half of max_concurrent_requests. Given: 3" {
		t.Errorf("%d %q %v", a.StatusCode, a.text, a.Header)
	}
	var others []*generate.Run
	for range 3 { // of four places
		run, err := k.model.Service.Start(t.Context(), generate.Draft{Tokens: []llm.Token{1}})
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, run)
	}
	if a := k.do(t, "POST", "/api/generate-batch", two); a.StatusCode != 429 || a.text != "Model is overloaded" ||
		a.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %q %v", a.StatusCode, a.text, a.Header)
	}
	for _, run := range others {
		run.Close()
	}
	k.idle(t)
	long := strings.Repeat("x", fakeInput)
	for body, want := range map[string]string{
		`{"prompts":[{"request_id":"a"},{"request_id":"b","prompt":"` + long +
			`"}]}`: "`prompt` of request_id `b` must have at most 300 tokens (limits.max_input_tokens), given 301",
		`{"prompts":[{"request_id":"b","prompt":"` + long + long +
			`"}]}`: "`prompt` must have less than 400 tokens (limits.max_total_tokens), given 601",
	} {
		k := newKit(t)
		if a := k.do(t, "POST", "/api/generate-batch", body); a.StatusCode != 400 || a.text != want {
			t.Errorf("%d %q, want %q", a.StatusCode, a.text, want)
		}
		k.idle(t)
	}
	k = newKit(t, func(_ *Options, _ *generate.Limits, c *config.Server) { c.PayloadLimit = 40 })
	if a := k.ask(t, "a", long, ""); a.StatusCode != 413 || a.text != "The body is larger than server.payload_limit" {
		t.Errorf("%d %q", a.StatusCode, a.text)
	}
	k = newKit(t, func(_ *Options, _ *generate.Limits, c *config.Server) { c.APIKeys = []string{"k"} })
	if a := k.ask(t, "a", "x", ""); a.StatusCode != 401 {
		t.Errorf("without a key: %d", a.StatusCode)
	}
	if a := k.ask(t, "a", "x", "", "Authorization", "Bearer k"); a.StatusCode != 200 {
		t.Errorf("with the key: %d", a.StatusCode)
	}
	if a := k.do(t, "GET", "/api/alive", ""); a.StatusCode != 200 {
		t.Errorf("the probe wants a key: %d", a.StatusCode)
	}
	k.engine.Sick = errors.New("stuck")
	if a := k.do(t, "POST", "/api/ready", ""); a.StatusCode != 503 || a.text != "not ready" {
		t.Errorf("ready: %d %q", a.StatusCode, a.text)
	}
}

// TestGenerateAPIEndText: the switch of the end's text.
func TestGenerateAPIEndText(t *testing.T) {
	k := newKit(t, func(o *Options, _ *generate.Limits, _ *config.Server) { o.Config.EOSText = false })
	a := k.ask(t, "a", " ", "")
	if a.text != "Nothing was asked." || a.Trailer.Get(finishReason) != "eos_token" ||
		a.Trailer.Get(generatedTokens) != "19" {
		t.Errorf("%q %v", a.text, a.Trailer)
	}
}

// broken is a store that fails.
type broken struct {
	store.Store
	claim, save error
}

func (b broken) Claim(ctx context.Context, key store.Key) (store.Claim, error) {
	if b.claim != nil {
		return nil, b.claim
	}
	c, err := b.Store.Claim(ctx, key)
	return brokenClaim{c, b.save}, err
}

type brokenClaim struct {
	store.Claim
	save error
}

func (c brokenClaim) Save(context.Context, []byte) error {
	c.Release()
	return c.save
}

// TestGenerateAPIStoreFails: a text that cannot be continued is not handed out as
// one that can.
func TestGenerateAPIStoreFails(t *testing.T) {
	over := func(b broken) change {
		return func(o *Options, _ *generate.Limits, _ *config.Server) { b.Store = o.Store; o.Store = b }
	}
	const silent = "The store of texts to continue does not answer"
	k := newKit(t, over(broken{claim: fmt.Errorf("%w: a secret", store.ErrUnavailable)}))
	if a := k.ask(t, "a", dogs, ""); a.StatusCode != 503 || a.text != silent || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %q", a.StatusCode, a.text)
	}
	for err, want := range map[error]struct {
		status int
		text   string
	}{
		store.ErrUnavailable: {503, silent},
		store.ErrLost: {503,
			"The text cannot be continued: the store of texts to continue did not answer for a while"},
		store.ErrTooLarge: {507, "The text cannot be continued: it is larger than generate_api.store.max_state"},
	} {
		k := newKit(t, over(broken{save: err}))
		short := `"generation_config":{"max_new_tokens":5}`
		if a := k.ask(t, "a", dogs, short); a.StatusCode != 200 || a.err == nil || a.text != "Tails"+want.text {
			t.Errorf("%v: %d %q %v", err, a.StatusCode, a.text, a.err)
		}
		if a := k.ask(t, "a", dogs, `"stream_response":false,`+short); a.StatusCode != want.status ||
			a.text != want.text {
			t.Errorf("%v: %d %q", err, a.StatusCode, a.text)
		}
		if a := k.ask(t, "a", dogs, ""); a.StatusCode != 200 || a.err != nil {
			t.Errorf("%v: a text that ended needs no store: %d %q %v", err, a.StatusCode, a.text, a.err)
		}
	}
}

// TestGenerateAPIForeignStates: what the store returns may be anything.
func TestGenerateAPIForeignStates(t *testing.T) {
	sound := func() store.State {
		return store.State{Model: "fake", Items: []store.Item{{ID: "a", Tokens: []llm.Token{fakeBOS, ' ', 'N'}}}}
	}
	const goesOn = "othing was asked.</s>"
	damaged := "request_id `a` cannot be continued, what was kept of it is damaged and was dropped"
	for name, c := range map[string]struct {
		spoil func(*store.State)
		want  string
		kept  bool
	}{
		"sound":       {func(*store.State) {}, goesOn, false},
		"other id":    {func(s *store.State) { s.Items[0].ID = "b" }, damaged, false},
		"more texts":  {func(s *store.State) { s.Items = append(s.Items, s.Items[0]) }, damaged, false},
		"no texts":    {func(s *store.State) { s.Items = nil }, damaged, false},
		"no tokens":   {func(s *store.State) { s.Items[0].Tokens = nil }, damaged, false},
		"many tokens": {func(s *store.State) { s.Items[0].Tokens = make([]llm.Token, fakeTotal+1) }, damaged, false},
		"wild token":  {func(s *store.State) { s.Items[0].Tokens[2] = fakeVocab }, damaged, false},
		"wild setting": {func(s *store.State) { n := int64(-1); s.Settings.MaxNewTokens = &n },
			"`max_new_tokens` must be >= 1, given -1", true},
		"other model": {func(s *store.State) { s.Model = "other" },
			"request_id `a` cannot be continued with the model `fake`: its text was generated by `other`", true},
	} {
		k := newKit(t)
		s := sound()
		c.spoil(&s)
		key := store.KeyOf("", []string{"a"})
		claim, err := k.api.options.Store.Claim(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := claim.Save(t.Context(), s.Append(nil)); err != nil {
			t.Fatal(err)
		}
		status := map[string]int{damaged: http.StatusConflict, goesOn: http.StatusOK}[c.want]
		if status == 0 {
			status = http.StatusBadRequest
		}
		if a := k.ask(t, "a", "", ""); a.text != c.want || a.StatusCode != status {
			t.Errorf("%s: %d %q", name, a.StatusCode, a.text)
		}
		claim, err = k.api.options.Store.Claim(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: the id is not free again: %v", name, err)
		}
		if kept := claim.State() != nil; kept != c.kept {
			t.Errorf("%s: kept: %v", name, kept)
		}
		claim.Release()
	}
}

// TestGenerateAPIModels: errors about models are in the shape of the API, whichever
// route they are found on, and a text belongs to its model.
func TestGenerateAPIModels(t *testing.T) {
	routes := newKit(t).api.Routes()
	for _, c := range []struct {
		err    error
		status int
		text   string
		retry  string
		close  string
	}{
		{&server.NoModel{ID: "x"}, 404, "The model `x` does not exist", "", ""},
		{fmt.Errorf("%w: %w", &server.NoModel{ID: "x"}, io.EOF), 404, "The model `x` does not exist", "", ""},
		{server.ErrModelKey, 403, "the key given is not for this model", "", ""},
		{&server.NotServing{ID: "x", Loading: true, RetryAfter: 1200 * time.Millisecond}, 503, "Model `x` is loading",
			"2", ""},
		{&server.NotServing{ID: "x"}, 503, "Model `x` is stopped", "1", ""},
		{&generate.Overloaded{RetryAfter: 2500 * time.Millisecond}, 429, "Model is overloaded", "2", ""},
		// another replica may serve who connects again
		{server.ErrLoading, 503, "Model is loading", "5", "close"},
		{server.ErrUnhealthy, 503, "unhealthy", "", "close"},
		{llm.ErrDraining, 503, textDraining, "1", "close"},
		// all replicas have the same store
		{store.ErrUnavailable, 503, "The store of texts to continue does not answer", "1", ""},
		{errors.New("secret"), 500, "Internal server error", "", ""},
	} {
		for _, r := range routes[:3] {
			rec := httptest.NewRecorder()
			r.Refuse(rec, httptest.NewRequest(r.Method, r.Path, nil), c.err)
			if rec.Code != c.status || rec.Body.String() != c.text || rec.Header().Get("Retry-After") != c.retry ||
				rec.Header().Get("Connection") != c.close || rec.Header().Get("Content-Type") != plain {
				t.Errorf("%s: %v: %d %v %s", r.Path, c.err, rec.Code, rec.Header(), rec.Body)
			}
		}
	}

	shared := store.NewMemory(store.Limits{TTL: time.Hour, MaxState: 1 << 20, MaxEntries: 100, MaxMemory: 1 << 22})
	of := func(model string) *kit {
		k := newKit(t, func(o *Options, _ *generate.Limits, _ *config.Server) { o.Store = shared })
		k.model.ID = model
		return k
	}
	first, second := of("fake"), of("other")
	const short = `"generation_config":{"max_new_tokens":3},"model":null`
	if a := first.ask(t, "a", dogs, short); a.text != "Tai" {
		t.Fatalf("the beginning: %d %q", a.StatusCode, a.text)
	}
	want := "request_id `a` cannot be continued with the model `other`: its text was generated by `fake`"
	if a := second.ask(t, "a", dogs, short); a.StatusCode != 400 || a.text != want {
		t.Errorf("by another model: %d %q, want %q", a.StatusCode, a.text, want)
	}
	if a := first.ask(t, "a", dogs, `"model":"fake"`); a.text != "ls " {
		t.Errorf("then by its own: %d %q", a.StatusCode, a.text)
	}
	if a := first.ask(t, "b", dogs, `"model":5`); a.StatusCode != 400 || a.text != "Invalid Data Format" {
		t.Errorf("a model that is no name: %d %q", a.StatusCode, a.text)
	}
}

// TestGenerateAPIDrains: a text that runs when the server is told to stop comes to
// its end, and can be continued elsewhere.
func TestGenerateAPIDrains(t *testing.T) {
	k := newKit(t)
	k.engine.Step = make(chan struct{})
	h := serve(t, k)
	res := k.open(t, `{"request_id":"a","prompt":`+quote(dogs)+`,"generation_config":{"max_new_tokens":3}}`)
	h.stop()
	for range 3 {
		k.engine.Step <- struct{}{}
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "Tai" ||
		res.Trailer.Get(finishReason) != "length" {
		t.Errorf("%q, %v, %v", text, err, res.Trailer)
	}
	if err := <-h.done; err != nil {
		t.Error(err)
	}
}
