package toolcalls

import (
	"slices"
	"strings"
)

// header reads a channel's header (OpenAI's harmony format, "Message format"). The prompt ended inside one, so that the
// text may begin in its middle.
func (p *Parser) header() bool {
	v := p.buf
	if n := len(v) - len(skipLeft(v)); n > 0 {
		p.holdSpace(Content, p.take(n))
		return true
	}
	if v == "" {
		return false
	}
	m, waiting := p.f.headers.at(v, p.end)
	switch {
	case waiting:
		return false
	case m == "":
		p.flushSpace(Content)
		p.step = (*Parser).message
		p.origin = Content
	default:
		p.space = ""
		p.openCall(m, Content)
		p.inHeader = true
		p.step = (*Parser).headerRest
	}
	return true
}

// headerRest reads on to the header's end and acts on it.
func (p *Parser) headerRest() bool {
	m, did := p.readUntil(p.f.message)
	if m == "" {
		return did
	}
	p.take(len(m))
	p.inHeader = false
	c := p.f.Channels
	channel, recipient := field(string(p.head), c.Channel), field(string(p.head), c.Recipient)
	if recipient != "" && recipient != "user" {
		p.beginChannelCall(recipient)
		return true
	}
	p.recording = false
	p.raw = p.raw[:0]
	p.origin = Content
	if slices.Contains(c.Reasoning, channel) {
		p.origin, p.dropSpace = Reasoning, true
	}
	p.step = (*Parser).message
	return true
}

// beginChannelCall begins a call of the tool that is the header's recipient.
func (p *Parser) beginChannelCall(recipient string) {
	name, is := strings.CutPrefix(recipient, p.f.Channels.Prefix)
	if !is || !p.callsAllowed() {
		p.name = recipient
		p.reject(UnknownTool)
		return
	}
	if p.begin(name, "") {
		p.step = (*Parser).arguments
	}
}

// field is the word after a mark in a header.
func field(header, mark string) string {
	_, rest, ok := strings.Cut(header, mark)
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, whiteSpace+"<"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// message is the text of a channel.
func (p *Parser) message() bool {
	at, m := p.f.inMessage.find(p.buf, p.end)
	p.emitText(p.origin, p.take(at))
	if m == "" {
		return false
	}
	if slices.Contains(p.f.Channels.End, m) {
		p.take(len(m))
	}
	p.space, p.spaceFull, p.dropSpace = "", false, false
	p.origin = Content
	p.step = (*Parser).header
	return true
}
