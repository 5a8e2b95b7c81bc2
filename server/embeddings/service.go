// Package embeddings owns one request's life at a model that turns texts into vectors or scores: it takes a place,
// encodes and cuts the texts, waits for the model and shapes the result. Who speaks to clients is package
// server/api/embed, what computes is package runtime/embed.
package embeddings

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/runtime/embed"
	"tgi/runtime/llm"
	"tgi/server/generate"
)

// Tokenizer turns text into tokens. It is safe for concurrent use.
type Tokenizer interface {
	// EncodePrompt returns the tokens of a text.
	EncodePrompt(text string, o llm.Encoding) (llm.Encoded, error)
	// Pieces returns the tokens of a text with their places.
	Pieces(text string, special bool) iter.Seq[llm.Piece]
	// Around adds the tokens that the model expects around a text, Pair those around two; second is the index of the
	// first token of the second kind, 0 where all are of one. Added counts them.
	Around(ids []llm.Token) []llm.Token
	Pair(a, b []llm.Token) (ids []llm.Token, second int)
	Added() (single, pair int)
	// Decode returns the text of tokens.
	Decode(ids []llm.Token, skipSpecial bool) string
	// Special reports whether a token is not part of the text.
	Special(id llm.Token) bool
}

// Runner computes; embed.Batcher is one.
type Runner interface {
	Shape() embed.Shape
	Run(ctx context.Context, client llm.Client, texts []embed.Text, want embed.Want) ([][]float32, error)
	Healthy() error
}

// Limits bound requests.
type Limits struct {
	// Requests may be waiting or running at once, Texts are those of one. Workers encode texts.
	Requests, Texts, Workers int
	// BatchTokens are those of a step.
	BatchTokens int
	// Truncate cuts texts that are too long, unless a request says otherwise.
	Truncate bool
	// Vocab is the number of token ids.
	Vocab int
}

// Input is a text, a pair of texts, or the tokens of a text.
type Input struct {
	Text string
	// Pair, if not nil, is the second text.
	Pair *string
	// Tokens, if not nil, are taken as they are.
	Tokens []llm.Token
}

// Options say how texts are encoded.
type Options struct {
	// Truncate cuts texts that are too long; nil leaves it to the server's settings.
	Truncate *bool
	// Left cuts at the beginning.
	Left bool
	// Most, if not 0, cuts texts that have more tokens, those around it among them.
	Most int
	// Prompt is the name of the prompt to put before texts; nil is the model's default, if it has one.
	Prompt *string
	// Second, if not 0, is the most tokens of a pair's second text: more are cut.
	Second int
	// Bare leaves out the tokens around texts.
	Bare bool
	// Field is what requests call the texts.
	Field string
}

// Model describes a model to clients.
type Model struct {
	// Pooling is how vectors are made, Labels are the names of a classifier's scores; nil for other models.
	Pooling string
	Labels  []string
	// Prompts are texts to put before others, by name; Default is the name of the one that all get.
	Prompts map[string]string
	Default string
	// SkipPrompt says that the tokens of a prompt are not pooled; Lowercase that texts are lowered first.
	SkipPrompt, Lowercase bool
	// Sparse says that a text's vector has a number for each token of the vocabulary, most of which are 0.
	Sparse bool
	// Template, if not nil, is what pairs are put into; such a model reads nothing else.
	Template *Template
}

// Reranker reports whether the model has one score.
func (m *Model) Reranker() bool { return len(m.Labels) == 1 }

// Service runs requests. It is safe for concurrent use.
type Service struct {
	Model
	run     Runner
	tok     Tokenizer
	limits  Limits
	gate    *generate.Gate
	clients func(context.Context) llm.Client
	told    Observer

	// bare is the template without texts, which is counted once it is needed.
	bare func() (llm.Encoded, error)
}

// Observer is told of requests. It must not block, and is called from many goroutines.
type Observer interface {
	// TextsArrived: a request with so many texts came. TextsRefused: it has no result, because of err. TextsDone: it
	// has one; encoding was turning the texts into tokens, and computing all behind that.
	TextsArrived(texts int)
	TextsRefused(err error)
	TextsDone(tokens []int, encoding, computing time.Duration)
}

