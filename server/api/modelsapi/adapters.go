package modelsapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"tgi/server"
	"tgi/server/wire"
)

// adapterRequest is a body of the routes of adapters, which are vLLM's; model is ours.
type adapterRequest struct {
	name, path, model *string
	replace           *bool
}

// readAdapterRequest reads a body. Members that are not known are ignored, as vLLM does.
func readAdapterRequest(body []byte) (*adapterRequest, error) {
	q := &adapterRequest{}
	known := map[string]func(*wire.Reader) error{
		"lora_name":    wire.Optional(&q.name, (*wire.Reader).String),
		"lora_path":    wire.Optional(&q.path, (*wire.Reader).String),
		"model":        wire.Optional(&q.model, (*wire.Reader).String),
		"load_inplace": wire.Optional(&q.replace, (*wire.Reader).Bool),
	}
	var seen []string
	err := wire.Decode(body, func(r *wire.Reader) error {
		return r.Map("struct LoRAAdapterRequest", func(key string) error {
			read := known[key]
			if read == nil {
				return r.Skip()
			}
			if slices.Contains(seen, key) {
				return r.Refuse("duplicate field `" + key + "`")
			}
			seen = append(seen, key)
			return read(r)
		})
	})
	if err == nil && q.name == nil {
		err = missing("lora_name")
	}
	if err == nil {
		err = CheckID("lora_name", *q.name)
	}
	return q, err
}

// adapter returns what a body of the load route asks for.
func (q *adapterRequest) adapter() (Adapter, error) {
	if q.path == nil {
		return Adapter{}, missing("lora_path")
	}
	a := Adapter{Name: *q.name, Path: *q.path, Replace: q.replace != nil && *q.replace}
	if err := checkText("lora_path", a.Path, 1, maxPath); err != nil {
		return Adapter{}, err
	}
	if q.model != nil {
		a.Model = *q.model
		return a, CheckID("model", a.Model)
	}
	return a, nil
}

// loadAdapter gives a model an adapter.
func (a *API) loadAdapter(w http.ResponseWriter, r *http.Request) error {
	return a.changeAdapter(w, r, "added", func(q *adapterRequest) error {
		one, err := q.adapter()
		if err != nil {
			return err
		}
		return about(one.Model, a.models.LoadAdapter(r.Context(), one))
	})
}

// unloadAdapter takes an adapter away.
func (a *API) unloadAdapter(w http.ResponseWriter, r *http.Request) error {
	return a.changeAdapter(w, r, "removed", func(q *adapterRequest) error {
		err := a.models.UnloadAdapter(r.Context(), *q.name)
		if errors.Is(err, ErrUnknown) {
			return unknownAdapter(*q.name)
		}
		return err
	})
}

// changeAdapter does what a body says, and replies in vLLM's words.
func (a *API) changeAdapter(w http.ResponseWriter, r *http.Request, done string, do func(*adapterRequest) error) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	q, err := readAdapterRequest(text)
	if err != nil {
		return err
	}
	if err := do(q); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = io.WriteString(w, fmt.Sprintf("Success: LoRA adapter '%s' %s successfully.", *q.name, done))
	return err
}

// unknownAdapter is ErrUnknown for an adapter.
type unknownAdapter string

func (e unknownAdapter) Error() string {
	return fmt.Sprintf("adapter `%.64s` is not loaded", string(e))
}
func (e unknownAdapter) Unwrap() error { return ErrUnknown }
