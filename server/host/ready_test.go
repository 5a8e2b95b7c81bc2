package host

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/models"
	"tgi/models/ready"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/config"
)

// graphs holds folders of ready ONNX graphs and what Python computes with them; see testdata/make_onnx_goldens.py.
const graphs = "../../models/testdata/onnx"

func graphConfig(folder, weights string) config.Config {
	c := testConfig()
	c.Model.Path, c.Model.Weights = filepath.Join(graphs, folder), weights
	return c
}

// graphGolden is what Python generates greedily.
type graphGolden struct {
	Prompts [][]llm.Token `json:"prompts"`
	Tokens  [][]llm.Token `json:"tokens"`
}

func readGraphGolden(t *testing.T, folder, weights string) (g graphGolden) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(graphs, folder, "golden_"+weights+".json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGraphsAsPython: requests that share a cache of three rows, fork and are preempted get the tokens that Python gets
// for each alone.
func TestGraphsAsPython(t *testing.T) {
	for _, c := range []struct{ folder, weights string }{
		{"genai-fp32", "fp32"}, {"genai-int4", "q4"}, {"community", "q4f16"}, {"community", "fp16"}, {"hub", "fp32"},
		{"hub", "q4"}, {"hub", "fp16"}, {"hub", "q4f16"}, {"hub", "int8"},
	} {
		t.Run(c.folder+" "+c.weights, func(t *testing.T) {
			want := readGraphGolden(t, c.folder, c.weights)
			cfg := graphConfig(c.folder, c.weights)
			const length = 100
			cfg.Limits.MaxTotalTokens = length
			cfg.Limits.MaxBatchTotalTokens = 0
			h := openServer(t, cfg)
			in := h.defaultModel().instance
			rowBytes := in.built.CacheBytesPerToken() * length
			cfg.Runtime.KVMemory = config.Size(3 * rowBytes)
			h = openServer(t, cfg)
			in = h.defaultModel().instance
			if in.backend.Blocks() != 3 || in.backend.BlockSize() != length {
				t.Fatalf("%d rows of %d", in.backend.Blocks(), in.backend.BlockSize())
			}
			var wg sync.WaitGroup
			for i := range 18 {
				p := i % len(want.Prompts)
				n := 1
				if i%6 == 5 && !in.graph.Alone { // one that computes prompts anew computes others
					n = 3
				}
				wg.Go(func() {
					got := collect(t, h, engine.Request{Prompt: want.Prompts[p], N: n, Params: llm.Params{
						Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 64, IgnoreEOS: true}})
					for _, tokens := range got {
						if !slices.Equal(tokens, want.Tokens[p]) {
							t.Errorf("prompt %d: got  %v\nwant %v", p, tokens, want.Tokens[p])
						}
					}
				})
			}
			wg.Wait()
			st := in.engine.Stats()
			if st.KVUsed != 0 || st.Running+st.Waiting != 0 || st.Preempted == 0 && !in.graph.Alone {
				t.Errorf("after the end: %+v", st)
			}
		})
	}
}

// TestGraphBeams: searches that share a small cache find what each finds alone.
func TestGraphBeams(t *testing.T) {
	want := readGraphGolden(t, "genai-fp32", "fp32")
	request := func(i int) engine.Request {
		return engine.Request{Prompt: want.Prompts[i%3], Params: llm.Params{Temperature: 1, TopP: 1, TypicalP: 1,
			RepetitionPenalty: 1, MaxNewTokens: 20, NumBeams: 2 + i%2, NumReturn: 2, LengthPenalty: 1}}
	}
	large, cfg := openServer(t, graphConfig("genai-fp32", "auto")), graphConfig("genai-fp32", "auto")
	cfg.Limits.MaxTotalTokens = 60
	cfg.Runtime.KVMemory = config.Size(4 * 60 * large.defaultModel().built.CacheBytesPerToken())
	small := openServer(t, cfg)
	var wg sync.WaitGroup
	for i := range 6 {
		alone, err := searchBeams(large, request(i))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			got, err := searchBeams(small, request(i))
			if err != nil || !slices.EqualFunc(got.tokens, alone.tokens, slices.Equal) {
				t.Errorf("request %d differs (%v):\ntogether %v\nalone    %v", i, err, got.tokens, alone.tokens)
			}
		})
	}
	wg.Wait()
}