// New returns a Service. client says whose a request of a context is.
func New(m Model, r Runner, t Tokenizer, l Limits, client func(context.Context) llm.Client) *Service {
	s := &Service{Model: m, run: r, tok: t, limits: l, gate: generate.NewGate(l.Requests, l.Workers), clients: client}
	s.bare = sync.OnceValues(func() (llm.Encoded, error) { return s.filled("", "", 0) })
	return s
}

// WithObserver tells o of requests. It is called before the first.
func (s *Service) WithObserver(o Observer) *Service {
	s.told = o
	return s
}

// Limits returns those of requests.
func (s *Service) Limits() Limits { return s.limits }

// MaxTokens returns the most tokens of a text.
func (s *Service) MaxTokens() int { return s.run.Shape().MaxTokens }

// Dimensions returns the length of a text's vector.
func (s *Service) Dimensions() int { return s.run.Shape().Out }

// Healthy is the model's.
func (s *Service) Healthy() error { return s.run.Healthy() }

// Result is that of a request.
type Result struct {
	// Vectors are the texts', in their order: a vector, scores, or the vectors of all tokens one behind the other.
	Vectors [][]float32
	// Tokens counts those of each text.
	Tokens []int
}

// Total counts the tokens of all texts.
func (r *Result) Total() int {
	n := 0
	for _, t := range r.Tokens {
		n += t
	}
	return n
}

// number is what a number of a result takes.
const number = 4

// Run computes texts. Errors are *generate.Invalid, *generate.Overloaded, those of Runner.Run, or ctx's cause.
func (s *Service) Run(ctx context.Context, in []Input, o Options, want embed.Want) (Result, error) {
	if s.told == nil {
		out, _, err := s.compute(ctx, in, o, want)
		return out, err
	}
	s.told.TextsArrived(len(in))
	began := time.Now()
	out, encoded, err := s.compute(ctx, in, o, want)
	if err != nil {
		s.told.TextsRefused(err)
		return out, err
	}
	s.told.TextsDone(out.Tokens, encoded.Sub(began), time.Since(encoded))
	return out, nil
}

// compute is Run; encoded is when the texts were tokens.
func (s *Service) compute(ctx context.Context, in []Input, o Options, want embed.Want) (_ Result, encoded time.Time,
	err error) {
	switch most := s.limits.Texts; {
	case len(in) == 0:
		return Result{}, encoded, invalid(o.Field, "`%s` cannot be empty", o.Field)
	case len(in) > most:
		return Result{}, encoded, invalid(o.Field,
			"`%s` must have at most %d texts (embeddings.max_client_batch_size). Given: %d", o.Field, most, len(in))
	}
	client := s.clients(ctx)
	leave, err := s.gate.Enter(client.Name)
	if err != nil {
		return Result{}, encoded, err
	}
	defer leave()
	texts := make([]embed.Text, len(in))
	out := Result{Tokens: make([]int, len(in))}
	numbers := 0
	for i := range in {
		if err := s.gate.Work(ctx, client.Name, func() { texts[i], err = s.encode(&in[i], i, &o) }); err != nil {
			return Result{}, encoded, err
		}
		if err != nil {
			return Result{}, encoded, err
		}
		out.Tokens[i] = len(texts[i].IDs)
		if numbers += s.run.Shape().Out; want == embed.Tokens {
			numbers += out.Tokens[i] * s.run.Shape().Width
		}
	}
	if err := generate.TakeRoom(ctx, int64(number*numbers)); err != nil {
		return Result{}, encoded, err
	}
	settle, err := generate.Reserve(ctx, out.Total())
	if err != nil {
		return Result{}, encoded, err
	}
	encoded = time.Now()
	if out.Vectors, err = s.run.Run(ctx, client, texts, want); err != nil {
		settle(0, 0, 0, 0)
		return Result{}, encoded, err
	}
	settle(out.Total(), 0, 0, 0)
	return out, encoded, nil
}

func invalid(field, format string, args ...any) error {
	return &generate.Invalid{Msg: fmt.Sprintf(format, args...), Field: field}
}

