package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/plugins/std/jinja/value"
)

// Model is the templates that a model brings, with its special tokens. It is
// immutable: any number of goroutines may render with it at once.
type Model struct {
	templates map[string]*modelTemplate
	tokens    []value.Entry
	parts     Parts
	keepTools bool
}

type modelTemplate struct {
	*Template
	forms *templateForms
	toolSupport
}

// Parts says what becomes of content that is a list of parts, and of content
// that is a string where the template wants parts.
type Parts string

// The ways with parts.
const (
	// PartsAuto gives content the form that the template shows, for each role: it
	// joins the texts of a list to one string where the template shows strings and
	// not lists, and makes a list of a string where it is the other way round.
	// What it shows is tried when the template is loaded.
	PartsAuto Parts = "auto"
	// PartsJoin joins them always.
	PartsJoin Parts = "join"
	// PartsKeep gives the template the list, as transformers does. The
	// conversation stays as it is in other respects too: see Render.
	PartsKeep Parts = "keep"
)

// NewModel parses the templates, by name. tokens are the texts of special
// tokens by the names of their variables; they count as the template's own
// text. The error is that of Parse, or says that parts is unknown.
func NewModel(sources, tokens map[string]string, parts Parts) (*Model, error) {
	if parts != PartsAuto && parts != PartsJoin && parts != PartsKeep {
		return nil, fmt.Errorf("parts: want %s, %s or %s, not %q", PartsAuto, PartsJoin, PartsKeep, string(parts))
	}
	m := &Model{templates: map[string]*modelTemplate{}, parts: parts}
	for _, name := range sorted(sources) {
		t, tree, err := parse(name, sources[name])
		if err != nil {
			return nil, err
		}
		m.templates[name] = &modelTemplate{Template: t, toolSupport: toolSupportOf(tree.Body)}
	}
	for _, name := range sorted(tokens) {
		m.tokens = append(m.tokens, value.Entry{Key: value.Text(name), Value: value.Text(tokens[name])})
	}
	if parts != PartsKeep {
		var spent int64
		for _, name := range sorted(sources) {
			m.templates[name].forms = probeForms(m.templates[name].Template, m.tokens, &spent)
		}
	}
	return m, nil
}

// KeepTools leaves tools to the templates: one that does not read them shows
// none. For models whose calls are read in another format than the one that
// Render's words ask for. Call it before the first Render.
func (m *Model) KeepTools() { m.keepTools = true }

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Render renders a request, the JSON object that sdk/abi describes at the kind
// template. Its variables are those that transformers' apply_chat_template
// sets: messages, tools, documents, add_generation_prompt, the special tokens,
// and the members of "kwargs", which win over special tokens of their name.
// Special tokens, and the roles that models know, count as the template's text.
//
// Unless parts are to be kept, messages get the forms that the template was seen to
// show when it was loaded: content as text or parts, an assistant's content that is
// null, arguments of calls as an object or as text. Arguments are objects in the
// request, beside the text that the client wrote as "arguments_text". If the
// template fails, the forms that it might read as well are tried. The error is that
// of the first.
//
// A template that nowhere reads the variable tools would keep them from the model.
// Unless parts or tools are to be kept, the tools are then added to the last message that
// is no assistant's, as TGI does: a rule, the tools as JSON, and the words that the
// message has as "tool_prompt" and at its end, or else TGI's default ones. Calls of
// earlier turns become text where the template shows none, and tools' turns become
// the user's where it tells roles apart and knows no role tool.
//
// Of several templates it takes the one that the request names; else that of
// name "tool_use", if tools are offered; else "default". Errors are those of
// RenderChat.
func (m *Model) Render(request []byte, l Limits) ([]Segment, error) {
	l = l.Filled()
	var first error
	for _, a := range attempts {
		var spent int64
		out, err := m.render(request, l, a, &spent)
		if err == nil {
			return out, nil
		}
		if first == nil {
			first = err
		}
		if m.parts == PartsKeep || !errors.Is(first, ErrRender) || errors.Is(err, ErrLimit) {
			break
		}
		l.Steps = max(1, l.Steps-spent) // all attempts together do not cost more than one may
	}
	return nil, first
}

// errNoOtherForm ends an attempt that would repeat an earlier one, errNotShown one whose
// output lacks the content.
var (
	errNoOtherForm = errors.New("there is no other form")
	errNotShown    = errors.New("the other form is not shown")
)

