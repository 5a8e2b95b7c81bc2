package plugins

import (
	"context"
	"errors"

	"tgi/plugins/grammar/kind"
	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// selfTestSources are grammars in the languages that have a meaning for everyone; a guest that refuses one is fine.
var selfTestSources = map[string]string{
	"json_schema": `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`,
	"json_object": "", "regex": "[a-z]+", "choice": `["yes","no"]`, "gbnf": `root ::= "a"`, "lark": `start: "a"`,
}

// selfTestGrammar has a guest of kind grammar compile a made-up source in each of its languages, or follow one of them.
func selfTestGrammar(ctx context.Context, g *guest.Guest) error {
	for _, language := range g.Description().Languages {
		err := selfTestSource(ctx, g, kind.Call{Language: language, Source: []byte(selfTestSources[language])})
		var no *guest.Refusal
		if err != nil && !errors.As(err, &no) {
			return err
		}
	}
	return nil
}

func selfTestSource(ctx context.Context, g *guest.Guest, c kind.Call) error {
	s, err := g.Open(selfTestSeed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	if !g.Description().Steps() {
		_, err := kind.Compile(s, c)
		return err
	}
	p, err := kind.Begin(s, c, &maskMemory{})
	if err != nil {
		return err
	}
	bits := make([]uint32, abi.MaskWords(uint32(g.Vocabulary().Size())))
	for range selfTestSteps {
		constrained, err := p.Mask(bits)
		if err != nil {
			return err
		}
		next := selfTestTokens(g.Vocabulary())[0]
		if constrained {
			for next = 0; bits[next/32]&(1<<(next%32)) == 0; next++ {
			}
		}
		if g.Vocabulary().Flags(next)&abi.TokenEnd != 0 {
			return nil
		}
		if err := p.Accept(next); err != nil {
			return err
		}
	}
	return nil
}
