package jinja

import (
	"slices"
	"strings"
	"time"

	"tgi/plugins/std/jinja/value"
)

// probeLimits bound one trial of a template when it is loaded, of which there are ten
// to sixty. probeSteps bounds those of all of a model's templates together: what is
// not tried by then counts as failed. Real templates take 200 to 10,000 steps each.
var probeLimits = Limits{Steps: 10_000, Output: 1 << 18, Memory: 1 << 20, Depth: 100}

const probeSteps = 100_000

// The texts of the probes. Digits are not changed by case filters; no template contains the key.
const (
	probeWord     = "731946"
	probeMore     = "582047"
	probeValue    = "946173"
	probeTextArgs = `{"q"  :"` + probeValue + `"}`
)

// prober tries a template.
type prober struct {
	t      *Template
	tokens []value.Entry
	r      *templateForms
	tools  bool   // tools are offered: some templates want them
	spent  *int64 // steps
	calls  *probe // the calls that the trials of a result follow
}

// probe is a form of an assistant's turn that calls a tool.
type probe struct {
	content  value.Value // nil for none
	textArgs bool
	answer   string // the role that speaks next
}

// probeForms tries a template with conversations of every form. spent are the steps
// that the trials of other templates took; its own are added.
func probeForms(t *Template, tokens []value.Entry, spent *int64) *templateForms {
	p := &prober{t: t, tokens: tokens, spent: spent, r: &templateForms{roles: map[string]contentForms{}}}
	p.r.otherRoles = p.content(func(x value.Value) []value.Value { return []value.Value{message("user", x)} })
	p.r.roles["user"] = p.r.otherRoles
	other := p.content(func(x value.Value) []value.Value {
		return []value.Value{message("narrator", x),
			p.messageOf("user")}
	})
	if other.known() {
		p.r.otherRoles = other
	}
	for _, role := range []string{"system", "developer"} {
		p.probeRole(role, func(x value.Value) []value.Value {
			return []value.Value{message(role, x),
				p.messageOf("user")}
		})
	}
	p.probeRole("assistant", func(x value.Value) []value.Value {
		return []value.Value{p.messageOf("user"), message("assistant", x), p.messageOf("user")}
	})
	p.readCalls()
	for _, role := range []string{"tool", "function", "ipython", "observation"} {
		p.probeRole(role, func(x value.Value) []value.Value {
			return []value.Value{p.messageOf("user"), p.callMessage(p.calls), result(role, x)}
		})
	}
	return p.r
}

// probeRole tries the content of a role that the template names. Where nothing shows
// it, it is taken for the user's.
func (p *prober) probeRole(role string, messages func(value.Value) []value.Value) {
	if !strings.Contains(p.t.source, role) {
		return
	}
	c := p.content(messages)
	if !c.known() {
		c = p.r.roles["user"]
	}
	p.r.roles[role] = c
}

// content tries the forms of content, without tools and, where nothing is shown
// without, with tools.
func (p *prober) content(messages func(value.Value) []value.Value) (c contentForms) {
	word, more := textPart(value.Data(probeWord)), textPart(value.Data(probeMore))
	for _, p.tools = range []bool{false, true} {
		c.text = p.outcome(messages(value.Data(probeWord)), probeWord)
		c.parts = p.outcome(messages(&value.List{Items: []value.Value{word, more}}), probeWord, probeMore)
		if c.text != shown && c.parts != shown {
			c.first = p.outcome(messages(&value.List{Items: []value.Value{word}}), probeWord)
		}
		if c.known() {
			return c
		}
	}
	return c
}

// outcome renders a conversation and looks for the words.
func (p *prober) outcome(messages []value.Value, words ...string) outcome {
	out, ok := p.render(messages)
	switch {
	case !ok:
		return failed
	case slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(out, w) || printedAsList(out, w) }):
		return notShown
	}
	return shown
}

// printedAsList reports whether a text stands where a list of parts was written as
// Python or JSON does.
func printedAsList(out, word string) bool {
	before := out[:strings.Index(out, word)]
	name := strings.TrimRight(before, `\"': `)
	return strings.HasSuffix(name, "text") && strings.ContainsAny(before[len(name):], `"'`) &&
		strings.Contains(before[len(name):], ":")
}

// readCalls tries the forms of a turn that calls a tool.
func (p *prober) readCalls() {
	written := p.findCall()
	p.r.textArguments, p.r.objectArguments = p.calls.textArgs, true
	if p.r.textArguments {
		object := *p.calls
		object.textArgs = false
		out, ok := p.render(p.conversation(&object))
		p.r.objectArguments = ok && strings.Contains(out, probeValue)
	}
	_, p.r.emptyPart = p.calls.content.(*value.List)
	p.r.emptyIsNull = p.calls.content == value.None && strings.Contains(written, probeValue)
	p.r.null = p.probeNull(written, nullAsGiven, value.None)
	if p.r.missing = p.probeNull(written, nullAsGiven, nil); p.r.missing != nullAsGiven && p.r.null == nullAsGiven {
		p.r.missing = nullIsNull
	}
}

