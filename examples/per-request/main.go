// Command per-request is the plugin choice: the answer is one of the strings
// in the request's parameter "answers", and the model chooses which.
package main

import (
	"errors"
	"slices"

	"tgi/sdk/go/logits"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "choice", Version: "1.0.0", Doc: "The answer is one of those given.",
		Params: `{"type":"object","additionalProperties":false,"required":["answers"],"properties":{` +
			`"answers":{"type":"array","minItems":1,"items":{"type":"string","minLength":1}}}}`,
	})
	logits.Register(logits.Uses{Modes: []logits.Mode{logits.Allow}}, open)
}

func main() {}

// choice is made once, before the server's snapshot, and shared by all
// sequences.
type choice struct {
	ends []uint32 // tokens that end the sequence
}

func open([]byte) (logits.Plugin, error) {
	var c choice
	for id := range plugin.VocabSize() {
		if plugin.IsEnd(id) {
			c.ends = append(c.ends, id)
		}
	}
	return c, nil
}

// Begin implements logits.Plugin.
func (c choice) Begin(raw []byte, _ []uint32) (logits.Processor, error) {
	s := &sequence{choice: c}
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "answers":
			for range r.Array() {
				ids, _ := plugin.Encode(r.String())
				s.answers = append(s.answers, ids)
			}
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	if len(s.answers) == 0 || slices.ContainsFunc(s.answers, func(ids []uint32) bool { return len(ids) == 0 }) {
		return nil, errors.New("answers: want at least one, and none empty")
	}
	return s, nil
}

// sequence is the state of one sequence.
type sequence struct {
	choice
	answers [][]uint32
	allowed []uint32 // kept from step to step, so that its memory is used again
}

// Process implements logits.Processor.
func (s *sequence) Process(step *logits.Step) error {
	written := step.Tokens[step.Prompt:]
	n := len(written)
	s.allowed = s.allowed[:0]
	for _, answer := range s.answers {
		switch {
		case slices.Equal(written, answer):
			s.allowed = append(s.allowed, s.ends...)
		case n < len(answer) && slices.Equal(written, answer[:n]):
			s.allowed = append(s.allowed, answer[n])
		}
	}
	if len(s.allowed) == 0 {
		return errors.New("another plugin has written what begins none of the answers")
	}
	step.Allow(s.allowed)
	return nil
}
