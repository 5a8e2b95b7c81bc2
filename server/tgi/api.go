package tgi

import (
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/generate"
)

// Options of an API.
type Options struct {
	// Service runs the requests.
	Service *generate.Service
	// Info is served under /info.
	Info Info
	// Plugins, when set, returns those that /info lists.
	Plugins func() []server.Plugin
	// ComputeType is the value of the header x-compute-type.
	ComputeType string
}

// API is TGI's native dialect.
type API struct {
	options Options
	info    []byte // without its last brace
}

// New returns the API.
func New(o Options) *API { return &API{options: o, info: o.Info.append(nil)} }

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Path: "/", Handle: a.compat},
		{Method: http.MethodPost, Path: "/generate", Handle: a.generate},
		{Method: http.MethodPost, Path: "/generate_stream", Handle: a.generateStream},
		{Method: http.MethodPost, Path: "/tokenize", Handle: a.tokenize},
		{Method: http.MethodGet, Path: "/info", Scope: server.Open, Handle: a.serveInfo},
	}
}

func (a *API) generate(w http.ResponseWriter, r *http.Request) error {
	b, err := read(r, false)
	if err != nil {
		return err
	}
	return a.whole(w, r, b, false)
}

func (a *API) generateStream(w http.ResponseWriter, r *http.Request) error {
	b, err := read(r, false)
	if err != nil {
		return err
	}
	return a.stream(w, r, b)
}

// compat is POST /: the body says whether to stream, and a whole reply is an
// array of one. The full text is returned unless the body says otherwise,
// because that is what a text-generation pipeline does.
func (a *API) compat(w http.ResponseWriter, r *http.Request) error {
	b, err := read(r, true)
	if err != nil {
		return err
	}
	if b.fullText == nil {
		full := true
		b.fullText = &full
	}
	if b.stream {
		return a.stream(w, r, b)
	}
	return a.whole(w, r, b, true)
}

func (a *API) tokenize(w http.ResponseWriter, r *http.Request) error {
	b, err := read(r, false)
	if err != nil {
		return err
	}
	pieces, err := a.options.Service.Tokenize(r.Context(), b.draft.Inputs)
	if err != nil {
		return err
	}
	server.WriteJSON(w, appendList(nil, pieces, appendPiece))
	return nil
}

func (a *API) serveInfo(w http.ResponseWriter, _ *http.Request) error {
	info := slices.Clip(a.info)
	if a.options.Plugins != nil {
		if plugins := a.options.Plugins(); len(plugins) > 0 {
			info = appendList(append(info, `,"plugins":`...), plugins, appendPlugin)
		}
	}
	server.WriteJSON(w, append(info, '}'))
	return nil
}

func read(r *http.Request, compat bool) (*body, error) {
	text, err := server.ReadBody(r)
	if err != nil {
		return nil, err
	}
	return decodeBody(text, compat)
}

// prompt returns what return_full_text puts before the texts.
func (b *body) prompt() string {
	if b.fullText != nil && *b.fullText {
		return b.draft.Inputs
	}
	return ""
}

// whole replies with a finished text, in an array when boxed.
func (a *API) whole(w http.ResponseWriter, r *http.Request, b *body, boxed bool) error {
	run, err := a.options.Service.Start(r.Context(), b.draft)
	if err != nil {
		return err
	}
	defer run.Close()
	result, err := run.Collect(r.Context())
	if err != nil {
		return err
	}
	reply := answer{
		result: &result, sampled: run.Request.Params.Sample,
		details: b.details || b.draft.PromptLogprobs, prompt: b.prompt(),
	}
	var out []byte
	if boxed {
		out = append(out, '[')
	}
	if out = reply.append(out); boxed {
		out = append(out, ']')
	}
	a.setCompute(w, b)
	setTimings(w.Header(), run, &result)
	server.WriteJSON(w, out)
	return nil
}

// setCompute sets the headers that every generation has.
func (a *API) setCompute(w http.ResponseWriter, b *body) {
	w.Header().Set("X-Compute-Type", a.options.ComputeType)
	w.Header().Set("X-Compute-Characters", strconv.Itoa(utf8.RuneCountInString(b.draft.Inputs)))
}

// setTimings sets the headers of a finished generation: milliseconds, except
// for x-compute-time, which is seconds.
func setTimings(h http.Header, run *generate.Run, result *generate.Result) {
	t := result.Timings
	h.Set("X-Compute-Time", strconv.FormatFloat(t.Total.Seconds(), 'f', -1, 64))
	for name, d := range map[string]time.Duration{
		"X-Total-Time": t.Total, "X-Validation-Time": t.Validation, "X-Queue-Time": t.Queue,
		"X-Inference-Time": t.Inference, "X-Time-Per-Token": t.PerToken,
	} {
		h.Set(name, strconv.FormatInt(d.Milliseconds(), 10))
	}
	h.Set("X-Prompt-Tokens", strconv.Itoa(len(run.Request.Prompt)))
	h.Set("X-Generated-Tokens", strconv.Itoa(result.Best.Finish.Generated))
}
