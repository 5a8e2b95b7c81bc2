package jinja

import (
	"strings"
	"time"

	"tgi/plugins/std/jinja/pylib"
	"tgi/plugins/std/jinja/syntax"
	"tgi/plugins/std/jinja/value"
)

// toolPrompt is TGI's default tool_prompt (router/src/server.rs,
// default_tool_prompt), which asks for {"name": ..., "parameters": {...}}.
const toolPrompt = "\nGiven the functions available, please respond with a JSON for a function call with its proper " +
	"arguments that best answers the given prompt. Respond in the format {name: function name, parameters: " +
	"dictionary of argument name and its value}." +
	"Do not use variables.\n"

// toolRule separates what TGI adds to a message from the message.
const toolRule = "\n---\n"

// toolSupport says which parts of a conversation with tools a template knows of.
// It goes by the syntax, as TGI does with minijinja's undeclared_variables.
type toolSupport struct {
	tools   bool // the variable tools is read somewhere
	calls   bool // the name tool_calls occurs: calls of earlier turns are shown
	results bool // the role tool occurs, or none is told from another
}

// toolSupportOf looks for tools in a template. Parameters of macros that are called
// tools are none: what is handed to such a macro counts.
func toolSupportOf(body []syntax.Stmt) toolSupport {
	r := toolSupport{results: true}
	own := map[syntax.Expr]bool{} // loads of a macro's parameter
	inside := func(m *syntax.Signature) {
		for _, p := range m.Params {
			if p.Name == "tools" {
				syntax.Walk(m.Body, func(syntax.Stmt) {}, func(x syntax.Expr) { own[x] = true })
			}
		}
	}
	roles, tool := false, false
	syntax.Walk(body, func(n syntax.Stmt) {
		switch n := n.(type) {
		case *syntax.Macro:
			inside(&n.Signature)
		case *syntax.CallBlock:
			inside(&n.Signature)
		}
	}, func(x syntax.Expr) {
		switch x := x.(type) {
		case *syntax.Name:
			r.tools = r.tools || x.Name == "tools" && x.Use == syntax.Load && !own[x]
		case *syntax.Attr:
			r.calls = r.calls || x.Attr == "tool_calls"
		}
		r.calls = r.calls || isText(x, "tool_calls")
		roles = roles || isText(x, "user") || isText(x, "assistant")
		tool = tool || isText(x, "tool")
	})
	r.results = tool || !roles
	return r
}

// addTools puts into messages what a template that never reads tools would
// leave out: the tools that are offered behind the last message that is no
// assistant's, as TGI does; the calls of earlier turns as the text that the prompt
// asks for; and results as turns of the user.
func (r toolSupport) addTools(request *value.Dict) error {
	if r.tools {
		return nil
	}
	if !r.calls {
		if err := eachMessage(request, writeCalls); err != nil {
			return err
		}
	}
	if !r.results {
		if err := writeResults(request); err != nil {
			return err
		}
	}
	return appendTools(request)
}

// appendTools adds the tools to a message: what the request says of them is data.
func appendTools(request *value.Dict) error {
	tools, _ := request.GetStr("tools")
	messages, _ := request.GetStr("messages")
	offered, ok := tools.(*value.List)
	list, isList := messages.(*value.List)
	if !ok || len(offered.Items) == 0 || !isList {
		return nil
	}
	m := lastAddressed(list)
	if m == nil {
		return nil
	}
	shown, err := toolJSON(offered)
	if err != nil {
		return err
	}
	words := stringMember(m, "tool_prompt")
	return appendText(m, toolRule+words, func(given bool) *value.Str {
		var b value.Buffer
		b.Text(toolRule)
		b.Put(shown.String(), true)
		b.Text("\n")
		if given && words != "" {
			b.Put(words, true)
		} else {
			b.Text(toolPrompt)
		}
		return b.Done()
	})
}

// lastAddressed is the last message that is not an assistant's: the turn that the model
// answers; or else the last message.
func lastAddressed(messages *value.List) (m *value.Dict) {
	for i := len(messages.Items) - 1; i >= 0; i-- {
		d, ok := messages.Items[i].(*value.Dict)
		if ok && m == nil {
			m = d
		}
		if ok && stringMember(d, "role") != "assistant" {
			return d
		}
	}
	return m
}

