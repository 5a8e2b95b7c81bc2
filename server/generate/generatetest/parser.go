package generatetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tgi/runtime/llm"
	"tgi/server/generate"
)

// Parser implements generate.Parser for a format of tests. Special tokens other
// than its tags are dropped:
//
//	<think>TEXT</think>              reasoning
//	<call>NAME ID {ARGUMENTS}</call> a call; "-" stands for no id, and "!!" in the
//	                                 arguments for what breaks the format
//	<fault>                          the plugin fails
type Parser struct {
	names    []string
	named    string // the only tool that may be called
	parallel bool
	closed   func()

	state  state
	buf    string
	source string // of the open call
	calls  int
	reason generate.CallFailure // of a call that is skipped
	out    []generate.Delta
}

type state uint8

const (
	inContent state = iota
	inReasoning
	inHead
	inArguments
	inSkipped
	faulty
)

// NewParser returns a Parser for a request of the plugins' contract.
func NewParser(request []byte) *Parser {
	var in struct {
		Tools    []struct{ Function struct{ Name string } }
		Choice   json.RawMessage `json:"tool_choice"`
		Parallel bool            `json:"parallel_tool_calls"`
		End      string          `json:"prompt_end"`
	}
	if err := json.Unmarshal(request, &in); err != nil {
		panic("BUG: the parser's request is no JSON: " + err.Error())
	}
	p := &Parser{parallel: in.Parallel, closed: func() {}}
	for _, t := range in.Tools {
		p.names = append(p.names, t.Function.Name)
	}
	var named struct{ Name string }
	_ = json.Unmarshal(in.Choice, &named) // a word leaves it empty
	p.named = named.Name
	if strings.HasSuffix(in.End, "<think>") {
		p.state = inReasoning
	}
	return p
}

// close ends the parser.
func (p *Parser) close() { p.closed() }

// Feed implements generate.Parser.
func (p *Parser) Feed(piece string, special bool) ([]generate.Delta, error) {
	p.out = p.out[:0]
	if special && !slices.Contains([]string{"<think>", "</think>", "<call>", "</call>"}, piece) {
		return nil, nil
	}
	p.buf += piece
	for p.step() {
	}
	if p.state == faulty {
		return p.out, fmt.Errorf("%w: the parser met <fault>", llm.ErrPlugin)
	}
	return p.out, nil
}

// Finish implements generate.Parser.
func (p *Parser) Finish(bool) ([]generate.Delta, error) {
	p.out = p.out[:0]
	switch p.state {
	case inContent:
		p.say(generate.DeltaContent, p.buf)
	case inReasoning:
		p.say(generate.DeltaReasoning, p.buf)
	case inHead, inSkipped:
		p.fail(-1, p.source+p.buf, generate.FailedIncomplete)
	case inArguments:
		p.fail(p.calls, p.source+p.buf, generate.FailedIncomplete)
	}
	return p.out, nil
}

// step goes on by one part of the text and says whether there may be more.
func (p *Parser) step() bool {
	switch p.state {
	case inContent:
		tag, before := p.until("<think>", "<call>", "<fault>")
		p.say(generate.DeltaContent, before)
		switch tag {
		case "<think>":
			p.state = inReasoning
		case "<call>":
			p.state, p.source = inHead, tag
		case "<fault>":
			p.state = faulty
		}
		return tag != "" && p.state != faulty
	case inReasoning:
		tag, before := p.until("</think>")
		p.say(generate.DeltaReasoning, before)
		if tag != "" {
			p.state = inContent
		}
		return tag != ""
	case inHead:
		return p.head()
	}
	tag, before := p.until("</call>")
	p.source += before
	if p.state == inArguments {
		p.say(generate.DeltaArguments, before)
	}
	if tag != "" {
		p.end()
	}
	return tag != ""
}

// until takes the text up to the first of tags, or up to what may become one.
func (p *Parser) until(tags ...string) (tag, before string) {
	at := len(p.buf)
	for _, t := range tags {
		if i := strings.Index(p.buf, t); i >= 0 && i < at {
			at, tag = i, t
		}
	}
	if tag != "" {
		before, p.buf = p.buf[:at], p.buf[at+len(tag):]
		return tag, before
	}
	for i := range p.buf {
		for _, t := range tags {
			if strings.HasPrefix(t, p.buf[i:]) {
				before, p.buf = p.buf[:i], p.buf[i:]
				return "", before
			}
		}
	}
	before, p.buf = p.buf, ""
	return "", before
}

// head reads a call's name and id.
func (p *Parser) head() bool {
	words := strings.SplitN(p.buf, " ", 3)
	if len(words) < 3 {
		return false
	}
	name, id := words[0], words[1]
	p.source += name + " " + id + " "
	p.buf, p.state = words[2], inSkipped
	switch {
	case !slices.Contains(p.names, name), p.named != "" && name != p.named:
		p.reason = generate.FailedUnknown
	case p.calls > 0 && !p.parallel:
		p.reason = generate.FailedTooMany
	default:
		p.state = inArguments
		if id == "-" {
			id = ""
		}
		p.out = append(p.out, generate.Delta{Kind: generate.DeltaBegin, Index: p.calls, Name: name, ID: id})
	}
	return true
}

// end closes a call.
func (p *Parser) end() {
	p.source += "</call>"
	switch {
	case p.state == inSkipped:
		p.fail(-1, p.source, p.reason)
	case strings.Contains(p.source, "!!"):
		p.fail(p.calls, p.source, generate.FailedMalformed)
		p.calls++
	default:
		p.out = append(p.out, generate.Delta{Kind: generate.DeltaEnd, Index: p.calls})
		p.calls++
	}
	p.state = inContent
}

func (p *Parser) fail(index int, text string, why generate.CallFailure) {
	p.out = append(p.out, generate.Delta{Kind: generate.DeltaFailed, Index: index, Text: text, Failed: why})
}

func (p *Parser) say(kind generate.DeltaKind, text string) {
	if text != "" {
		p.out = append(p.out, generate.Delta{Kind: kind, Index: p.calls, Text: text})
	}
}
