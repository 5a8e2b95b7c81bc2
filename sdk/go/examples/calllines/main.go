// Command calllines is call-lines: a parser of tool calls in an invented
// format. A line `CALL name(json)` is a call; everything else is content. The
// setting "word" replaces the word CALL.
package main

import (
	"errors"
	"strings"

	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/tools"
)

// longest is the longest line of a call, in bytes.
const longest = 4096

func init() {
	plugin.Describe(plugin.Info{
		Name: "call-lines", Version: "1.0.0", Config: true,
		Doc: "Tool calls of the form CALL name(json), each on a line of its own.",
	})
	tools.Register(open)
}

func main() {}

// lines is the plugin. word is the setting "word" with a space after it.
type lines struct{ word string }

func open(config []byte) (tools.Plugin, error) {
	word := "CALL"
	r := params.Read(config)
	for key := range r.Object() {
		switch {
		case key == "model":
			r.Skip()
		case key != "word":
			r.Fail("unknown setting: " + key)
		default:
			if word = r.String(); len(word) < 1 || len(word) > 16 ||
				strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				r.Fail("word: want 1 to 16 capital letters")
			}
		}
	}
	return lines{word + " "}, r.Close()
}

// Begin implements tools.Plugin.
func (l lines) Begin(r tools.Request) (tools.Parser, error) {
	m, err := r.Read()
	if err != nil {
		return nil, err
	}
	p := &parser{word: l.word, demands: m.Choice.Mode != tools.Auto, parallel: m.Parallel, allowed: map[string]bool{}}
	for _, t := range m.Tools {
		if m.Choice.Mode != tools.None && (m.Choice.Mode != tools.Named || t.Name == m.Choice.Name) {
			p.allowed[t.Name] = true
		}
	}
	p.off = len(m.Tools) == 0 || m.Choice.Mode == tools.None
	return p, nil
}

// parser reads one message.
type parser struct {
	word     string
	off      bool            // calls are not allowed: everything is content
	demands  bool            // a call is required
	parallel bool            // more than one call is allowed
	allowed  map[string]bool // names of the tools that may be called
	calls    int
	held     string // the line so far, if it is a call or can become one
	text     bool   // the line is content
}

// Feed implements tools.Parser.
func (p *parser) Feed(piece string, special bool, out *tools.Events) {
	if special {
		return
	}
	if p.off {
		out.Content(piece)
		return
	}
	for part := range strings.Lines(piece) {
		line, ends := strings.CutSuffix(part, "\n")
		if !p.text {
			p.held += line
			if p.text = !strings.HasPrefix(p.held, p.word) && !strings.HasPrefix(p.word, p.held); p.text {
				out.Content(p.held)
				p.held = ""
			}
		} else {
			out.Content(line)
		}
		if ends && p.text {
			out.Content("\n")
		} else if ends {
			p.line("\n", out)
		}
		p.text = p.text && !ends
	}
}

// Finish implements tools.Parser.
func (p *parser) Finish(cut bool, out *tools.Events) {
	if cut && strings.HasPrefix(p.held, p.word) {
		out.Failed(tools.Incomplete, p.held)
		return
	}
	p.line("", out)
}

// line parses the held line. end is the text that ended it.
func (p *parser) line(end string, out *tools.Events) {
	line := p.held
	p.held = ""
	if s, ok := strings.CutPrefix(line, p.word); ok {
		name, arguments, err := call(s)
		why := tools.Malformed
		switch {
		case err != nil:
		case !p.allowed[name]:
			why = tools.Unknown
		case len(line) > longest:
			why = tools.TooLong
		case p.calls > 0 && !p.parallel:
			out.Failed(tools.TooMany, line)
			return
		default:
			out.Begin(name, tools.NewID())
			out.Arguments(arguments)
			out.End()
			p.calls++
			return
		}
		if p.demands {
			out.Failed(why, line)
			return
		}
	}
	out.Content(line)
	out.Content(end)
}

var errMalformed = errors.New("want name(json)")

// call parses `name(json)`.
func call(s string) (name, arguments string, err error) {
	name, rest, opens := strings.Cut(strings.TrimRight(s, " \t\r"), "(")
	arguments, shuts := strings.CutSuffix(rest, ")")
	letters := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	if !opens || !shuts || len(name) < 1 || len(name) > 64 || strings.Trim(name, letters) != "" {
		return "", "", errMalformed
	}
	r := params.Read([]byte(arguments))
	if r.Peek() != '{' {
		return "", "", errMalformed
	}
	r.Skip()
	return name, arguments, r.Close()
}