func (m *Model) render(request []byte, l Limits, a attempt, spent *int64) ([]Segment, error) {
	r, err := value.DecodeObject(request, func(string) value.Origin { return value.FromData })
	if err != nil {
		return nil, err
	}
	if err := eachMessage(r, trustRole); err != nil {
		return nil, err
	}
	vars, err := m.variables(r)
	if err != nil {
		return nil, err
	}
	t, err := m.choose(r)
	if err != nil {
		return nil, err
	}
	if m.parts != PartsKeep && !m.keepTools {
		if err := t.addTools(r); err != nil {
			return nil, err
		}
	}
	f := &messageWriter{templateForms: t.forms, attempt: a, join: m.parts == PartsJoin}
	if m.parts != PartsKeep {
		if err := eachMessage(r, f.write); err != nil {
			return nil, err
		}
	}
	if f.changed != a {
		return nil, errNoOtherForm
	}
	if err := eachMessage(r, dropExtras); err != nil {
		return nil, err
	}
	now, err := timeOf(r)
	if err != nil {
		return nil, err
	}
	going, _ := r.GetStr("continue_final_message")
	out, err := t.renderChat(vars, now, ChatOptions{ContinueFinal: going == value.Bool(true)}, l, spent)
	if err == nil && !f.shows(out) {
		return nil, errNotShown
	}
	return out, err
}

// timeOf is the time of the request; none is the zero time.
func timeOf(r *value.Dict) (now time.Time, err error) {
	if s := stringMember(r, "now"); s != "" {
		if now, err = time.Parse(time.RFC3339, s); err != nil {
			return now, fmt.Errorf("%w: now is not a time in RFC 3339: %q", ErrInput, s)
		}
	}
	return now, nil
}

// variables makes the template's variables from the request's members.
func (m *Model) variables(r *value.Dict) (*value.Dict, error) {
	vars := &value.Dict{}
	for _, e := range m.tokens {
		_ = vars.Set(e.Key, e.Value) // string keys hash, so set cannot fail
	}
	own := []string{"messages", "tools", "documents", "add_generation_prompt"}
	kwargs, _ := r.GetStr("kwargs")
	documents, _ := r.GetStr("documents")
	if d, ok := kwargs.(*value.Dict); ok {
		for _, e := range d.Entries() {
			name := e.Key.(*value.Str).String()
			if name == "documents" && (documents == nil || documents == value.None) {
				// some clients have no other place for them
				own = slices.DeleteFunc(own, func(n string) bool { return n == name })
			}
			if slices.Contains(own, name) {
				return nil, fmt.Errorf("%w: kwargs: %s is a member of the request itself", ErrInput, name)
			}
			_ = vars.Set(value.Text(e.Key.(*value.Str).String()), e.Value)
		}
	}
	for _, name := range own {
		v, ok := r.GetStr(name)
		if !ok {
			v = value.None
		}
		_ = vars.Set(value.Text(name), v)
	}
	return vars, nil
}

// choose finds the request's template.
func (m *Model) choose(r *value.Dict) (*modelTemplate, error) {
	name := stringMember(r, "template")
	if params, _ := r.GetStr("params"); name == "" {
		if d, ok := params.(*value.Dict); ok {
			name = stringMember(d, "template")
		}
	}
	tools, _ := r.GetStr("tools")
	switch {
	case name != "":
		if t := m.templates[name]; t != nil {
			return t, nil
		}
		return nil, fmt.Errorf("%w: template %q is none of this model's: %s", ErrInput, name, m.names())
	case tools != nil && tools != value.None && m.templates["tool_use"] != nil:
		return m.templates["tool_use"], nil
	case m.templates["default"] != nil:
		return m.templates["default"], nil
	case len(m.templates) == 0:
		return nil, fmt.Errorf("%w: the model has no chat template", ErrInput)
	}
	return nil, fmt.Errorf("%w: the model has no template of name default: name one of %s", ErrInput, m.names())
}

func (m *Model) names() string { return strings.Join(sorted(m.templates), ", ") }

// stringMember is the text of a string member, or nothing.
func stringMember(d *value.Dict, name string) string {
	v, _ := d.GetStr(name)
	if s, ok := v.(*value.Str); ok {
		return s.String()
	}
	return ""
}

// eachMessage calls f for the messages. Those that are none are for RenderChat to refuse.
func eachMessage(r *value.Dict, f func(i int, message *value.Dict) error) error {
	messages, _ := r.GetStr("messages")
	list, ok := messages.(*value.List)
	if !ok {
		return nil
	}
	for i, v := range list.Items {
		if d, ok := v.(*value.Dict); ok {
			if err := f(i, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// trustRole makes a role that models know text of the template: many write
// "<|" + role + "|>", which is one special token. Any other role stays data, or it
// could forge one.
func trustRole(_ int, message *value.Dict) error {
	switch role := stringMember(message, "role"); role {
	case "system", "developer", "user", "assistant", "tool", "function", "ipython", "observation":
		return message.Set(value.Text("role"), value.Text(role))
	}
	return nil
}
