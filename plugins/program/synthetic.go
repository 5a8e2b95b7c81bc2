package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Synthetic is a Host with a made-up model, for trials and measurements. Its words follow from the context alone, a run
// of it has at most syntheticRun of them, and its purse is small: a program that does not end gets its statuses.
type Synthetic struct {
	vocab    guest.Vocabulary
	words    []uint32 // what the model says
	contexts map[int]*synthetic
	next     int
	purse    int
	// Compile, if any, returns why a grammar is refused; nil takes all for right. Wrong is what it said of the last
	// one, nil once another is right.
	Compile func(llm.GrammarCall) error
	Wrong   error

	// Emitted are the tokens and bytes that went to the client, Generated those of all runs.
	Emitted, Generated int
}

type synthetic struct {
	tokens []uint32
	span   llm.ProgramSpan
	told   bool // Wait told the end of the run
}

const (
	syntheticRun   = 16
	syntheticPurse = 4096
	syntheticWords = 64
)

// NewSynthetic returns a Host whose context 0 has the given tokens.
func NewSynthetic(v guest.Vocabulary, prompt []uint32) *Synthetic {
	h := &Synthetic{vocab: v, purse: syntheticPurse, next: 1,
		contexts: map[int]*synthetic{0: {tokens: copyOf(prompt), told: true}}}
	for id := uint32(0); id < uint32(v.Size()) && len(h.words) < syntheticWords; id++ {
		if len(v.Bytes(id)) > 0 && v.Flags(id) == 0 {
			h.words = append(h.words, id)
		}
	}
	if len(h.words) == 0 {
		h.words = []uint32{0}
	}
	return h
}

// Slept implements Host: its model takes no time.
func (h *Synthetic) Slept() time.Duration { return 0 }

// Computed is how many tokens the model computed: what was generated, and what programs pay for beside it.
func (h *Synthetic) Computed() int { return syntheticPurse - max(h.purse, 0) }

func copyOf(list []uint32) []uint32 { return append([]uint32(nil), list...) }

// Request is the request that goes with it; nil params mean {}.
func (h *Synthetic) Request(params []byte) []byte {
	if len(params) == 0 {
		params = []byte("{}")
	}
	return fmt.Appendf(nil, `{"settings":{"max_tokens":%d},"prompt_count":%d,"messages":[{"role":"user","content":"Hi"}],`+
		`"limits":{"handles":%d,"forks":%d,"tokens":%d,"max_new_tokens":%d},"params":%s}`, syntheticRun,
		len(h.contexts[0].tokens), abi.MaxHandles, abi.MaxForks, h.purse, syntheticRun, params)
}

func refuse(status int, format string, args ...any) error {
	return &llm.ProgramError{Status: status, Text: fmt.Sprintf(format, args...)}
}

func (h *Synthetic) context(c int) (*synthetic, error) {
	if x := h.contexts[c]; x != nil {
		return x, nil
	}
	return nil, refuse(abi.ProgramArgument, "there is no context %d", c)
}

func (h *Synthetic) add(x *synthetic) (int, error) {
	if len(h.contexts) >= abi.MaxHandles {
		return 0, refuse(abi.ProgramRoom, "there are %d contexts", len(h.contexts))
	}
	if h.next > abi.MaxForks {
		return 0, refuse(abi.ProgramPurse, "%d forks", h.next)
	}
	h.contexts[h.next] = x
	h.next++
	return h.next - 1, nil
}

// spend takes tokens of the purse.
func (h *Synthetic) spend(n int) error {
	if h.purse -= n; h.purse < 0 {
		return refuse(abi.ProgramPurse, "the purse is empty")
	}
	return nil
}

// Fork implements Host, as all methods below.
func (h *Synthetic) Fork(c int) (int, error) {
	x, err := h.context(c)
	if err != nil {
		return 0, err
	}
	return h.add(&synthetic{tokens: copyOf(x.tokens), told: true})
}

// Drop ends a context.
func (h *Synthetic) Drop(c int) error {
	_, err := h.context(c)
	delete(h.contexts, c)
	return err
}

// Append appends a text.
func (h *Synthetic) Append(c int, text string, _ bool) (int, error) {
	ids := h.vocab.Encode(text)
	return len(ids), h.Push(c, ids)
}

// Push appends tokens.
func (h *Synthetic) Push(c int, ids []uint32) error {
	x, err := h.context(c)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id >= uint32(h.vocab.Size()) {
			return refuse(abi.ProgramArgument, "token %d of %d", id, h.vocab.Size())
		}
	}
	if err := h.spend(len(ids)); err != nil {
		return err
	}
	x.tokens = append(x.tokens, ids...)
	return nil
}

// Tokens are those of a context.
func (h *Synthetic) Tokens(c int) ([]uint32, error) {
	x, err := h.context(c)
	if err != nil {
		return nil, err
	}
	return x.tokens, nil
}

// Rewind leaves the first tokens.
func (h *Synthetic) Rewind(c, n int) error {
	x, err := h.context(c)
	switch {
	case err != nil:
		return err
	case n < 0 || n > len(x.tokens):
		return refuse(abi.ProgramArgument, "position %d of %d", n, len(x.tokens))
	}
	x.tokens = x.tokens[:n]
	return nil
}

