package toolcalls

import (
	"strings"
	"unicode/utf8"
)

// Mode says what the request demands of calls, as OpenAI's tool_choice does.
type Mode string

// The modes. In Auto, text that turns out not to be a call of an offered tool becomes content, if its CallBegin was not
// emitted. In Required and Exact it is a CallFailed.
const (
	Auto     Mode = ""
	None     Mode = "none" // calls are not looked for
	Required Mode = "required"
	Exact    Mode = "named" // a call of the tool Choice.Name
)

// Choice is what the request allows.
type Choice struct {
	Mode   Mode
	Name   string // of the tool, with Exact
	Single bool   // one call at most: the others fail with TooMany
}

// Limits bound what a parser holds. A zero is the default.
type Limits struct {
	Call  int // bytes of one call's source; default 1 MiB. A parser holds up to about twice as much
	Depth int // nesting of arguments; default 128
	Calls int // calls of one message; default 128
	Space int // bytes of white space held back until it is known what follows; default 4096
}

// Options are what a Parser needs beside the format.
type Options struct {
	Tools    []Tool // without tools no calls are looked for
	Choice   Choice
	Thinking bool   // the prompt ended inside reasoning: see Format.Thinking
	Seed     uint64 // of generated ids: same seed, same ids. Give each message of a conversation its own
	Limits   Limits
}

// Parser reads one message. It is made by New, fed until Finish, and not used again.
type Parser struct {
	f *format
	o Options

	buf  string // not consumed yet
	rune string // the bytes of a character that is not whole yet
	end  bool   // no text will come
	step state
	out  []Event

	firstText    string // the first text of the event being collected
	allText      []byte // all of its texts, when there are more
	pendingKind  Kind
	pendingIndex int

	space        string // white space held back
	dropSpace    bool   // white space that comes now is layout
	spaceFull    bool   // the run of white space was longer than Limits.Space
	origin       Kind   // what text is when it is no call: Content or Reasoning
	started      bool   // content has been told since the message or the last reasoning began
	endMarkerDue bool   // a call ended, its End marker has not come
	inSection    bool
	used         bool // the section had a call

	call
}

// state consumes what it can from the buffer and reports whether it did anything.
type state func(*Parser) bool

// New starts a parser for one message. The format must have passed Check; it and the tools must not
// change any more.
func New(f *Format, o Options) *Parser {
	o.Limits = o.Limits.withDefaults()
	p := &Parser{f: compile(f), o: o}
	p.index = -1
	p.step = (*Parser).start
	p.dropSpace = f.TrimStart
	switch {
	case f.Channels != nil:
		p.step = (*Parser).header
	case o.Thinking && f.Reasoning != nil:
		p.enterReasoning()
		p.step = (*Parser).repeatedReasoning
	}
	return p
}

func (l Limits) withDefaults() Limits {
	set := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	set(&l.Call, 1<<20)
	set(&l.Depth, 128)
	set(&l.Calls, 128)
	set(&l.Space, 4096)
	return l
}

// callsAllowed reports whether the parser looks for calls.
func (p *Parser) callsAllowed() bool { return p.o.Choice.Mode != None && len(p.o.Tools) > 0 }

// Feed takes the next piece of text, cut anywhere, and returns the events so far. The slice is valid until the next
// call. A character that a cut divided is emitted whole.
func (p *Parser) Feed(piece string) []Event {
	p.out = p.out[:0]
	text := p.rune + piece
	p.rune = ""
	if n := unfinished(text); n > 0 {
		p.rune, text = text[len(text)-n:], text[:len(text)-n]
	}
	p.buf += text
	return p.run()
}

// Special is Feed for a special token, by its text. A token that is a marker of the format, a part of one, or contains
// one is read as text. Any other token, such as the end of the turn, is left out.
func (p *Parser) Special(token string) []Event {
	if !p.f.marks(token) {
		return nil
	}
	return p.Feed(token)
}

