package texts

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/wire"
)

// anyTask are all tasks of the models of this package.
var anyTask = []server.Task{server.Embeds, server.Reranks, server.Classifies}

// Meant reports whether r, with a body if it has one, is for a model of this package: of routes that TGI has, too.
func (a *API) Meant(r *http.Request, body []byte) bool {
	return dispatch.Task(a.options.Models, r, modelOf(r.Context(), body)) != server.Generates
}

// modelOf returns the model that a body names.
func modelOf(ctx context.Context, body []byte) string {
	name, _ := server.Parse(ctx, body, func(body []byte) (string, error) {
		var b struct{ Model string }
		if bytes.Contains(body, []byte(`"model"`)) {
			_ = json.Unmarshal(body, &b)
		}
		return b.Model, nil
	})
	return name // what is wrong with the body, the route says
}

// Serve calls serve and replies to its errors as TEI does.
func Serve(w http.ResponseWriter, r *http.Request, body []byte, serve handler) error {
	if err := serve(w, r, body); err != nil {
		refuseTEI(w, r, err)
	}
	return nil
}

// Root is POST / and /invocations: what the model is for.
func (a *API) Root(w http.ResponseWriter, r *http.Request, body []byte) error {
	switch dispatch.Task(a.options.Models, r, modelOf(r.Context(), body)) {
	case server.Reranks:
		if bytes.Contains(body, []byte(`"inputs"`)) {
			return Serve(w, r, body, a.predictInList)
		}
		return Serve(w, r, body, a.rerank)
	case server.Classifies:
		return Serve(w, r, body, a.predictInList)
	}
	if bytes.Contains(body, []byte(`"source_sentence"`)) {
		return Serve(w, r, body, a.similarity)
	}
	return Serve(w, r, body, a.embed)
}

// Info is GET /info.
func (a *API) Info(w http.ResponseWriter, r *http.Request) error {
	return Serve(w, r, nil, func(w http.ResponseWriter, r *http.Request, _ []byte) error {
		m, release, err := a.use(r, nil, anyTask...)
		if err != nil {
			return err
		}
		defer release()
		server.WriteJSON(w, a.appendInfo(nil, m))
		return nil
	})
}

func (a *API) appendInfo(b []byte, m *dispatch.Embedder) []byte {
	s := m.Service
	l := s.Limits()
	b = wire.AppendString(append(b, `{"model_id":`...), m.ID)
	if b = append(b, `,"model_sha":`...); m.Revision == "" {
		b = append(b, "null"...)
	} else {
		b = wire.AppendString(b, m.Revision)
	}
	b = wire.AppendString(append(b, `,"model_dtype":`...), m.DType)
	b = append(b, `,"model_type":`...)
	if s.Labels == nil {
		b = append(wire.AppendString(append(b, `{"embedding":{"pooling":`...), s.Pooling), `}}`...)
	} else {
		b = appendLabels(b, s.Labels, s.Reranker())
	}
	for _, one := range []struct {
		name  string
		value int
	}{{"max_concurrent_requests", l.Requests}, {"max_input_length", s.MaxTokens()}, {"max_batch_tokens", l.BatchTokens},
		{"max_client_batch_size", l.Texts}, {"tokenization_workers", l.Workers}} {
		b = strconv.AppendInt(append(append(append(b, `,"`...), one.name...), `":`...), int64(one.value), 10)
	}
	b = strconv.AppendBool(append(b, `,"max_batch_requests":null,"auto_truncate":`...), l.Truncate)
	b = wire.AppendString(append(b, `,"version":`...), a.options.Version)
	return append(b, `,"sha":null,"docker_label":null}`...)
}

// appendLabels writes what TEI says of a model with scores.
func appendLabels(b []byte, labels []string, reranker bool) []byte {
	kind := "classifier"
	if reranker {
		kind = "reranker"
	}
	b = append(append(append(b, `{"`...), kind...), `":{"id2label":{`...)
	for i, label := range labels {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(b, '"'), int64(i), 10), `":`...)
		b = wire.AppendString(b, label)
	}
	b = append(b, `},"label2id":{`...)
	for i, label := range labels {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(wire.AppendString(b, label), ':'), int64(i), 10)
	}
	return append(b, `}}}`...)
}