// appendText adds text to a message's content, in place of the end that its text may
// have: given says whether it had.
func appendText(m *value.Dict, end string, more func(given bool) *value.Str) error {
	content, _ := m.GetStr("content")
	add := func(to *value.Dict, name string, s *value.Str) error {
		given := strings.HasSuffix(s.String(), end)
		if given {
			s = s.Sub(0, len(s.String())-len(end))
		}
		return to.Set(value.Text(name), value.Concat(s, more(given)))
	}
	switch c := content.(type) {
	case *value.Str:
		return add(m, "content", c)
	case *value.List:
		if n := len(c.Items); n > 0 {
			if last, ok := c.Items[n-1].(*value.Dict); ok {
				if s, _ := partText(last); s != nil {
					return add(last, "text", s)
				}
			}
		}
		c.Items = append(c.Items, textPart(more(false)))
		return nil
	}
	return m.Set(value.Text("content"), more(false))
}

// writeCalls gives an assistant's message its calls as text, in the format of
// toolPrompt.
func writeCalls(_ int, message *value.Dict) error {
	var b value.Buffer
	err := eachCall(message, func(call *value.Dict) error {
		shown := &value.Dict{}
		for _, e := range [][2]string{{"name", "name"}, {"arguments", "parameters"}} {
			if v, ok := call.GetStr(e[0]); ok {
				if err := shown.Set(value.Text(e[1]), v); err != nil {
					return err
				}
			}
		}
		s, err := toolJSON(shown)
		if err != nil {
			return err
		}
		b.Text("\n")
		b.Put(s.String(), true)
		return nil
	})
	if err != nil || len(b.Bytes) == 0 {
		return err
	}
	said := b.Done()
	if content, _ := message.GetStr("content"); content == nil || content == value.None || isEmpty(content) {
		said = said.Sub(min(1, len(said.String())), len(said.String()))
	}
	return appendText(message, "", func(bool) *value.Str { return said })
}

// isEmpty says whether content says nothing.
func isEmpty(content value.Value) bool {
	switch c := content.(type) {
	case *value.Str:
		return c.String() == ""
	case *value.List:
		return len(c.Items) == 0
	}
	return false
}

// writeResults makes one turn of the user of results that follow one another:
// templates that know no tools may demand that users and assistants take turns.
func writeResults(request *value.Dict) error {
	messages, _ := request.GetStr("messages")
	list, ok := messages.(*value.List)
	if !ok {
		return nil
	}
	var kept []value.Value
	var results *value.Dict // the turn that the next result belongs to
	for i, v := range list.Items {
		m, ok := v.(*value.Dict)
		if !ok || stringMember(m, "role") != "tool" {
			kept, results = append(kept, v), nil
			continue
		}
		if err := joinContent(i, m); err != nil {
			return err
		}
		content, _ := m.GetStr("content")
		said, ok := content.(*value.Str)
		switch {
		case !ok:
			kept, results = append(kept, v), nil
			continue
		case results == nil:
			results = m
			kept = append(kept, m)
			if err := m.Set(value.Text("role"), value.Text("user")); err != nil {
				return err
			}
			continue
		}
		if err := appendText(results, "", func(bool) *value.Str {
			return value.Concat(value.Text("\n"),
				said)
		}); err != nil {
			return err
		}
	}
	list.Items = kept
	return nil
}

// toolJSON writes JSON as templates' tojson does.
func toolJSON(v value.Value) (*value.Str, error) {
	l := Limits{}.Filled()
	th := value.NewThread(l.Steps, l.Memory, time.Time{})
	return pylib.ToJSON(&th, v)
}

// textPart is a part of content that is text.
func textPart(s *value.Str) *value.Dict {
	return value.NewDict(member("type", value.Text("text")),
		member("text", s))
}

// emptyPart is content in parts that says nothing.
func emptyPart() *value.List { return &value.List{Items: []value.Value{textPart(value.Empty)}} }

// isText reports whether x is a constant string that says want.
func isText(x syntax.Expr, want string) bool {
	k, ok := x.(*syntax.Const)
	return ok && k.Value == want
}

// member is an entry of an object.
func member(name string, v value.Value) value.Entry {
	return value.Entry{Key: value.Text(name), Value: v}
}
