package tgi

import (
	"net/http"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/wire"
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
	pieces, err := a.options.Service.Tokenize(r.Context(), draft)
	if err != nil {
		return err
	}
	b := appendList([]byte(`{"tokenize_response":`), pieces, appendPiece)
	b = wire.AppendString(append(b, `,"templated_text":`...), draft.Inputs)
	server.WriteJSON(w, append(b, '}'))
	return nil
}