// encode returns the tokens of an input, number i of its request.
func (s *Service) encode(in *Input, i int, o *Options) (embed.Text, error) {
	most := s.MaxTokens()
	cut := s.limits.Truncate
	if o.Truncate != nil {
		cut = *o.Truncate
	}
	if o.Most > 0 {
		most, cut = min(most, o.Most), true
	}
	prompt, err := s.prompt(o)
	if err != nil {
		return embed.Text{}, err
	}
	var t embed.Text
	switch {
	case s.Template != nil && in.Pair == nil:
		return t, invalid(o.Field, "`%s` must be pairs: this model scores a text by a query. Given: number %d without one",
			o.Field, i)
	case s.Template != nil:
		t, err = s.asked(in, most, cut, o)
	case in.Tokens != nil:
		t.IDs, err = s.given(in.Tokens, most, cut, o)
	case in.Pair != nil:
		t, err = s.pair(in, most, cut, o)
	default:
		t.IDs, err = s.single(prompt+in.Text, most, cut, o)
		if s.SkipPrompt && prompt != "" && err == nil {
			t.Skip, err = s.promptTokens(prompt)
			t.Skip = min(t.Skip, len(t.IDs)-1)
		}
	}
	switch {
	case err != nil:
		return embed.Text{}, err
	case len(t.IDs) == 0:
		return embed.Text{}, invalid(o.Field, "`%s` has a text without tokens: number %d", o.Field, i)
	case len(t.IDs) > most:
		return embed.Text{}, s.tooLong(o, most, fmt.Sprint(len(t.IDs)))
	}
	return t, nil
}

// prompt returns the text of the prompt that is to be put before texts.
func (s *Service) prompt(o *Options) (string, error) {
	if o.Prompt == nil {
		return s.Prompts[s.Default], nil
	}
	text, ok := s.Prompts[*o.Prompt]
	if !ok && *o.Prompt != "" {
		return "", invalid("prompt_name", "`prompt_name` must be one of the model's prompts: %s. Given: %.64q",
			strings.Join(s.promptNames(), ", "), *o.Prompt)
	}
	return text, nil
}

