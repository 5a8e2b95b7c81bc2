// Package texts has the routes of models that turn texts into vectors or scores: OpenAI's embeddings, those of Hugging
// Face's text-embeddings-inference (TEI), and Cohere's and Jina's rerank.
//
// Files: openai.go, tei.go, tei_models.go (what TEI's model says of itself) and rerank.go have the routes, inputs.go
// reads texts, errors.go writes errors.
package texts

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/embeddings"
)

// Options of an API.
type Options struct {
	// Models compute.
	Models dispatch.Embedders
	// Version is the server's.
	Version string
	// ComputeType is the value of the header x-compute-type.
	ComputeType string
}

// API is the routes.
type API struct {
	options Options
	// name makes the last part of ids; tests fix it.
	name func() string
}

// New returns the API.
func New(o Options) *API { return &API{options: o, name: rand.Text} }

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	route := func(path string, o server.Operation, serve handler, refuse refuser) server.Route {
		return server.Route{Method: http.MethodPost, Path: path, Operation: o, Refuse: refuse, Handle: read(serve)}
	}
	return []server.Route{
		route("/v1/embeddings", server.Embeddings, a.embeddings, refuseOpenAI),
		route("/embeddings", server.Embeddings, a.embeddings, refuseOpenAI),
		route("/v1/rerank", server.Rerank, a.rerankV1, refuseRerank),
		route("/v2/rerank", server.Rerank, a.rerankV2, refuseRerank),
		route("/embed", server.Embeddings, a.embed, refuseTEI),
		route("/embed_all", server.Embeddings, a.embedAll, refuseTEI),
		route("/embed_sparse", server.Embeddings, a.embedSparse, refuseTEI),
		route("/rerank", server.Rerank, a.rerankEither, refuseTEI),
		route("/predict", server.Classify, a.predict, refuseTEI),
		route("/similarity", server.Embeddings, a.similarity, refuseTEI),
		route("/decode", "", a.decode, refuseTEI),
	}
}

// handler serves a body.
type handler func(w http.ResponseWriter, r *http.Request, body []byte) error

type refuser func(w http.ResponseWriter, r *http.Request, err error)

// read gives serve the body of a request.
func read(serve handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := server.ReadBody(r)
		if err != nil {
			return err
		}
		return serve(w, r, body)
	}
}

// use returns the model that a request names, for one of some tasks.
func (a *API) use(r *http.Request, name *string, tasks ...server.Task) (*dispatch.Embedder, func(), error) {
	body := ""
	if name != nil {
		body = *name
	}
	return dispatch.UseEmbedder(a.options.Models, r, body, tasks...)
}

// headers sets those that TEI's replies have.
func (a *API) headers(w http.ResponseWriter, in []embeddings.Input, result *embeddings.Result, began time.Time) {
	chars := 0
	for i := range in {
		chars += utf8.RuneCountInString(in[i].Text)
		if in[i].Pair != nil {
			chars += utf8.RuneCountInString(*in[i].Pair)
		}
	}
	took := strconv.FormatInt(time.Since(began).Milliseconds(), 10)
	for name, value := range map[string]string{"X-Compute-Type": a.options.ComputeType, "X-Compute-Time": took,
		"X-Total-Time": took, "X-Compute-Characters": strconv.Itoa(chars),
		"X-Compute-Tokens": strconv.Itoa(result.Total())} {
		w.Header().Set(name, value)
	}
}

// named is the name of the model in a reply: that of the request, unless it means any.
func named(name *string, m *dispatch.Embedder) string {
	if name == nil || dispatch.Placeholder(*name) || strings.TrimSpace(*name) == "" {
		return m.ID
	}
	return *name
}
