package check

import (
	"context"
	"fmt"
	"strings"

	"tgi/plugins/internal/guest"
	"tgi/plugins/template"
	"tgi/plugins/tools"
)

// The made-up conversation and text of the measurements.
const (
	benchMessages = 50
	benchTools    = 10
	benchRenders  = 50
)

// renderName and feedName are the names of the series of a conversation and of pieces of text.
const (
	renderName = "render"
	feedName   = "feed"
)

// benchTool is a tool that a conversation offers.
func benchTool(i int) string {
	return fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":"Looks something up, by name and place.","parameters":`+
		`{"type":"object","properties":{"name":{"type":"string","description":"The name."},"place":{"type":"string","enum":["here","there"]},"count":{"type":"integer"}},"required":["name"]}}}`, i)
}

func benchToolList() string {
	list := make([]string, benchTools)
	for i := range list {
		list[i] = benchTool(i)
	}
	return `"tools":[` + strings.Join(list, ",") + `]`
}

// benchConversation is what a template renders: turns of user and assistant, some 300 bytes each.
func benchConversation() []byte {
	messages := make([]string, benchMessages)
	for i := range messages {
		messages[i] = fmt.Sprintf(`{"role":"%s","content":"%d. %s"}`, []string{"user", "assistant"}[i%2], i,
			strings.Repeat("Some words of a long talk. ", 10))
	}
	return []byte(`{"messages":[` + strings.Join(messages, ",") + `],` + benchToolList() +
		`,"add_generation_prompt":true,"continue_final_message":false,"now":"2024-01-31T12:00:00Z"}`)
}

// benchText is what a parser is fed: reasoning, an answer and a call, cut where tokens might be.
func benchText() (pieces []string) {
	text := "<think>\n" + strings.Repeat("Let me think about this for a while. ", 8) + "\n</think>\n\n" +
		strings.Repeat("Here is a part of the answer, with numbers like 42. ", 12) +
		"\n<tool_call>\n{\"name\": \"tool_3\", \"arguments\": {\"name\": \"somebody\", \"place\": \"here\", \"count\": 12}}\n</tool_call>"
	for text != "" {
		n := min(len(text), 4)
		if marker := strings.IndexByte(text, '>'); text[0] == '<' && marker > 0 {
			n = marker + 1
		} else if at := strings.IndexByte(text[1:n], '<'); at >= 0 {
			n = at + 1
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// renders measures what a template does for each request.
func (r *running) renders(ctx context.Context) error {
	request := benchConversation()
	for range benchRenders {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.measure(func() error { return r.g.Validate(nil, r.params) }, always("validate")); err != nil {
			return err
		}
		s, err := r.g.Open(r.o.Seed, nil)
		if err != nil {
			return err
		}
		memory := len(s.Memory())
		err = r.measure(func() error {
			_, err := template.Render(s, request, r.params)
			return err
		}, always(renderName))
		r.run.Memory, r.run.Grown = max(r.run.Memory, memory), max(r.run.Grown, len(s.Memory())-memory)
		r.end(s)
		if err != nil {
			return err
		}
	}
	return nil
}

// texts measures what a parser does for each request, and with each piece of text.
func (r *running) texts(ctx context.Context, steps int) error {
	request := []byte("{" + benchToolList() + `,"tool_choice":"auto","parallel_tool_calls":true,"prompt_end":""}`)
	pieces := benchText()
	for r.step = -benchWarm; r.step < steps; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.constraint(); err != nil {
			return err
		}
		s, err := r.g.Open(r.o.Seed, nil)
		if err != nil {
			return err
		}
		err = r.text(s, request, pieces, steps)
		r.end(s)
		if err != nil {
			return err
		}
	}
	return nil
}

// constraint measures what a parser that says what texts are held to does for a request that demands a call.
func (r *running) constraint() error {
	s, err := r.g.Open(r.o.Seed, nil)
	if err != nil {
		return err
	}
	defer r.end(s)
	if !s.Guest().Has("tgi_tools_constraint") {
		return nil
	}
	request := []byte("{" + benchToolList() + `,"tool_choice":"required","parallel_tool_calls":true,"prompt_end":""}`)
	return r.measure(func() error {
		_, err := tools.Constrain(s, request, r.params)
		return err
	}, always("constraint"))
}

// text measures one text.
func (r *running) text(s *guest.Session, request []byte, pieces []string, steps int) error {
	memory := len(s.Memory())
	var p *tools.Parser
	err := r.measure(func() (err error) {
		p, err = tools.Begin(s, request, r.params)
		return err
	}, always("begin of a text"))
	if err != nil {
		return err
	}
	for i, piece := range pieces {
		if r.step == steps {
			break
		}
		err := r.measure(func() error {
			_, err := p.Feed(piece, piece[0] == '<')
			return err
		}, func(bool) string {
			if r.step < 0 {
				return ""
			}
			return feedName
		})
		if err != nil {
			return fmt.Errorf("piece %d of a text: %w", i, err)
		}
		r.step++
	}
	err = r.measure(func() error {
		_, err := p.Finish(false)
		return err
	}, always("finish"))
	r.run.Memory, r.run.Grown = max(r.run.Memory, memory), max(r.run.Grown, len(s.Memory())-memory)
	return err
}
