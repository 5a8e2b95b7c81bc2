package openai

import "tgi/server/dialect"

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
