package tgi

import (
	"context"
	"errors"
	"net/http"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/wire"
)

// BodyHandler replies to a request whose body was read, or returns an error before it
// wrote anything.
type BodyHandler func(w http.ResponseWriter, r *http.Request, body []byte) error

// unmatched is a body that fits no form of a union. serde says no more than
// this, without a position.
type unmatched string

// Error returns serde's sentence.
func (u unmatched) Error() string {
	return "data did not match any variant of untagged enum " + string(u)
}

// Unwrap returns wire.ErrShape.
func (u unmatched) Unwrap() error { return wire.ErrShape }

// invocations is SageMaker's route.
func (a *API) invocations(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	if a.meansTexts(r, text) {
		return a.options.Texts.Root(w, r, text)
	}
	if d.InvocationsAny {
		return a.invoke(w, r, d, text)
	}
	if a.options.MessagesAPI && a.options.Chat != nil {
		return a.options.Chat(w, r, text)
	}
	b, err := parseBody(r, text, d, true)
	if err != nil {
		return err
	}
	return a.serveCompat(w, r, b)
}

// invoke takes a body of any of three forms: the first that fits counts. What has the members of one alone, and does
// not fit, gets that form's own error.
func (a *API) invoke(w http.ResponseWriter, r *http.Request, d *dialect.Dialect, text []byte) error {
	has, err := membersOf(r.Context(), text)
	if err != nil {
		return err
	}
	if b, err := parseBody(r, text, d, true); err == nil {
		return a.serveCompat(w, r, b)
	}
	chat, completion := has["messages"] && a.options.Chat != nil, has["prompt"] && a.options.Completion != nil
	if chat && completion {
		_, _, err := a.options.ChatDraft(text, d)
		chat = !errors.Is(err, wire.ErrShape)
	}
	switch {
	case chat:
		return a.options.Chat(w, r, text)
	case completion:
		return a.options.Completion(w, r, text)
	}
	return unmatched("SagemakerRequest")
}

// membersOf returns the names at the top of a body; none where it is no object. Errors
// say where it is no JSON: a body that fits no form may break off behind the field that
// does not fit.
func membersOf(ctx context.Context, text []byte) (map[string]bool, error) {
	names := map[string]bool{}
	err := server.Decode(ctx, text, func(r *wire.Reader) error {
		return r.Map("a map", func(key string) error {
			names[key] = true
			return r.Skip()
		})
	})
	if errors.Is(err, wire.ErrShape) {
		return nil, server.Decode(ctx, text, (*wire.Reader).Skip)
	}
	return names, err
}
