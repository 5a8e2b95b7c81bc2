package generate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"tgi/runtime/llm"
)

// Limits are the bounds that requests are held to. All are positive.
type Limits struct {
	// MaxConcurrent sequences may be waiting or running.
	MaxConcurrent int
	// MaxBestOf, MaxStop and MaxTopN bound the fields of their names.
	MaxBestOf, MaxStop, MaxTopN int
	// MaxInput bounds the tokens of a prompt, MaxTotal those of prompt and output.
	MaxInput, MaxTotal int
	// Workers tokenize at the same time.
	Workers int
	// Vocab is the number of token ids.
	Vocab int
	// ProgramTime is how long a program may take for a text; 0 is 5 minutes.
	ProgramTime time.Duration
	// WatermarkGamma is the green share of the vocabulary, WatermarkDelta its bonus.
	WatermarkGamma, WatermarkDelta float32
}

// Bounds of OpenAI's API reference: values of logit_bias, and top_logprobs.
const (
	maxBias        = 100
	maxTopLogprobs = 20
)

// manyBiases is the number from which `logit_bias` is sorted in a turn: fewer take less than it takes to wait.
const manyBiases = 256

// check turns d, whose conversation is rendered, into a Request of size n. Everything that
// needs no tokens comes first, except the template: only its output shows that a prompt
// is empty.
func (s *Service) check(ctx context.Context, d *Draft, n size) (Request, error) {
	var p llm.Params
	var err error
	settings := func() { p, err = s.limits.checkSettings(d, n) }
	if len(d.LogitBias) < manyBiases {
		settings()
	} else if gone := InTurn(ctx, s.turns, s.client(ctx), settings); gone != nil {
		return Request{}, gone
	}
	if err != nil {
		return Request{}, err
	}
	inputs := d.Inputs // before images take their places
	pictures, err := s.openImages(ctx, d)
	if err != nil {
		return Request{}, err
	}
	encoded := llm.Encoded{Tokens: d.Tokens, Count: len(d.Tokens)}
	if d.Tokens == nil {
		if encoded, err = s.encode(ctx, d.Inputs, s.limits.encoding(d)); err != nil {
			return Request{}, err
		}
	}
	if len(d.Before) > 0 {
		encoded.Tokens = append(d.Before[:len(d.Before):len(d.Before)], encoded.Tokens...)
		encoded.Count += len(d.Before)
	}
	prompt, err := s.limits.checkLength(d, &encoded, &p)
	if err != nil {
		return Request{}, err
	}
	if err := s.checkGrammar(d); err != nil {
		return Request{}, err
	}
	r := Request{Prompt: prompt, Inputs: inputs, Params: p, Sequences: n.sequences, size: n,
		ImageTokens: pictures.tokens(), pictures: pictures}
	if err := s.heal(d, &r); err != nil {
		return Request{}, err
	}
	if r.prediction, err = s.predict(ctx, d); err != nil {
		return Request{}, err
	}
	if d.Rules == OpenAI {
		r.CountPenalty = or(d.FrequencyPenalty, 0)
	}
	return r, nil
}

// predict returns the tokens of d's prediction, in which no special token is recognised.
func (s *Service) predict(ctx context.Context, d *Draft) ([]llm.Token, error) {
	text := or(d.Prediction, "")
	if text == "" {
		return nil, nil
	}
	e, err := s.encode(ctx, text, llm.Encoding{Data: []Span{{End: len(text)}}, Most: s.limits.MaxTotal})
	if err != nil {
		return nil, err
	}
	if e.Tokens == nil || e.Count > s.limits.MaxTotal {
		return nil, invalid("prediction", "`prediction` must have at most %d tokens. Given: %d or more",
			s.limits.MaxTotal, e.Count)
	}
	return e.Tokens, nil
}

