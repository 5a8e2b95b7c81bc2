package texts

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tgi/runtime/embed"
	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/embeddings"
	"tgi/server/wire"
)

// scoring are the tasks of models with scores.
var scoring = []server.Task{server.Reranks, server.Classifies}

// decodeInputs reads a body with inputs.
func (c *common) decodeInputs(ctx context.Context, body []byte, want string, read func(*wire.Reader) error,
	more ...wire.Field) error {
	list := append(c.fields(), wire.Field{Name: "inputs", Required: true, Read: read})
	err := server.Decode(ctx, body, func(r *wire.Reader) error { return r.Object(want, append(list, more...)) })
	if err != nil {
		return err
	}
	return c.finish("inputs")
}

// embed is POST /embed. Vectors have the length 1 unless normalize is false; then they are what is behind the pooling
// and the model's dense layers.
func (a *API) embed(w http.ResponseWriter, r *http.Request, body []byte) error {
	began := time.Now()
	var c common
	var b batch
	if err := c.decodeInputs(r.Context(), body, "struct EmbedRequest", b.read); err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, server.Embeds)
	if err != nil {
		return err
	}
	defer release()
	dims, err := dimensions(c.dimensions, m.Service.Dimensions())
	if err != nil {
		return err
	}
	result, err := m.Service.Run(r.Context(), b.inputs, c.options, embed.Vector)
	if err != nil {
		return err
	}
	a.headers(w, b.inputs, &result, began)
	return writeList(w, r, len(result.Vectors), func(b []byte, i int) []byte {
		v := embeddings.Cut(result.Vectors[i], dims)
		if c.normalize == nil || *c.normalize {
			embed.Normalize(v)
		}
		return appendNumbers(b, v)
	})
}

// writeList replies with an array of n elements.
func writeList(w http.ResponseWriter, r *http.Request, n int, one func(b []byte, i int) []byte) error {
	out := server.NewLong(w)
	out.Text("[")
	for i := range n {
		out.Append(func(b []byte) []byte {
			if i > 0 {
				b = append(b, ',')
			}
			return one(b, i)
		})
	}
	out.Text("]")
	server.Note(r.Context(), out.Close())
	return nil
}

// embedAll is POST /embed_all: the vectors of all tokens, without pooling.
func (a *API) embedAll(w http.ResponseWriter, r *http.Request, body []byte) error {
	began := time.Now()
	var c common
	var b batch
	if err := c.decodeInputs(r.Context(), body, "struct EmbedAllRequest", b.read); err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, server.Embeds)
	if err != nil {
		return err
	}
	defer release()
	result, err := m.Service.Run(r.Context(), b.inputs, c.options, embed.Tokens)
	if err != nil {
		return err
	}
	a.headers(w, b.inputs, &result, began)
	out := server.NewLong(w)
	between := "["
	for i, v := range result.Vectors {
		width := len(v) / result.Tokens[i]
		out.Text(between)
		between = ","
		inner := "["
		for row := range slices.Chunk(v, width) {
			out.Append(func(b []byte) []byte { return appendNumbers(append(b, inner...), row) })
			inner = ","
		}
		out.Text("]")
	}
	out.Text("]")
	server.Note(r.Context(), out.Close())
	return nil
}

// embedSparse is POST /embed_sparse: the numbers of a text's vector that are not 0, by their tokens.
func (a *API) embedSparse(w http.ResponseWriter, r *http.Request, body []byte) error {
	began := time.Now()
	var c common
	var b batch
	if err := c.decodeInputs(r.Context(), body, "struct EmbedSparseRequest", b.read); err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, server.Embeds)
	if err != nil {
		return err
	}
	defer release()
	if !m.Service.Sparse {
		return &notSparse{m.ID}
	}
	result, err := m.Service.Run(r.Context(), b.inputs, c.options, embed.Vector)
	if err != nil {
		return err
	}
	a.headers(w, b.inputs, &result, began)
	return writeList(w, r, len(result.Vectors), func(b []byte, i int) []byte {
		b = append(b, '[')
		n := 0
		for index, x := range result.Vectors[i] {
			if x == 0 {
				continue
			}
			b = wire.AppendInt(append(wire.Comma(b, n), '{'), "index", index)
			b = append(wire.AppendFloat32(append(b, `,"value":`...), x), '}')
			n++
		}
		return append(b, ']')
	})
}

// notSparse says that a model makes no sparse vectors. It wraps server.ErrTask.
type notSparse struct{ id string }

// Error begins with TEI's text.
func (e *notSparse) Error() string {
	return "model is not a SPLADE model: `" + e.id + "` makes dense vectors, see /embed"
}

// Unwrap returns server.ErrTask.
func (e *notSparse) Unwrap() error { return server.ErrTask }

// rank is a text with its score.
type rank struct {
	index int
	score float32
}

