package host

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// textsGolden is what make_embeddings.py wrote of a checkpoint.
type textsGolden struct {
	Texts   []string               `json:"texts"`
	Query   string                 `json:"query"`
	Prompts map[string][][]float64 `json:"prompts"`
	Pairs   [][]float64            `json:"pairs"`
	Single  [][]float64            `json:"single"`
}

func readTexts(t testing.TB, name string) (g textsGolden) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../models/testdata/embeddings", name, "golden.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		err = json.NewDecoder(z).Decode(&g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// openTexts opens a server with the embedded model and models of the goldens.
func openTexts(t testing.TB, change func(*config.Config), names ...string) *plugged {
	t.Helper()
	return openChat(t, func(c *config.Config) {
		demo := c.Model
		demo.Name = config.DemoModel
		c.ModelList = []config.Model{demo}
		for _, name := range names {
			m := config.Default().Model
			m.Name, m.Weights = name, "fp32"
			m.Path, _ = filepath.Abs(filepath.Join("../../models/testdata/embeddings", name))
			c.ModelList = append(c.ModelList, m)
		}
		c.Model = config.Default().Model
		if change != nil {
			change(c)
		}
	})
}

// ask posts a body and decodes the reply, whose status is checked.
func askTexts(t testing.TB, s *plugged, path string, body any, status int, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != status {
		t.Fatalf("%s: %d, want %d: %.300s", path, w.Code, status, w.Body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%s: %v: %.300s", path, err, w.Body)
	}
}

// angle returns the cosine of two vectors.
func angle(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

type fieldsOf = map[string]any

// TestTextsOfSentenceTransformers: from text to vector, with prompts and lengths, vectors are sentence-transformers'.
func TestTextsOfSentenceTransformers(t *testing.T) {
	names := []string{"bert", "bert-modes", "roberta", "xlm-roberta", "modernbert", "mpnet", "distilbert", "nomic",
		"qwen3", "gemma"}
	s := openTexts(t, nil, names...)
	for _, name := range names {
		g := readTexts(t, name)
		for prompt, want := range g.Prompts {
			body := fieldsOf{"model": name, "inputs": g.Texts, "truncate": true, "normalize": false}
			if prompt != "" {
				body["prompt_name"] = prompt
			}
			var got [][]float64
			askTexts(t, s, "/embed", body, 200, &got)
			if len(got) != len(want) {
				t.Fatalf("%s: %d vectors, want %d", name, len(got), len(want))
			}
			for i := range want {
				if c := angle(got[i], want[i]); len(got[i]) != len(want[i]) || !(c > 0.99999) {
					t.Errorf("%s, prompt %q, text %d: cosine %.7f", name, prompt, i, c)
				}
			}
		}
	}
}

// TestSparseVectorsOfSentenceTransformers: numbers of tokens are those of its SparseEncoder.
func TestSparseVectorsOfSentenceTransformers(t *testing.T) {
	names := []string{"bert-splade", "distilbert-splade", "roberta-splade"}
	s := openTexts(t, nil, names...)
	for _, name := range names {
		g := readTexts(t, name)
		var got [][]struct {
			Index int
			Value float64
		}
		askTexts(t, s, "/embed_sparse", fieldsOf{"model": name, "inputs": g.Texts, "truncate": true}, 200, &got)
		for i, want := range g.Prompts[""] {
			zeros := slices.DeleteFunc(slices.Clone(want), func(x float64) bool { return x != 0 })
			if n := len(want) - len(zeros); n != len(got[i]) {
				t.Errorf("%s, text %d: %d tokens, want %d", name, i, len(got[i]), n)
			}
			for _, one := range got[i] {
				w := want[one.Index]
				if math.Abs(one.Value-w) > 1e-4*max(1, w) {
					t.Errorf("%s, text %d, token %d: %g, want %g", name, i, one.Index, one.Value, w)
				}
			}
		}
		var dense [][]float64
		askTexts(t, s, "/embed", fieldsOf{"model": name, "inputs": g.Texts[0], "normalize": false}, 200, &dense)
		if n := len(dense[0]); n != 280 {
			t.Errorf("%s: a whole vector of %d numbers", name, n)
		}
	}
	var refusal struct{ Error string }
	s = openTexts(t, nil, "bert")
	askTexts(t, s, "/embed_sparse", fieldsOf{"model": "bert", "inputs": "x"}, 424, &refusal)
	if !strings.Contains(refusal.Error, "is not a SPLADE model") {
		t.Errorf("a dense model: %s", refusal.Error)
	}
}

// TestMetricsOfTexts: requests with texts are counted under text-embeddings-inference's names, texts and tokens beside
// them.
func TestMetricsOfTexts(t *testing.T) {
	s := openTexts(t, nil, "bert")
	askTexts(t, s, "/embed", fieldsOf{"model": "bert", "inputs": []string{"a", "b c"}}, 200, nil)
	askTexts(t, s, "/embed", fieldsOf{"model": "bert", "inputs": []string{}}, 413, nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{"te_request_count 2", `te_request_success{method="batch"} 1`,
		`te_request_failure{err="validation"} 1`, "te_queue_size 0", "tgi_texts_total 2",
		"tgi_texts_request_texts_sum 2",
		`gen_ai_client_token_usage_count{gen_ai_operation_name="embeddings",gen_ai_provider_name="tgi",` +
			`gen_ai_request_model="bert",gen_ai_response_model="bert",gen_ai_token_type="input"} 1`} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

// TestRanksOfSentenceTransformers: scores are those of its CrossEncoder.
func TestRanksOfSentenceTransformers(t *testing.T) {
	names := []string{"bert-rank", "roberta-rank", "xlm-roberta-rank", "modernbert-rank", "mpnet-rank", "qwen3-rank",
		"qwen3-ask", "llama-ask", "distilbert-labels"}
	s := openTexts(t, nil, names...)
	for _, name := range names {
		g := readTexts(t, name)
		if name == "distilbert-labels" {
			for i, text := range g.Texts {
				var got []struct {
					Score float64
					Label string
				}
				askTexts(t, s, "/predict", fieldsOf{"model": name, "inputs": text, "raw_scores": true}, 200, &got)
				labels := []string{"anger", "joy", "fear"}
				for n, one := range got {
					for k, label := range labels {
						if one.Label == label && !(math.Abs(one.Score-g.Single[i][k]) < 1e-4) {
							t.Errorf("text %d, %s: %g, want %g", i, label, one.Score, g.Single[i][k])
						}
					}
					if n > 0 && got[n-1].Score < one.Score {
						t.Errorf("text %d: scores do not fall: %v", i, got)
					}
				}
			}
			continue
		}
		var got []struct {
			Index int
			Score float64
			Text  string
		}
		askTexts(t, s, "/rerank", fieldsOf{"model": name, "query": g.Query, "texts": g.Texts, "raw_scores": true,
			"return_text": true}, 200, &got)
		if len(got) != len(g.Texts) {
			t.Fatalf("%s: %d ranks", name, len(got))
		}
		for n, one := range got {
			if !(math.Abs(one.Score-g.Pairs[one.Index][0]) < 1e-4) || one.Text != g.Texts[one.Index] {
				t.Errorf("%s, text %d: %g, want %g", name, one.Index, one.Score, g.Pairs[one.Index][0])
			}
			if n > 0 && got[n-1].Score < one.Score {
				t.Errorf("%s: scores do not fall: %v", name, got)
			}
		}
	}
}

// TestOpenAIEmbeddings: forms of input, dimensions, base64, usage.
func TestOpenAIEmbeddings(t *testing.T) {
	s := openTexts(t, nil, "roberta", "bert-rank")
	type reply struct {
		Object, Model string
		Data          []struct {
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	numbers := func(raw json.RawMessage) (v []float64) {
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	var one, many, coded, cut, tokens reply
	askTexts(t, s, "/v1/embeddings", fieldsOf{"input": "a b"}, 200, &one)
	askTexts(t, s, "/v1/embeddings", fieldsOf{"input": []string{"x", "a b"}, "model": "roberta"}, 200, &many)
	askTexts(t, s, "/v1/embeddings", fieldsOf{"input": "a b", "encoding_format": "base64"}, 200, &coded)
	askTexts(t, s, "/v1/embeddings", fieldsOf{"input": "a b", "dimensions": 4}, 200, &cut)
	var ids [][]struct{ ID uint32 }
	askTexts(t, s, "/tokenize?model=roberta", fieldsOf{"inputs": "a b"}, 200, &ids)
	var list []uint32
	for _, p := range ids[0] {
		list = append(list, p.ID)
	}
	askTexts(t, s, "/v1/embeddings", fieldsOf{"input": [][]uint32{list}}, 200, &tokens)
	v := numbers(one.Data[0].Embedding)
	if len(v) != 32 || one.Usage.Prompt != len(list) || one.Usage.Total != len(list) || one.Model != "roberta" {
		t.Errorf("%d numbers, %+v, want %d tokens", len(v), one, len(list))
	}
	if string(many.Data[1].Embedding) != string(one.Data[0].Embedding) || many.Data[1].Index != 1 ||
		string(tokens.Data[0].Embedding) != string(one.Data[0].Embedding) {
		t.Error("the same text has other vectors in a list, or as tokens")
	}
	var b64 string
	if err := json.Unmarshal(coded.Data[0].Embedding, &b64); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(b64)
	if err != nil || len(raw) != 4*len(v) {
		t.Fatal(err, len(raw))
	}
	length := 0.0
	for i := range v {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); x != float32(v[i]) {
			t.Errorf("number %d: %g in base64, %g", i, x, v[i])
		}
		length += v[i] * v[i]
	}
	short := numbers(cut.Data[0].Embedding)
	shortLength := 0.0
	for _, x := range short {
		shortLength += x * x
	}
	if math.Abs(length-1) > 1e-5 || math.Abs(shortLength-1) > 1e-5 || len(short) != 4 ||
		angle(short, v[:4]) < 0.99999 {
		t.Errorf("lengths %g and %g, %d dimensions", length, shortLength, len(short))
	}
}

// TestTextsRefused: errors name field, bound and value, in the shape and with the status of the route.
func TestTextsRefused(t *testing.T) {
	s := openTexts(t, func(c *config.Config) { c.Embeddings.MaxClientBatchSize = 3 }, "bert", "bert-rank")
	long := strings.Repeat("x y ", 100_000)
	for _, c := range []struct {
		path   string
		body   fieldsOf
		status int
		want   string
	}{
		{"/embed", fieldsOf{"inputs": []string{}}, 413, "`inputs` cannot be empty"},
		{"/embed", fieldsOf{"inputs": []string{"a", "b", "c", "d"}}, 413, "at most 3 texts"},
		{"/embed", fieldsOf{"inputs": long}, 413, "`inputs` must have at most 200 tokens"},
		{"/embed", fieldsOf{"inputs": 7}, 422, "inputs"},
		{"/embed", fieldsOf{"inputs": "a", "prompt_name": "no"}, 413, "`prompt_name` must be one of"},
		{"/embed", fieldsOf{"inputs": "a", "truncation_direction": "up"}, 413, "must be Left or Right"},
		{"/embed", fieldsOf{"inputs": "a", "model": config.DemoModel}, 424, "This server has: bert"},
		{"/embed", fieldsOf{"inputs": []uint32{1, 280}}, 413, "token ids below 280. Given: 280"},
		{"/embed", fieldsOf{"inputs": [][]uint32{{}}}, 413, "without tokens"},
		{"/embed_sparse", fieldsOf{"inputs": "a"}, 424, "model is not a SPLADE model"},
		{"/rerank", fieldsOf{"query": "a", "texts": []string{}}, 413, "`texts` cannot be empty"},
		{"/rerank", fieldsOf{"query": "a", "texts": []string{"b"}, "model": "bert"}, 424, "This server has: bert-rank"},
		{"/predict", fieldsOf{"inputs": []string{"a", "b", "c"}}, 422, "expected"},
		{"/similarity", fieldsOf{"inputs": fieldsOf{"source_sentence": "a", "sentences": []string{}}}, 413,
			"cannot be empty"},
		{"/v1/rerank", fieldsOf{"query": "a", "documents": []string{"b"}, "top_n": 0}, 422, "`top_n` must be positive"},
		{"/v1/rerank", fieldsOf{"query": "a", "documents": []string{"b"}, "model": "bert"}, 422,
			"This server has: bert-rank"},
		{"/v1/embeddings", fieldsOf{"input": "a", "dimensions": 33}, 422, "`dimensions` must be from 1 to 32"},
		{"/v1/embeddings", fieldsOf{"input": "a", "encoding_format": "hex"}, 422, "must be float or base64"},
		{"/v1/embeddings", fieldsOf{"input": "a", "model": "bert-rank"}, 422, "This server has: bert"},
		{"/v1/embeddings", fieldsOf{"input": "a", "truncate_prompt_tokens": 0}, 422, "must be positive"},
		{"/v1/embeddings", fieldsOf{"input": long}, 422, "context_length_exceeded"},
		{"/generate", fieldsOf{"inputs": "a", "model": "bert"}, 422, "This server has: tgi-demo"},
		{"/v1/chat/completions", fieldsOf{"messages": []fieldsOf{{"role": "user", "content": "a"}},
			"model": "bert"}, 422,
			"This server has: tgi-demo"},
	} {
		var got json.RawMessage
		askTexts(t, s, c.path, c.body, c.status, &got)
		if !strings.Contains(string(got), c.want) {
			t.Errorf("%s %.80v: %s, want %s", c.path, c.body, got, c.want)
		}
	}
	var cut [][]float64
	askTexts(t, s, "/embed", fieldsOf{"inputs": long, "truncate": true}, 200, &cut)
	askTexts(t, s, "/embed", fieldsOf{"inputs": []string{"", "\x00", "\ufffd"}}, 200, &cut)
}

// TestTextsOfManyClients: one client's flood does not delay another's text until its own are done.
func TestTextsOfManyClients(t *testing.T) {
	s := openTexts(t, func(c *config.Config) {
		c.Embeddings.MaxBatchTokens = 512
		c.Server.PayloadLimit = 8 << 20
	}, "modernbert")
	many := make([]string, 1500)
	for i := range many {
		many[i] = strings.Repeat("flood ", 40)
	}
	text, err := json.Marshal(fieldsOf{"inputs": many})
	if err != nil {
		t.Fatal(err)
	}
	post := func(address string, body []byte) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/embed", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	post("192.0.2.2:1", []byte(`{"inputs":"load the model"}`))
	var flood sync.WaitGroup
	began := time.Now()
	var took time.Duration
	for range 2 {
		flood.Go(func() {
			if w := post("192.0.2.1:1", text); w.Code != 200 {
				t.Errorf("flood: %d %.200s", w.Code, w.Body)
			}
			took = time.Since(began)
		})
	}
	e := s.models.embeddersNow()[0]
	for e.batcher.Stats().Waiting < 1000 {
		time.Sleep(time.Millisecond)
	}
	if w := post("192.0.2.2:1", []byte(`{"inputs":"first"}`)); w.Code != 200 {
		t.Fatalf("%d %.200s", w.Code, w.Body)
	}
	if waiting := e.batcher.Stats().Waiting; waiting < 500 { // in the order of arrival, none would
		t.Errorf("when a text beside a flood was done, only %d of its texts waited", waiting)
	}
	flood.Wait()
	if got := e.batcher.Stats(); got.Waiting != 0 {
		t.Errorf("%+v", got)
	}
	t.Logf("flood of %d texts: %v", 2*len(many), took)
}

// TestTextsReload: such a model is loaded by the first request, unloaded and loaded again, and shows in the lists.
func TestTextsReload(t *testing.T) {
	s := openTexts(t, func(c *config.Config) { c.ModelList[1].Preload = false }, "bert")
	var first, second [][]float64
	body := fieldsOf{"inputs": "a b", "model": "bert"}
	askTexts(t, s, "/embed", body, 200, &first)
	p, err := s.models.roster.Stop("bert")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	askTexts(t, s, "/embed", body, 503, nil)
	if p, err = s.models.roster.Start("bert"); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	askTexts(t, s, "/embed", body, 200, &second)
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Error("another vector after the model was loaded again")
	}
	r := httptest.NewRequest(http.MethodGet, "/info?model=bert", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"model_type":{"embedding":{"pooling":"mean"}}`) {
		t.Errorf("/info: %s", w.Body)
	}
	for id, want := range map[string]string{"bert": `"embedding":true`, config.DemoModel: `"embedding":false`} {
		w = httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models/"+id, nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s", id, w.Body)
		}
	}
}
