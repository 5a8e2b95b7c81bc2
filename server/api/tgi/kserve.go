package tgi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Routes of KServe's protocol, version 2. A name that is no model's means the default
// one (package dispatch), and versions say nothing: a model has one.
const (
	kserveRoot    = "/v2"
	kserveLive    = "/v2/health/live"
	kserveReady   = "/v2/health/ready"
	kserveVersion = "/v2/models/{model_name:.+}/versions/{model_version}"
)

func (a *API) kserveRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Path: kserveRoot, Scope: server.Models, Handle: a.kserveServer},
		{Method: http.MethodGet, Path: kserveLive, Scope: server.Open, Handle: alive},
		{Method: http.MethodGet, Path: kserveReady, Scope: server.Open, Handle: a.kserveReady},
		{Method: http.MethodGet, Path: kserveVersion, Scope: server.Models, Handle: a.kserveModel},
		{Method: http.MethodGet, Path: kserveVersion + "/ready", Scope: server.Open, Handle: a.kserveReady},
		{Method: http.MethodPost, Path: kserveVersion + "/infer", Operation: server.TextCompletion,
			Handle: a.in(a.infer)},
	}
}

// alive says that the process answers.
func alive(w http.ResponseWriter, _ *http.Request) error {
	server.WriteJSON(w, []byte(`{"live":true}`))
	return nil
}

// kserveReady says, in the same word, that requests are taken. TGI says so
// always.
func (a *API) kserveReady(w http.ResponseWriter, r *http.Request) error {
	if a.options.Ready() != nil {
		return server.ErrUnhealthy
	}
	return alive(w, r)
}

func (a *API) kserveServer(w http.ResponseWriter, _ *http.Request) error {
	writeMetadata(w, "text-generation-inference", a.options.Version, `["health","models","metrics"]`)
	return nil
}

func (a *API) kserveModel(w http.ResponseWriter, r *http.Request) error {
	_, release, err := dispatch.Use(a.options.Models, r, "")
	if err != nil {
		return err
	}
	defer release()
	writeMetadata(w, r.PathValue("model_name"), r.PathValue("model_version"), `["infer","ready"]`)
	return nil
}

func writeMetadata(w http.ResponseWriter, name, version, extensions string) {
	b := wire.AppendString([]byte(`{"name":`), name)
	b = wire.AppendString(append(b, `,"version":`...), version)
	server.WriteJSON(w, append(append(append(b, `,"extensions":`...), extensions...), '}'))
}

// inference is InferenceRequest. The parameters hold for every input.
type inference struct {
	id      string
	shared  *body
	inputs  [][]byte
	outputs []string
}

// infer generates a text per input; the texts travel as bytes.
func (a *API) infer(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	q := inference{shared: newBody(d)}
	var unknown []string
	err = server.Decode(r.Context(), text, func(r *wire.Reader) (err error) {
		unknown, err = r.Noting(q.read)
		return err
	})
	if err != nil {
		return err
	}
	unknown = fields.Unknown(unknown)
	if err := q.shared.join(); err != nil {
		return err
	}
	m, release, err := dispatch.Use(a.options.Models, r, q.shared.model)
	if err != nil {
		return err
	}
	defer release()
	if err := checkCount(m, "inputs", len(q.inputs)); err != nil {
		return err
	}
	if err := m.Service.CheckKnown(unknown); err != nil {
		return err
	}
	bodies := make([]*body, len(q.inputs))
	for i, in := range q.inputs {
		if fault := invalidUTF8(in); fault != "" {
			refusal{http.StatusUnprocessableEntity, fault, "utf8"}.write(w, r, fmt.Errorf("inputs[%d].data: %s", i,
				fault))
			return nil
		}
		one := *q.shared
		one.draft.Inputs = string(in)
		bodies[i] = &one
	}
	if len(q.inputs) != len(q.outputs) {
		refusal{http.StatusUnprocessableEntity, "Inputs and outputs length mismatch", "length mismatch"}.write(w, r,
			fmt.Errorf("%d inputs and %d outputs", len(q.inputs), len(q.outputs)))
		return nil
	}
	texts, err := texts(r.Context(), m, bodies)
	if err != nil {
		return failed(w, r, err)
	}
	generate.SetUnknown(w.Header(), unknown)
	out := server.NewLong(w)
	q.write(out, texts)
	server.Note(r.Context(), out.Close())
	return nil
}

