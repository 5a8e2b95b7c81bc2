package tgi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// Options of an API.
type Options struct {
	// Models run the requests.
	Models dispatch.Models
	// Dialect is spoken to requests that name none; nil is dialect.Default.
	Dialect *dialect.Dialect
	// Version is the server's.
	Version string
	// Limits are those of the settings, for the OpenAPI document: each model has its own.
	Limits config.Limits
	// ComputeType is the value of the header x-compute-type.
	ComputeType string

	// ChatDraft reads the body of a chat request: the draft, whose conversation is not
	// yet rendered, is what the chat route would run, and model what the body names.
	// Bodies of another shape fail with an error that wraps wire.ErrShape. It must be
	// safe for concurrent use; nil is a server without chat.
	ChatDraft func(body []byte, d *dialect.Dialect) (draft generate.Draft, model string, err error)
	// Chat and Completion serve the bodies of POST /invocations that are OpenAI's;
	// nil refuses them.
	Chat, Completion BodyHandler
	// MessagesAPI gives POST /invocations to Chat in dialects where a switch of
	// the launcher chose its form.
	MessagesAPI bool

	// PredictRoute and HealthRoute are further paths of POST /vertex and of a
	// probe, Vertex AI's AIP_PREDICT_ROUTE and AIP_HEALTH_ROUTE; empty for none.
	// CheckRoute checks them against what a path may be.
	PredictRoute, HealthRoute string
	// Texts serves requests of these routes that are for a model which turns texts into vectors or scores; nil is none.
	Texts Texts
	// Ready returns nil while requests are accepted.
	Ready func() error
	// Beside are the other APIs of the server, for the OpenAPI document.
	Beside []server.API
	// Plugins returns those of all models that run, for the document too: one of a name for each model that has it. nil
	// is none.
	Plugins func() []server.Plugin
}

// Texts serves models that turn texts into vectors or scores, as text-embeddings-inference does on the same paths.
type Texts interface {
	// Meant reports whether a request, with a body if it has one, is for such a model.
	Meant(r *http.Request, body []byte) bool
	// Info, Tokenize and Root are GET /info, POST /tokenize, and POST / and /invocations.
	Info(w http.ResponseWriter, r *http.Request) error
	Tokenize(w http.ResponseWriter, r *http.Request, body []byte) error
	Root(w http.ResponseWriter, r *http.Request, body []byte) error
}

// API is TGI's native API.
type API struct {
	options Options
	docs    documents
}

// New returns the API.
func New(o Options) *API { return &API{options: o} }

// sharedPath is where hosts that serve many models have the two routes that generate
// (DataCrunch's, later Verda's).
const sharedPath = "/v1/completions"

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	routes := []server.Route{
		{Method: http.MethodPost, Path: "/", Operation: server.TextCompletion, Handle: a.in(a.compat)},
		{Method: http.MethodPost, Path: "/generate", Operation: server.TextCompletion, Handle: a.in(a.generate)},
		{Method: http.MethodPost, Path: "/generate_stream", Operation: server.TextCompletion,
			Handle: a.in(a.generateStream)},
		{Method: http.MethodPost, Path: sharedPath + "/generate", Operation: server.TextCompletion,
			Handle: a.in(a.generate)},
		{Method: http.MethodPost, Path: sharedPath + "/generate_stream", Operation: server.TextCompletion,
			Handle: a.in(a.generateStream)},
		{Method: http.MethodPost, Path: "/tokenize", Light: true, Handle: a.in(a.tokenize)},
		{Method: http.MethodPost, Path: "/invocations", Operation: server.TextCompletion, Handle: a.in(a.invocations)},
		{Method: http.MethodPost, Path: "/vertex", Operation: server.TextCompletion, Handle: a.in(a.vertex)},
		{Method: http.MethodPost, Path: "/chat_tokenize", Light: true, Handle: a.in(a.chatTokenize)},
		{Method: http.MethodGet, Path: "/info", Scope: server.Listing, Handle: a.in(a.serveInfo)},
		{Method: http.MethodGet, Path: docsPath, Scope: server.Open, Handle: servePage},
		{Method: http.MethodGet, Path: documentPath, Scope: server.Listing, Handle: a.serveDocument},
	}
	routes = append(routes, a.kserveRoutes()...)
	return append(routes, a.vertexRoutes(routes)...)
}

// in gives h the dialect of the request.
func (a *API) in(h func(http.ResponseWriter, *http.Request, *dialect.Dialect) error) func(http.ResponseWriter,
	*http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		d, err := dialect.From(r, a.options.Dialect)
		if err != nil {
			return err
		}
		return h(w, r, d)
	}
}

func (a *API) generate(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	b, err := read(r, d, false)
	if err != nil {
		return err
	}
	return a.answer(r, b, func(m *dispatch.Model) error { return a.whole(w, r, m, b, false) })
}

func (a *API) generateStream(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	b, err := read(r, d, false)
	if err != nil {
		return err
	}
	return a.answer(r, b, func(m *dispatch.Model) error { return a.stream(w, r, m, b) })
}

// answer lets the model that r and its body name reply.
func (a *API) answer(r *http.Request, b *body, reply func(*dispatch.Model) error) error {
	m, release, err := dispatch.Use(a.options.Models, r, b.model)
	if err != nil {
		return err
	}
	defer release()
	return reply(m)
}

// compat is POST /.
func (a *API) compat(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	if a.meansTexts(r, text) {
		return a.options.Texts.Root(w, r, text)
	}
	b, err := parseBody(r, text, d, true)
	if err != nil {
		return err
	}
	return a.serveCompat(w, r, b)
}

