// Command per-request is the plugin choice: the answer is one of the strings
// in the request's parameter "answers", and the model chooses which.
package main

import (
	"errors"
	"slices"
	"strings"

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

// vocabulary is made once, before the server's snapshot, and shared by all
// sequences.
type vocabulary struct {
	ids     map[string]uint32 // by text
	longest int               // text
	ends    []uint32          // tokens that end the sequence
}

func open([]byte) (logits.Plugin, error) {
	v := &vocabulary{ids: map[string]uint32{}}
	for id := range plugin.VocabSize() {
		text, _ := plugin.TokenBytes(id)
		switch {
		case plugin.IsEnd(id):
			v.ends = append(v.ends, id)
		case !plugin.IsSpecial(id) && len(text) > 0:
			v.ids[string(text)] = id
			v.longest = max(v.longest, len(text))
		}
	}
	return v, nil
}

// Begin implements logits.Plugin.
func (v *vocabulary) Begin(raw []byte, _ []uint32) (logits.Processor, error) {
	s := &sequence{vocabulary: v}
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "answers":
			for range r.Array() {
				s.rests = append(s.rests, r.String())
			}
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	if len(s.rests) == 0 || slices.Contains(s.rests, "") {
		return nil, errors.New("answers: want at least one, and none empty")
	}
	return s, nil
}

// sequence is the state of one sequence.
type sequence struct {
	*vocabulary
	rests   []string // what is missing of the answers that are still possible
	allowed []uint32
}

// Process implements logits.Processor.
func (s *sequence) Process(step *logits.Step) error {
	for _, id := range step.Tokens[len(step.Tokens)-step.New:] {
		s.follow(id)
	}
	s.allowed = s.allowed[:0]
	for _, rest := range s.rests {
		if rest == "" {
			s.allowed = append(s.allowed, s.ends...)
		}
		for n := range min(len(rest), s.longest) {
			if id, ok := s.ids[rest[:n+1]]; ok {
				s.allowed = append(s.allowed, id)
			}
		}
	}
	step.Allow(s.allowed)
	return nil
}

// follow drops the answers that do not go on with the token.
func (s *sequence) follow(id uint32) {
	text, _ := plugin.TokenBytes(id)
	var rests []string
	for _, rest := range s.rests {
		if rest, ok := strings.CutPrefix(rest, string(text)); ok {
			rests = append(rests, rest)
		}
	}
	s.rests = rests
}