func (q *inference) read(r *wire.Reader) error {
	return r.Object("struct InferenceRequest", []wire.Field{
		{Name: "id", Required: true, Read: wire.Into(&q.id, (*wire.Reader).String)},
		{Name: "parameters", Read: q.shared.parameters},
		{Name: "plugins", Read: fields.Plugins(&q.shared.topPlugins)},
		q.shared.modelField(),
		{Name: "inputs", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error { return q.input(r) })
		}},
		{Name: "outputs", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error {
				name := ""
				err := r.Object("struct Output", []wire.Field{{Name: "name", Required: true,
					Read: wire.Into(&name, (*wire.Reader).String)}})
				q.outputs = append(q.outputs, name)
				return err
			})
		}},
	})
}

// input reads one input. Its name, shape and type must be there, and say nothing.
func (q *inference) input(r *wire.Reader) error {
	var data []byte
	text := func(r *wire.Reader) error {
		_, err := r.String()
		return err
	}
	err := r.Object("struct Input", []wire.Field{
		{Name: "name", Required: true, Read: text},
		{Name: "shape", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error {
				_, err := r.Usize()
				return err
			})
		}},
		{Name: "datatype", Required: true, Read: text},
		{Name: "data", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error {
				b, err := octet(r)
				data = append(data, b)
				return err
			})
		}},
	})
	q.inputs = append(q.inputs, data)
	return err
}

// octet reads an integer of 0 to 255.
func octet(r *wire.Reader) (byte, error) {
	v, err := r.Uint32()
	if err == nil && v > 255 {
		err = r.Refuse("invalid value: integer `" + strconv.FormatUint(uint64(v), 10) + "`, expected u32")
	}
	var e *wire.Error
	if errors.As(err, &e) {
		e.Msg = strings.TrimSuffix(e.Msg, "u32") + "u8"
	}
	return byte(v), err
}

// write writes InferenceOutput. It is four times as large as the texts.
func (q *inference) write(out *server.Long, texts []string) {
	out.Text(`{"id":`)
	out.String(q.id)
	out.Text(`,"outputs":[`)
	for i, text := range texts {
		if i > 0 {
			out.Text(`,`)
		}
		out.Text(`{"name":`)
		out.String(q.outputs[i])
		out.Append(func(b []byte) []byte {
			b = strconv.AppendInt(append(b, `,"shape":[1,`...), int64(len(text)), 10)
			b = append(b, `],"datatype":"BYTES","data":`...)
			b = appendList(b, []byte(text), func(b []byte, c *byte) []byte {
				return strconv.AppendUint(b, uint64(*c), 10)
			})
			return append(b, '}')
		})
	}
	out.Text(`]}`)
}

// invalidUTF8 returns how Rust describes the first fault of b, or nothing.
func invalidUTF8(b []byte) string {
	at := 0
	for at < len(b) {
		c, n := utf8.DecodeRune(b[at:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	switch {
	case at == len(b):
		return ""
	case !utf8.FullRune(b[at:]):
		return fmt.Sprintf("incomplete utf-8 byte sequence from index %d", at)
	}
	// The fault is the longest beginning of a character that has no right end.
	n := 1
	for at+n < len(b) && !utf8.FullRune(b[at:at+n+1]) {
		n++
	}
	return fmt.Sprintf("invalid utf-8 sequence of %d bytes from index %d", n, at)
}