// serveCompat lets the body say whether to stream, and puts a whole reply into
// an array of one. The full text is returned unless the body says otherwise,
// because that is what a text-generation pipeline does.
func (a *API) serveCompat(w http.ResponseWriter, r *http.Request, b *body) error {
	if b.fullText == nil {
		full := true
		b.fullText = &full
	}
	return a.answer(r, b, func(m *dispatch.Model) error {
		if b.stream {
			return a.stream(w, r, m, b)
		}
		return a.whole(w, r, m, b, true)
	})
}

func (a *API) tokenize(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	if a.meansTexts(r, text) {
		return a.options.Texts.Tokenize(w, r, text)
	}
	b, err := parseBody(r, text, d, false)
	if err != nil {
		return err
	}
	m, release, err := dispatch.Use(a.options.Models, r, b.model)
	if err != nil {
		return err
	}
	defer release()
	tokens, err := m.Service.Tokenize(r.Context(), b.draft)
	if err != nil {
		return err
	}
	defer tokens.Close()
	out := server.NewLong(w)
	if err := writeTokens(r.Context(), out, tokens); err != nil {
		return out.Fail(r, err)
	}
	server.Note(r.Context(), out.Close())
	return nil
}

// writeTokens writes an array of SimpleToken, each as it is made.
func writeTokens(ctx context.Context, out *server.Long, tokens *generate.Tokens) error {
	between := "["
	for out.Err() == nil {
		batch, err := tokens.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i := range batch {
			out.Append(func(b []byte) []byte { return appendPiece(append(b, between...), &batch[i]) })
			between = ","
		}
	}
	if between == "[" {
		out.Text(between)
	}
	out.Text("]")
	return nil
}

// meansTexts reports whether a request is for a model that turns texts into vectors or scores.
func (a *API) meansTexts(r *http.Request, body []byte) bool {
	return a.options.Texts != nil && a.options.Texts.Meant(r, body)
}

func (a *API) serveInfo(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	if a.meansTexts(r, nil) {
		return a.options.Texts.Info(w, r)
	}
	m, release, err := dispatch.Use(a.options.Models, r, "")
	if err != nil {
		return err
	}
	defer release()
	info := appendInfo(nil, m, a.options.Version, d)
	if m.Adapters != nil {
		names := slices.DeleteFunc(m.Adapters(), func(name string) bool { return !server.MayUse(r.Context(), name) })
		if len(names) > 0 {
			info = appendList(append(info, `,"adapters":`...), names, appendName)
		}
	}
	if m.Plugins != nil {
		if plugins := server.PluginsFor(r.Context(), m.Plugins()); len(plugins) > 0 {
			info = appendList(append(info, `,"plugins":`...), plugins, appendPlugin)
		}
	}
	server.WriteJSON(w, append(info, '}'))
	return nil
}

func read(r *http.Request, d *dialect.Dialect, compat bool) (*body, error) {
	text, err := server.ReadBody(r)
	if err != nil {
		return nil, err
	}
	return parseBody(r, text, d, compat)
}

// whole replies with a finished text, in an array when boxed.
func (a *API) whole(w http.ResponseWriter, r *http.Request, m *dispatch.Model, b *body, boxed bool) error {
	if b.dialect.PrefillAlways && b.details {
		b.draft.PromptLogprobs = true
	}
	b.draft.Receipt = b.details || b.draft.PromptLogprobs || b.draft.Explain != nil
	run, err := m.Service.Start(r.Context(), b.draft)
	if err != nil {
		return err
	}
	defer run.Close()
	result, err := run.Collect(r.Context())
	if err != nil {
		return err
	}
	reply := answer{
		result: &result, sampled: run.Request.Params.Sample, predicted: b.draft.Prediction != nil,
		details: b.draft.Receipt, prompt: b.prompt(),
	}
	var out []byte
	if boxed {
		out = append(out, '[')
	}
	if out = reply.append(out); boxed {
		out = append(out, ']')
	}
	a.setCompute(w, b)
	setTimings(w.Header(), b.dialect, run, &result)
	generate.SetUnknown(w.Header(), run.Unknown())
	generate.SetDropped(w.Header(), result.Dropped)
	generate.SetSkipped(w.Header(), result.Skipped)
	server.WriteJSON(w, out)
	return nil
}

// setCompute sets the headers that every generation has.
func (a *API) setCompute(w http.ResponseWriter, b *body) {
	w.Header().Set("X-Compute-Type", a.options.ComputeType)
	w.Header().Set("X-Compute-Characters", strconv.Itoa(utf8.RuneCountInString(b.draft.Inputs)))
}

// setTimings sets the headers of a finished generation: milliseconds, except
// for x-compute-time in newer dialects, which is seconds.
func setTimings(h http.Header, d *dialect.Dialect, run *generate.Run, result *generate.Result) {
	t := result.Timings
	for name, d := range map[string]time.Duration{
		"X-Compute-Time": t.Total, "X-Total-Time": t.Total, "X-Validation-Time": t.Validation, "X-Queue-Time": t.Queue,
		"X-Inference-Time": t.Inference, "X-Time-Per-Token": t.PerToken,
	} {
		h.Set(name, strconv.FormatInt(d.Milliseconds(), 10))
	}
	if d.ComputeSeconds {
		h.Set("X-Compute-Time", strconv.FormatFloat(t.Total.Seconds(), 'f', -1, 64))
	}
	if d.TokenHeaders {
		h.Set("X-Prompt-Tokens", strconv.Itoa(len(run.Request.Prompt)))
		h.Set("X-Generated-Tokens", strconv.Itoa(result.Best.Finish.Generated))
	}
}
