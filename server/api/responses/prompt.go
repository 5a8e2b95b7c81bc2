package responses

import (
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// speaking is an assistant's turn while its items are put together: templates know one message for reasoning, text and
// calls.
type speaking struct {
	thoughts, text strings.Builder
	calls          []byte // the elements of a JSON array
	called         int
}

// none reports whether nothing was said.
func (s *speaking) none() bool { return s.text.Len() == 0 && s.called == 0 }

// message returns the turn.
func (s *speaking) message() generate.Message {
	m := generate.Message{Role: "assistant", Calls: s.called > 0, HasText: strings.TrimSpace(s.text.String()) != ""}
	b := []byte(`{"role":"assistant","content":`)
	if s.text.Len() == 0 {
		b = append(b, "null"...)
	} else {
		b = wire.AppendString(b, s.text.String())
	}
	if s.thoughts.Len() > 0 {
		b = wire.AppendString(append(b, `,"reasoning_content":`...), s.thoughts.String())
	}
	if s.called > 0 {
		b = append(append(append(b, `,"tool_calls":[`...), s.calls...), ']')
	}
	m.JSON = append(b, '}')
	return m
}

// call adds a call.
func (s *speaking) call(i *item) {
	b := wire.AppendString(append(wire.Comma(s.calls, s.called), `{"id":`...), i.call)
	b = i.appendFunction(append(b, `,"type":"function","function":`...))
	s.calls = append(b, '}')
	s.called++
}

// messages returns items as templates read them.
func messages(instructions *string, items []item) []generate.Message {
	var list []generate.Message
	var open speaking
	var images []generate.Part
	var answered []*item // calls of MCP servers, whose outcomes follow the turn
	names := map[string]string{}
	add := func(role string, head []byte, parts []generate.Part) {
		m := generate.Message{Role: role}
		m.JSON = append(m.AppendContent(append(head, `,"content":`...), parts), '}')
		list = append(list, m)
	}
	// close ends the assistant's turn, and shows the images of tools: templates know none, so they follow as the
	// user's.
	end := func() {
		if !open.none() {
			list = append(list, open.message())
		}
		open = speaking{}
		for _, i := range answered {
			b := wire.AppendString([]byte(`{"role":"tool","tool_call_id":`), i.call)
			add("tool", wire.AppendString(append(b, `,"name":`...), i.name), i.parts)
		}
		answered = nil
	}
	show := func() {
		if len(images) > 0 {
			add("user", []byte(`{"role":"user"`), images)
		}
		images = nil
	}
	if instructions != nil && *instructions != "" {
		add("system", []byte(`{"role":"system"`), []generate.Part{{Text: *instructions}})
	}
	for k := range items {
		i := &items[k]
		if !i.output() {
			show()
		}
		if i.kind != kindMCPCall && len(answered) > 0 {
			end()
		}
		switch {
		case i.kind == kindMCPList:
		case i.kind == kindMCPCall:
			open.call(i)
			answered = append(answered, i)
		case i.kind == kindReasoning:
			if !open.none() {
				end()
			}
			open.thoughts.WriteString(i.text)
		case i.calls():
			names[i.call] = i.name
			open.call(i)
		case i.kind == kindMessage && i.role == "assistant":
			if open.called > 0 {
				end()
			}
			for _, p := range i.parts {
				open.text.WriteString(p.Text)
			}
		case i.output():
			end()
			b := wire.AppendString([]byte(`{"role":"tool","tool_call_id":`), i.call)
			if name := names[i.call]; name != "" {
				b = wire.AppendString(append(b, `,"name":`...), name)
			}
			var texts []string
			for _, p := range i.parts {
				if p.Image != nil {
					images = append(images, p)
				} else {
					texts = append(texts, p.Text)
				}
			}
			add("tool", b, []generate.Part{{Text: strings.Join(texts, "\n")}})
		default:
			end()
			add(i.role, wire.AppendString([]byte(`{"role":`), i.role), i.parts)
		}
	}
	show()
	end()
	return list
}

// without returns items without the first n that may be dropped: all but the messages of the system and of developers,
// and the last item. What tools said to calls that are dropped goes with them.
func without(items []item, n int) []item {
	dropped := map[string]bool{}
	var kept []item
	for k, i := range items {
		switch {
		case k == len(items)-1, i.kind == kindMessage && (i.role == "system" || i.role == "developer"):
		case n > 0:
			n--
			if i.calls() {
				dropped[i.call] = true
			}
			continue
		case i.output() && dropped[i.call]:
			continue
		}
		kept = append(kept, i)
	}
	return kept
}
