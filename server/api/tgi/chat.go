package tgi

import (
	"net/http"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// chatTokenize replies with the prompt that a conversation becomes, and its tokens.
func (a *API) chatTokenize(w http.ResponseWriter, r *http.Request, d *dialect.Dialect) error {
	text, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	if a.options.ChatDraft == nil {
		return &generate.TemplateError{Msg: "template not found"}
	}
	var name string
	draft, err := server.Parse(r.Context(), text, func(text []byte) (draft generate.Draft, err error) {
		draft, name, err = a.options.ChatDraft(text, d)
		return draft, err
	})
	if err != nil {
		return err
	}
	m, release, err := dispatch.Use(a.options.Models, r, name)
	if err != nil {
		return err
	}
	defer release()
	if draft, err = m.Service.Render(r.Context(), draft); err != nil {
		return err
	}
	tokens, err := m.Service.Tokenize(r.Context(), draft)
	if err != nil {
		return err
	}
	defer tokens.Close()
	out := server.NewLong(w)
	out.Text(`{"tokenize_response":`)
	if err := writeTokens(r.Context(), out, tokens); err != nil {
		return out.Fail(r, err)
	}
	out.Text(`,"templated_text":`)
	out.String(draft.Inputs)
	out.Text(`}`)
	server.Note(r.Context(), out.Close())
	return nil
}
