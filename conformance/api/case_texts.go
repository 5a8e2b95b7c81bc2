package api

import (
	"net/http"
	"strings"
)

const (
	embeddingsPath = "/v1/embeddings"
	rerankPath     = "/v1/rerank"
	embedPath      = "/embed"
)

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
}
