package jinja

import "strings"

// toolPrompt is TGI's default tool_prompt (router/src/server.rs,
// default_tool_prompt), which asks for {"name": ..., "parameters": {...}}.
const toolPrompt = "\nGiven the functions available, please respond with a JSON for a function call with its proper arguments " +
	"that best answers the given prompt. Respond in the format {name: function name, parameters: dictionary of argument name and its value}." +
	"Do not use variables.\n"

// toolRule separates what TGI adds to a message from the message.
const toolRule = "\n---\n"

// toolReading says which parts of a conversation with tools a template knows of.
// It goes by the syntax, as TGI does with minijinja's undeclared_variables.
type toolReading struct {
	tools   bool // the variable tools is read somewhere
	calls   bool // the name tool_calls occurs: calls of earlier turns are shown
	results bool // the role tool occurs, or none is told from another
}

// readsTools looks for tools in a template. Parameters of macros that are called
// tools are none: what is handed to such a macro counts.
func readsTools(body []stmt) toolReading {
	r := toolReading{results: true}
	own := map[expr]bool{} // loads of a macro's parameter
	inside := func(m *macroDef) {
		for _, p := range m.args {
			if p.name == "tools" {
				walk(m.body, func(stmt) {}, func(x expr) { own[x] = true })
			}
		}
	}
	roles, tool := false, false
	walk(body, func(n stmt) {
		switch n := n.(type) {
		case *macroStmt:
			inside(&n.macroDef)
		case *callBlock:
			inside(&n.macroDef)
		}
	}, func(x expr) {
		switch x := x.(type) {
		case *nameExpr:
			r.tools = r.tools || x.name == "tools" && x.ctx == ctxLoad && !own[x]
		case *attrExpr:
			r.calls = r.calls || x.attr == "tool_calls"
		}
		r.calls = r.calls || isText(x, "tool_calls")
		roles = roles || isText(x, "user") || isText(x, "assistant")
		tool = tool || isText(x, "tool")
	})
	r.results = tool || !roles
	return r
}

// explainTools puts into messages what a template that never reads tools would
// leave out: the tools that are offered behind the last message that is no
// assistant's, as TGI does; the calls of earlier turns as the text that the prompt
// asks for; and results as turns of the user.
func (r toolReading) explainTools(request *Dict) error {
	if r.tools {
		return nil
	}
	if !r.calls {
		if err := eachMessage(request, showCalls); err != nil {
			return err
		}
	}
	if !r.results {
		if err := showResults(request); err != nil {
			return err
		}
	}
	return offerTools(request)
}

// offerTools adds the tools to a message: what the request says of them is data.
func offerTools(request *Dict) error {
	tools, _ := request.getStr("tools")
	messages, _ := request.getStr("messages")
	offered, ok := tools.(*List)
	list, isList := messages.(*List)
	if !ok || len(offered.items) == 0 || !isList {
		return nil
	}
	m := spokenTo(list)
	if m == nil {
		return nil
	}
	shown, err := toolJSON(offered)
	if err != nil {
		return err
	}
	words := stringMember(m, "tool_prompt")
	return extend(m, toolRule+words, func(given bool) *Str {
		var b sbuf
		b.text(toolRule)
		b.put(shown.s, true)
		b.text("\n")
		if given && words != "" {
			b.put(words, true)
		} else {
			b.text(toolPrompt)
		}
		return b.done()
	})
}

// spokenTo is the last message that is no assistant's: the turn that the model
// answers, or the last of all.
func spokenTo(messages *List) (m *Dict) {
	for i := len(messages.items) - 1; i >= 0; i-- {
		d, ok := messages.items[i].(*Dict)
		if ok && m == nil {
			m = d
		}
		if ok && stringMember(d, "role") != "assistant" {
			return d
		}
	}
	return m
}

// extend adds text to a message's content, in place of the end that its text may
// have: given says whether it had.
func extend(m *Dict, end string, more func(given bool) *Str) error {
	content, _ := m.getStr("content")
	add := func(to *Dict, name string, s *Str) error {
		given := strings.HasSuffix(s.s, end)
		if given {
			s = s.sub(0, len(s.s)-len(end))
		}
		return to.set(text(name), join2(s, more(given)))
	}
	switch c := content.(type) {
	case *Str:
		return add(m, "content", c)
	case *List:
		if n := len(c.items); n > 0 {
			if last, ok := c.items[n-1].(*Dict); ok {
				if s, _ := partText(last); s != nil {
					return add(last, "text", s)
				}
			}
		}
		c.items = append(c.items, textPart(more(false)))
		return nil
	}
	return m.set(text("content"), more(false))
}

// showCalls gives an assistant's message its calls as text, in the format of
// toolPrompt.
func showCalls(_ int, message *Dict) error {
	var b sbuf
	err := eachCall(message, func(call *Dict) error {
		shown := &Dict{}
		for _, e := range [][2]string{{"name", "name"}, {"arguments", "parameters"}} {
			if v, ok := call.getStr(e[0]); ok {
				if err := shown.set(text(e[1]), v); err != nil {
					return err
				}
			}
		}
		s, err := toolJSON(shown)
		if err != nil {
			return err
		}
		b.text("\n")
		b.put(s.s, true)
		return nil
	})
	if err != nil || len(b.b) == 0 {
		return err
	}
	said := b.done()
	if content, _ := message.getStr("content"); content == nil || content == none || isEmpty(content) {
		said = said.sub(min(1, len(said.s)), len(said.s))
	}
	return extend(message, "", func(bool) *Str { return said })
}

// isEmpty says whether content says nothing.
func isEmpty(content Value) bool {
	switch c := content.(type) {
	case *Str:
		return c.s == ""
	case *List:
		return len(c.items) == 0
	}
	return false
}

// showResults makes one turn of the user of results that follow one another:
// templates that know no tools may demand that users and assistants take turns.
func showResults(request *Dict) error {
	messages, _ := request.getStr("messages")
	list, ok := messages.(*List)
	if !ok {
		return nil
	}
	var kept []Value
	var results *Dict // the turn that the next result belongs to
	for i, v := range list.items {
		m, ok := v.(*Dict)
		if !ok || stringMember(m, "role") != "tool" {
			kept, results = append(kept, v), nil
			continue
		}
		if err := joinContent(i, m); err != nil {
			return err
		}
		content, _ := m.getStr("content")
		said, ok := content.(*Str)
		switch {
		case !ok:
			kept, results = append(kept, v), nil
			continue
		case results == nil:
			results = m
			kept = append(kept, m)
			if err := m.set(text("role"), text("user")); err != nil {
				return err
			}
			continue
		}
		if err := extend(results, "", func(bool) *Str { return join2(text("\n"), said) }); err != nil {
			return err
		}
	}
	list.items = kept
	return nil
}

// toolJSON writes JSON as templates' tojson does.
func toolJSON(v Value) (*Str, error) {
	s, err := filterToJSON(&state{limits: Limits{}.filled()}, []Value{v, nil, nil, nil, nil})
	if err != nil {
		return nil, err
	}
	return s.(*Str), nil
}

// textPart is a part of content that is text.
func textPart(s *Str) *Dict {
	return &Dict{entries: []entry{{text("type"), text("text")}, {text("text"), s}}}
}

// emptyPart is content in parts that says nothing.
func emptyPart() *List { return &List{[]Value{textPart(emptyStr)}} }
