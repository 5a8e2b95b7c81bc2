package api

import (
	"fmt"
	"regexp"
	"strings"
)

// check is one rule of TGI's validation. They are in TGI's order: a body that
// breaks several is refused for the first.
type check struct {
	id string
	// parameters break the rule and none before it.
	parameters func(*probe) string
	// text is a pattern of what the refusal says.
	text func(*probe) string
	// inputs replaces the prompt.
	inputs *string
	// alone marks rules that cannot be broken together with others.
	alone bool
}

func says(text string) func(*probe) string {
	return func(*probe) string { return regexp.QuoteMeta(text) }
}

func sets(parameters string) func(*probe) string {
	return func(*probe) string { return parameters }
}

var nothing = ""

// checks are TGI's rules for /generate.
var checks = []check{
	{id: "best-of-most", parameters: func(p *probe) string {
		return fmt.Sprintf(`"best_of":%d`, p.limit("max_best_of", 2)+1)
	}, text: func(p *probe) string {
		if p.limit("max_best_of", 2) == 1 {
			return regexp.QuoteMeta("`best_of` != 1 is not allowed for this endpoint")
		}
		return fmt.Sprintf("`best_of` must be > 0 and <= %d\\. Given: %d", p.limit("max_best_of", 2),
			p.limit("max_best_of", 2)+1)
	}},
	{id: "best-of-greedy", parameters: sets(`"best_of":2`), text: says("you must use sampling when `best_of` is > 1"),
		alone: true},
	{id: "temperature", parameters: sets(`"temperature":0.0`), text: says("`temperature` must be strictly positive")},
	{id: "repetition-penalty", parameters: sets(`"repetition_penalty":-1.5`),
		text: says("`repetition_penalty` must be strictly positive")},
	{id: "frequency-penalty", parameters: sets(`"frequency_penalty":2.5`),
		text: says("`frequency_penalty` must be >= -2.0 and <= 2.0")},
	{id: "top-p", parameters: sets(`"top_p":1.0`), text: says("`top_p` must be > 0.0 and < 1.0")},
	{id: "typical-p", parameters: sets(`"typical_p":0.0`), text: says("`typical_p` must be > 0.0 and < 1.0")},
	{id: "top-k", parameters: sets(`"top_k":-1`), text: says("`top_k` must be strictly positive")},
	{id: "max-new-tokens", parameters: sets(`"max_new_tokens":0`),
		text: says("`max_new_tokens` must be strictly positive")},
	{id: "stop", parameters: func(p *probe) string {
		return `"stop":["a"` + strings.Repeat(`,"b"`, p.limit("max_stop_sequences", 4)) + `]`
	}, text: func(p *probe) string {
		n := p.limit("max_stop_sequences", 4)
		return fmt.Sprintf("`stop` supports up to %d stop sequences\\. Given: %d", n, n+1)
	}},
	{id: "best-of-seed", parameters: sets(`"best_of":2,"do_sample":true,"seed":1`),
		text: says("`seed` must not be set when `best_of` > 1"), alone: true},
	{id: "top-n-tokens", parameters: sets(`"top_n_tokens":1000000`), text: func(*probe) string {
		return "`top_n_tokens` must be >= 0 and <= \\d+\\. Given: 1000000"
	}},
	{id: "inputs-empty", inputs: &nothing, parameters: sets(""), text: says("`inputs` cannot be empty")},
	{id: "truncate", parameters: sets(`"truncate":0`), text: func(p *probe) string {
		return fmt.Sprintf("`truncate` must be strictly positive and less than %d\\. Given: 0",
			p.bound("max_input_tokens"))
	}},
}

// checkCases makes a case of each rule: alone, and together with all that come
// after it.
func checkCases() []Case {
	var all []Case
	for i, c := range checks {
		all = append(all, Case{
			ID: "check-" + c.id, Rule: "the rule refuses with its text, and before the rules that come after it",
			Source: ofChecks,
			run: func(p *probe) {
				p.invalid("/generate", c.body(p, nil), c.text(p))
				if !c.alone {
					p.invalid("/generate", c.body(p, checks[i+1:]), c.text(p))
				}
			},
		})
	}
	return append(all, lengthCases...)
}

// body returns a request that breaks the rule and, where possible, the others too.
func (c check) body(p *probe, others []check) string {
	inputs, parameters := story, c.parameters(p)
	if c.inputs != nil {
		inputs = *c.inputs
	}
	for _, o := range others {
		switch {
		case o.alone:
		case o.inputs != nil:
			inputs = *o.inputs
		default:
			parameters += "," + o.parameters(p)
		}
	}
	return `{"inputs":` + encode(inputs) + `,"parameters":{` + strings.TrimPrefix(parameters, ",") + `}}`
}

var lengthCases = []Case{
	{ID: "check-total", Rule: "prompt and max_new_tokens together fit the context; the text has both figures",
		Source: ofChecks, run: func(p *probe) {
			total := p.bound("max_total_tokens")
			if !p.form.this && p.form.name == TGI3 && total > 1024 {
				p.skip("TGI counts at most 1,024 new tokens here since 3.1.1")
			}
			p.invalid("/generate", generate(fmt.Sprintf(`"max_new_tokens":%d`, total)),
				fmt.Sprintf("`inputs` tokens \\+ `max_new_tokens` must be <= %d\\. Given: %d `inputs` tokens and %d `max_new_tokens`", total, p.tokens(story), total))
		}},
	{ID: "check-input", Rule: "a prompt that is too long is refused with its length, the total first", Source: ofChecks,
		run: func(p *probe) {
			in, total := p.bound("max_input_tokens"), p.bound("max_total_tokens")
			if total > 100_000 {
				p.skip("the context is too long to be filled")
			}
			text := strings.Repeat("word ", total+1)
			n := p.tokens(text)
			if n <= total {
				p.skip("the tokenizer makes %d tokens of %d words", n, total+1)
			}
			p.invalid("/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"max_new_tokens":1}}`, text),
				fmt.Sprintf("`inputs` tokens \\+ `max_new_tokens` must be <= %d\\. Given: %d `inputs` tokens and 1 `max_new_tokens`", total, n))
			p.invalid("/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"max_new_tokens":1,"truncate":%d}}`, text,
				in+1),
				fmt.Sprintf("`truncate` must be strictly positive and less than %d\\. Given: %d", in, in+1))
		}},
	{ID: "check-stream-best-of", Rule: "streams have no best_of", Source: ofChecks, run: func(p *probe) {
		p.invalid("/generate_stream", generate(`"best_of":2,"temperature":0`),
			regexp.QuoteMeta("`best_of` != 1 is not supported when streaming tokens"))
	}},
	{ID: "check-stream-prefill", Rule: "streams have no decoder_input_details", Source: ofChecks, run: func(p *probe) {
		p.invalid("/generate_stream", generate(`"decoder_input_details":true,"temperature":0`),
			regexp.QuoteMeta("`decoder_input_details` == true is not supported when streaming tokens"))
	}},
	{ID: "check-whitespace", Rule: "a prompt of whitespace is a prompt", Source: ofChecks, run: func(p *probe) {
		p.ask("/generate", `{"inputs":" ","parameters":{"max_new_tokens":1}}`, "GenerateResponse")
	}},
}
