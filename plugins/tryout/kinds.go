package tryout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"

	"tgi/plugins/draft"
	"tgi/plugins/grammar/kind"
	"tgi/plugins/guard"
	"tgi/plugins/internal/guest"
	"tgi/plugins/logits"
	"tgi/plugins/program"
	"tgi/plugins/template"
	"tgi/plugins/tools"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// shown is how many tokens an answer lists.
const shown = 10

func (t *trial) process(s *guest.Session) error {
	p := logits.NewProcessor(s)
	if err := p.Prepare(t.prompt, t.output); err != nil {
		return err
	}
	row := t.row()
	before := append([]float32(nil), row...)
	effect, err := p.Process(t.prompt, t.output, row)
	if err != nil {
		return err
	}
	masked, changed := 0, 0
	var other []uint32
	for id := range row {
		switch {
		case row[id] == before[id]:
			continue
		case math.IsInf(float64(row[id]), -1):
			masked++
		default:
			changed++
		}
		other = append(other, uint32(id))
	}
	t.say("%d of %d tokens forbidden, the logits of %d changed", masked, len(row), changed)
	if effect.Stop {
		t.say("ends the text here")
	}
	if effect.Force >= 0 {
		t.say("forces token %s", t.token(uint32(effect.Force)))
	}
	if temperature := float64(effect.Temperature); !math.IsNaN(temperature) {
		t.say("sets the temperature to %g", temperature)
	}
	for _, id := range other[:min(len(other), shown)] {
		t.say("before %8.3f  after %8.3f  %s", before[id], row[id], t.token(id))
	}
	for _, id := range likeliest(row, 3) {
		t.say("likeliest now %8.3f  %s", row[id], t.token(id))
	}
	return nil
}

func (t *trial) sample(s *guest.Session) error {
	pick := logits.NewSampler(s)
	row := t.row()
	ids := likeliest(row, pick.Candidates())
	if len(ids) == 0 {
		return fmt.Errorf("all tokens are forbidden")
	}
	sum, highest := 0.0, float64(row[ids[0]])
	for _, x := range row {
		sum += math.Exp(float64(x) - highest)
	}
	var values, logprobs []float32
	for _, id := range ids {
		values = append(values, row[id])
		logprobs = append(logprobs, float32(float64(row[id])-highest-math.Log(sum)))
	}
	at, err := pick.Sample(ids, values, logprobs)
	if err != nil {
		return err
	}
	t.say("chose candidate %d of %d: %s, with probability %.4f", at, len(ids), t.token(ids[at]),
		math.Exp(float64(logprobs[at])))
	return nil
}

func (t *trial) check(s *guest.Session) error {
	watch := guard.NewChecker(s)
	view := llm.GuardView{Prompt: t.prompt, Output: t.output, Reason: llm.FinishLength}
	for _, id := range t.output {
		view.Text = append(view.Text, t.Vocabulary.Bytes(id)...)
		view.Ends = append(view.Ends, uint32(len(view.Text)))
	}
	v, err := watch.Check(&view)
	if err != nil {
		return err
	}
	t.say("%s at token %d of %d", v.Kind, v.Position, len(t.output))
	if v.Text != "" {
		t.say("text %q", v.Text)
	}
	if v.Why != "" {
		t.say("why: %s", v.Why)
	}
	for _, id := range v.Tokens[:min(len(v.Tokens), shown)] {
		t.say("token %s", t.token(id))
	}
	for _, b := range v.Biases[:min(len(v.Biases), shown)] {
		t.say("bias %v", b)
	}
	if v.Done {
		t.say("is not asked again")
	}
	return nil
}

func (t *trial) propose(s *guest.Session) error {
	room := make([]uint32, abi.MaxDraft)
	n, err := draft.NewProposer(s).Propose(t.prompt, t.output, room)
	if err != nil {
		return err
	}
	t.say("guesses %d tokens", n)
	for _, id := range room[:n] {
		t.say("token %s", t.token(id))
	}
	return nil
}