// Start generates a run at once.
func (h *Synthetic) Start(c int, settings []byte) error {
	x, err := h.context(c)
	if err != nil {
		return err
	}
	var set struct {
		MaxTokens int             `json:"max_tokens"`
		Grammar   json.RawMessage `json:"grammar"`
		Deny      []uint32        `json:"deny"`
	}
	if len(settings) > 0 && json.Unmarshal(settings, &set) != nil {
		return refuse(abi.ProgramArgument, "settings: no JSON object")
	}
	if err := h.compile(set.Grammar); err != nil {
		return err
	}
	n := syntheticRun
	if set.MaxTokens > 0 {
		n = min(n, set.MaxTokens)
	}
	if err := h.spend(n); err != nil {
		return err
	}
	x.told, x.span = false, llm.ProgramSpan{From: len(x.tokens)}
	word, ok := h.word(x, set.Deny)
	if x.span.Denied = !ok; !ok {
		return nil
	}
	x.span.Count, x.span.Reason, x.span.Logprob = n, llm.FinishLength, -float64(n)
	for range n {
		x.tokens = append(x.tokens, word)
		word, _ = h.word(x, nil)
	}
	return nil
}

// word returns the next word of a context that is not denied; ok is false if all are.
func (h *Synthetic) word(x *synthetic, deny []uint32) (word uint32, ok bool) {
	for i := range h.words {
		if word = h.words[(h.state(x)+uint64(i))%uint64(len(h.words))]; !slices.Contains(deny, word) {
			return word, true
		}
	}
	return 0, false
}

// state is a number that the tokens of a context decide.
func (h *Synthetic) state(x *synthetic) uint64 {
	s := uint64(len(x.tokens)) + 0x9e3779b97f4a7c15
	for _, t := range x.tokens[max(0, len(x.tokens)-4):] {
		s = (s ^ uint64(t)) * 0xff51afd7ed558ccd
		s ^= s >> 32
	}
	return s
}

// Wait finds all ended.
func (h *Synthetic) Wait(list []int, any bool) (at, generated int, err error) {
	if len(list) == 0 {
		return 0, 0, refuse(abi.ProgramArgument, "no contexts to wait for")
	}
	for _, c := range list {
		x, err := h.context(c)
		if err != nil {
			return 0, 0, err
		}
		if !x.told {
			x.told = true
			generated += x.span.Count
		}
		if any {
			break
		}
	}
	h.Generated += generated
	return 0, generated, nil
}

// Span is the last run.
func (h *Synthetic) Span(c int) (llm.ProgramSpan, error) {
	x, err := h.context(c)
	if err != nil {
		return llm.ProgramSpan{}, err
	}
	return x.span, nil
}

// Logits are made up.
func (h *Synthetic) Logits(c int) ([]float32, error) {
	x, err := h.context(c)
	if err == nil {
		err = h.spend(1)
	}
	if err != nil {
		return nil, err
	}
	row, s := make([]float32, h.vocab.Size()), h.state(x)
	for i := range row {
		s = s*6364136223846793005 + 1442695040888963407
		row[i] = float32(s>>40)/(1<<22) - 2
	}
	return row, nil
}

// Score takes the tokens for equally likely.
func (h *Synthetic) Score(c int, ids []uint32) ([]float32, error) {
	if _, err := h.context(c); err != nil {
		return nil, err
	}
	if err := h.spend(len(ids)); err != nil {
		return nil, err
	}
	out := make([]float32, len(ids))
	for i := range out {
		out[i] = -float32(math.Log(float64(h.vocab.Size())))
	}
	return out, nil
}

// Ask has nothing to begin: answers are there at once.
func (h *Synthetic) Ask(c int, ids []uint32) error {
	_, err := h.context(c)
	return err
}

// Emit counts tokens.
func (h *Synthetic) Emit(c, from, count int) error {
	x, err := h.context(c)
	switch {
	case err != nil:
		return err
	case from < 0 || count < 0 || from > len(x.tokens) || count > len(x.tokens)-from:
		return refuse(abi.ProgramArgument, "tokens %d and %d more of %d", from, count, len(x.tokens))
	}
	h.Emitted += count
	return nil
}

// EmitText counts bytes.
func (h *Synthetic) EmitText(text string) error {
	h.Emitted += len(text)
	return nil
}

// Render has the request as its prompt.
func (h *Synthetic) Render(request []byte) (c int, fuel int64, err error) {
	if !json.Valid(request) {
		return 0, 0, refuse(abi.ProgramArgument, "request: no JSON object")
	}
	c, err = h.add(&synthetic{tokens: h.vocab.Encode(strconv.Quote(string(request))), told: true})
	return c, 0, err
}

// Calls implements Host: nobody offers tools.
func (h *Synthetic) Calls(c int) (state, size int, err error) {
	_, err = h.context(c)
	return abi.CallsNone, 0, err
}

// GrammarPrefix takes every text for a beginning of one of the grammar.
func (h *Synthetic) GrammarPrefix(grammar, text []byte) (int, int64, error) {
	if !json.Valid(grammar) {
		return 0, 0, refuse(abi.ProgramGrammar, "grammar: no JSON object")
	}
	if err := h.compile(grammar); err != nil {
		return 0, 0, err
	}
	return len(bytes.TrimRight(text, "\x00")), 0, nil
}

// compile looks at a grammar of the program's, if it is one: null is none.
func (h *Synthetic) compile(grammar []byte) error {
	var g *struct {
		Language, Source, Plugin string
		Params                   json.RawMessage
	}
	if h.Compile == nil || json.Unmarshal(grammar, &g) != nil || g == nil {
		return nil
	}
	h.Wrong = h.Compile(llm.GrammarCall{Plugin: g.Plugin, Language: g.Language, Source: []byte(g.Source),
		Params: g.Params})
	if h.Wrong != nil {
		return refuse(abi.ProgramGrammar, "%v", h.Wrong)
	}
	return nil
}
