package guest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"tgi/sdk/abi"
)

// guard is how many bytes behind each room the guest must leave alone, and
// what stands in them.
const (
	guard     = 64
	guardByte = 0xa5
)

// ready loads the guest up to the point where the server takes its snapshot.
func (r *run) ready(d *Description, config string) (*prepared, bool) {
	in, ok := r.load()
	if !ok {
		return nil, false
	}
	if d.serves(abi.KindTemplate) || d.serves(abi.KindTools) {
		config = WithModel(config)
	}
	p := &prepared{instance: in, d: d}
	if ok = p.layOut(); ok {
		var fault string
		if fault, ok = in.handed("tgi_init", config); ok && fault != "" {
			r.report("init", "%s", fault)
			ok = false
		}
	}
	if !ok {
		in.Close()
		return nil, false
	}
	return p, true
}

// prepared is an instance with the rooms that the host uses at every step.
type prepared struct {
	*instance
	d                     *Description
	step, view, row, cand uint32
	guarded               []span
}

func (p *prepared) layOut() (ok bool) {
	vocab := p.world.VocabSize()
	if p.d.serves(abi.KindLogits) {
		if p.step, ok = p.stepRoom(); !ok {
			return false
		}
	}
	for _, room := range []struct {
		at   *uint32
		size uint32
	}{
		{&p.view, p.viewCount() * abi.ViewEntrySize},
		{&p.row, p.rowCount() * 4},
		{&p.cand, p.candidates() * abi.CandidateSize},
	} {
		if room.size == 0 {
			continue
		}
		at, ok := p.alloc(room.size + guard)
		if !ok {
			return false
		}
		*room.at = at
		p.guarded = append(p.guarded, span{at + room.size, guard})
		copy(p.Memory()[at+room.size:], bytes.Repeat([]byte{guardByte}, guard))
	}
	return vocab > 0
}

func (p *prepared) viewCount() uint32 { return min(uint32(p.d.TopK), p.world.VocabSize()) }

func (p *prepared) rowCount() uint32 {
	if !p.d.Row {
		return 0
	}
	return p.world.VocabSize()
}

func (p *prepared) candidates() uint32 {
	if !p.d.serves(abi.KindSampler) {
		return 0
	}
	n := uint32(p.d.Candidates)
	if n == 0 {
		n = abi.DefaultCandidates
	}
	return min(n, p.world.VocabSize())
}

func (p *prepared) stepRoom() (uint32, bool) {
	v, ok := p.call("tgi_logits_step")
	if !ok {
		return 0, false
	}
	at := uint32(v)
	if _, inside := p.read(at, abi.StepSize); at == 0 || at%abi.Alignment != 0 || !inside {
		p.run.report("step-room", "%#x, memory ends at %#x", at, len(p.Memory()))
		return 0, false
	}
	if again, ok := p.call("tgi_logits_step"); !ok || uint32(again) != at {
		p.run.report("step-room", "first %#x, then %#x", at, uint32(again))
		return 0, false
	}
	return at, true
}

func (p *prepared) begin() (*prepared, bool) {
	f, ok := p.fork()
	if !ok {
		return nil, false
	}
	q := *p
	q.instance = f
	return &q, true
}

func (p *prepared) checkGuards(export string) {
	for _, g := range p.guarded {
		b, ok := p.read(g.at, g.size)
		if i := slices.IndexFunc(b, func(c byte) bool { return c != guardByte }); !ok || i >= 0 {
			p.run.report("overrun", "%s wrote at %#x, %d bytes behind the room", export, g.at+uint32(i), i)
		}
	}
}

// oneCase runs all that depends on configuration and parameters. more are parameters to try the guest's word on its
// state with, too.
func (r *run) oneCase(d *Description, more []string) {
	base, ok := r.ready(d, r.now.Config)
	if !ok {
		return
	}
	defer base.Close()
	refused, ok := base.validate()
	if !ok {
		return
	}
	if refused != "" != r.now.Refused {
		r.report("validate", "%s", answerText("tgi_validate", refused))
		return
	}
	first, ok := base.play(promptA)
	if !ok || r.now.Refused {
		return
	}
	if again, ok := base.play(promptA); ok {
		r.same("deterministic", first, again)
	}
	// the other kinds have just begun many sequences, all different
	if d.serves(abi.KindLogits) || d.serves(abi.KindSampler) {
		base.play(promptB)
		if again, ok := base.play(promptA); ok {
			r.same("fresh", first, again)
		}
	}
	for _, kind := range []string{abi.KindLogits, abi.KindSampler} {
		if d.serves(kind) {
			base.state(kind, promptA, more)
		}
	}
	if d.serves(abi.KindTemplate) {
		base.forge()
	}
	if d.serves(abi.KindTools) {
		base.splits()
	}
}

func (p *prepared) validate() (fault string, ok bool) {
	q, ok := p.begin()
	if !ok {
		return "", false
	}
	defer q.Close()
	return q.handed("tgi_validate", p.run.now.Params)
}

