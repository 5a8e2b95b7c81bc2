package api

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

var streamCases = []Case{
	{ID: "stream", Rule: "an event per token; generated_text and details are null before the last, which has the text",
		Source: ofStream, run: func(p *probe) {
			whole := p.ask("/generate", generate(`"max_new_tokens":6`), "GenerateResponse")
			p.checkEvents(p.stream("/generate_stream", generate(`"max_new_tokens":6`)),
				whole.at("generated_text").text(), "")
		}},
	{ID: "stream-details", Rule: "details of the last event count the events", Source: ofStream, run: func(p *probe) {
		all := p.stream("/generate_stream", generate(`"max_new_tokens":6,"details":true,"seed":7,"do_sample":true`))
		d := all[len(all)-1].at("details")
		p.equal("generated_tokens", d.at("generated_tokens"), len(all))
		p.equal("seed", d.at("seed"), 7)
		for i, e := range all {
			p.fits(p.form.event(), e)
			if e.at("details").null() != (i < len(all)-1) {
				p.fail("details of event %d is %s", i, e.at("details"))
			}
		}
		if p.form.inputLength {
			p.equal("input_length", d.at("input_length"), p.tokens(story))
		}
	}},
	{ID: "stream-headers", Rule: "a stream has the headers of events, and of costs only what is known before",
		Source: ofHeaders, run: func(p *probe) {
			r := p.post("/generate_stream", generate(`"max_new_tokens":2`))
			p.read(r)
			p.header(r, "Cache-Control", "no-cache")
			p.header(r, "X-Accel-Buffering", "no")
			p.header(r, "X-Compute-Characters", strconv.Itoa(len(story)))
			p.matches("x-compute-type", r.header.Get("X-Compute-Type"), `.+`)
			for _, name := range generationHeaders {
				if v := r.header.Get(name); v != "" && name != "x-compute-type" && name != "x-compute-characters" {
					p.fail("%s is %q", name, v)
				}
			}
		}},
	{ID: "stream-invalid", Rule: "a stream that is refused is a 200 with one event that tells the error",
		Source: ofStream, run: func(p *probe) {
			r := p.post("/generate_stream", generate(`"temperature":0.0`))
			all := p.read(r)
			p.equal("the number of events", len(all), 1)
			p.fits("Error", all[0])
			p.equal("error", all[0].at("error"), validation+"`temperature` must be strictly positive")
			p.equal("error_type", all[0].at("error_type"), "validation")
			p.header(r, "X-Accel-Buffering", "no")
		}},
	{ID: "stream-full-text", Rule: "return_full_text puts the prompt before the last event's text alone",
		Source: ofStream, run: func(p *probe) {
			all := p.stream("/generate_stream", generate(`"max_new_tokens":3,"return_full_text":true`))
			p.checkEvents(all, "", story)
		}},
	{ID: "stream-top", Rule: "top_n_tokens stands beside each token of a stream", Source: ofStream,
		run: func(p *probe) {
			for i, e := range p.stream("/generate_stream", generate(`"max_new_tokens":3,"top_n_tokens":2`)) {
				p.fits(p.form.event(), e)
				p.descending(fmt.Sprintf("top_tokens of event %d", i), e.at("top_tokens").list(), 2)
			}
		}},
	{ID: "stream-no-done", Rule: "streams of TGI's routes end with the last event, without [DONE]", Source: ofClients,
		run: func(p *probe) {
			for _, q := range [][2]string{{"/generate_stream", generate(`"max_new_tokens":2`)},
				{"/", `{"inputs":"a","stream":true,"parameters":{"max_new_tokens":2}}`}} {
				for _, text := range p.events(p.post(q[0], q[1])) {
					if text == done {
						p.fail("POST %s ends with %s", q[0], done)
					}
				}
			}
		}},
	{ID: "stream-compat", Rule: "POST / with stream is /generate_stream", Source: ofRoutes, run: func(p *probe) {
		all := p.stream("/", `{"inputs":"`+story+
			`","stream":true,"parameters":{"max_new_tokens":3,"return_full_text":false}}`)
		whole := p.ask("/generate", generate(`"max_new_tokens":3`), "GenerateResponse")
		p.checkEvents(all, whole.at("generated_text").text(), "")
	}},
	{ID: "stream-no-parameters",
		Rule: "a body without parameters draws since 1.4, one with empty parameters never does", Source: ofRequest,
		run: func(p *probe) {
			const n = 12
			likeliest := texts(p.stream("/generate_stream", generate(fmt.Sprintf(`"max_new_tokens":%d`, n))), "token")
			if empty := p.beginning(n, `{"inputs":"`+story+`","parameters":{}}`); empty != likeliest {
				p.fail("with empty parameters the text begins with %s, the likeliest is %s", quote(empty),
					quote(likeliest))
			}
			drawn := false
			for range 8 { // a draw may be the likeliest text
				drawn = drawn || p.beginning(n, `{"inputs":"`+story+`"}`) != likeliest
			}
			if drawn != p.form.draws {
				p.fail("without parameters 8 texts began, drawn: %v, want %v", drawn, p.form.draws)
			}
		}},
	{ID: "stream-default-length", Rule: "without max_new_tokens a text goes on behind 100 tokens", Source: ofRequest,
		Dialects: []string{TGI3}, This: true, run: func(p *probe) {
			r := p.post("/generate_stream", generate(`"ignore_eos":true,"truncate":2`))
			if n, room := len(p.read(r)), p.limit("max_total_tokens", 0)-2; n != room {
				p.fail("%d tokens of %d that the context has room for", n, room)
			}
		}},
}

// beginning returns the text of the first n tokens of a stream, and leaves it.
func (p *probe) beginning(n int, body string) string {
	res, leave := p.enter(body)
	defer leave()
	if res.StatusCode != http.StatusOK {
		p.fatal("the stream has status %d", res.StatusCode)
	}
	var all []value
	for lines := bufio.NewScanner(res.Body); len(all) < n && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), p.form.eventPrefix)
		if !ok {
			continue
		}
		e, err := parse([]byte(data))
		if err != nil {
			p.fatal("the event %s is no JSON: %v", quote(data), err)
		}
		all = append(all, e)
	}
	return texts(all, "token")
}

// checkEvents checks the events of a greedy stream without details. If text is not
// empty, the last event must have it; prompt is what the last event puts before the tokens.
func (p *probe) checkEvents(all []value, text, prompt string) {
	said := ""
	var tokens []value
	for i, e := range all {
		p.fits(p.form.event(), e)
		if p.form.index {
			p.equal("index", e.at("index"), i+1)
		} else if e.at("index").there {
			p.fail("index came with 1.4")
		}
		tokens = append(tokens, e.at("token"))
		if last := i == len(all)-1; e.at("generated_text").isText() != last {
			p.fail("generated_text of event %d of %d is %s", i+1, len(all), e.at("generated_text"))
		}
		if !e.at("details").null() {
			p.fail("details of event %d is %s", i+1, e.at("details"))
		}
		said = e.at("generated_text").text()
	}
	p.equal("generated_text", said, prompt+texts(tokens))
	if text != "" {
		p.equal("the streamed text", said, text)
	}
}