// checkSettings checks d's settings, in the order in which TGI reports the first
// failure. MaxNewTokens stays 0 when it
// was not given: only the prompt's length tells what is left.
func (l Limits) checkSettings(d *Draft, n size) (llm.Params, error) {
	p := llm.Params{
		Temperature: or(d.Temperature, 1), TopP: or(d.TopP, 1), TypicalP: or(d.TypicalP, 1), MinP: or(d.MinP, 0),
		RepetitionPenalty: or(d.RepetitionPenalty, 1), FrequencyPenalty: or(d.FrequencyPenalty, 0),
		PresencePenalty: or(d.PresencePenalty, 0),
		TopK:            int(or(d.TopK, 0)), TopN: int(or(d.TopNTokens, 0)),
		Watermark: d.Watermark, WatermarkGamma: l.WatermarkGamma, WatermarkDelta: l.WatermarkDelta,
		Stop: d.Stop, IgnoreEOS: d.IgnoreEOS, PromptLogprobs: d.PromptLogprobs,
	}
	if d.PromptLogprobs && d.PromptTop {
		p.PromptTopN = p.TopN
	}
	sampling := checkSampling
	if d.Rules == OpenAI {
		sampling = checkOpenAI
	}
	if err := sampling(d, n, &p); err != nil {
		return p, err
	}
	if err := setSearch(d, n, &p); err != nil {
		return p, err
	}
	if d.MaxNewTokens != nil && *d.MaxNewTokens == 0 {
		field := cmp.Or(d.LengthField, "max_new_tokens")
		return p, invalid(field, "`%s` must be strictly positive", field)
	}
	p.MaxNewTokens = int(or(d.MaxNewTokens, 0))
	if len(d.Stop) > l.MaxStop {
		return p, invalid("stop", "`stop` supports up to %d stop sequences. Given: %d", l.MaxStop, len(d.Stop))
	}
	if slices.Contains(d.Stop, "") {
		return p, invalid("stop", "`stop` must not hold empty strings")
	}
	if d.Rules == TGI && d.Seed != nil && n.sequences > 1 {
		return p, invalid("seed", "`seed` must not be set when `best_of` > 1")
	}
	if d.BestOfSeed != nil && (d.Rules != TGI || n.sequences < 2) {
		return p, invalid("best_of_seed", "`best_of_seed` needs `best_of` > 1: a single text has `seed`")
	}
	if d.Rules == TGI && uint64(p.TopN) > uint64(l.MaxTopN) {
		return p, invalid("top_n_tokens", "`top_n_tokens` must be >= 0 and <= %d. Given: %d", l.MaxTopN, p.TopN)
	}
	if d.Inputs == "" && d.Tokens == nil {
		return p, invalid("inputs", "`inputs` cannot be empty")
	}
	if d.Truncate != nil && (*d.Truncate == 0 || *d.Truncate > uint64(l.MaxInput)) {
		return p, invalid("truncate", "`truncate` must be strictly positive and less than %d. Given: %d", l.MaxInput,
			*d.Truncate)
	}
	if err := l.checkBias(d, &p); err != nil {
		return p, err
	}
	if err := checkExplain(d, n, &p); err != nil {
		return p, err
	}
	p.Seed = draw(cmp.Or(d.BestOfSeed, d.Seed))
	return p, nil
}

// checkSampling checks the sampling settings against TGI's bounds and decides whether
// to sample. The conditions are written so that NaN fails them.
func checkSampling(d *Draft, n size, p *llm.Params) error {
	given := d.DoSample || d.Temperature != nil || d.TopK != nil || d.TopP != nil || d.TypicalP != nil || d.MinP != nil
	switch {
	case n.sequences > 1 && !given:
		return invalid("best_of", "you must use sampling when `best_of` is > 1")
	case !(p.Temperature > 0):
		return invalid("temperature", "`temperature` must be strictly positive")
	case !(p.RepetitionPenalty > 0):
		return invalid("repetition_penalty", "`repetition_penalty` must be strictly positive")
	case !(p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2):
		return invalid("frequency_penalty", "`frequency_penalty` must be >= -2.0 and <= 2.0")
	case !(p.PresencePenalty >= -2 && p.PresencePenalty <= 2):
		return invalid("presence_penalty", "`presence_penalty` must be >= -2.0 and <= 2.0. Given: %v",
			p.PresencePenalty)
	case d.TopP != nil && !(p.TopP > 0 && p.TopP < 1):
		return invalid("top_p", "`top_p` must be > 0.0 and < 1.0")
	case d.TypicalP != nil && !(p.TypicalP > 0 && p.TypicalP < 1):
		return invalid("typical_p", "`typical_p` must be > 0.0 and < 1.0")
	case !(p.MinP >= 0 && p.MinP <= 1):
		return invalid("min_p", "`min_p` must be >= 0.0 and <= 1.0. Given: %v", p.MinP)
	case d.TopK != nil && *d.TopK <= 0:
		return invalid("top_k", "`top_k` must be strictly positive")
	}
	p.Sample = d.DoSample || p.Temperature != 1 || p.TopK != 0 || p.TopP < 1 || p.TypicalP < 1 || p.MinP > 0
	return nil
}

