package api

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strings"
)

const (
	embeddingsPath = "/v1/embeddings"
	rerankPath     = "/v1/rerank"
	embedPath      = "/embed"
	teiRankPath    = "/rerank"
	similarPath    = "/similarity"
	ofTEI          = "text-embeddings-inference 1.8, docs/openapi.json"
)

// embed posts a body for vectors or scores. The case is skipped where no model has any.
func (p *probe) embed(path, body string) value {
	r := p.post(path, body)
	if r.status != http.StatusOK && strings.Contains(string(r.body), "This server has none") {
		p.skip("the server has no model for %s", path)
	}
	p.status(r, http.StatusOK)
	return p.json(r)
}

// vector returns the numbers of a list.
func vector(v value) (out []float64) {
	for _, one := range v.list() {
		out = append(out, one.number())
	}
	return out
}

// near notes vectors that differ by more than rounding.
func (p *probe) near(what string, got, want []float64) {
	if len(got) != len(want) || len(want) == 0 {
		p.fatal("%s has %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= 1e-4) {
			p.fatal("%s: number %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// decoded returns the little-endian floats of a base64 text.
func decoded(text string) (out []float64) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return nil
	}
	for ; len(b) > 0; b = b[4:] {
		out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	}
	return out
}

func norm(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// textsCases hold for servers without a model for vectors or scores, too:
// bodies are read before a model is looked up.
var textsCases = []Case{
	{ID: "texts-refused", Rule: "bodies of embeddings and rerank are refused by field, each API with its own object",
		Source: ofServer, This: true, run: func(p *probe) {
			for _, one := range []struct {
				path, body, name string
				status           int
				kind             []any
				want             string
			}{
				{embeddingsPath, `{"input":"a","encoding_format":"hex"}`, "encoding_format",
					http.StatusUnprocessableEntity, []any{"error", "type"}, "invalid_request_error"},
				{rerankPath, `{"query":"a","documents":["b"],"top_n":0}`, "top_n", http.StatusUnprocessableEntity,
					[]any{"error_type"}, "validation"},
				{embedPath, `{"inputs":"a","truncation_direction":"up"}`, "truncation_direction",
					http.StatusRequestEntityTooLarge, []any{"error_type"}, "Validation"},
			} {
				r := p.post(one.path, one.body)
				p.status(r, one.status)
				v := p.json(r)
				p.equal("the error's type", v.at(one.kind...), one.want)
				if !strings.Contains(v.String(), one.name) {
					p.fail("the error %s does not name %s", v, one.name)
				}
			}
		}},
	{ID: "texts-embeddings", Source: ofOpenAI + ", embeddings", This: true,
		Rule: "vectors come in the order of the texts, as each alone, of length 1, in both encodings", run: func(p *probe) {
			v := p.embed(embeddingsPath, `{"input":["a b","c"]}`)
			p.equal("object", v.at("object"), "list")
			for i, text := range []string{"a b", "c"} {
				one := v.at("data", i)
				p.equal("object of a vector", one.at("object"), "embedding")
				p.equal("index", one.at("index"), i)
				alone := p.embed(embeddingsPath, `{"input":`+encode(text)+`}`)
				p.near("a vector among others", vector(one.at("embedding")), vector(alone.at("data", 0, "embedding")))
			}
			first := vector(v.at("data", 0, "embedding"))
			if n := norm(first); math.Abs(n-1) > 1e-3 {
				p.fail("the length of a vector is %g, want 1", n)
			}
			coded := p.embed(embeddingsPath, `{"input":"a b","encoding_format":"base64"}`)
			p.near("base64", decoded(coded.at("data", 0, "embedding").text()), first)
			u := v.at("usage")
			if n := u.at("prompt_tokens").number(); !(n > 0) || u.at("total_tokens").number() != n {
				p.fail("usage is %s", u)
			}
			list := p.embed(embedPath, `{"inputs":["a b","c"]}`)
			p.near("the vector of "+embedPath, vector(list.at(0)), first)
		}},
	{ID: "texts-similarity", Rule: "the similarity of two texts is the cosine of their vectors", Source: ofTEI,
		This: true, run: func(p *probe) {
			v := p.embed(similarPath, `{"inputs":{"source_sentence":"a b","sentences":["c","a b"]}}`)
			list := p.embed(embedPath, `{"inputs":["a b","c"]}`)
			a, b := vector(list.at(0)), vector(list.at(1))
			if len(a) != len(b) {
				p.fatal("vectors have %d and %d numbers", len(a), len(b))
			}
			dot := 0.0
			for i := range a {
				dot += a[i] * b[i]
			}
			p.near("the similarities", vector(v), []float64{dot, 1})
		}},
	{ID: "texts-rerank", Source: ofTEI + "; Cohere's and Jina's packages, rerank", This: true,
		Rule: "ranks come from the best score to the worst, the same in TEI's, Cohere's and Jina's forms", run: func(p *probe) {
			v := p.embed(teiRankPath, `{"query":"a","texts":["b","c d","a"],"return_text":true}`)
			texts, ranks := []string{"b", "c d", "a"}, []int{}
			last := math.Inf(1)
			for _, one := range v.list() {
				at, score := int(one.at("index").number()), one.at("score").number()
				if at < 0 || at >= len(texts) || slices.Contains(ranks, at) || !(score <= last) {
					p.fatal("the ranks are %s", v)
				}
				p.equal("text", one.at("text"), texts[at])
				ranks, last = append(ranks, at), score
			}
			p.equal("the number of ranks", len(ranks), len(texts))
			same := p.embed(rerankPath, `{"model":"","query":"a","documents":["b","c d","a"],"top_n":2}`)
			p.equal("the number of results", len(same.at("results").list()), 2)
			for i, one := range same.at("results").list() {
				p.equal("index", one.at("index"), ranks[i])
			}
		}},
}