// Tokenize is POST /tokenize.
func (a *API) Tokenize(w http.ResponseWriter, r *http.Request, body []byte) error {
	return Serve(w, r, body, a.tokenize)
}

func (a *API) tokenize(w http.ResponseWriter, r *http.Request, body []byte) error {
	var c common
	var list []string
	special := true
	err := c.decodeInputs(r.Context(), body, "struct TokenizeRequest", func(r *wire.Reader) error {
		return fields.Either(r, func(r *wire.Reader) error {
			s, err := r.String()
			list = []string{s}
			return err
		}, wire.Into(&list, (*wire.Reader).Strings))
	}, wire.Field{Name: "add_special_tokens", Read: wire.Into(&special, (*wire.Reader).Bool)})
	if err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, anyTask...)
	if err != nil {
		return err
	}
	defer release()
	if most := m.Service.Limits().Texts; len(list) == 0 || len(list) > most {
		return invalid("inputs", "`inputs` must have 1 to %d texts. Given: %d", most, len(list))
	}
	leave, err := m.Service.Enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	out := server.NewLong(w)
	between := "["
	for _, text := range list {
		out.Text(between)
		between = ","
		work := func() { writePieces(out, m, text, special) }
		if err := m.Service.Work(r.Context(), work); err != nil {
			return out.Fail(r, err)
		}
	}
	out.Text("]")
	server.Note(r.Context(), out.Close())
	return nil
}

// writePieces writes the tokens of a text; those that the model expects around it have no place.
func writePieces(out *server.Long, m *dispatch.Embedder, text string, special bool) {
	inner := "["
	for p := range m.Service.Pieces(text, special) {
		isSpecial := m.Service.Special(p.ID)
		shown := p.Text
		if isSpecial && shown == "" {
			shown = m.Service.Text([]llm.Token{p.ID}, false)
		}
		out.Append(func(b []byte) []byte {
			b = strconv.AppendInt(append(append(b, inner...), `{"id":`...), int64(p.ID), 10)
			b = wire.AppendString(append(b, `,"text":`...), shown)
			b = strconv.AppendBool(append(b, `,"special":`...), isSpecial)
			if isSpecial && p.Start == p.End {
				return append(b, `,"start":null,"stop":null}`...)
			}
			b = strconv.AppendInt(append(b, `,"start":`...), int64(p.Start), 10)
			return append(strconv.AppendInt(append(b, `,"stop":`...), int64(p.End), 10), '}')
		})
		inner = ","
		if out.Err() != nil {
			return
		}
	}
	if inner == "[" {
		out.Text(inner)
	}
	out.Text("]")
}

// decode is POST /decode.
func (a *API) decode(w http.ResponseWriter, r *http.Request, body []byte) error {
	var c common
	var b batch
	skip := true
	list := append(c.fields(),
		wire.Field{Name: "skip_special_tokens", Read: wire.Into(&skip, (*wire.Reader).Bool)},
		wire.Field{Name: "ids", Required: true, Read: func(r *wire.Reader) error {
			return fields.Either(r, func(r *wire.Reader) error {
				in, err := ids(r)
				b.inputs = append(b.inputs[:0], in)
				return err
			}, func(r *wire.Reader) error {
				b.inputs = b.inputs[:0]
				return r.Array(func(int) error {
					in, err := ids(r)
					b.inputs = append(b.inputs, in)
					return err
				})
			})
		}})
	err := server.Decode(r.Context(), body, func(r *wire.Reader) error {
		return r.Object("struct DecodeRequest", list)
	})
	if err != nil {
		return err
	}
	m, release, err := a.use(r, c.model, anyTask...)
	if err != nil {
		return err
	}
	defer release()
	return writeList(w, r, len(b.inputs), func(out []byte, i int) []byte {
		return wire.AppendString(out, m.Service.Text(b.inputs[i].Tokens, skip))
	})
}