// findCall finds a turn with a call that the template shows, or at least takes, and
// gives what is rendered then.
func (p *prober) findCall() (written string) {
	var taken *probe
	var offered bool
	for _, answer := range []string{"tool", "user"} {
		for _, p.tools = range []bool{false, true} {
			for _, content := range []value.Value{value.Empty, emptyPart(), value.None} {
				for _, textArgs := range []bool{true, false} {
					p.calls = &probe{content: content, textArgs: textArgs, answer: answer}
					out, ok := p.render(p.conversation(p.calls))
					if textArgs && printedVerbatim(out) || !textArgs && strings.Contains(out, probeValue) {
						return out
					}
					if ok && !textArgs && taken == nil {
						taken, offered, written = p.calls, p.tools, out
					}
				}
			}
		}
	}
	if taken != nil {
		p.calls, p.tools = taken, offered
	}
	return written
}

// printedVerbatim reports whether the arguments stand there as they were written, and not
// as Python writes a string.
func printedVerbatim(out string) bool {
	i := strings.Index(out, probeTextArgs)
	return i >= 0 && (i == 0 || out[i-1] != '\'')
}

// probeNull tries a content that says nothing: it must work, and not show as None. It
// gives form, or nullIsEmpty.
func (p *prober) probeNull(written string, form nullForm, content value.Value) nullForm {
	try := *p.calls
	try.content = content
	out, ok := p.render(p.conversation(&try))
	switch {
	case !ok, strings.Contains(written, probeValue) && !strings.Contains(out, probeValue),
		p.calls.content != value.None && strings.Count(out, "None") > strings.Count(written, "None"):
		return nullIsEmpty
	}
	return form
}

// conversation is a conversation in which a tool is called.
func (p *prober) conversation(c *probe) []value.Value {
	answer := p.messageOf("user")
	if c.answer == "tool" {
		answer = result("tool", p.contentFor("user", value.Data(probeWord)))
	}
	return []value.Value{p.messageOf("user"), p.callMessage(c), answer}
}

// result is what a tool answered.
func result(role string, content value.Value) *value.Dict {
	m := message(role, content)
	m.Fill([]value.Entry{member("tool_call_id", value.Text("a1b2c3d4e")), member("name", value.Text("f"))})
	return m
}

// callMessage is an assistant's turn that calls a tool.
func (p *prober) callMessage(c *probe) *value.Dict {
	arguments := value.Value(value.NewDict(member("q", value.Data(probeValue))))
	if c.textArgs {
		arguments = value.Data(probeTextArgs)
	}
	call := value.NewDict(
		member("id", value.Text("a1b2c3d4e")), member("type", value.Text("function")),
		member("function", value.NewDict(member("name", value.Text("f")), member("arguments", arguments))),
	)
	turn := value.NewDict(member("role", value.Text("assistant")))
	if c.content != nil {
		_ = turn.Set(value.Text("content"), c.content)
	}
	_ = turn.Set(value.Text("tool_calls"), &value.List{Items: []value.Value{call}})
	return turn
}

// messageOf is a message in the format found for a role.
func (p *prober) messageOf(role string) *value.Dict {
	return message(role, p.contentFor(role, value.Text("Hi")))
}

// contentFor gives a string the form that was found for a role.
func (p *prober) contentFor(role string, s *value.Str) value.Value {
	if p.r.forRole(role).choose(false) == asText {
		return s
	}
	return &value.List{Items: []value.Value{textPart(s)}}
}

// render renders a conversation; ok tells whether that worked.
func (p *prober) render(messages []value.Value) (out string, ok bool) {
	vars := &value.Dict{}
	vars.Fill(p.tokens)
	tools := value.None
	if p.tools {
		tools = &value.List{Items: []value.Value{probeTool()}}
	}
	vars.Fill([]value.Entry{
		member("messages", &value.List{Items: messages}), member("tools", tools),
		member("documents", value.None), member("add_generation_prompt", value.Bool(true)),
	})
	l := probeLimits
	l.Steps = min(l.Steps, probeSteps-*p.spent)
	if l.Steps <= 0 {
		return "", false
	}
	segments, err := p.t.renderChat(vars, time.Time{}, ChatOptions{}, l, p.spent)
	return Text(segments), err == nil
}

// probeTool is what is offered in a trial.
func probeTool() *value.Dict {
	word := value.NewDict(member("type", value.Text("string")), member("description", value.Text("a word")))
	parameters := value.NewDict(
		member("type", value.Text("object")), member("properties", value.NewDict(member("q", word))),
		member("required", &value.List{Items: []value.Value{value.Text("q")}}),
	)
	function := value.NewDict(
		member("name", value.Text("f")), member("description", value.Text("looks up")),
		member("parameters", parameters),
	)
	return value.NewDict(member("type", value.Text("function")), member("function", function))
}

// message is a message.
func message(role string, content value.Value) *value.Dict {
	return value.NewDict(member("role", value.Text(role)), member("content", content))
}
