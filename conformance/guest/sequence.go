package guest

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"tgi/sdk/abi"
)

// sequence feeds one kind of one instance as a server does.
type sequence struct {
	*prepared
	kind   string
	tokens []uint32
	prompt uint32
	room   uint32 // pointer to the tokens
	known  uint32 // how many tokens the last call had
	guess  uint32 // pointer to the room of a draft, 0 before there is one
	// foreign rows: others than at these positions, for a guest that says that it keeps nothing of them.
	foreign bool
	// long: so many tokens that a guest may have good reason to deny all of the kit's few. That ends the sequence.
	long bool
}

// most is how many tokens a sequence has room for: each step may force some.
const most = (steps + 2) * abi.MaxForced

func (s *sequence) play() (answers []Answer, ok bool) {
	fault, ok := s.start()
	if !ok {
		return nil, false
	}
	if refused := s.run.now.Refused; fault != "" != refused {
		s.run.report("begin", "%s", answerText("tgi_"+s.kind+"_begin", fault))
		return nil, false
	}
	if fault != "" {
		return nil, true
	}
	size := 0
	for i := range steps {
		var twin *Answer
		if i == steps/2 {
			twin, size = s.clone(), len(s.Memory())
		}
		a, ok := s.next()
		if !ok {
			return nil, false
		}
		if twin != nil && twin.String() != a.String() {
			s.run.report("clone", "clone %s, original %s", twin, a)
		}
		answers = append(answers, a)
		if a.Fault != "" || a.Flags&abi.FlagStop != 0 {
			return answers, true
		}
	}
	if grown := len(s.Memory()) - size; grown > 0 {
		s.run.report("steady", "%d bytes in %d steps", grown, steps/2)
	}
	return answers, true
}

func (s *sequence) start() (fault string, ok bool) {
	params, n, ok := s.hand([]byte(s.run.now.Params))
	if !ok {
		return "", false
	}
	if s.room, ok = s.alloc(4 * most); !ok {
		return "", false
	}
	copy(s.Memory()[s.room:], words(s.tokens...))
	s.known = s.prompt
	return s.text("tgi_"+s.kind+"_begin", abi.MaxText, params, n, uint64(s.room), uint64(s.prompt))
}

// clone lets a copy take the next step, and returns what it answered.
func (s *sequence) clone() *Answer {
	q, ok := s.begin()
	if !ok {
		return nil
	}
	defer q.Close()
	seed := s.world.Seed
	twin := *s
	twin.prepared, twin.tokens = q, slices.Clone(s.tokens)
	a, ok := twin.next()
	s.world.Seed = seed
	if !ok {
		return nil
	}
	return &a
}

func (s *sequence) next() (Answer, bool) {
	switch s.kind {
	case abi.KindSampler:
		return s.sample()
	case abi.KindDraft:
		return s.propose()
	}
	return s.process()
}

// process takes one step of kind logits.
func (s *sequence) process() (a Answer, ok bool) {
	position := uint32(len(s.tokens))
	row := make([]float32, s.world.VocabSize())
	for id := range row {
		row[id] = logit(position, uint32(id))
		if s.foreign {
			row[id] = logit(position+1000, uint32(id))
		}
	}
	s.fill(row)
	v, ok := s.call("tgi_logits_process", uint64(s.step))
	if !ok {
		return a, false
	}
	s.known = position
	s.checkGuards("tgi_logits_process")
	before := len(s.run.found)
	a = s.answer(int32(v), row)
	if len(s.run.found) > before {
		return a, false
	}
	if len(a.Force) > 0 {
		s.tokens = append(s.tokens, a.Force...)
	} else {
		s.tokens = append(s.tokens, best(row))
	}
	return a, true
}

// fill writes the tokens, the rooms and the struct.
func (s *sequence) fill(row []float32) {
	m := s.Memory()
	copy(m[s.room:], words(s.tokens...))
	view := s.viewOf(row)
	for i, id := range view {
		copy(m[s.view+uint32(i)*abi.ViewEntrySize:], words(id, math.Float32bits(row[id])))
	}
	if s.d.Row {
		for id, l := range row {
			binary.LittleEndian.PutUint32(m[s.row+4*uint32(id):], math.Float32bits(l))
		}
	}
	position := uint32(len(s.tokens))
	copy(m[s.step:], words(abi.StepSize, s.room, position, s.prompt, position-s.known,
		s.view, uint32(len(view)), s.row, s.rowCount(),
		0, 0, 0, 0, math.Float32bits(float32(math.NaN())), 0, 0))
}

// viewOf returns the ids of the view.
func (s *sequence) viewOf(row []float32) []uint32 {
	if s.viewCount() == 0 {
		return nil
	}
	return sorted(row)[:s.viewCount()]
}

// sorted returns all ids by falling logit, ties by rising id.
func sorted(row []float32) []uint32 {
	ids := make([]uint32, len(row))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(row[b], row[a]) })
	return ids
}

// best is the first of them.
func best(row []float32) (id uint32) {
	for i, l := range row {
		if l > row[id] {
			id = uint32(i)
		}
	}
	return id
}

// sample takes one step of kind sampler, with one, two and more candidates in turn.
func (s *sequence) sample() (a Answer, ok bool) {
	position := uint32(len(s.tokens))
	row := make([]float32, s.world.VocabSize())
	for id := range row {
		row[id] = logit(position, uint32(id))
	}
	ids := sorted(row)
	n := min(position-s.prompt+1, s.candidates())
	if (position-s.prompt)%3 == 2 {
		n = s.candidates()
	}
	var sum float64
	for _, l := range row {
		sum += math.Exp(float64(l))
	}
	m := s.Memory()
	for i, id := range ids[:n] {
		logprob := float32(float64(row[id]) - math.Log(sum))
		copy(m[s.cand+uint32(i)*abi.CandidateSize:], words(id, math.Float32bits(row[id]), math.Float32bits(logprob)))
	}
	v, ok := s.call("tgi_sampler_sample", uint64(s.cand), uint64(n))
	if !ok {
		return a, false
	}
	s.checkGuards("tgi_sampler_sample")
	a = Answer{Kind: abi.KindSampler, Index: int(int32(v))}
	if a.Index < 0 || a.Index >= int(n) {
		s.run.report("sampler-index", "%d of %d candidates", a.Index, n)
		return a, false
	}
	s.tokens = append(s.tokens, ids[a.Index])
	return a, true
}
