package plugintest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/host"
	"tgi/sdk/go/program"
)

// Model is a scripted model for programs.
type Model struct {
	// Next is what the model writes behind a text, until it ends it.
	Next func(text string) string
	// Likely is the log-probability of a token, as text, behind a text; nil takes -1 for all.
	Likely func(text, next string) float64
	// ReadCalls is what a text behind the prompt has of calls; nil takes it that there are none.
	ReadCalls func(text string) program.Calls
	// Grammar gives the request a grammar: this text, literally.
	Grammar string
	// Runs are the settings of all runs so far, as JSON.
	Runs []string
	// Asked are the texts of all questions so far; one about the next token is empty.
	Asked []string

	h        *Host
	prompt   int
	contexts []*context
	emitted  strings.Builder
	why      string
}

type context struct {
	tokens []uint32
	span   host.Span
	ended  bool // the model ended the run, and nothing changed since
}

// Program installs a model for the programs of a test; its words are those of the host.
func (h *Host) Program(t testing.TB, m *Model) *Model {
	t.Helper()
	before := host.CurrentProgram
	m.h, host.CurrentProgram = h, m
	t.Cleanup(func() { host.CurrentProgram = before })
	return m
}

// Run runs a program on a prompt, and returns the text that it emitted.
func (m *Model) Run(p program.Plugin, prompt, params string) (string, error) {
	ids, ok := m.h.Encode(prompt)
	if !ok {
		return "", errors.New("the prompt is not of the host's words")
	}
	m.contexts, m.prompt, m.why = []*context{{tokens: ids}}, len(ids), ""
	m.emitted.Reset()
	settings := "{}"
	if m.Grammar != "" {
		settings = `{"grammar":true}`
	}
	request := fmt.Sprintf(`{"params":%s,"settings":%s,"prompt_count":%d,`+
		`"limits":{"max_new_tokens":100,"tokens":10000}}`, params, settings, len(ids))
	err := program.Run(p, []byte(request))
	return m.emitted.String(), err
}

func (m *Model) text(tokens []uint32) string {
	var b strings.Builder
	for _, t := range tokens {
		if f, ok := m.h.TokenFlags(t); ok && f&abi.TokenSpecial == 0 {
			b.WriteString(m.h.Words[t])
		}
	}
	return b.String()
}

func (m *Model) refuse(status int32, why string) int32 {
	m.why = why
	return status
}

func (m *Model) get(c int32) *context {
	if c < 0 || int(c) >= len(m.contexts) {
		return nil
	}
	return m.contexts[c]
}

const noContext = "there is no such context"

func (m *Model) add(tokens []uint32) int32 {
	m.contexts = append(m.contexts, &context{tokens: append([]uint32(nil), tokens...)})
	return int32(len(m.contexts) - 1)
}

// Fork implements the server's part, as do the methods below.
func (m *Model) Fork(c int32) int32 {
	x := m.get(c)
	if x == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	n := m.add(x.tokens)
	m.contexts[n].span, m.contexts[n].ended = x.span, x.ended
	return n
}

// Drop ends a context.
func (m *Model) Drop(c int32) int32 {
	if m.get(c) == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	m.contexts[c] = nil
	return 0
}

// Append appends a text.
func (m *Model) Append(c int32, text string, _ uint32) int32 {
	ids, ok := m.h.Encode(text)
	if !ok {
		return m.refuse(abi.ProgramArgument, "the text is not of the host's words")
	}
	if n := m.Push(c, ids); n < 0 {
		return n
	}
	return int32(len(ids))
}

// Push appends tokens.
func (m *Model) Push(c int32, ids []uint32) int32 {
	x := m.get(c)
	if x == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	x.tokens, x.ended = append(x.tokens, ids...), x.ended && len(ids) == 0
	return 0
}

// Len counts tokens.
func (m *Model) Len(c int32) int32 {
	if x := m.get(c); x != nil {
		return int32(len(x.tokens))
	}
	return m.refuse(abi.ProgramArgument, noContext)
}

// Rewind leaves the first tokens.
func (m *Model) Rewind(c, n int32) int32 {
	x := m.get(c)
	if x == nil || n < 0 || int(n) > len(x.tokens) {
		return m.refuse(abi.ProgramArgument, "there is no such position")
	}
	x.tokens, x.ended = x.tokens[:n], x.ended && int(n) == len(x.tokens)
	return 0
}

// ReadIDs returns tokens.
func (m *Model) ReadIDs(c, from int32) ([]uint32, int32) {
	x := m.get(c)
	if x == nil || from < 0 || int(from) > len(x.tokens) {
		return nil, m.refuse(abi.ProgramArgument, "there is no such position")
	}
	ids := append([]uint32(nil), x.tokens[from:]...)
	return ids, int32(len(ids))
}

// ReadText returns their text.
func (m *Model) ReadText(c, from int32) []byte {
	ids, _ := m.ReadIDs(c, from)
	return []byte(m.text(ids))
}

// end is the token that ends texts: </s>, or 0 without one.
func (m *Model) end() uint32 { return uint32(max(slices.Index(m.h.Words, "</s>"), 0)) }