// checkOpenAI is checkSampling under OpenAI's rules. top_k, typical_p, min_p and
// repetition_penalty, which OpenAI does not know, are off at the values that
// switch them off elsewhere, and otherwise have TGI's bounds.
func checkOpenAI(d *Draft, _ size, p *llm.Params) error {
	const largest = 3.4e38 // finite
	switch {
	case !(p.Temperature >= 0 && p.Temperature <= largest):
		return invalid("temperature", "`temperature` must be >= 0.0. Given: %v", p.Temperature)
	case !(p.RepetitionPenalty > 0):
		return invalid("repetition_penalty", "`repetition_penalty` must be strictly positive")
	case !(p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2):
		return invalid("frequency_penalty", "`frequency_penalty` must be >= -2.0 and <= 2.0")
	case !(p.PresencePenalty >= -2 && p.PresencePenalty <= 2):
		return invalid("presence_penalty", "`presence_penalty` must be >= -2.0 and <= 2.0. Given: %v",
			p.PresencePenalty)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return invalid("top_p", "`top_p` must be >= 0.0 and <= 1.0. Given: %v", p.TopP)
	case !(p.TypicalP > 0 && p.TypicalP <= 1):
		return invalid("typical_p", "`typical_p` must be > 0.0 and <= 1.0. Given: %v", p.TypicalP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return invalid("min_p", "`min_p` must be >= 0.0 and <= 1.0. Given: %v", p.MinP)
	case p.TopK < -1:
		return invalid("top_k", "`top_k` must be >= -1. Given: %d", p.TopK)
	case or(d.TopNTokens, 0) > maxTopLogprobs:
		return invalid(cmp.Or(d.TopField, "top_n_tokens"), "`%s` must be >= 0 and <= %d. Given: %d",
			cmp.Or(d.TopField, "top_logprobs"), maxTopLogprobs, *d.TopNTokens)
	}
	p.Sample = p.Temperature > 0 && p.TopP > 0
	if p.Temperature == 0 {
		p.Temperature = 1
	}
	if p.TopP == 0 {
		p.TopP = 1
	}
	p.TopK = max(p.TopK, 0)
	p.FrequencyPenalty = 0 // Request.CountPenalty has it
	p.RawLogprobs = true
	return nil
}

// setSearch writes the settings of a beam search of size n to p.
func setSearch(d *Draft, n size, p *llm.Params) error {
	penalty := or(d.LengthPenalty, 1)
	if f := float64(penalty); math.IsNaN(f) || math.IsInf(f, 0) {
		return invalid("length_penalty", "`length_penalty` must be a finite number. Given: %v", penalty)
	}
	if n.beams == 0 {
		return nil
	}
	p.NumBeams, p.NumReturn, p.LengthPenalty, p.EarlyStopping = n.beams, n.sequences, penalty, d.EarlyStopping
	if d.Rules == OpenAI && d.Temperature == nil {
		p.Sample = false // who asks for a search does not expect a draw
	}
	return nil
}

// checkBias turns logit_bias into a list sorted by token.
func (l Limits) checkBias(d *Draft, p *llm.Params) error {
	for t, add := range d.LogitBias {
		p.LogitBias = append(p.LogitBias, llm.Bias{Token: t, Add: add})
	}
	slices.SortFunc(p.LogitBias, func(a, b llm.Bias) int { return cmp.Compare(a.Token, b.Token) })
	for _, b := range p.LogitBias {
		if uint64(b.Token) >= uint64(l.Vocab) {
			return invalid("logit_bias", "`logit_bias` keys must be token ids < %d. Given: %d", l.Vocab, b.Token)
		}
		if !(b.Add >= -maxBias && b.Add <= maxBias) {
			return invalid("logit_bias", "`logit_bias` values must be >= -%d and <= %d. Given: %v for token %d",
				maxBias,
				maxBias, b.Add, b.Token)
		}
	}
	return nil
}

// encoding says what is wanted of the tokens of d's text: the last ones, or all of those that may fit.
func (l Limits) encoding(d *Draft) llm.Encoding {
	o := llm.Encoding{Special: !d.RawPrompt}
	if d.RawPrompt {
		o.Data = append(make([]Span, 0, len(d.Data)), d.Data...) // never nil
	}
	if d.Truncate != nil {
		o.Keep = int(*d.Truncate)
	} else {
		o.Most = l.MaxTotal
	}
	return o
}

// checkLength cuts the prompt to its last truncate tokens, gives p the rest of
// the context when it has no limit of its own, and checks both against the
// model's limits. The total is checked before the prompt.
func (l Limits) checkLength(d *Draft, e *llm.Encoded, p *llm.Params) ([]llm.Token, error) {
	prompt, n, about := e.Tokens, e.Count, ""
	if d.Truncate != nil {
		prompt = prompt[max(0, len(prompt)-int(*d.Truncate)):]
		n = len(prompt)
	}
	if e.AtLeast {
		about = "at least "
	}
	if p.MaxNewTokens == 0 {
		p.MaxNewTokens = max(0, l.MaxTotal-n)
	}
	if d.Clip && n < l.MaxTotal {
		p.MaxNewTokens = min(p.MaxNewTokens, l.MaxTotal-n)
	}
	if n+p.MaxNewTokens > l.MaxTotal {
		return nil, tooLong("`inputs` tokens + `max_new_tokens` must be <= %d. Given: %s%d `inputs` tokens and %d "+
			"`max_new_tokens`", l.MaxTotal, about, n, p.MaxNewTokens)
	}
	if n > l.MaxInput {
		return nil, tooLong("`inputs` must have less than %d tokens. Given: %d", l.MaxInput, n)
	}
	if n == 0 {
		return nil, invalid("inputs", "`inputs` must have at least one token")
	}
	for i, t := range d.Tokens {
		if uint64(t) >= uint64(l.Vocab) {
			return nil, invalid("inputs", "`inputs` must hold token ids < %d. Given: %d in place %d", l.Vocab, t, i)
		}
	}
	for i, t := range d.Before {
		if uint64(t) >= uint64(l.Vocab) {
			return nil, invalid("context", "`context` must hold token ids < %d. Given: %d in place %d", l.Vocab, t, i)
		}
	}
	return prompt, nil
}

// checkGrammar refuses what a grammar cannot be combined with. It is the last check, as
// in TGI.
func (s *Service) checkGrammar(d *Draft) error {
	if field := d.Conversation.heldBy(); field != "" && d.IgnoreEOS && s.grammars {
		return invalid("ignore_eos",
			"`ignore_eos` and `%s` exclude each other: calls that are held to their tools say "+
				"where the text ends", field)
	}
	switch {
	case d.Grammar == nil:
		return nil
	case !s.grammars:
		return invalid(d.Grammar.Field, "grammar is not supported")
	case d.IgnoreEOS:
		return invalid("ignore_eos", "`ignore_eos` and `%s` exclude each other: a grammar says where its text ends",
			d.Grammar.Field)
	}
	return nil
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// draw returns the seed, or a random one of 53 bits: more of them are lost where a client reads numbers as JavaScript
// does, and a seed that comes back must be the one that was used.
func draw(seed *uint64) uint64 {
	if seed != nil {
		return *seed
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) >> 11
}
