package texts

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"tgi/server"
	"tgi/server/fields"
	"tgi/server/wire"
)

// rerankBody is a request of Cohere's and Jina's rerank.
type rerankBody struct {
	common
	query     string
	documents []string
	top       *uint64
	perText   *uint64
	// withTexts says that replies have the documents.
	withTexts *bool
}

// mostPerText bounds max_tokens_per_doc: no model reads more.
const mostPerText = 1 << 24

func (b *rerankBody) decode(ctx context.Context, body []byte) error {
	list := append(b.common.fields(), []wire.Field{
		{Name: "query", Required: true, Read: wire.Into(&b.query, (*wire.Reader).String)},
		{Name: "documents", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error {
				var text string
				err := fields.Either(r, wire.Into(&text, (*wire.Reader).String), func(r *wire.Reader) error {
					return r.Object("a document such as {\"text\": \"...\"}", []wire.Field{
						{Name: "text", Required: true, Read: wire.Into(&text, (*wire.Reader).String)}})
				})
				b.documents = append(b.documents, text)
				return err
			})
		}},
		{Name: "top_n", Read: wire.Optional(&b.top, (*wire.Reader).Usize)},
		{Name: "max_tokens_per_doc", Read: wire.Optional(&b.perText, (*wire.Reader).Usize)},
		{Name: "return_documents", Read: wire.Optional(&b.withTexts, (*wire.Reader).Bool)},
	}...)
	err := server.Decode(ctx, body, func(r *wire.Reader) error { return r.Object("struct RerankRequest", list) })
	if err != nil {
		return err
	}
	if err := b.finish("documents"); err != nil {
		return err
	}
	if b.truncate == nil { // both cut
		cut := true
		b.options.Truncate = &cut
	}
	if b.perText != nil {
		if *b.perText < 1 || *b.perText > mostPerText {
			return invalid("max_tokens_per_doc", "`max_tokens_per_doc` must be from 1 to %d. Given: %d", mostPerText,
				*b.perText)
		}
		b.options.Second = int(*b.perText)
	}
	if b.top != nil && *b.top < 1 {
		return invalid("top_n", "`top_n` must be positive. Given: %d", *b.top)
	}
	return nil
}

// rerankV1 is POST /v1/rerank, Jina's and Cohere's.
func (a *API) rerankV1(w http.ResponseWriter, r *http.Request, body []byte) error {
	return a.serveRerank(w, r, body, "1", true)
}

// rerankEither is POST /rerank: TEI's, or vLLM's and Infinity's, which is that of /v1/rerank.
func (a *API) rerankEither(w http.ResponseWriter, r *http.Request, body []byte) error {
	var b struct{ Texts, Documents json.RawMessage }
	if bytes.Contains(body, []byte(`"documents"`)) {
		_ = json.Unmarshal(body, &b) // what is wrong with it, the route says
	}
	if b.Texts != nil || b.Documents == nil {
		return a.rerank(w, r, body)
	}
	if err := a.rerankV1(w, r, body); err != nil {
		refuseRerank(w, r, err)
	}
	return nil
}

// rerankV2 is POST /v2/rerank, Cohere's.
func (a *API) rerankV2(w http.ResponseWriter, r *http.Request, body []byte) error {
	return a.serveRerank(w, r, body, "2", false)
}

// serveRerank replies with what clients of both read: results, Cohere's meta and Jina's usage.
func (a *API) serveRerank(w http.ResponseWriter, r *http.Request, body []byte, version string, texts bool) error {
	var b rerankBody
	if err := b.decode(r.Context(), body); err != nil {
		return err
	}
	if b.withTexts != nil {
		texts = *b.withTexts
	}
	m, release, err := a.use(r, b.model, server.Reranks)
	if err != nil {
		return err
	}
	defer release()
	ranks, _, result, err := a.ranked(r, m, b.query, b.documents, b.options, b.rawScores)
	if err != nil {
		return err
	}
	if b.top != nil && *b.top < uint64(len(ranks)) {
		ranks = ranks[:*b.top]
	}
	out := server.NewLong(w)
	out.Text(`{"id":"rerank-` + a.name() + `","object":"list","model":`)
	out.String(named(b.model, m))
	out.Text(`,"results":[`)
	for i, one := range ranks {
		out.Append(func(o []byte) []byte {
			if i > 0 {
				o = append(o, ',')
			}
			o = strconv.AppendInt(append(o, `{"index":`...), int64(one.index), 10)
			if texts {
				o = append(wire.AppendString(append(o, `,"document":{"text":`...), b.documents[one.index]), '}')
			}
			return append(wire.AppendFloat32(append(o, `,"relevance_score":`...), one.score), '}')
		})
	}
	total := strconv.Itoa(result.Total())
	out.Text(`],"usage":{"prompt_tokens":` + total + `,"total_tokens":` + total +
		`},"meta":{"api_version":{"version":"` + version + `"},"billed_units":{"search_units":1}}}`)
	server.Note(r.Context(), out.Close())
	return nil
}
