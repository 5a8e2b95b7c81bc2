package jinja

import (
	"fmt"
	"slices"
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// attempt is a way to pass a conversation: in the formats that worked in the probes, or with other formats of content
// or arguments, since a template may fail with the former in a case that was not probed.
type attempt struct{ content, arguments bool }

// attempts in the order in which they are made.
var attempts = []attempt{{}, {arguments: true}, {content: true}, {content: true, arguments: true}}

// messageWriter rewrites messages into the formats that a template supports.
type messageWriter struct {
	*templateForms
	attempt
	join    bool    // lists of parts become strings, whatever the template reads
	changed attempt // what the attempt has changed so far

	texts []string // contents whose form the attempt changed
}

// write rewrites one message.
func (f *messageWriter) write(i int, message *value.Dict) error {
	if err := f.writeContent(i, message); err != nil {
		return err
	}
	return eachCall(message, f.writeArguments)
}

// writeContent rewrites a message's content.
func (f *messageWriter) writeContent(i int, message *value.Dict) error {
	role := stringMember(message, "role")
	content, given := message.GetStr("content")
	switch c := content.(type) {
	case *value.List:
		return f.writeParts(i, message, f.contentForm(role, c), c)
	case *value.Str:
		if calls, _ := message.GetStr("tool_calls"); c.String() == "" && role == "assistant" && calls != nil {
			return message.Set(value.Text("content"), f.empty())
		}
		if f.contentForm(role, c) != asText {
			return message.Set(value.Text("content"), &value.List{Items: []value.Value{textPart(c)}})
		}
		return nil
	}
	if role != "assistant" || given && content != value.None {
		return nil
	}
	return f.writeNull(message, given)
}

// writeNull rewrites an assistant's content that is null or missing.
func (f *messageWriter) writeNull(message *value.Dict, given bool) error {
	form := f.missing
	if given {
		form = f.null
	}
	if f.content {
		f.changed.content = true
		if form == nullIsEmpty {
			form = nullIsNull
		} else {
			form = nullIsEmpty
		}
	}
	switch {
	case form == nullAsGiven:
		return nil
	case form == nullIsNull:
		return message.Set(value.Text("content"), value.None)
	}
	return message.Set(value.Text("content"), f.empty())
}

// empty is an assistant's content beside calls where it has no text.
func (f *messageWriter) empty() value.Value {
	switch {
	case f.emptyIsNull:
		return value.None
	case f.emptyPart && !f.join:
		return emptyPart()
	}
	return value.Empty
}

// contentForm says what content of a role becomes.
func (f *messageWriter) contentForm(role string, content value.Value) contentForm {
	if f.join {
		return asText
	}
	list, isList := content.(*value.List)
	if c := f.forRole(role); !f.content {
		return c.choose(isList)
	}
	f.changed.content = true
	said, _ := content.(*value.Str)
	if isList {
		said, _, _ = joined(list)
	}
	if said != nil {
		f.texts = append(f.texts, strings.TrimFunc(said.String(), chars.IsSpace))
	}
	return f.forRole(role).alternative(isList)
}

// shows reports whether a rendering shows the contents whose form the attempt
// changed: a template that failed with one form may lose the other, or write it as
// Python does.
func (f *messageWriter) shows(out []Segment) bool {
	if len(f.texts) == 0 {
		return true
	}
	whole := Text(out)
	return !slices.ContainsFunc(f.texts, func(s string) bool {
		return !strings.Contains(whole, s) || s != "" && printedAsList(whole, s)
	})
}

// writeParts rewrites content that is a list.
func (f *messageWriter) writeParts(i int, message *value.Dict, form contentForm, parts *value.List) error {
	switch {
	case form == asParts:
		return nil
	case form == asOnePart:
		if s, _, _ := joined(parts); s != nil {
			return message.Set(value.Text("content"), &value.List{Items: []value.Value{textPart(s)}})
		}
		return nil // of images and text: as it is
	}
	return joinContent(i, message)
}

// writeArguments gives the arguments of a call their form. Where the client wrote
// text, that is what a template gets that shows text; any other gets the object
// that the text stands for.
func (f *messageWriter) writeArguments(call *value.Dict) error {
	arguments, _ := call.GetStr("arguments")
	object, ok := arguments.(*value.Dict)
	if !ok {
		return nil
	}
	asText := f.textArguments && !f.objectArguments
	written, _ := call.GetStr("arguments_text")
	if written != nil {
		asText = f.textArguments
	}
	if f.arguments {
		f.changed.arguments, asText = true, !asText
	}
	if !asText {
		return nil
	}
	if written == nil {
		var err error
		if written, err = toolJSON(object); err != nil {
			return err
		}
	}
	return call.Set(value.Text("arguments"), written)
}

// dropExtras removes the members that no template knows: the text of arguments and the
// message's tool_prompt.
func dropExtras(_ int, message *value.Dict) error {
	message.Remove("tool_prompt")
	return eachCall(message, func(call *value.Dict) error {
		call.Remove("arguments_text")
		return nil
	})
}

// eachCall calls f for the functions that a message calls.
func eachCall(message *value.Dict, f func(call *value.Dict) error) error {
	calls, _ := message.GetStr("tool_calls")
	list, ok := calls.(*value.List)
	if !ok {
		return nil
	}
	for _, v := range list.Items {
		call, _ := v.(*value.Dict)
		if call == nil {
			continue
		}
		if inner, _ := call.GetStr("function"); inner != nil {
			if call, ok = inner.(*value.Dict); !ok {
				continue
			}
		}
		if err := f(call); err != nil {
			return err
		}
	}
	return nil
}

// joinContent makes a string of content that is a list.
func joinContent(i int, message *value.Dict) error {
	content, _ := message.GetStr("content")
	parts, ok := content.(*value.List)
	if !ok {
		return nil
	}
	s, n, kind := joined(parts)
	if s == nil {
		return fmt.Errorf("%w: message %d: the template takes text only, and part %d of the content is of type %q",
			ErrInput, i, n, kind)
	}
	return message.Set(value.Text("content"), s)
}

// joined is the text of parts, a newline between two, as vLLM does it; nil where
// part n is none, but of another kind.
func joined(parts *value.List) (s *value.Str, n int, kind string) {
	var b value.Buffer
	for n, part := range parts.Items {
		s, kind := partText(part)
		if s == nil {
			return nil, n, kind
		}
		if n > 0 {
			b.Text("\n")
		}
		b.Str(s)
	}
	return b.Done(), 0, ""
}

// partText is the text of a part that is one; else its type.
func partText(part value.Value) (s *value.Str, kind string) {
	switch p := part.(type) {
	case *value.Str:
		return p, ""
	case *value.Dict:
		kind = stringMember(p, "type")
		if v, _ := p.GetStr("text"); kind == "text" || kind == "" {
			s, _ = v.(*value.Str)
		}
	}
	return s, kind
}
