package openai

import (
	"net/http"
	"strconv"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/wire"
)

// isDefault says whether name means the model that is served, as clients call it
// that know of no other: huggingface_hub sends "dummy", TGI's examples "tgi".
func (a *API) isDefault(name string) bool {
	switch name {
	case "", "tgi", "dummy", a.options.Model:
		return true
	}
	return false
}

// named returns the model that a reply names when the request asks for name.
func (a *API) named(name *string, f *form, d *dialect.Dialect) (string, error) {
	switch {
	case name == nil || a.isDefault(*name):
		return a.options.Model, nil
	case a.options.StrictModel:
		return "", noModel(*name)
	case f.chat && d.EchoModel:
		return *name, nil
	}
	return a.options.Model, nil
}

// models lists the one model.
func (a *API) models(w http.ResponseWriter, _ *http.Request) error {
	server.WriteJSON(w, append(a.appendModel([]byte(`{"object":"list","data":[`)), `]}`...))
	return nil
}

// model describes the model by its id, or by a name that means the default.
func (a *API) model(w http.ResponseWriter, r *http.Request) error {
	if name := r.PathValue("id"); !a.isDefault(name) {
		refuse(w, r, &chatForm, dialect.Default(), noModel(name))
		return nil
	}
	server.WriteJSON(w, a.appendModel(nil))
	return nil
}

func (a *API) appendModel(b []byte) []byte {
	b = wire.AppendString(append(b, `{"id":`...), a.options.Model)
	b = strconv.AppendInt(append(b, `,"object":"model","created":`...), a.started.Unix(), 10)
	b = wire.AppendString(append(b, `,"owned_by":`...), a.options.Model)
	return append(b, '}')
}