func (t *trial) compile(ctx context.Context) error {
	c := kind.Call{Language: t.Language, Source: []byte(t.Source), Params: t.Params}
	if c.Language == "" {
		c.Language = t.g.Description().Languages[0]
	}
	s, err := t.g.Open(t.Seed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	if !t.g.Description().Steps() {
		out, err := kind.Compile(s, c)
		if err != nil {
			return err
		}
		t.say("compiled %d bytes of %s to %d bytes", len(c.Source), c.Language, out.Size)
		for _, d := range out.Dropped {
			t.say("left out: %v", d)
		}
		return nil
	}
	p, err := kind.Begin(s, c, masks{})
	if err != nil {
		return err
	}
	for i, id := range t.output {
		if err := p.Accept(id); err != nil {
			return fmt.Errorf("token %d, %s: %w", i, t.token(id), err)
		}
	}
	mask := make([]uint32, abi.MaskWords(uint32(t.Vocabulary.Size())))
	constrained, err := p.Mask(mask)
	if err != nil {
		return err
	}
	if !constrained {
		t.say("any token may come")
		return nil
	}
	n := 0
	for _, w := range mask {
		n += bits.OnesCount32(w)
	}
	t.say("%d of %d tokens may come", n, t.Vocabulary.Size())
	for id, listed := uint32(0), 0; id < uint32(t.Vocabulary.Size()) && listed < shown; id++ {
		if mask[id/32]&(1<<(id%32)) != 0 {
			t.say("token %s", t.token(id))
			listed++
		}
	}
	return nil
}

func (t *trial) request(object map[string]any) []byte {
	if t.Request != nil {
		return t.Request
	}
	text, _ := json.Marshal(object) // texts and booleans
	return text
}

func (t *trial) render(ctx context.Context) error {
	s, err := t.g.Open(t.Seed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	out, err := template.Render(s, t.request(map[string]any{
		"messages":              []map[string]string{{"role": "user", "content": t.Prompt}},
		"add_generation_prompt": true, "continue_final_message": false, "now": "2024-01-31T12:00:00Z"}), t.Params)
	if err != nil {
		return err
	}
	t.say("%q", out.Text)
	return nil
}

func (t *trial) parse(ctx context.Context) error {
	s, err := t.g.Open(t.Seed, ctx.Done())
	if err != nil {
		return err
	}
	defer s.Close()
	function := map[string]any{"name": "f", "parameters": map[string]any{"type": "object"}}
	p, err := tools.Begin(s, t.request(map[string]any{
		"tools":       []map[string]any{{"type": "function", "function": function}},
		"tool_choice": "auto", "parallel_tool_calls": true, "prompt_end": t.Prompt}), t.Params)
	if err != nil {
		return err
	}
	tell := func(events []tools.Event, err error) error {
		for _, e := range events {
			t.say("%v %d text %q name %q", e.Kind, e.Index, e.Text, e.Name)
		}
		return err
	}
	var part []byte // of a character that several tokens write
	for _, id := range t.output {
		special := t.Vocabulary.Flags(id)&abi.TokenSpecial != 0
		part = append(part, t.Vocabulary.Bytes(id)...)
		n := whole(part)
		if err := tell(p.Feed(string(part[:n]), special)); err != nil {
			return err
		}
		part = part[n:]
	}
	return tell(p.Finish(false))
}

// whole returns how many bytes of a text there are without a character at its end that is not complete.
func whole(text []byte) int {
	for back := 1; back < min(len(text)+1, utf8.UTFMax); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if utf8.FullRune(text[at:]) {
				return len(text)
			}
			return at
		}
	}
	return len(text)
}

func (t *trial) program(ctx context.Context) error {
	h := program.NewSynthetic(t.Vocabulary, t.prompt)
	request := h.Request(t.Params)
	if t.Request != nil {
		request = guest.WithMember(t.Request, "params", t.Params)
	}
	err := program.Run(t.g, h, request, func(host any) (*guest.Session, error) {
		return t.g.OpenProgram(t.Seed, ctx.Done(), nil, host)
	})
	t.say("on a made-up model: emitted %d tokens and bytes, had %d tokens generated", h.Emitted, h.Generated)
	return err
}

// masks remembers those of one trial.
type masks map[uint64][]uint32

// Get implements kind.Masks.
func (m masks) Get(key uint64) []uint32 { return m[key] }

// Put implements kind.Masks.
func (m masks) Put(key uint64, words []uint32) { m[key] = words }

// Logits reads a JSON object of token ids and numbers; "" is none.
func Logits(text string) (map[uint32]float32, error) {
	var row map[uint32]float32
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return nil, errors.New(`want an object of token ids and numbers such as {"17": 3.5}`)
	}
	return row, nil
}
