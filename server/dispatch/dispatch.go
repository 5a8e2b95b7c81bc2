package dispatch

import (
	"net/http"
	"strings"

	"tgi/server"
)

// pathName is the variable of paths that may name a model.
const pathName = "model_name"

// Use returns the model that r names; body is the name in its body, "" for none.
// The handler defers release: the model is held until the last byte of a stream or of
// a socket is written.
func Use(models Models, r *http.Request, body string) (m *Model, release func(), err error) {
	name := queried(r)
	if path := r.PathValue(pathName); name == "" && path != "" && models.Has(path) {
		name = path
	}
	if name == "" {
		name = body
	}
	m, release, err = models.Use(r.Context(), name)
	if err == nil {
		server.NoteModel(r.Context(), name, m.ID)
	}
	return m, release, err
}

// UseEmbedder is Use for models of some tasks.
func UseEmbedder(models Embedders, r *http.Request, body string, tasks ...server.Task) (m *Embedder, release func(),
	err error) {
	if name := queried(r); name != "" {
		body = name
	}
	m, release, err = models.UseEmbedder(r.Context(), body, tasks...)
	if err == nil {
		server.NoteModel(r.Context(), body, m.ID)
	}
	return m, release, err
}

// Task is what the model does that r and its body name.
func Task(models Embedders, r *http.Request, body string) server.Task {
	if name := queried(r); name != "" {
		body = name
	}
	return models.Task(r.Context(), body)
}

// queried returns the query parameter model, "" for none.
func queried(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get("model")
}

// Placeholder reports whether name is what clients send where they must name a model
// and know of none: huggingface_hub sends "dummy", TGI's own examples and clients have
// "tgi", the shared endpoint's examples "<MODEL_NAME>", and @huggingface/inference the
// server's address. It means the default model, unless a model has that name.
func Placeholder(name string) bool {
	switch name {
	case "", "tgi", "dummy", "<MODEL_NAME>":
		return true
	}
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// LongestEcho is the length of the longest name, in bytes, that a reply says again: each piece of a stream may have it.
const LongestEcho = 256

// Shown returns the name of m for the reply to a request that named it: as TGI, a server that lets every name mean its
// model says the request's own name again, unless it is a Placeholder or longer than LongestEcho.
func Shown(named string, m *Model) string {
	if Placeholder(named) || len(named) > LongestEcho {
		return m.ID
	}
	return named
}