func (r *run) same(rule string, want, got []Answer) {
	if len(want) != len(got) {
		r.report(rule, "%d answers, then %d", len(want), len(got))
		return
	}
	for i := range want {
		if a, b := want[i].String(), got[i].String(); a != b {
			r.report(rule, "answer %d: %s, then %s", i, a, b)
			return
		}
	}
}

// Answer is what a guest answered to one call of process or sample, to one
// conversation, or to one text.
type Answer struct {
	// Kind is abi.KindLogits ...
	Kind string
	// Fault is the text of a step or render that failed; the rest is then zero.
	Fault string
	// Mode and Flags are those of the contract, Out is the array in bytes, or a
	// grammar's form or mask, nil where all tokens may come.
	Mode, Flags uint32
	Out         []byte
	// Temperature is NaN when the request's stays.
	Temperature float32
	Force       []uint32
	// Index is the sampler's choice, or the position of a guard's verdict, which is Mode.
	Index int
	// Text and Spans are what a template rendered, Spans as pairs of offsets. Text
	// also is what a grammar leaves out, and what a text is held to.
	Text  string
	Spans [][2]uint32
	// Events are what a text came to, those that go on from one another joined.
	Events []Event
}

// String tells all of the answer: two are alike when their strings are.
func (a Answer) String() string {
	if a.Fault != "" {
		return a.Kind + " fault " + a.Fault
	}
	switch a.Kind {
	case abi.KindGuard:
		return guardText(a)
	case abi.KindDraft:
		return fmt.Sprintf("%s %d", a.Kind, a.Force)
	case abi.KindSampler:
		return fmt.Sprintf("%s %d", a.Kind, a.Index)
	case abi.KindTemplate:
		return fmt.Sprintf("%s %q data %d", a.Kind, a.Text, a.Spans)
	case abi.KindProgram:
		return a.Kind + " done"
	case abi.KindTools:
		return fmt.Sprintf("%s %v%s", a.Kind, a.Events, a.Text)
	case abi.KindGrammar:
		return fmt.Sprintf("%s force %d out % x notes %s", a.Kind, a.Force, a.Out, a.Text)
	}
	return fmt.Sprintf("%s %s flags %d temperature %v force %d out % x", a.Kind, abi.ModeNames[a.Mode], a.Flags,
		a.Temperature, a.Force, a.Out)
}

// Play runs one case and returns what the guest answered: for comparing
// guests that should be alike, and for records of what a guest does.
func Play(g Guest, c Case) ([]Answer, []Violation) {
	c = withDefaults(c)
	r := &run{guest: g, seen: map[string]bool{}, now: &c}
	if r.signatures(); len(r.found) > 0 {
		return nil, r.found
	}
	d := r.describe()
	if d == nil {
		return nil, r.found
	}
	if r.kinds(d); len(r.found) > 0 {
		return nil, r.found
	}
	base, ok := r.ready(d, c.Config)
	if !ok {
		return nil, r.found
	}
	defer base.Close()
	answers, _ := base.play(promptA)
	return answers, r.found
}

var (
	promptA = []uint32{'a', 'b', 256, 'a', 'b'}
	promptB = []uint32{256, 'z', 'z', 'z'}
)

// steps is how long a sequence of the kit is, and seed that of its random
// numbers.
const (
	steps = 24
	seed  = 7
)

// play runs one sequence of every kind from the snapshot.
func (p *prepared) play(prompt []uint32) (answers []Answer, ok bool) {
	for _, kind := range Kinds {
		if !p.d.serves(kind) {
			continue
		}
		var a []Answer
		switch kind {
		case abi.KindTemplate:
			a, ok = p.renders()
		case abi.KindTools:
			a, ok = p.parses()
		case abi.KindGrammar:
			a, ok = p.grammars()
		case abi.KindGuard:
			a, ok = p.guards(prompt)
		case abi.KindProgram:
			a, ok = p.programs()
		default:
			a, ok = p.playSteps(kind, prompt)
		}
		if !ok {
			return nil, false
		}
		answers = append(answers, a...)
	}
	return answers, true
}

// playSteps runs one sequence of a kind of the token loop.
func (p *prepared) playSteps(kind string, prompt []uint32) (answers []Answer, ok bool) {
	q, ok := p.begin()
	if !ok {
		return nil, false
	}
	p.world.Seed = seed
	s := &sequence{prepared: q, kind: kind, tokens: slices.Clone(prompt), prompt: uint32(len(prompt))}
	defer s.Close()
	return s.play()
}

// logit is a row that differs at every position: values from -8 to below 8.
func logit(position, id uint32) float32 {
	h := (position*0x9e3779b1 ^ id*0x85ebca6b) + 0x7f4a7c15
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 13
	return float32(h>>8)/(1<<20) - 8
}

var negativeInfinity = float32(math.Inf(-1))

// answerText says what a function answered to parameters that it should have answered otherwise; "" is that it accepts
// them.
func answerText(function, refusal string) string {
	if refusal == "" {
		return function + " accepts parameters that must be refused"
	}
	return fmt.Sprintf("%s refuses parameters that must be accepted, and says %q", function, refusal)
}
