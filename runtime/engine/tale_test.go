package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// tale is one sequence of a request, generated without an engine: each pick is that of a new chain which was told what
// was forbidden where, and each look of the guard at a new transcript.
type tale struct {
	p                                        llm.Params
	healed                                   *Healed
	prompt, out, queue                       []llm.Token
	bans, gone                               [][]llm.Token // outputs, and what was taken back behind each
	biased                                   [][]llm.Token // outputs that biases hold behind
	biases                                   [][]llm.Bias
	sent                                     outcome // of sequence 0
	shown                                    string
	seen                                     int // released text of the model
	released, rewinds, back, added, replaced int
	open                                     []bool // whether the text ends inside a character behind each token
	checked                                  int    // likeliest tokens of places where something was taken back
	free                                     int
	done, over, anew                         bool
	went                                     string // all that went out, special tokens too
	own                                      string // of that, behind the last replacement
	visible                                  []bool // which of its bytes are no special token's
	fresh                                    bool   // the last token was not looked at
	stop                                     string // that ends in the last token
	stopEnd                                  int    // where
	stops, unmade                            int    // stop strings in other text than the model's; ends that were none
	uncounted                                int    // events of no token
	begun                                    int    // events before the pick
	respelled                                int    // insertions behind a part of what a prompt is healed of
}

// told generates a sequence.
func told(r Request, k int) (*tale, error) {
	s := &tale{p: r.Params, prompt: r.Prompt, healed: r.Healed}
	s.p.Seed = llm.SeedFor(r.Params.Seed, k)
	s.sent = outcome{tokens: make([][]llm.Token, 1), logprobs: make([][]float32, 1), texts: make([]string, 1),
		finish: make([]llm.Finish, 1), best: make([][]TopToken, 1)}
	plug := r.Plugins(k)
	g := plug.Guards[0].(*whim)
	e := &Engine{codec: fakeCodec{}, eos: map[llm.Token]bool{tokEOS: true}}
	var picks []sample.Pick
	for !s.over {
		s.begun = len(s.sent.tokens[0])
		code := sample.Plugins{Processors: plug.Processors}
		if s.healed != nil {
			m := &beginsWith{text: s.healed.Text}
			_ = m.Rewind(sample.History{Output: s.out})
			code.Masker = m
		}
		chain, err := sample.New(s.p, len(pieces), []llm.Token{tokEOS}, code)
		if err != nil {
			return nil, err
		}
		for i := range s.bans {
			chain.Ban(s.bans[i], s.gone[i])
			chain.Bias(s.biased[i], s.biases[i],
				sample.Banner{Yields: g.rules.OnExhausted == llm.GuardReleases})
		}
		chain.Insert(s.queue, "guard")
		rows := [][]float32{}
		for _, p := range append([][]llm.Token{s.prompt}, r.Twins...) {
			rows = append(rows, make([]float32, len(pieces)))
			logitsOf(slices.Concat(p, s.out), rows[len(rows)-1])
		}
		logits := rows[0]
		if len(r.Twins) > 0 {
			r.Mix.Combine(rows)
		}
		h := sample.History{Prompt: s.prompt, Output: s.out}
		pick, err := chain.Pick(h, logits)
		if errors.Is(err, sample.ErrBanned) {
			s.end(llm.Finish{Reason: llm.FinishGuard, StoppedBy: "whim", Why: "nothing else may follow"})
			break
		} else if err != nil {
			return nil, err
		}
		if err := s.shows(pick); err != nil {
			return nil, err
		}
		s.done = s.done || len(chain.Lifted()) > 0
		pick.Top = slices.Clone(pick.Top)
		s.queue = s.queue[min(1, len(s.queue)):]
		s.out, s.fresh, s.stopEnd = append(slices.Clone(s.out), pick.Token), true, 0
		picks = append(picks[:len(s.out)-1:len(s.out)-1], pick)
		for s.released < len(s.out) && !s.over {
			n := len(s.out)
			if !s.look(e, g, picks) || len(s.out) < n {
				break
			}
		}
	}
	return s, nil
}

