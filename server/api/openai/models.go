package openai

import (
	"tgi/server/dialect"
	"tgi/server/dispatch"
)

// named returns the model that a reply names when the request asks for name: as TGI, a
// server that lets every name mean its model says the name again, unless it is one of
// those that clients send for want of a better.
func (a *API) named(name *string, f *form, d *dialect.Dialect) string {
	if name != nil && f.chat && d.EchoModel && !dispatch.Placeholder(*name) {
		return *name
	}
	return a.options.Model
}