// Start writes a run at once: what the model says, up to max_tokens or a stop text. Where its first token is denied, or
// the end that comes first, there is none: the script knows no other.
func (m *Model) Start(c int32, settings string) int32 {
	x := m.get(c)
	if x == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	m.Runs = append(m.Runs, settings)
	set := struct {
		Max  int `json:"max_tokens"`
		Stop []string
		Deny []uint32
		Emit bool
	}{Max: 100}
	if settings != "" && json.Unmarshal([]byte(settings), &set) != nil {
		return m.refuse(abi.ProgramArgument, "the settings are no JSON object")
	}
	said, reason := m.Next(m.text(x.tokens)), uint32(abi.RunEnd)
	for _, stop := range set.Stop {
		if at := strings.Index(said, stop); at >= 0 {
			said, reason = said[:at+len(stop)], abi.RunStop
		}
	}
	ids, ok := m.h.Encode(said)
	if !ok {
		return m.refuse(abi.ProgramArgument, "the model's text is not of the host's words")
	}
	if len(ids) >= set.Max {
		ids, reason = ids[:set.Max], abi.RunLength
	}
	if first := append(ids, m.end())[0]; slices.Contains(set.Deny, first) {
		ids, reason = nil, abi.RunDenied
	}
	x.span = host.Span{From: uint32(len(x.tokens)), Count: uint32(len(ids)), Reason: reason,
		Logprob: -float64(len(ids))}
	if x.ended = reason == abi.RunEnd; x.ended {
		x.span.End = m.end()
	}
	x.tokens = append(x.tokens, ids...)
	if set.Emit {
		m.emitted.WriteString(m.text(ids))
	}
	return 0
}

// Wait finds all runs ended.
func (m *Model) Wait(list []uint32, _ uint32) int32 {
	if len(list) == 0 {
		return m.refuse(abi.ProgramArgument, "no contexts to wait for")
	}
	return 0
}

// Span is the last run.
func (m *Model) Span(c int32) (host.Span, int32) {
	if x := m.get(c); x != nil {
		return x.span, 0
	}
	return host.Span{}, m.refuse(abi.ProgramArgument, noContext)
}

// Row has the log-probabilities of Likely.
func (m *Model) Row(c int32) ([]float32, int32) {
	x := m.get(c)
	if x == nil {
		return nil, m.refuse(abi.ProgramArgument, noContext)
	}
	text, row := m.text(x.tokens), make([]float32, len(m.h.Words))
	for i, w := range m.h.Words {
		row[i] = -1
		if m.Likely != nil {
			row[i] = float32(m.Likely(text, w))
		}
	}
	return row, int32(len(row))
}

// Top sorts Row.
func (m *Model) Top(c, k int32) (list []host.Candidate, n int32) {
	row, n := m.Row(c)
	for i, v := range row {
		list = append(list, host.Candidate{ID: uint32(i), Logit: v, Logprob: v})
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].Logit > list[j].Logit })
	list = list[:min(int(k), len(list))]
	return list, min(n, int32(len(list)))
}

// Entropy is that of Row.
func (m *Model) Entropy(c int32) (h float64, n int32) {
	row, n := m.Row(c)
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v))
	}
	for _, v := range row {
		p := math.Exp(float64(v)) / sum
		h -= p * math.Log(p)
	}
	return h, min(n, 0)
}

// Score looks tokens up in Row.
func (m *Model) Score(c int32, ids []uint32) (out []float32, n int32) {
	row, n := m.Row(c)
	for _, id := range ids {
		if n >= 0 {
			out = append(out, row[id])
		}
	}
	return out, min(n, 0)
}

// Ask keeps the question: the answers are there at any time.
func (m *Model) Ask(c int32, ids []uint32) int32 {
	if m.get(c) == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	m.Asked = append(m.Asked, m.text(ids))
	return 0
}

// Emit keeps the text of tokens.
func (m *Model) Emit(c, from, count int32) int32 {
	x := m.get(c)
	if x == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	tokens := slices.Clone(x.tokens)
	if x.ended {
		tokens = append(tokens, m.end())
	}
	if from < 0 || count < 0 || int(from+count) > len(tokens) {
		return m.refuse(abi.ProgramArgument, "there are no such tokens")
	}
	m.emitted.WriteString(m.text(tokens[from : from+count]))
	return 0
}

// EmitText keeps a text.
func (m *Model) EmitText(text string) int32 {
	m.emitted.WriteString(text)
	return 0
}

// Render takes the request as it is for the prompt.
func (m *Model) Render(request string) int32 {
	ids, ok := m.h.Encode(request)
	if !ok {
		return m.refuse(abi.ProgramArgument, "the conversation is not of the host's words")
	}
	return m.add(ids)
}

// GrammarPrefix knows one grammar: its source, literally; without one it is the request's.
func (m *Model) GrammarPrefix(grammar, text string) int32 {
	g := struct{ Source string }{m.Grammar}
	if grammar == "" && m.Grammar == "" {
		return m.refuse(abi.ProgramArgument, "grammar: the request has none")
	}
	if grammar != "" && json.Unmarshal([]byte(grammar), &g) != nil {
		return m.refuse(abi.ProgramGrammar, "the grammar is no JSON object")
	}
	n := 0
	for n < len(text) && n < len(g.Source) && text[n] == g.Source[n] {
		n++
	}
	return int32(n)
}

// Calls asks ReadCalls.
func (m *Model) Calls(c int32) int32 {
	x := m.get(c)
	if x == nil {
		return m.refuse(abi.ProgramArgument, noContext)
	}
	if m.ReadCalls == nil || len(x.tokens) < m.prompt {
		return abi.CallsNone
	}
	return int32(m.ReadCalls(m.text(x.tokens[m.prompt:])))
}

// Why is the reason of the last refusal.
func (m *Model) Why() string { return m.why }