// shows returns an error where the likeliest tokens of a pick name one that was taken back in its place.
func (s *tale) shows(p sample.Pick) error {
	for i, ban := range s.bans {
		all, n := slices.Concat(ban, s.gone[i]), len(s.out)
		if n < len(ban) || n >= len(all) || !slices.Equal(all[:n], s.out) {
			continue
		}
		for _, x := range p.Top {
			if s.checked++; x.Token == all[n] && x.Token != p.Token {
				return fmt.Errorf("token %d was taken back behind %v, and is among %v", x.Token, s.out, p.Top)
			}
		}
	}
	return nil
}

// texts returns what each token of the output adds, where the text ends behind each, and the text. The last token ends
// it if a stop string ends there in what went out and what is held behind it.
func (s *tale) texts(e *Engine, picks []sample.Pick) (list []picked, ends []int, text string) {
	s.open = s.open[:0]
	skip := 0
	if s.healed != nil {
		skip = len(s.healed.Text)
	}
	q := &sequence{params: s.p, text: newTranscript(e.codec, s.prompt, nil, skip)}
	for _, p := range picks[:len(s.out)] {
		list, ends = append(list, q.take(e, p)), append(ends, len(q.text.visible))
		s.open = append(s.open, q.text.detok.Open())
	}
	n, held := len(s.out), s.own
	for _, x := range list[s.released : n-1] {
		held += x.text
	}
	x, text := &list[n-1], string(q.text.visible)
	if s.fresh {
		s.stop, s.stopEnd = s.stopBehind(held, x.text, s.stopEnd)
		s.fresh = false
	}
	if end := s.stopEnd; s.stop != "" && x.fin.Reason == llm.FinishNone {
		x.fin = llm.Finish{Reason: llm.FinishStop, Stop: s.stop}
		if !x.special {
			text = text[:len(text)-len(x.text)+end]
			ends[n-1] = len(text)
		}
		x.cut, x.text = end < len(x.text), x.text[:end]
	}
	return list, ends, text
}

// stopBehind returns the first stop string that ends in a piece behind a text, later than at a byte, and where.
func (s *tale) stopBehind(text, piece string, after int) (stop string, end int) {
	for end := after + 1; end <= len(piece); end++ {
		for _, stop := range s.p.Stop {
			if strings.HasSuffix(text+piece[:end], stop) {
				return stop, end
			}
		}
	}
	return "", 0
}

// unmakes reports whether a replacement takes a byte of the stop string in the last token.
func (s *tale) unmakes(list []picked, v llm.Verdict) bool {
	text := ""
	for _, x := range list[v.Position:] {
		text += x.text
	}
	stop, _ := s.stopBehind("", text, 0)
	return stop == "" && list[len(list)-1].fin.Reason == llm.FinishStop
}