func (s *Service) promptNames() []string {
	var names []string
	for name := range s.Prompts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// promptTokens counts the tokens of a prompt at the beginning of a text.
func (s *Service) promptTokens(prompt string) (int, error) {
	e, err := s.tok.EncodePrompt(s.lower(prompt), llm.Encoding{Special: true})
	if n := len(e.Tokens); n > 0 && s.tok.Special(e.Tokens[n-1]) {
		return n - 1, err
	}
	return len(e.Tokens), err
}

func (s *Service) lower(text string) string {
	if s.Lowercase {
		return strings.ToLower(text)
	}
	return text
}

func (s *Service) tooLong(o *Options, most int, given string) error {
	return &generate.Invalid{TooLong: true, Field: o.Field,
		Msg: fmt.Sprintf("`%s` must have at most %d tokens, unless they are truncated. Given: %s", o.Field, most, given)}
}

// given checks tokens that came from a request.
func (s *Service) given(ids []llm.Token, most int, cut bool, o *Options) ([]llm.Token, error) {
	for _, id := range ids {
		if int64(id) >= int64(s.limits.Vocab) {
			return nil, invalid(o.Field, "`%s` must hold token ids below %d. Given: %d", o.Field, s.limits.Vocab, id)
		}
	}
	if cut && len(ids) > most {
		return part(ids, most, o.Left), nil
	}
	return ids, nil
}

// part returns the first or the last n of ids.
func part(ids []llm.Token, n int, last bool) []llm.Token {
	n = min(max(n, 0), len(ids))
	if last {
		return ids[len(ids)-n:]
	}
	return ids[:n]
}

// single returns the tokens of a text.
func (s *Service) single(text string, most int, cut bool, o *Options) ([]llm.Token, error) {
	text = s.lower(text)
	if !cut {
		e, err := s.tok.EncodePrompt(text, llm.Encoding{Special: !o.Bare, Most: most})
		if err != nil {
			return nil, err
		}
		if e.Count > most {
			return nil, s.tooLong(o, most, counted(e))
		}
		return e.Tokens, nil
	}
	added, _ := s.tok.Added()
	if o.Bare {
		added = 0
	}
	ids, err := s.keep(text, most-added, o.Left)
	if err != nil || o.Bare {
		return ids, err
	}
	return s.tok.Around(ids), nil
}

// keep returns the first, or the last, tokens of a text.
func (s *Service) keep(text string, most int, last bool) ([]llm.Token, error) {
	if most < 1 {
		return nil, nil
	}
	if last {
		e, err := s.tok.EncodePrompt(text, llm.Encoding{Keep: most})
		return e.Tokens, err
	}
	var ids []llm.Token
	for p := range s.tok.Pieces(text, false) {
		if ids = append(ids, p.ID); len(ids) == most {
			break
		}
	}
	return ids, nil
}

func counted(e llm.Encoded) string {
	if e.AtLeast {
		return fmt.Sprintf("at least %d", e.Count)
	}
	return fmt.Sprint(e.Count)
}

// pair returns the tokens of two texts. Where they are too long, the longer one is cut first.
func (s *Service) pair(in *Input, most int, cut bool, o *Options) (embed.Text, error) {
	_, added := s.tok.Added()
	room := most - added
	a, err := s.side(in.Text, room, cut, o)
	if err != nil {
		return embed.Text{}, err
	}
	var b []llm.Token
	if o.Second > 0 {
		b, err = s.keep(s.lower(*in.Pair), o.Second, false)
	} else {
		b, err = s.side(*in.Pair, room, cut, o)
	}
	if err != nil {
		return embed.Text{}, err
	}
	if cut && len(a)+len(b) > room {
		n, m := longestFirst(len(a), len(b), room)
		a, b = part(a, n, o.Left), part(b, m, o.Left)
	}
	var t embed.Text
	t.IDs, t.Second = s.tok.Pair(a, b)
	return t, nil
}

// side returns the tokens of one text of a pair, or, if it is to be cut, more than can stay.
func (s *Service) side(text string, room int, cut bool, o *Options) ([]llm.Token, error) {
	text = s.lower(text)
	if cut {
		return s.keep(text, room+1, o.Left)
	}
	e, err := s.tok.EncodePrompt(text, llm.Encoding{Most: max(room, 1)})
	if err == nil && e.Count > max(room, 1) {
		err = s.tooLong(o, s.MaxTokens(), counted(e))
	}
	return e.Tokens, err
}

// longestFirst returns how many tokens two texts keep if together they may have room: the longer one is cut, and both
// once they are equally long (the tokenizers library's longest_first).
func longestFirst(a, b, room int) (int, int) {
	room = max(room, 0)
	swapped := a > b
	if swapped {
		a, b = b, a
	}
	if a > room {
		b = a
	} else {
		b = max(a, room-a)
	}
	if a+b > room {
		a = room / 2
		b = a + room%2
	}
	if swapped {
		return b, a
	}
	return a, b
}

// Pieces encodes a text for a client that wants to see its tokens.
func (s *Service) Pieces(text string, special bool) iter.Seq[llm.Piece] {
	return s.tok.Pieces(text, special)
}

// Text returns what tokens stand for.
func (s *Service) Text(ids []llm.Token, skipSpecial bool) string {
	return s.tok.Decode(ids, skipSpecial)
}

// Special reports whether a token is not part of a text.
func (s *Service) Special(id llm.Token) bool { return s.tok.Special(id) }

// Enter takes a place for a request that computes nothing but tokens.
func (s *Service) Enter(ctx context.Context) (leave func(), err error) {
	return s.gate.Enter(s.clients(ctx).Name)
}

// Work calls f while few others encode texts.
func (s *Service) Work(ctx context.Context, f func()) error {
	return s.gate.Work(ctx, s.clients(ctx).Name, f)
}

// Cut shortens a vector to its first n numbers.
func Cut(v []float32, n int) []float32 { return v[:min(n, len(v))] }

// Sigmoid and Softmax make probabilities of scores.
func Sigmoid(scores []float32) {
	for i, x := range scores {
		scores[i] = float32(1 / (1 + math.Exp(-float64(x))))
	}
}

// Softmax is described at Sigmoid.
func Softmax(scores []float32) {
	top, sum := slices.Max(scores), 0.0
	for _, x := range scores {
		sum += math.Exp(float64(x - top))
	}
	for i, x := range scores {
		scores[i] = float32(math.Exp(float64(x-top)) / sum)
	}
}

// Cosine returns the cosine of two vectors, 0 if one of them is.
func Cosine(a, b []float32) float32 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return float32(ab / math.Sqrt(aa*bb))
}
