package generatetest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
)

// Script is what an Engine plays, as a notation for transcripts. One line each:
//
//	token ID "text" LOGPROB [special] [top ID "text" LOGPROB]…
//	end REASON        ends a sequence; the next one follows
//	stop "text"       ends it with that stop string, which its text ends with
//	prefill ID "text" LOGPROB [top ID "text" LOGPROB]…
//	cached N          of the prompt's tokens were found in the cache
//	parse           lets a Chat read the replies with a Parser
//	break TEXT        ends the stream with an error of the backend, or early when empty
type Script struct {
	// Broken is what the stream ends with; nil is io.EOF.
	Broken error
	// Parse is for Chat's field of that name.
	Parse bool

	prefill []generate.PromptToken
	seqs    []sequence
	cached  int
	early   bool
}

type sequence struct {
	tokens []generate.Token
	tops   [][]generate.Token
	end    llm.Reason
	stop   string
	ended  bool
}

// Read takes the next line.
func (s *Script) Read(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "prefill":
		t, rest, err := scanToken(rest)
		p := generate.PromptToken{Token: t.Token, Text: t.Text, Logprob: t.Logprob}
		if err == nil {
			p.Top, err = scanTops(rest)
		}
		s.prefill = append(s.prefill, p)
		return err
	case "token":
		return s.token(rest)
	case "end":
		reasons := map[string]llm.Reason{"length": llm.FinishLength, "eos_token": llm.FinishEOS}
		return s.end(reasons[rest], "")
	case "stop":
		var text string
		if _, err := fmt.Sscanf(rest, "%q", &text); err != nil {
			return fmt.Errorf("script: %s: %w", line, err)
		}
		return s.end(llm.FinishStop, text)
	case "cached":
		_, err := fmt.Sscanf(rest, "%d", &s.cached)
		return err
	case "parse":
		s.Parse = true
		return nil
	case "break":
		s.early = true
		if rest != "" {
			s.Broken = fmt.Errorf("%w: %s", llm.ErrBackend, rest)
		}
		return nil
	}
	return fmt.Errorf("script: unknown line %q", line)
}

func (s *Script) token(rest string) error {
	if n := len(s.seqs); n == 0 || s.seqs[n-1].ended {
		s.seqs = append(s.seqs, sequence{end: llm.FinishLength})
	}
	q := &s.seqs[len(s.seqs)-1]
	t, rest, err := scanToken(rest)
	if after, ok := strings.CutPrefix(rest, " special"); ok {
		t.Special, rest = true, after
	}
	var tops []generate.Token
	if err == nil {
		tops, err = scanTops(rest)
	}
	q.tokens, q.tops = append(q.tokens, t), append(q.tops, tops)
	return err
}

// scanTops reads what stands behind a token: the likeliest in its place.
func scanTops(s string) (tops []generate.Token, err error) {
	for err == nil && strings.HasPrefix(s, " top ") {
		var top generate.Token
		top, s, err = scanToken(s[len(" top "):])
		tops = append(tops, top)
	}
	return tops, err
}

func (s *Script) end(r llm.Reason, stop string) error {
	if len(s.seqs) == 0 || r == llm.FinishNone {
		return fmt.Errorf("script: an end without tokens or without a known reason")
	}
	q := &s.seqs[len(s.seqs)-1]
	q.end, q.stop, q.ended = r, stop, true
	return nil
}

func scanToken(s string) (generate.Token, string, error) {
	var t generate.Token
	r := strings.NewReader(s)
	if _, err := fmt.Fscanf(r, "%d %q %g", &t.Token, &t.Text, &t.Logprob); err != nil {
		return t, "", fmt.Errorf("script: %s: %w", s, err)
	}
	rest, err := io.ReadAll(r)
	return t, string(rest), err
}

// Play is an Engine's Script: the sequences by turns, a token each.
func (s *Script) Play(r engine.Request) []engine.Event {
	var all [][]engine.Event
	for i := range min(len(s.seqs), max(r.N, 1)) {
		all = append(all, s.play(r, i))
	}
	var events []engine.Event
	for more := true; more; {
		more = false
		for i := range all {
			if len(all[i]) > 0 {
				events, all[i], more = append(events, all[i][0]), all[i][1:], true
			}
		}
	}
	return events
}

func (s *Script) play(r engine.Request, i int) []engine.Event {
	q := &s.seqs[i]
	events := Sequence(r, i, q.end, q.tokens...)
	for j := range events {
		if r.Params.TopN > 0 {
			events[j].Top = q.tops[j]
		}
	}
	if i == 0 && r.Params.PromptLogprobs {
		events[0].Prefill = slices.Clone(s.prefill)
		if r.Params.PromptTopN == 0 {
			for j := range s.prefill {
				events[0].Prefill[j].Top = nil
			}
		}
	}
	last := &events[len(events)-1]
	last.Finish.Stop, last.Finish.Cached = q.stop, s.cached
	if strings.HasSuffix(last.Finish.Text, q.stop) {
		last.Finish.StopBytes = len(q.stop)
	}
	if s.early {
		last.Finish = nil
	}
	return events
}
