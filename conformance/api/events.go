package api

import (
	"net/http"
	"strings"
)

// done ends the streams of OpenAI's routes.
const done = "[DONE]"

// events splits the body of an event stream into the data of its events, and
// notes what breaks the framing. Comments, which keep connections alive, may
// stand anywhere between events.
func (p *probe) events(r *reply) []string {
	p.status(r, http.StatusOK)
	p.media(r, "text/event-stream")
	body := string(r.body)
	prefix := p.form.prefixOf(r.request.path)
	if !strings.HasSuffix(body, "\n\n") {
		p.fail("the last event is not followed by an empty line")
	}
	var out []string
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			switch {
			case strings.HasPrefix(line, ":") || line == "":
			case strings.HasPrefix(line, prefix):
				text := line[len(prefix):]
				if strings.HasPrefix(text, " ") {
					p.fail("the line %.40q has more than %q before its data", line, prefix)
				}
				data = append(data, text)
			default:
				p.fail("the line %.40q does not begin with %q", line, prefix)
			}
		}
		if len(data) > 1 {
			p.fail("an event has %d lines of data, want one", len(data))
		}
		out = append(out, data...)
	}
	return out
}

// prefixOf returns what begins the lines of events on a path. OpenAI's routes
// are younger than the form without a space, and their clients look for it.
func (f *form) prefixOf(path string) string {
	if openAI(path) {
		return "data: "
	}
	return f.eventPrefix
}

// stream posts a body and returns the JSON of the events. On OpenAI's routes
// the end mark must come last, on TGI's there must be none.
func (p *probe) stream(path, body string) []value {
	return p.read(p.post(path, body))
}

func (p *probe) read(r *reply) []value {
	texts := p.events(r)
	if openAI(r.request.path) {
		if len(texts) == 0 || texts[len(texts)-1] != done {
			p.fail("the last event is not %s", done)
		} else {
			texts = texts[:len(texts)-1]
		}
	}
	var out []value
	for _, text := range texts {
		v, err := parse([]byte(text))
		if err != nil {
			p.fail("the event %.60q is no JSON: %v", text, err)
			continue
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		p.fatal("the stream has no events")
	}
	return out
}