// TestGraphRequests: grammars and prompts' log-probabilities work where the graph has what they need, and what it lacks
// is a 4xx that says so.
func TestGraphRequests(t *testing.T) {
	for _, c := range []struct {
		folder, path, body string
		status             int
		want               string
	}{
		{"genai-last", "/generate", `{"inputs":"ab","parameters":{"max_new_tokens":4,"grammar":{"type":"regex","value":"[0-9]{4}"},` +
			`"details":true}}`, 200, `"generated_tokens":4`},
		{"genai-last", "/generate", `{"inputs":"ab","parameters":{"max_new_tokens":2,"decoder_input_details":true}}`, 422,
			`the model's graph gives no logits of the prompt`},
		{"genai-last", "/v1/completions", `{"prompt":"ab","max_tokens":2,"echo":true,"logprobs":1}`, 422,
			`the model's graph gives no logits of the prompt`},
		{"hub", "/generate", `{"inputs":"ab","parameters":{"max_new_tokens":2,"decoder_input_details":true}}`, 200,
			`"text":"b","logprob":-`},
		{"hub", "/generate", `{"inputs":"ab","parameters":{"max_new_tokens":2,"adapter_id":"x"}}`, 422, "adapter `x` is not loaded"},
	} {
		h := openServer(t, graphConfig(c.folder, "auto"))
		s := httptest.NewServer(h)
		res := post(t, t.Context(), s.URL+c.path, c.body)
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: %d %s", c.folder, c.body, res.StatusCode, body)
		}
		s.Close()
	}
}

// TestGraphSettings: settings that a folder of graphs cannot follow are refused by name.
func TestGraphSettings(t *testing.T) {
	adapted := graphConfig("hub", "auto")
	adapted.Model.AdapterMemory = 1 << 20
	tiny := graphConfig("hub", "auto")
	tiny.Runtime.KVMemory = 100
	for _, c := range []struct {
		cfg  config.Config
		want string
	}{
		{adapted, "model.adapter: adapters are not computed for ready ONNX graphs"},
		{tiny, "holds no row of the cache: this model needs at least 81920 bytes for 160 tokens"},
		{graphConfig("community", "q8"), `model.weights must be one of those that the folder has, q4f16, fp16, given "q8"`},
	} {
		h, err := Open(t.Context(), Options{Config: c.cfg, Version: "dev", Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.want, err)
		}
	}
	_, err := variantFor(config.Default(), models.Processor{Device: models.CUDA, Major: 9}, nil)
	if err != errGraphDevice {
		t.Error(err)
	}
}

// TestGraphSources: the weights that only graphs have choose what is fetched.
func TestGraphSources(t *testing.T) {
	for _, form := range ready.Forms() {
		c := config.Default()
		c.Model.Weights = form
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", form, err)
		}
	}
	for _, c := range []struct{ source, weights, want string }{
		{"org/x", "q4f16", "org/x:q4f16"}, {"org/x@v1", "q4", "org/x@v1:q4"}, {"org/x:fp16", "q4", "org/x:fp16"},
		{"org/x", "int8", "org/x"}, {"https://h/x.tar", "q4", "https://h/x.tar"}, {"", "q4", ""},
	} {
		if got := sourceOf(config.Model{Source: c.source, Weights: c.weights}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestGraphRows: rows are as long as the longest sequence, or so long that some fit.
func TestGraphRows(t *testing.T) {
	for _, c := range []struct {
		limits            config.Limits
		positions         int
		wanted, available int64
		tokens, rows      int
	}{
		{config.Limits{MaxConcurrentRequests: 128}, 1000, 0, 1 << 40, 1000, 128},
		{config.Limits{MaxConcurrentRequests: 128}, 131072, 0, 4 * 80000 * 10, 10000, 8},
		{config.Limits{MaxConcurrentRequests: 128}, 131072, 0, 4 * 8000 * 10, 2048, 3},
		{config.Limits{MaxConcurrentRequests: 2}, 131072, 80000 * 10, 0, 40000, 2},
		{config.Limits{MaxConcurrentRequests: 128, MaxTotalTokens: 40000}, 131072, 80000 * 10, 0, 40000, 2},
		{config.Limits{MaxConcurrentRequests: 128, MaxBatchTotalTokens: 500}, 131072, 80000 * 10, 0, 500, 128},
	} {
		tokens, rows := graphRows(c.limits, c.positions, 10, c.wanted, c.available)
		if tokens != c.tokens || rows != c.rows {
			t.Errorf("%+v: %d rows of %d", c, rows, tokens)
		}
	}
}
