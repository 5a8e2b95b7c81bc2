package tgi

import (
	"net/http"

	"tgi/server"
	"tgi/server/dialect"
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
	draft, err := a.options.ChatDraft(r.Context(), text, d)
	if err != nil {
		return err
	}
	tokens, err := a.options.Service.Tokenize(draft)
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