// ranked computes how well texts answer a query, best first.
func (a *API) ranked(r *http.Request, m *dispatch.Embedder, query string, list []string, o embeddings.Options,
	raw bool) ([]rank, []embeddings.Input, embeddings.Result, error) {
	in := make([]embeddings.Input, len(list))
	for i := range list {
		in[i] = embeddings.Input{Text: query, Pair: &list[i]}
	}
	result, err := m.Service.Run(r.Context(), in, o, embed.Vector)
	if err != nil {
		return nil, nil, result, err
	}
	out := make([]rank, len(list))
	for i, v := range result.Vectors {
		if !raw {
			embeddings.Sigmoid(v)
		}
		out[i] = rank{i, v[0]}
	}
	slices.SortStableFunc(out, func(x, y rank) int { return cmp.Compare(y.score, x.score) })
	return out, in, result, nil
}

// rerank is POST /rerank.
func (a *API) rerank(w http.ResponseWriter, r *http.Request, body []byte) error {
	began := time.Now()
	var c common
	var query string
	var list []string
	var withText *bool
	fields := append(c.fields(), []wire.Field{
		{Name: "query", Required: true, Read: wire.Into(&query, (*wire.Reader).String)},
		{Name: "texts", Required: true, Read: wire.Into(&list, (*wire.Reader).Strings)},
		{Name: "return_text", Read: wire.Optional(&withText, (*wire.Reader).Bool)},
	}...)
	err := server.Decode(r.Context(), body, func(r *wire.Reader) error {
		return r.Object("struct RerankRequest", fields)
	})
	if err == nil {
		err = c.finish("texts")
	}
	if err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, server.Reranks)
	if err != nil {
		return err
	}
	defer release()
	ranks, in, result, err := a.ranked(r, m, query, list, c.options, c.rawScores)
	if err != nil {
		return err
	}
	a.headers(w, in, &result, began)
	return writeList(w, r, len(ranks), func(b []byte, i int) []byte {
		b = strconv.AppendInt(append(b, `{"index":`...), int64(ranks[i].index), 10)
		if withText != nil && *withText {
			b = wire.AppendString(append(b, `,"text":`...), list[ranks[i].index])
		}
		return append(wire.AppendFloat32(append(b, `,"score":`...), ranks[i].score), '}')
	})
}

// predict is POST /predict.
func (a *API) predict(w http.ResponseWriter, r *http.Request, body []byte) error {
	return a.servePredict(w, r, body, false)
}

// predictInList is POST /: a list of one for a single text, too, as huggingface_hub reads it there.
func (a *API) predictInList(w http.ResponseWriter, r *http.Request, body []byte) error {
	return a.servePredict(w, r, body, true)
}

func (a *API) servePredict(w http.ResponseWriter, r *http.Request, body []byte, inList bool) error {
	began := time.Now()
	var c common
	var b batch
	if err := c.decodeInputs(r.Context(), body, "struct PredictRequest", b.readPairs); err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, scoring...)
	if err != nil {
		return err
	}
	defer release()
	result, err := m.Service.Run(r.Context(), b.inputs, c.options, embed.Vector)
	if err != nil {
		return err
	}
	a.headers(w, b.inputs, &result, began)
	predictions := func(out []byte, i int) []byte { return appendPredictions(out, m, result.Vectors[i], c.rawScores) }
	if b.single && !inList {
		server.WriteJSON(w, predictions(nil, 0))
		return nil
	}
	return writeList(w, r, len(result.Vectors), predictions)
}

// appendPredictions writes the labels with their scores, best first.
func appendPredictions(b []byte, m *dispatch.Embedder, scores []float32, raw bool) []byte {
	switch {
	case raw:
	case len(scores) == 1:
		embeddings.Sigmoid(scores)
	default:
		embeddings.Softmax(scores)
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(scores[y], scores[x]) })
	b = append(b, '[')
	for n, i := range order {
		if n > 0 {
			b = append(b, ',')
		}
		b = wire.AppendFloat32(append(b, `{"score":`...), scores[i])
		b = append(wire.AppendString(append(b, `,"label":`...), m.Service.Labels[i]), '}')
	}
	return append(b, ']')
}

// similarity is POST /similarity: the cosine of a text's vector and those of others.
func (a *API) similarity(w http.ResponseWriter, r *http.Request, body []byte) error {
	began := time.Now()
	var c common
	var source string
	var list []string
	err := c.decodeInputs(r.Context(), body, "struct SimilarityRequest", func(r *wire.Reader) error {
		return r.Object("struct SimilarityInput", []wire.Field{
			{Name: "source_sentence", Required: true, Read: wire.Into(&source, (*wire.Reader).String)},
			{Name: "sentences", Required: true, Read: wire.Into(&list, (*wire.Reader).Strings)},
		})
	}, wire.Field{Name: "parameters", Read: func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return r.Object("struct SimilarityParameters", c.fields())
	}})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return invalid("inputs", "`inputs.sentences` cannot be empty")
	}
	m, release, err := a.use(r, c.model, server.Embeds)
	if err != nil {
		return err
	}
	defer release()
	in := []embeddings.Input{{Text: source}}
	for _, s := range list {
		in = append(in, embeddings.Input{Text: s})
	}
	result, err := m.Service.Run(r.Context(), in, c.options, embed.Vector)
	if err != nil {
		return err
	}
	a.headers(w, in, &result, began)
	scores := make([]float32, len(list))
	for i := range list {
		scores[i] = embeddings.Cosine(result.Vectors[0], result.Vectors[i+1])
	}
	server.WriteJSON(w, appendNumbers(nil, scores))
	return nil
}