// Finish ends the text, whether the model ended it or it was truncated. An open call becomes CallFailed with
// Incomplete. A call that had not begun is content in Auto, unless it followed another one in the same list, and
// CallFailed otherwise. A marker truncated after a complete call is dropped.
func (p *Parser) Finish() []Event {
	p.out = p.out[:0]
	if (p.inTail || p.inSection && p.used) && !p.recording && p.failed == "" {
		p.buf, p.rune, p.space = "", "", "" // a marker cut after a complete call
	}
	p.end = true
	p.buf += p.rune
	p.rune = ""
	p.run()
	if p.open || p.failed != "" || p.recording {
		p.recordSource(p.buf)
		p.buf = ""
	}
	switch {
	case p.failed != "":
		p.fail(p.failed)
	case p.open:
		p.fail(Incomplete)
	case p.inHeader && p.o.Choice.Mode == Auto: // markup only
	case p.recording && p.inList: // in a list of calls: its rest was never text
		if strings.Trim(string(p.raw), whiteSpace) != "" {
			p.fail(Incomplete)
		}
		p.recording = false
	case p.recording:
		p.reject(Incomplete)
	}
	if p.space != "" && !p.dropSpace && p.origin == Content {
		p.emit(Content, 0, p.space)
	}
	p.space = ""
	p.flush()
	return p.out
}

// run steps until nothing can be done without more text.
func (p *Parser) run() []Event {
	for p.step(p) || p.overflow() {
	}
	p.flush()
	return p.out
}

// unfinished is the number of bytes at the end of s that begin a character and do not complete it.
func unfinished(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		c := s[len(s)-n]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// take consumes n bytes.
func (p *Parser) take(n int) string {
	s := p.buf[:n]
	p.buf = p.buf[n:]
	if p.recording {
		p.recordSource(s)
	}
	return s
}

// view is the part of the buffer that may be consumed: a call's source ends at Limits.Call, wherever a piece ends.
func (p *Parser) view() string {
	if !p.recording {
		return p.buf
	}
	return p.buf[:min(len(p.buf), max(0, p.o.Limits.Call-len(p.raw)))]
}

// whole says that nothing will follow the view.
func (p *Parser) whole() bool { return p.end && len(p.view()) == len(p.buf) }

// overflow rejects a call whose source is too long. It runs only when the state can do no more.
func (p *Parser) overflow() bool {
	if !p.recording || p.failed != "" || len(p.raw)+len(p.buf) <= p.o.Limits.Call {
		return false
	}
	p.reject(TooLong)
	return true
}

// emitText emits text of the answer or the reasoning. White space at its end waits for what follows.
func (p *Parser) emitText(k Kind, s string) {
	if p.f.KeepSpace && k == Content {
		p.dropSpace = false
		p.emit(k, 0, s)
		return
	}
	text := s[:lastText(s)]
	if text != "" {
		if p.dropSpace {
			text = skipLeft(text)
		}
		p.flushSpace(k)
		p.emit(k, 0, text)
	}
	p.holdSpace(k, s[lastText(s):])
}

// lastText is the length of s without the white space at its end.
func lastText(s string) int {
	n := len(s)
	for n > 0 && isSpace(s[n-1]) {
		n--
	}
	return n
}

const whiteSpace = " \t\r\n"

// holdSpace holds white space back, up to the limit; more is text.
func (p *Parser) holdSpace(k Kind, s string) {
	switch {
	case p.dropSpace:
	case p.spaceFull:
		p.emit(k, 0, s)
	case len(p.space)+len(s) > p.o.Limits.Space:
		p.emit(k, 0, p.space+s)
		p.space, p.spaceFull = "", true
	default:
		p.space += s
	}
}

// flushSpace emits the white space that was held back, as text follows it.
func (p *Parser) flushSpace(k Kind) {
	p.emit(k, 0, p.space)
	p.space, p.spaceFull, p.dropSpace = "", false, false
}

// settleSpace emits or drops the white space before a call or reasoning.
func (p *Parser) settleSpace() {
	if p.f.KeepSpace && p.origin == Content {
		p.emit(Content, 0, p.space)
	}
	p.space, p.spaceFull = "", false
}
