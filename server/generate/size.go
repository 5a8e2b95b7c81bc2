package generate

import (
	"cmp"
	"errors"
	"strings"

	"tgi/runtime/llm"
)

// MaxBeams bounds num_beams: a step costs as much as that many sequences.
const MaxBeams = 64

// maxN bounds n under OpenAI's rules, from its API reference.
const maxN = 128

// perRequest is how many places one request may take: half of them, rounded up, so that it leaves room for others.
func (l Limits) perRequest() int { return (l.MaxConcurrent + 1) / 2 }

// size is how much a request runs at once. It is decided before the request takes its
// permits, and holds from then on.
type size struct {
	// sequences are those of the reply.
	sequences int
	// beams is the width of a beam search; 0 where there is none.
	beams int
	// prompts is how many each sequence is computed behind.
	prompts int
	// contexts is how many contexts of each sequence's program run at once; 0 where there is no program.
	contexts int
	program  string // its name
}

// begun is how many sequences the engine begins with: it forks the one of a search.
func (s size) begun() int {
	if s.beams > 0 {
		return 1
	}
	return s.sequences
}

// rows is how many sequences the engine computes at a time, which is how many permits
// the request takes.
func (s size) rows() int { return max(s.sequences*max(s.contexts, 1), s.beams) * s.prompts }

// texts is how many are generated, those that no client sees included, but for a program's.
func (s size) texts() int { return max(s.sequences, s.beams) * s.prompts }

// size checks how much d asks for against what its route can answer.
func (l Limits) size(d *Draft) (size, error) {
	s := size{prompts: 1}
	if err := d.Guidance.check(d); err != nil {
		return s, err
	}
	if kind, field := d.Guidance.kind(); kind != "" {
		if s.prompts = 2; l.perRequest() < s.prompts {
			return s, invalid(field, "`%s` takes %d places, one request gets at most %d, half of max_concurrent_requests",
				field, s.prompts, l.perRequest())
		}
		l.MaxConcurrent /= s.prompts // each sequence takes so many
	}
	most := min(MaxBeams, l.perRequest())
	beams := or(d.NumBeams, 1)
	if beams < 1 || beams > uint64(most) {
		field := cmp.Or(d.BeamsField, "num_beams")
		return s, invalid(field, "`%s` must be >= 1 and <= %d. Given: %d", field, most, beams)
	}
	if beams > 1 {
		s.beams = int(beams)
		if err := s.checkSearch(d); err != nil {
			return s, err
		}
	}
	check := l.checkCompeting
	if d.Rules == OpenAI {
		check = l.checkCounts
	}
	if err := check(d); err != nil {
		return s, err
	}
	s.sequences = int(max(1, or(d.BestOf, 1), or(d.N, 1))) // a best_of of 0 counts as 1, as in TGI
	return s, nil
}

// checkSearch refuses what a beam search cannot be combined with.
func (s size) checkSearch(d *Draft) error {
	switch {
	case or(d.BestOf, 1) > 1:
		return invalid("best_of", "`best_of` > 1 and `num_beams` > 1 exclude each other")
	case or(d.N, 1) > uint64(s.beams):
		return invalid("n", "`n` must be <= `num_beams` (%d). Given: %d", s.beams, *d.N)
	}
	return nil
}

// blameSearch names the field by which d asks for a beam search that the engine refuses beside what else d wants.
func (d *Draft) blameSearch(err error) error {
	if or(d.NumBeams, 1) < 2 || !errors.Is(err, llm.ErrInvalid) || errors.As(err, new(*Invalid)) {
		return err
	}
	field, _ := d.searchField()
	return invalid(field, "`%s`: %s", field, strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": "))
}

// checkCompeting checks best_of against TGI's bounds.
func (l Limits) checkCompeting(d *Draft) error {
	best, most := or(d.BestOf, 1), uint64(min(l.MaxBestOf, l.perRequest()))
	switch {
	case d.Stream && best != 1:
		return invalid("best_of", "`best_of` != 1 is not supported when streaming tokens")
	case d.Stream && d.PromptLogprobs:
		return invalid(d.echoField(), "`%s` == true is not supported when streaming tokens", d.echoField())
	case d.Stream:
		return nil
	case best > 1 && l.MaxBestOf == 1:
		return invalid("best_of", "`best_of` != 1 is not allowed for this endpoint")
	case best > most:
		return invalid("best_of", "`best_of` must be > 0 and <= %d. Given: %d", most, best)
	}
	return nil
}

// checkCounts checks n and best_of against OpenAI's bounds.
func (l Limits) checkCounts(d *Draft) error {
	n, best := or(d.N, 1), or(d.BestOf, 1)
	places := uint64(l.perRequest())
	most := min(maxN, places)
	switch {
	case n < 1 || n > most:
		return invalid("n", "`n` must be >= 1 and <= %d. Given: %d", most, n)
	case d.BestOf != nil && best < n:
		return invalid("best_of", "`best_of` must be >= `n`. Given: %d and `n` %d", best, n)
	case best > n && d.Stream:
		return invalid("best_of", "`best_of` > `n` is not supported when streaming tokens")
	case best > n && best > min(uint64(l.MaxBestOf), places):
		return invalid("best_of", "`best_of` must be > 0 and <= %d. Given: %d", min(uint64(l.MaxBestOf), places), best)
	}
	return nil
}

// Together returns how many texts with the settings of d one request may generate at the same time, at least one. Each
// takes as many places as it has sequences.
func (s *Service) Together(d *Draft) int {
	n, err := s.sized(d)
	if err != nil {
		return 1 // it is refused anyway
	}
	return s.limits.together(n)
}

// together is how many texts of a size one request may generate at the same time, at least one.
func (l Limits) together(n size) int { return max(1, l.perRequest()/n.rows()) }

// CheckTogether refuses a request that generates more texts with the settings of d at the same time than it may, and
// one of several texts with settings that are refused of one. field is the one that holds them.
func (s *Service) CheckTogether(d *Draft, field string, texts int) error {
	if texts < 2 {
		return nil // Start checks one
	}
	n, err := s.sized(d)
	if err != nil {
		return err
	}
	most := s.limits.together(n)
	switch {
	case texts <= most:
		return nil
	case n.program != "":
		return invalid(field,
			"`%s` must have at most %d entries with program `%s`, which takes %d places for each: together they may take %d, "+
				"half of max_concurrent_requests. Given: %d", field, most, n.program, n.rows(), s.limits.perRequest(), texts)
	}
	return invalid(field,
		"`%s` must have at most %d entries with as many sequences each: together they may be %d, "+
			"half of max_concurrent_requests. Given: %d", field, most, s.limits.perRequest(), texts)
}
