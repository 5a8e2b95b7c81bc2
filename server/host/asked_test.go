package host

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgi/models/hf"
	"tgi/server/config"
)

// rank is one of a reply of /rerank.
type rank struct {
	Index int
	Score float64
}

// TestAskedModelCard: probabilities of a decoder that is asked about a text are those of Qwen3-Reranker's model card.
func TestAskedModelCard(t *testing.T) {
	f, err := os.Open("../../models/testdata/embeddings/qwen3-ask/golden.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var g struct {
		Query string
		Texts []string
		Card  []float64
	}
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&g)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := openTexts(t, nil, "qwen3-ask")
	var got []rank
	askTexts(t, s, "/rerank", fieldsOf{"query": g.Query, "texts": g.Texts}, 200, &got)
	if len(got) != len(g.Card) {
		t.Fatalf("%d ranks", len(got))
	}
	for _, one := range got {
		if want := g.Card[one.Index]; !(math.Abs(one.Score-want) < 1e-5) {
			t.Errorf("text %d: %g, want %g", one.Index, one.Score, want)
		}
	}
	var cohere struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	askTexts(t, s, "/v2/rerank", fieldsOf{"query": g.Query, "documents": g.Texts}, 200, &cohere)
	for i, one := range cohere.Results {
		if one.Index != got[i].Index || one.Score != got[i].Score {
			t.Errorf("/v2/rerank: %+v, /rerank %+v", cohere.Results, got)
		}
	}
}

// TestAskedTexts: what does not fit is refused or cut, the template never; single texts are refused.
func TestAskedTexts(t *testing.T) {
	s := openTexts(t, nil, "qwen3-ask")
	score := func(query, text string, more fieldsOf) float64 {
		t.Helper()
		body := fieldsOf{"query": query, "texts": []string{text}, "raw_scores": true}
		for k, v := range more {
			body[k] = v
		}
		var got []rank
		askTexts(t, s, "/rerank", body, 200, &got)
		return got[0].Score
	}
	long := strings.Repeat("words ", 2000)
	var refused struct {
		Error string
		Type  string `json:"error_type"`
	}
	askTexts(t, s, "/rerank", fieldsOf{"query": "q", "texts": []string{long}}, 413, &refused)
	if !strings.Contains(refused.Error, "must have at most 700 tokens") || refused.Type != "Validation" {
		t.Errorf("%+v", refused)
	}
	cut := fieldsOf{"truncate": true}
	if a, b := score("q", long, cut), score("q", long+"and more", cut); a != b {
		t.Errorf("what is cut counts: %g and %g", a, b)
	}
	left := fieldsOf{"truncate": true, "truncation_direction": "left"}
	if a, b := score("q", long, left), score("q", "and more"+long, left); a != b {
		t.Errorf("what is cut at the left counts: %g and %g", a, b)
	}
	if a, b := score("q", long, cut), score("q", long, left); a == b {
		t.Errorf("both ends are cut alike: %g", a)
	}
	if a, b := score(long, long, cut), score(long+"x", long+"y", cut); a != b {
		t.Errorf("query and text are cut: %g and %g", a, b)
	}
	for _, text := range []string{"", "\xff", "\U0001f98a"} {
		if x := score("q", text, cut); math.IsNaN(x) {
			t.Errorf("%q: %g", text, x)
		}
	}
	askTexts(t, s, "/predict", fieldsOf{"inputs": "a text"}, 413, &refused)
	if !strings.Contains(refused.Error, "must be pairs") {
		t.Errorf("%+v", refused)
	}
	var pairs [][]struct{ Score float64 }
	askTexts(t, s, "/predict", fieldsOf{"inputs": [][]string{{"q", "a text"}}, "raw_scores": true}, 200, &pairs)
	if want := score("q", "a text", nil); pairs[0][0].Score != want {
		t.Errorf("/predict: %g, /rerank %g", pairs[0][0].Score, want)
	}
}

// TestAskedTemplates: with a template that does not put both texts in as they are a model is not loaded, and the log
// says why.
func TestAskedTemplates(t *testing.T) {
	from := os.DirFS("../../models/testdata/embeddings/qwen3-ask")
	c := testConfig()
	demo := c.Model
	demo.Name = config.DemoModel
	c.ModelList, c.Model = []config.Model{demo}, config.Default().Model
	const pair = "{% for m in messages %}{{ m.content }}{% endfor %}"
	wants := []struct{ template, want string }{
		{"{{ messages[1].content }}", errPairTemplate.Error()},
		{"{% for m in messages %}{{ m.content | trim }}{% endfor %}", errPairTemplate.Error()},
		{"{{ messages }}{{ messages[1].content }}", errPairTemplate.Error()},
		{pair + "{{ strftime_now('%H') }}", errPairTime.Error()},
		{"{{ strftime_now('%A') }}" + pair, errPairTime.Error()},
		{"{{ raise_exception('no such roles') }}", "no such roles"},
		{"{% for m in messages %}{{ m.content }}", "template"},
	}
	for i, w := range wants {
		folder := filepath.Join(t.TempDir(), "asked")
		if err := os.CopyFS(folder, from); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, hf.ChatTemplateFile), []byte(w.template), 0o644); err != nil {
			t.Fatal(err)
		}
		m := config.Default().Model
		m.Name, m.Weights, m.Path = fmt.Sprint("asked", i), "fp32", folder
		c.ModelList = append(c.ModelList, m)
	}
	var log logBuffer
	s := plug(t, openServerLogged(t, c, slog.New(slog.NewJSONHandler(&log, nil))))
	for i, w := range wants {
		before := len(log.String())
		ask := fieldsOf{"query": "q", "texts": []string{"a"}, "model": fmt.Sprint("asked", i)}
		said := func() bool {
			text := log.String()[before:]
			return strings.Contains(text, "model.template") && strings.Contains(text, w.want)
		}
		for deadline := time.Now().Add(time.Minute); !said(); time.Sleep(20 * time.Millisecond) {
			// a request does not wait for a load to its end
			if askTexts(t, s, "/rerank", ask, 503, nil); time.Now().After(deadline) {
				t.Fatalf("%s: the log has no %q: %s", w.template, w.want, log.String()[before:])
			}
		}
	}
}
