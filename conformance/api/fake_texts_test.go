package api

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
)

// embedded serves the routes of embeddings and rerank.
func (c *fakeCall) embedded() {
	v := value{c.body, true}
	switch path := c.r.URL.Path; {
	case v.at("encoding_format").text() == "hex":
		c.json(422, map[string]any{"error": map[string]any{"type": "invalid_request_error",
			"message": "encoding_format is hex"}})
	case v.at("top_n").number() == 0:
		c.json(422, map[string]any{"message": "top_n is 0", "error_type": "validation"})
	case v.at("truncation_direction").text() == "up":
		c.json(413, map[string]any{"error": "truncation_direction is up", "error_type": "Validation"})
	case path == embeddingsPath:
		var data []any
		n := 0
		for i, text := range textsOf(v.at("input")) {
			vector := any(fakeVector(text))
			if v.at("encoding_format").text() == "base64" {
				vector = base64Of(fakeVector(text))
			}
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": vector})
			n += len(split(text))
		}
		c.json(200, map[string]any{"object": "list", "data": data,
			"usage": map[string]any{"prompt_tokens": n, "total_tokens": n}})
	case path == embedPath:
		var all []any
		for _, text := range textsOf(v.at("inputs")) {
			all = append(all, fakeVector(text))
		}
		c.json(200, all)
	case path == similarPath:
		var all []any
		for _, text := range textsOf(v.at("inputs", "sentences")) {
			all = append(all, cosine(v.at("inputs", "source_sentence").text(), text))
		}
		c.json(200, all)
	case path == teiRankPath:
		c.json(200, ranked(v.at("query").text(), textsOf(v.at("texts"))))
	default:
		all := ranked(v.at("query").text(), textsOf(v.at("documents")))
		c.json(200, map[string]any{"results": all[:int(v.at("top_n").number())]})
	}
}

// textsOf returns a text, or those of a list.
func textsOf(v value) (out []string) {
	if v.isText() {
		return []string{v.text()}
	}
	for _, one := range v.list() {
		out = append(out, one.text())
	}
	return out
}

// fakeVector has length 1.
func fakeVector(text string) []float32 {
	out, sum := make([]float32, 4), 0.0
	for i := range out {
		x := math.Sin(float64(idOf(text)%1000 + 7*i))
		out[i], sum = float32(x), sum+x*x
	}
	for i := range out {
		out[i] /= float32(math.Sqrt(sum))
	}
	return out
}

func base64Of(v []float32) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func cosine(a, b string) (out float64) {
	x, y := fakeVector(a), fakeVector(b)
	for i := range x {
		out += float64(x[i]) * float64(y[i])
	}
	return out
}

// ranked orders texts by their similarity to a query.
func ranked(query string, texts []string) (out []map[string]any) {
	for i, text := range texts {
		out = append(out, map[string]any{"index": i, "text": text, "score": cosine(query, text)})
	}
	slices.SortFunc(out, func(a, b map[string]any) int {
		if a["score"].(float64) > b["score"].(float64) {
			return -1
		}
		return 1
	})
	return out
}
