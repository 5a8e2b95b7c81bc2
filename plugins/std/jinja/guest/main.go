// Command guest is the built-in template plugin: package jinja behind the
// contract of sdk/abi.
package main

import (
	"errors"

	"tgi/plugins/std/jinja"
	"tgi/sdk/go/chat"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/template"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "jinja", Version: "1.0.0", Config: true, Doc: "Renders the chat templates of Hugging Face's models.",
		Params: `{"type":"object","additionalProperties":false,"properties":{` +
			`"template":{"type":"string","description":"name of one of the model's templates; ` +
			`default: tool_use where tools are offered and the model has it, else default"}}}`,
	})
	plugin.Headroom(headroom)
	template.Register(open)
}

func main() {}

// headroom is what a conversation of some 100,000 tokens needs.
const headroom = 16 << 20

// settings are the plugin's configuration.
type settings struct {
	source string
	parts  jinja.Parts
	keep   bool // tools
	files  map[string]string
	model  chat.Model
}

func readSettings(config []byte) (s settings, err error) {
	s.parts = jinja.PartsAuto
	r := params.Read(config)
	for key := range r.Object() {
		switch key {
		case "source":
			s.source = r.String()
		case "parts":
			s.parts = jinja.Parts(r.String())
		case "tools":
			switch r.String() {
			case "auto":
			case "keep":
				s.keep = true
			default:
				r.Fail("tools: want auto or keep")
			}
		case "files":
			s.files = map[string]string{}
			for name := range r.Object() {
				s.files[name] = r.String()
			}
		case "model":
			s.model = chat.ReadModel(r)
		default:
			r.Fail("unknown setting: " + key)
		}
	}
	return s, r.Close()
}

// renderer is the model's templates.
type renderer struct{ model *jinja.Model }

func open(config []byte) (template.Plugin, error) {
	s, err := readSettings(config)
	if err != nil {
		return nil, err
	}
	if s.source != "" {
		s.model.Templates = map[string]string{"default": s.source}
	}
	m, err := jinja.NewModel(s.model.Templates, s.model.Tokens, s.parts)
	var syntax *jinja.SyntaxError
	if errors.As(err, &syntax) && s.files[syntax.Name] != "" {
		named := *syntax
		named.Name = s.files[syntax.Name]
		return nil, &named
	}
	if err != nil {
		return nil, err
	}
	if s.keep {
		m.KeepTools()
	}
	return renderer{m}, nil
}

// Validate refuses parameters that it does not know. Which names there are is told when one is used.
func (renderer) Validate(raw []byte) error {
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "template":
			_ = r.String()
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	return r.Close()
}

// Render implements template.Plugin.
func (p renderer) Render(request template.Request, out *template.Output) error {
	segments, err := p.model.Render(request, jinja.InSandbox)
	if err != nil {
		return refusal(err)
	}
	for _, s := range segments {
		if s.Data {
			out.Data(s.Text)
		} else {
			out.Template(s.Text)
		}
	}
	return nil
}

// refusal is the client's error text: an error that the template raised is passed on alone, because its author wrote it
// for people.
func refusal(err error) error {
	var e *jinja.RenderError
	if errors.As(err, &e) && errors.Is(err, jinja.ErrRaised) {
		return errors.New(e.Msg)
	}
	return err
}
