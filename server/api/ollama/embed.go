package ollama

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"tgi/runtime/embed"
	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/embeddings"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// texts is a request for vectors, decoded.
type texts struct {
	named      string
	inputs     []embeddings.Input
	keep       *time.Duration
	truncate   bool
	dimensions *uint64
	ignored    []string
}

// fields are those of both routes.
func (q *texts) fields() []wire.Field {
	o := options{draft: &generate.Draft{}}
	return []wire.Field{
		{Name: "model", Read: fields.Text(&q.named)}, {Name: "keep_alive", Read: readKeepAlive(&q.keep)},
		{Name: "options", Read: func(r *wire.Reader) error {
			start := *r
			if err := o.read(r); err != nil {
				return err
			}
			for _, m := range wire.Members(r.Since(start)) { // none of them changes a vector
				o.ignore("options." + m.Name)
			}
			q.ignored = o.ignored
			return nil
		}},
	}
}

// decode reads a body with these members beside those of both routes.
func (q *texts) decode(ctx context.Context, body []byte, want string, more ...wire.Field) error {
	q.truncate = true
	list := append(q.fields(), more...)
	err := server.Decode(ctx, body, func(r *wire.Reader) error { return r.Object(want, list) })
	if err == nil && q.named == "" {
		return errNoModel
	}
	return err
}

// readInput reads a text, several, or null.
func (q *texts) readInput(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	var list []string
	err := fields.Either(r, wire.Into(&list, (*wire.Reader).Strings), func(r *wire.Reader) error {
		s, err := r.String()
		if list = nil; s != "" {
			list = []string{s}
		}
		return err
	})
	for _, s := range list {
		q.inputs = append(q.inputs, embeddings.Input{Text: s})
	}
	return err
}

// vectors computes a request, and hands its model and vectors to reply. Vectors of unit length are what /api/embed has.
func (a *API) vectors(w http.ResponseWriter, r *http.Request, q *texts, field string,
	reply func(m *dispatch.Embedder, result *embeddings.Result, loaded time.Time) error) error {
	id := means(q.named, a.options.Models.Has)
	m, release, err := dispatch.UseEmbedder(a.options.Texts, r, id, server.Embeds)
	if err != nil {
		return about(q.named, err)
	}
	defer func() {
		release()
		a.keeps(r, id, q.keep)
	}()
	q.named = echoed(q.named, m.ID)
	if q.keep != nil && !a.mayKeep(r) {
		q.ignored = append(q.ignored, "keep_alive")
	}
	ignored(w, q.ignored)
	loaded := a.now()
	if len(q.inputs) == 0 {
		return reply(m, &embeddings.Result{}, loaded)
	}
	result, err := m.Service.Run(r.Context(), q.inputs, embeddings.Options{Truncate: &q.truncate, Field: field},
		embed.Vector)
	if err != nil {
		return err
	}
	return reply(m, &result, loaded)
}

// embed serves POST /api/embed.
func (a *API) embed(w http.ResponseWriter, r *http.Request) error {
	began := a.now()
	body, err := server.ReadAnyBody(r)
	if err != nil {
		return err
	}
	var q texts
	err = q.decode(r.Context(), body, "struct EmbedRequest", wire.Field{Name: "input", Read: q.readInput},
		wire.Field{Name: "truncate", Read: unlessNull(&q.truncate)},
		wire.Field{Name: "dimensions", Read: wire.Optional(&q.dimensions, (*wire.Reader).Usize)})
	if err != nil {
		return err
	}
	return a.vectors(w, r, &q, "input", func(m *dispatch.Embedder, result *embeddings.Result, loaded time.Time) error {
		dims := m.Service.Dimensions()
		if q.dimensions != nil && *q.dimensions > 0 && *q.dimensions < uint64(dims) { // more are all, as in Ollama
			dims = int(*q.dimensions)
		}
		out := server.NewLong(w)
		out.Append(func(b []byte) []byte {
			return append(wire.AppendString(append(b, `{"model":`...), q.named), `,"embeddings":[`...)
		})
		for i, v := range result.Vectors {
			v = embeddings.Cut(v, dims)
			embed.Normalize(v)
			out.Append(func(b []byte) []byte { return appendNumbers(wire.Comma(b, i), v) })
		}
		out.Append(func(b []byte) []byte {
			b = appendDuration(append(b, ']'), "total_duration", a.now().Sub(began))
			b = appendDuration(b, "load_duration", loaded.Sub(began))
			return append(wire.AppendInt(append(b, ','), "prompt_eval_count", result.Total()), '}')
		})
		server.Note(r.Context(), out.Close())
		return nil
	})
}

// embeddings serves POST /api/embeddings, of which older clients know. Its vectors have the length that the model gives
// them.
func (a *API) embeddings(w http.ResponseWriter, r *http.Request) error {
	body, err := server.ReadAnyBody(r)
	if err != nil {
		return err
	}
	var q texts
	err = q.decode(r.Context(), body, "struct EmbeddingRequest", wire.Field{Name: "prompt", Read: q.readInput})
	if err != nil {
		return err
	}
	return a.vectors(w, r, &q, "prompt", func(_ *dispatch.Embedder, result *embeddings.Result, _ time.Time) error {
		b := []byte(`{"embedding":`)
		if len(result.Vectors) == 0 {
			b = append(b, `[]`...)
		} else {
			b = appendNumbers(b, result.Vectors[0])
		}
		server.WriteJSON(w, append(b, '}'))
		return nil
	})
}

func appendNumbers(b []byte, v []float32) []byte {
	b = append(b, '[')
	for i, x := range v {
		b = strconv.AppendFloat(wire.Comma(b, i), float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}
