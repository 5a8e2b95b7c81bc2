package plugins

import (
	"context"
	"errors"

	"tgi/plugins/internal/guest"
	"tgi/plugins/template"
	"tgi/plugins/tools"
)

// The made-up conversation that every new version of the kinds template and tools must get through.
const (
	selfTestTool     = `{"type":"function","function":{"name":"get_time","description":"The time at a place.","parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}}}`
	selfTestMessages = `{"messages":[{"role":"user","content":"What time is it?"}],"add_generation_prompt":true,"continue_final_message":false,"now":"2024-01-31T12:00:00Z"}`
	selfTestRequest  = `{"tools":[` + selfTestTool +
		`],"tool_choice":"auto","parallel_tool_calls":true,"prompt_end":"What time is it?\n"}`
)

// selfTestPieces are what a model might write; which of them are special tokens is made up too.
var selfTestPieces = []struct {
	text    string
	special bool
}{{"It is", false}, {" é ", false}, {"<tool_call>", true}, {`{"name": "get_time", "arg`, false},
	{`uments": {"place": "here"}}`, false}, {"</tool_call>", true}, {"done", false}}

func selfTestTemplate(ctx context.Context, g *guest.Guest) error {
	s, err := g.Open(selfTestSeed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = template.Render(s, []byte(selfTestMessages), nil)
	return err
}

func selfTestTools(ctx context.Context, g *guest.Guest) error {
	if err := selfTestConstraint(ctx, g); err != nil {
		return err
	}
	s, err := g.Open(selfTestSeed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := tools.Begin(s, []byte(selfTestRequest), nil)
	if err != nil {
		return err
	}
	for _, piece := range selfTestPieces {
		if _, err := p.Feed(piece.text, piece.special); err != nil {
			return err
		}
	}
	_, err = p.Finish(false)
	return err
}

// selfTestConstraint asks a guest that can say so what the text is held to. That it is held to nothing is fine.
func selfTestConstraint(ctx context.Context, g *guest.Guest) error {
	s, err := g.Open(selfTestSeed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	var no *guest.Refusal
	if _, err = tools.Constrain(s, []byte(selfTestRequest), nil); errors.As(err, &no) {
		return nil
	}
	return err
}
