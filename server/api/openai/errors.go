package openai

import (
	"fmt"
	"net/http"

	"tgi/server"
	"tgi/server/api/openaierror"
	"tgi/server/dialect"
)

// noSuffix is a completion that is refused whatever its settings are.
var noSuffix = &openaierror.Refusal{
	Status: http.StatusUnprocessableEntity,
	Text:   "Suffix is not supported and can be achieved by preprocessing the prompt.",
	Kind:   "suffix not supported", Param: "suffix",
}

func tooManyPrompts(most int) error {
	text := fmt.Sprintf("Number of prompts exceeds the maximum allowed batch size of %d", most)
	return &openaierror.Refusal{Status: http.StatusUnprocessableEntity, Text: text, Kind: "batch size exceeded",
		Param: "prompt"}
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, about *form, d *dialect.Dialect, err error) {
	server.Note(r.Context(), err)
	f := openaierror.Explain(err, about.names)
	f.SetHeader(w.Header())
	if d.ReplyErrorObject {
		server.WriteStatus(w, f.Status, f.AppendObject(nil, false))
		return
	}
	server.WriteStatus(w, f.Status, f.Append(nil))
}

// appendEvent writes err as an event of a stream.
func (c *call) appendEvent(b []byte, err error) []byte {
	f := openaierror.Explain(err, c.form.names)
	if c.dialect.StreamErrorObject {
		return f.AppendObject(b, true)
	}
	return f.Append(b)
}