// look asks the guard and applies what it says; again says that it is to be asked once more.
func (s *tale) look(e *Engine, g *whim, picks []sample.Pick) (again bool) {
	list, ends, text := s.texts(e, picks)
	n, fin := len(s.out), list[len(s.out)-1].fin
	from := max(s.seen-llm.GuardContext, 0)
	prompt := s.prompt
	if s.healed != nil {
		prompt = slices.Concat(prompt, s.healed.Tokens)
	}
	view := llm.GuardView{Prompt: prompt, Output: s.out, Released: s.released, Text: []byte(text[from:]),
		Context: s.seen - from, Reason: fin.Reason}
	for _, end := range ends[s.released:] {
		view.Ends = append(view.Ends, uint32(end-from))
	}
	v := llm.Verdict{Position: max(s.free, s.released)}
	if s.done {
		v.Position = n
	} else if fin.Reason != llm.FinishNone || n%g.rules.Every == 0 || s.anew {
		v, _ = g.Check(&view)
		s.done = v.Done
	}
	s.anew = false
	if v.Kind == llm.VerdictRelease && n-v.Position > g.rules.Hold && !s.done {
		if g.rules.OnFull == llm.GuardReleases {
			v.Position = n - g.rules.Hold
		} else {
			v = llm.Verdict{Kind: llm.VerdictStop, Position: v.Position, Why: "it holds back too much"}
		}
	}
	if v.Kind != llm.VerdictReplace {
		s.free = max(v.Position, s.released)
	}
	send := func(to int) {
		for i := s.released; i < to && !s.over; i++ {
			x, shown := list[i], text[s.seen:ends[i]]
			s.seen = ends[i]
			if x.fin.Reason != llm.FinishNone && x.fin.Reason != llm.FinishStop {
				s.shown += shown
				s.send(x)
				s.end(x.fin)
				return
			}
			if fin.Reason != llm.FinishLength || i < n-1 { // else no stop string is looked for
				x.fin = s.cut(&x, s.open[i])
			}
			if s.shown += shown; x.fin.Reason != llm.FinishNone && !x.special {
				s.shown = s.shown[:len(s.shown)-len(shown)+len(x.text)]
			}
			if s.send(x); x.fin.Reason == llm.FinishNone {
				continue
			}
			if fin.Reason != llm.FinishStop || i < n-1 {
				s.stops++
			} else if v.Kind == llm.VerdictStop { // the guard ends what the stop string would
				return
			}
			s.end(x.fin)
		}
		s.released = to
	}
	switch v.Kind {
	case llm.VerdictRelease:
		if v.Position < n || fin.Reason == llm.FinishNone {
			v.Position = s.boundary(v.Position)
		}
		send(v.Position)
	case llm.VerdictStop:
		if v.Position < n || fin.Reason == llm.FinishNone {
			v.Position = s.boundary(v.Position)
		}
		if v.Position == n && fin.Reason == llm.FinishEOS {
			v.Position--
		}
		list[n-1].fin = llm.Finish{}
		if send(v.Position); s.over {
			return false
		}
		s.endWithout()
		s.end(llm.Finish{Reason: llm.FinishGuard, StoppedBy: "whim", Why: v.Why})
	case llm.VerdictReplace:
		if s.unmakes(list, v) {
			s.fresh, s.anew = true, true // another may end behind it
			s.unmade++
			return true
		}
		s.replaced += v.Position - s.released
		x := picked{pick: sample.Pick{Token: 8}, text: v.Text}
		cut := s.cut(&x, false)
		s.shown += x.text
		if s.send(x); cut.Reason != llm.FinishNone {
			s.stops++
			s.end(cut)
			return false
		}
		if v.Position-s.released > 1 {
			s.send(picked{pick: sample.Pick{Token: 9}})
		}
		s.seen, s.released, s.own = ends[v.Position-1], v.Position, ""
		if v.Position == n && fin.Reason != llm.FinishNone {
			if fin.Reason == llm.FinishEOS {
				s.send(list[n-1])
			}
			s.end(fin)
		}
		return true
	default:
		return s.takeBack(g, v, fin.Reason)
	}
	return false
}

// boundary is the last position up to one that lies between characters.
func (s *tale) boundary(position int) int {
	for position > s.released && s.open[position-1] {
		position--
	}
	return position
}

