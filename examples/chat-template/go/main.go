// Command go is the chat template house-chat in Go. It writes what the demo
// model's own template writes, and begins conversations that have no system
// message with the one of the setting "system".
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
		Name: "house-chat", Version: "1.0.0", Config: true,
		Doc: "The demo model's format, with a system message of the house.",
	})
	template.Register(open)
}

func main() {}

// house is the operator's configuration.
type house struct{ system string }

func open(config []byte) (template.Plugin, error) {
	var h house
	r := params.Read(config)
	for key := range r.Object() {
		switch key {
		case "system":
			h.system = r.String()
		case "model":
			r.Skip()
		default:
			r.Fail("unknown setting: " + key)
		}
	}
	return h, r.Close()
}

// Render implements template.Plugin. What comes from the request is data: the
// marks of the format are recognised elsewhere alone.
func (h house) Render(request template.Request, out *template.Output) error {
	c, err := request.Read()
	if err != nil {
		return err
	}
	if err := onlyText(c.Messages); err != nil {
		return err
	}
	h.opening(c, out)
	for i, m := range c.Messages {
		switch m.Role {
		case "system":
			continue // the first one is in the opening; the model knows no other
		case "tool":
			out.Template("<|im_start|>tool\n<tool_response>\n")
			out.Data(m.Content)
			out.Template("\n</tool_response>")
		case "assistant":
			out.Template("<|im_start|>assistant\n")
			out.Data(m.Content)
			calls(m, out)
		default:
			out.Template("<|im_start|>")
			out.Data(m.Role)
			out.Template("\n")
			out.Data(m.Content)
		}
		if !c.ContinueFinalMessage || i+1 < len(c.Messages) {
			out.Template("<|im_end|>\n")
		}
	}
	if c.AddGenerationPrompt {
		out.Template("<|im_start|>assistant\n")
	}
	return nil
}

// onlyText refuses pictures and the like.
func onlyText(messages []chat.Message) error {
	for i, m := range messages {
		for _, p := range m.Parts {
			if p.Type != "text" {
				return errors.New("message " + strconv.Itoa(i) + ": this model reads text, not " + p.Type)
			}
		}
	}
	return nil
}

// opening writes the system message and the tools.
func (h house) opening(c template.Conversation, out *template.Output) {
	given := len(c.Messages) > 0 && c.Messages[0].Role == "system"
	empty := given && c.Messages[0].Content == "" || !given && h.system == ""
	if empty && len(c.Tools) == 0 {
		return
	}
	out.Template("<|im_start|>system\n")
	if given {
		out.Data(c.Messages[0].Content)
	} else {
		out.Template(h.system)
	}
	if len(c.Tools) > 0 {
		if !empty {
			out.Template("\n\n")
		}
		out.Template("You can call these tools:\n<tools>")
		for _, t := range c.Tools {
			out.Template("\n")
			out.Data(spaced(t.Raw))
		}
		out.Template("\n</tools>\nTo call a tool, answer with its name and arguments:\n<tool_call>\n" +
			`{"name": <name>, "arguments": <arguments>}` + "\n</tool_call>")
	}
	out.Template("<|im_end|>\n")
}

// calls writes the calls of an earlier turn.
func calls(m chat.Message, out *template.Output) {
	for i, call := range m.ToolCalls {
		if i > 0 || m.Content != "" {
			out.Template("\n")
		}
		out.Template("<tool_call>\n{\"name\": \"")
		out.Data(call.Name)
		out.Template("\", \"arguments\": ")
		if r := params.Read(call.Arguments); r.Peek() == '"' { // what the model wrote was no object
			out.Data(r.String())
		} else {
			out.Data(spaced(call.Arguments))
		}
		out.Template("}\n</tool_call>")
	}
}
