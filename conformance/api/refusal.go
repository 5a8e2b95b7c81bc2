package api

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	validation   = "Input validation error: "
	unparsable   = "Failed to parse the request body as JSON: "
	misshapen    = "Failed to deserialize the JSON body into the target type: "
	documentPath = "/api-doc/openapi.json"
)

// openAI says that the path's errors are OpenAI's where the dialect has them.
func openAI(path string) bool {
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, sharedPath+"/generate")
}

// refusedAs expects the status and an error in the shape of the route, and
// returns its text and type.
func (p *probe) refusedAs(r *reply, status int) (text, kind string) {
	p.status(r, status)
	v := p.json(r)
	if !openAI(r.request.path) {
		p.fits("Error", v)
		return v.at("error").text(), v.at("error_type").text()
	}
	p.fits(p.form.refusal(), v)
	if p.form.errorObject {
		return v.at("error", "message").text(), v.at("error_type").text()
	}
	return v.at("error").text(), v.at("error_type").text()
}

// refused expects an error with that text and type.
func (p *probe) refused(r *reply, status int, kind, text string) {
	gotText, gotKind := p.refusedAs(r, status)
	p.equal("the error's text", gotText, text)
	p.equal("error_type", gotKind, kind)
}

// bodyRefused expects the status and a text with that beginning for a body that
// was not even read as a request. TGI's own text has no JSON around it.
func (p *probe) bodyRefused(r *reply, status int, begin string) string {
	if !p.form.this {
		p.status(r, status)
		p.media(r, "text/plain")
		return p.begins(string(r.body), begin)
	}
	text, _ := p.refusedAs(r, status)
	return p.begins(text, begin)
}

// begins notes a text that begins otherwise, and returns the rest.
func (p *probe) begins(text, begin string) string {
	rest, ok := strings.CutPrefix(text, begin)
	if !ok {
		p.fail("the text is %s, want it to begin with %q", quote(text), begin)
	}
	return rest
}

// matches notes a text that the whole pattern does not match.
func (p *probe) matches(what, text, pattern string) {
	if !regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(text) {
		p.fail("%s is %s, want it to match %s", what, quote(text), pattern)
	}
}

// invalid posts a body to a TGI route that must be refused by a rule, whose text
// the pattern matches. Streams carry the refusal in an event.
func (p *probe) invalid(path, body, pattern string) {
	r := p.post(path, body)
	var text, kind string
	if r.header.Get("Content-Type") == "text/event-stream" {
		all := p.read(r)
		p.equal("the number of events", len(all), 1)
		p.fits("Error", all[0])
		text, kind = all[0].at("error").text(), all[0].at("error_type").text()
	} else {
		text, kind = p.refusedAs(r, http.StatusUnprocessableEntity)
	}
	p.matches("the error's text", text, regexp.QuoteMeta(validation)+pattern)
	p.equal("error_type", kind, "validation")
}
