// Command plainchat is plain-chat: a chat template for models without markup.
// Each message is a line such as "user: ...". Text of clients is written as data.
// The parameter "user" replaces the name "user" in these lines.
package main

import (
	"errors"
	"strconv"

	"tgi/sdk/go/chat"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/template"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "plain-chat", Version: "1.0.0",
		Doc:    "A line for each message, for models without markup.",
		Params: `{"type":"object","additionalProperties":false,"properties":{"user":{"type":"string","minLength":1,"maxLength":32}}}`,
	})
	template.Register(open)
}

func main() {}

// plain is the plugin. bos is the text of the model's first token.
type plain struct{ bos string }

func open(config []byte) (template.Plugin, error) {
	var m chat.Model
	r := params.Read(config)
	for key := range r.Object() {
		if key == "model" {
			m = chat.ReadModel(r)
		} else {
			r.Skip()
		}
	}
	return plain{m.Tokens["bos_token"]}, r.Close()
}

// Validate checks the request's parameters.
func (plain) Validate(raw []byte) error {
	_, err := userName(raw)
	return err
}

// userName reads the parameter "user". The result is empty if it is absent.
func userName(raw []byte) (name string, err error) {
	if raw == nil {
		return "", nil
	}
	r := params.Read(raw)
	for key := range r.Object() {
		if key != "user" {
			r.Fail("unknown parameter: " + key)
			continue
		}
		if r.Peek() != '"' {
			r.Skip()
		} else {
			name = r.String()
		}
		if len(name) < 1 || len(name) > 32 {
			r.Fail("user: want 1 to 32 bytes")
		}
	}
	return name, r.Close()
}

// Render implements template.Plugin.
func (p plain) Render(request template.Request, out *template.Output) error {
	c, err := request.Read()
	if err != nil {
		return err
	}
	if len(c.Tools) > 0 {
		return errors.New("this template shows no tools")
	}
	user, err := userName(c.Params)
	if err != nil {
		return err
	}
	out.Template(p.bos)
	for i, m := range c.Messages {
		switch {
		case m.Role == "user" && user != "":
			out.Data(user)
		case m.Role == "system" || m.Role == "user" || m.Role == "assistant" || m.Role == "tool":
			out.Template(m.Role)
		default:
			return errors.New("message " + strconv.Itoa(i) + ": unknown role \"" + m.Role + "\"")
		}
		out.Template(": ")
		for _, part := range m.Parts {
			if part.Type != "text" {
				return errors.New("message " + strconv.Itoa(i) + ": only text is understood, not " +
					orUntyped(part.Type))
			}
		}
		out.Data(m.Content)
		if !c.ContinueFinalMessage || i+1 < len(c.Messages) {
			out.Template("\n")
		}
	}
	if c.AddGenerationPrompt {
		out.Template("assistant:")
	}
	return nil
}

func orUntyped(kind string) string {
	if kind == "" {
		return "a part without type"
	}
	return kind
}