func (s *tale) takeBack(g *whim, v llm.Verdict, reason llm.Reason) (again bool) {
	n := len(s.out)
	if v.Kind == llm.VerdictInsert && v.Position == n && reason != llm.FinishNone {
		v.Position--
	}
	biased := s.out[:v.Position]
	v.Position = s.boundary(v.Position)
	if v.Kind == llm.VerdictInsert {
		v.Tokens = slices.Concat(s.unwritten(v.Position), v.Tokens)
	}
	back, why := n-v.Position, ""
	switch {
	case s.rewinds == llm.MaxRewinds && back > 0:
		why = "it rewound too often"
	case s.back+back > llm.MaxRewound(s.p.MaxNewTokens):
		why = "it rewound too much"
	case v.Kind == llm.VerdictInsert && (s.added+len(v.Tokens) > llm.MaxInserted ||
		v.Position+len(v.Tokens) > s.p.MaxNewTokens):
		why = "it inserted too much"
	}
	switch {
	case why == "":
	case g.rules.OnExhausted == llm.GuardReleases:
		s.done = true
		return true
	default:
		s.endWithout()
		s.end(llm.Finish{Reason: llm.FinishGuard, StoppedBy: "whim", Why: why})
		return false
	}
	if s.back += back; back > 0 {
		s.rewinds++
	}
	if len(v.Biases) == 0 && v.Kind == llm.VerdictRewind {
		biased = s.out[:v.Position]
		v.Biases = []llm.Bias{{Token: s.out[v.Position], Add: float32(math.Inf(-1))}}
	}
	gone := slices.Clone(s.out[v.Position:])
	s.out, s.free = s.out[:v.Position], min(s.free, v.Position)
	if back > 0 {
		s.queue = nil
		s.bans, s.biased = append(s.bans, s.out), append(s.biased, biased)
		s.biases, s.gone = append(s.biases, v.Biases), append(s.gone, gone)
	}
	if v.Kind == llm.VerdictInsert {
		s.added, s.queue = s.added+len(v.Tokens), v.Tokens
	}
	return false
}

// unwritten returns tokens for what the first n have not written of a healed prompt.
func (s *tale) unwritten(n int) []llm.Token {
	if s.healed == nil {
		return nil
	}
	text, whole := "", string(s.healed.Text)
	for _, id := range s.out[:n] {
		text += pieces[id]
	}
	switch {
	case text == "":
		return s.healed.Tokens
	case len(text) < len(whole):
		s.respelled++
		return spell([]byte(whole[len(text):]))
	}
	return nil
}

// cut cuts a token that goes out behind the first stop string in it, and returns the end that this is.
func (s *tale) cut(x *picked, open bool) (fin llm.Finish) {
	stop, end := s.stopBehind(s.went, x.text, 0)
	if stop == "" {
		return fin
	}
	if !x.special && (x.cut || open || end < len(x.text)) { // its token would tell what the guard does not judge
		x.pick, x.top = sample.Pick{}, nil
	}
	x.text = x.text[:end]
	fin = llm.Finish{Reason: llm.FinishStop, Stop: stop}
	all := slices.Concat(s.visible, slices.Repeat([]bool{!x.special}, end))
	for _, visible := range all[len(all)-len(stop):] {
		if visible {
			fin.StopBytes++
		}
	}
	return fin
}

func (s *tale) send(x picked) {
	s.went, s.own = s.went+x.text, s.own+x.text
	s.visible = append(s.visible, slices.Repeat([]bool{!x.special}, len(x.text))...)
	o := &s.sent
	o.tokens[0], o.logprobs[0] = append(o.tokens[0], x.pick.Token), append(o.logprobs[0], x.pick.Logprob)
	o.best[0] = append(o.best[0], x.top...)
	if !x.special {
		o.texts[0] += x.text
	}
}

// endWithout has the text end with an event of no token, which is not counted, unless there is one of this pick's.
func (s *tale) endWithout() {
	if len(s.sent.tokens[0]) > s.begun {
		return
	}
	s.send(picked{special: true})
	s.uncounted++
}

func (s *tale) end(fin llm.Finish) {
	s.over = true
	if fin.Why == "nothing else may follow" {
		s.endWithout()
	}
	fin.Text, fin.Generated, fin.Prompt, fin.Seed = s.shown, len(s.sent.tokens[0])-s.uncounted, len(s.prompt), s.p.Seed
	fin.Rewound, fin.Replaced = s.back, s.replaced
	s.sent.finish[0] = fin
}
