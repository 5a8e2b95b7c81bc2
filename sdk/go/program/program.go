// Package program is for plugins that generate the texts of a request themselves: they fork, rewind and score contexts
// of the model, wait for them, and emit what the client gets.
//
//	func init() {
//		plugin.Describe(plugin.Info{Name: "shortest", Version: "1.0.0"})
//		program.Register(program.Uses{Contexts: 3}, program.Func(run))
//	}
//
//	func main() {}
//
//	func run(r *program.Request) error {
//		kids, err := r.Context.ForkN(3)
//		if err != nil {
//			return err
//		}
//		if err := program.Generate(nil, kids...); err != nil {
//			return err
//		}
//		best := kids[0]
//		for _, k := range kids {
//			if k.Span().Count < best.Span().Count {
//				best = k
//			}
//		}
//		return best.EmitSpan()
//	}
//
// A program runs once for each text of the reply, in an instance of its own. Calls that wait, wait: nothing of the
// server waits with them.
package program

import (
	"errors"
	"strconv"

	"tgi/sdk/abi"
	"tgi/sdk/go/chat"
	"tgi/sdk/go/internal/host"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/params"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin runs programs. The function given to [Register] makes it, or it is a [Func]. A plugin that accepts parameters
// also has a method Validate(params []byte) error, which checks them when a request is admitted; Request has them
// again. Without this method, requests that have parameters are refused.
type Plugin interface {
	// Run generates one text. It must not keep r. An error fails the text; the client gets what was emitted before.
	Run(r *Request) error
}

// Func is a Plugin without parameters, whatever its description says: one with them is a type, see [Plugin].
type Func func(r *Request) error

// Run implements Plugin.
func (f Func) Run(r *Request) error { return f(r) }

// Request is what a program is asked for.
type Request struct {
	// Context is the request's prompt.
	Context *Context
	// Params are the request's parameters for this plugin, a JSON object or nil.
	Params []byte
	// MaxNewTokens is the most that can be emitted.
	MaxNewTokens int
	// Messages are the conversation, or empty.
	Messages []chat.Message
	// Purse is how many tokens may be computed.
	Purse int
	// HasGrammar says that the client wants the reply held to a grammar, such as a schema. A run that sets none is held
	// to it.
	HasGrammar bool
}

// Uses says what a program needs.
type Uses struct {
	// Contexts is how many run at once, at most abi.MaxContexts; 0 is abi.DefaultContexts. Further ones wait for these.
	Contexts int
}

// Register makes the guest a program. Call it from an init function. The server calls open once with the configuration,
// a JSON object. open must not keep it. An error refuses the plugin.
func Register(u Uses, open func(config []byte) (Plugin, error)) {
	registry.Add(registry.Kind{Name: abi.KindProgram, Contexts: u.Contexts,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: func(params []byte, _ []uint32) error { return registry.Validate(current, params) },
	})
}

// Always returns p as Register wants it, for a program without a configuration.
func Always(p Plugin) func([]byte) (Plugin, error) {
	return func([]byte) (Plugin, error) { return p, nil }
}

// current is the plugin of this instance.
var current Plugin

// Run runs the plugin that was registered. The server calls it, and tests do.
func Run(p Plugin, request []byte) error {
	r := &Request{Context: &Context{}}
	in := params.Read(request)
	for key := range in.Object() {
		switch key {
		case "params":
			r.Params = in.Raw()
		case "messages":
			r.Messages = chat.ReadMessages(in)
		case "limits":
			readLimits(in, r)
		case "settings":
			readSettings(in, r)
		default:
			in.Skip()
		}
	}
	if err := in.Close(); err != nil {
		return err
	}
	return p.Run(r)
}

func readLimits(in *params.Reader, r *Request) {
	for key := range in.Object() {
		switch key {
		case "max_new_tokens":
			r.MaxNewTokens = int(in.Uint())
		case "tokens":
			r.Purse = int(in.Uint())
		default:
			in.Skip()
		}
	}
}

func readSettings(in *params.Reader, r *Request) {
	for key := range in.Object() {
		if key == "grammar" {
			r.HasGrammar = in.Bool()
		} else {
			in.Skip()
		}
	}
}

// Errors that calls wrap, by status.
var (
	ErrArgument = errors.New("argument")
	ErrPurse    = errors.New("the purse is empty")
	ErrRoom     = errors.New("no room")
	ErrGrammar  = errors.New("grammar")
	ErrRefused  = errors.New("refused")
	ErrPlugin   = errors.New("plugin")
)

// statusError is a status with the server's reason.
type statusError struct {
	kind error
	why  string
}

func (e *statusError) Error() string { return e.why }
func (e *statusError) Unwrap() error { return e.kind }

// check turns a status into an error.
func check(n int32) (int, error) {
	if n >= 0 {
		return int(n), nil
	}
	kind := ErrArgument
	switch n {
	case abi.ProgramPurse:
		kind = ErrPurse
	case abi.ProgramRoom:
		kind = ErrRoom
	case abi.ProgramGrammar:
		kind = ErrGrammar
	case abi.ProgramRefused:
		kind = ErrRefused
	case abi.ProgramPlugin:
		kind = ErrPlugin
	}
	why := host.CurrentProgram.Why()
	if why == "" {
		why = "status " + strconv.Itoa(int(n))
	}
	return 0, &statusError{kind, why}
}

func fails(n int32) error {
	_, err := check(n)
	return err
}

// Context is a text of tokens. It rests, or it runs, from Start until it was waited for.
type Context struct{ id int32 }

// Reason is why a run ended.
type Reason uint32

// The reasons.
const (
	NotRun  Reason = abi.RunNone
	Length  Reason = abi.RunLength // it has as many tokens as it may
	End     Reason = abi.RunEnd    // the model ended the text
	Stopped Reason = abi.RunStop   // a stop text, which is part of the context
	Denied  Reason = abi.RunDenied // its first token could only be one that Settings.Deny denies; it has none
)

// Span is what a context generated in its last run.
type Span struct {
	// From is the first of Count tokens.
	From, Count int
	Reason      Reason
	// EndToken is the token that ended it, where the model did, or 0. It is no part of the context.
	EndToken uint32
	// Logprob is the sum of the log-probabilities.
	Logprob float64
}

// Candidate is a token that may come next.
type Candidate struct {
	ID uint32
	// Logit is the model's own, Logprob its log-probability among all tokens.
	Logit, Logprob float32
}

// Fork returns a context with the same tokens. It costs nothing until it differs.
func (c *Context) Fork() (*Context, error) {
	id, err := check(host.CurrentProgram.Fork(c.id))
	return &Context{int32(id)}, err
}

// ForkN forks n times.
func (c *Context) ForkN(n int) ([]*Context, error) {
	var out []*Context
	for range n {
		f, err := c.Fork()
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Drop ends the context, also while it runs.
func (c *Context) Drop() { host.CurrentProgram.Drop(c.id) }

// Append appends a text, in which no special token is recognised.
func (c *Context) Append(text string) error { return fails(host.CurrentProgram.Append(c.id, text, 0)) }

// AppendSpecial appends a text, in which special tokens are recognised. Never append what a client wrote with it.
func (c *Context) AppendSpecial(text string) error {
	return fails(host.CurrentProgram.Append(c.id, text, abi.AppendSpecial))
}

// Push appends tokens.
func (c *Context) Push(ids ...uint32) error { return fails(host.CurrentProgram.Push(c.id, ids)) }

// Len returns the number of tokens; 0 for a context that was dropped.
func (c *Context) Len() int { return max(0, int(host.CurrentProgram.Len(c.id))) }

// Rewind leaves the first n tokens.
func (c *Context) Rewind(n int) error { return fails(host.CurrentProgram.Rewind(c.id, int32(n))) }

// Tokens returns the tokens from a place on.
func (c *Context) Tokens(from int) ([]uint32, error) {
	ids, n := host.CurrentProgram.ReadIDs(c.id, int32(from))
	_, err := check(n)
	return ids, err
}

// Text returns the text of the tokens from a place on, without special ones; empty if there is no such place.
func (c *Context) Text(from int) string {
	return string(host.CurrentProgram.ReadText(c.id, int32(from)))
}

// SpanText returns the text of the last run.
func (c *Context) SpanText() string { return c.Text(c.Span().From) }

// RewindText rewinds so that the text from a place on is as long as possible and at most bytes long, to a border of
// tokens.
func (c *Context) RewindText(from, bytes int) error {
	all, high := len(c.Text(from)), c.Len()
	if all <= bytes || high <= from {
		return nil
	}
	low := from // up to low the text is short enough, up to high it is too long
	for low+1 < high {
		n := low + (high-low)/2
		if all-len(c.Text(n)) <= bytes {
			low = n
		} else {
			high = n
		}
	}
	return c.Rewind(low)
}

// Start lets the context generate, and returns at once. Settings may be nil: all is as the request says.
func (c *Context) Start(s *Settings) error { return fails(host.CurrentProgram.Start(c.id, s.json())) }

// Generate lets contexts generate at the same time, and waits for all.
func Generate(s *Settings, list ...*Context) error {
	for _, c := range list {
		if err := c.Start(s); err != nil {
			return err
		}
	}
	return Wait(list...)
}

// Wait waits until none of the contexts runs.
func Wait(list ...*Context) error { return fails(host.CurrentProgram.Wait(ids(list), abi.WaitAll)) }

// Race waits for the first of the contexts that does not run any more, and returns its place. The reply then depends on
// which one that is: the same request may get another one.
func Race(list ...*Context) (int, error) {
	return check(host.CurrentProgram.Wait(ids(list), abi.WaitAny))
}

func ids(list []*Context) []uint32 {
	out := make([]uint32, len(list))
	for i, c := range list {
		out[i] = uint32(c.id)
	}
	return out
}

// Span returns what the last run generated.
func (c *Context) Span() (s Span) {
	if raw, n := host.CurrentProgram.Span(c.id); n >= 0 {
		s = Span{From: int(raw.From), Count: int(raw.Count), Reason: Reason(raw.Reason), EndToken: raw.End,
			Logprob: raw.Logprob}
	}
	return s
}

// Ended reports whether the text ends where the model ended it in the last run.
func (c *Context) Ended() bool {
	s := c.Span()
	return s.Reason == End && s.From+s.Count == c.Len()
}

// Top returns up to k of the likeliest next tokens, best first.
func (c *Context) Top(k int) ([]Candidate, error) {
	raw, n := host.CurrentProgram.Top(c.id, int32(k))
	if _, err := check(n); err != nil {
		return nil, err
	}
	out := make([]Candidate, len(raw))
	for i, r := range raw {
		out[i] = Candidate{r.ID, r.Logit, r.Logprob}
	}
	return out, nil
}

// Row returns the raw logits of the next token, one for each id.
func (c *Context) Row() ([]float32, error) {
	row, n := host.CurrentProgram.Row(c.id)
	_, err := check(n)
	return row, err
}

// Entropy returns that of the next token, in nats.
func (c *Context) Entropy() (float64, error) {
	h, n := host.CurrentProgram.Entropy(c.id)
	return h, fails(n)
}

// Score returns the log-probability of a text if it came next, the sum over its tokens.
func (c *Context) Score(text string) (float64, error) {
	ids, ok := host.Current.Encode(text)
	if !ok || len(ids) == 0 {
		return 0, &statusError{ErrArgument, "the text to score has no tokens"}
	}
	list, err := c.ScoreTokens(ids...)
	sum := 0.0
	for _, p := range list {
		sum += float64(p)
	}
	return sum, err
}

// ScoreTokens returns the log-probability of each of the tokens if they came next, one after the other.
func (c *Context) ScoreTokens(ids ...uint32) ([]float32, error) {
	list, n := host.CurrentProgram.Score(c.id, ids)
	_, err := check(n)
	return list, err
}

// Ask begins to compute what Score of a text tells, or of an empty one, and of one token, what Top, Row and Entropy do,
// and returns at once. The context runs until it was waited for; those answer at once then. So the answers of many
// contexts are computed together.
func (c *Context) Ask(text string) error {
	if text == "" {
		return c.AskTokens()
	}
	ids, ok := host.Current.Encode(text)
	if !ok || len(ids) == 0 {
		return &statusError{ErrArgument, "the text to score has no tokens"}
	}
	return c.AskTokens(ids...)
}

// AskTokens begins to compute what ScoreTokens of these tells, as Ask does.
func (c *Context) AskTokens(ids ...uint32) error { return fails(host.CurrentProgram.Ask(c.id, ids)) }

// Calls is what a text has of calls of tools.
type Calls int

// What Calls answers.
const (
	NoCalls   Calls = abi.CallsNone
	OpenCall  Calls = abi.CallsOpen // it ends inside a call, or with what may begin one
	CallsMade Calls = abi.CallsMade // it has calls, and does not end inside one
	// BrokenCall: it has something of a call that the request's strict tools do not allow. Runs that go on from there
	// are not held to these.
	BrokenCall Calls = abi.CallsBroken
)

// Calls returns what the text behind the prompt has of calls of tools, as the parser of the reply reads it.
func (c *Context) Calls() (Calls, error) {
	n, err := check(host.CurrentProgram.Calls(c.id))
	return Calls(n), err
}

// FinishCall lets a context whose text ends inside a call of a tool, or with what may begin one, generate until it does
// not, and reports whether it has calls then: such a text is an answer, and what is appended to it is read as its
// content. settings are those of the runs; they set no MaxTokens.
func (c *Context) FinishCall(settings *Settings) (called bool, err error) {
	for n := 1; ; n = min(2*n, 64) {
		calls, err := c.Calls()
		if err != nil || calls != OpenCall {
			return calls == CallsMade, err
		}
		if err := Generate(settings.clone().MaxTokens(n), c); err != nil {
			return false, err
		}
		if c.Span().Reason != Length {
			calls, err := c.Calls()
			return calls == CallsMade, err
		}
	}
}

// Emit gives the client tokens. Where the model ended the last run, and the context did not change since, there is one
// more behind them, the end.
func (c *Context) Emit(from, count int) error {
	return fails(host.CurrentProgram.Emit(c.id, int32(from), int32(count)))
}

// EmitFrom gives the client all tokens from a place on.
func (c *Context) EmitFrom(from int) error { return c.Emit(from, c.Len()-from) }

// EmitToEnd gives the client all tokens from a place on and, if the model ended the text there, the end, behind which
// nothing can be emitted: a guard that reads the end refuses it here, and not when the program is over.
func (c *Context) EmitToEnd(from int) error {
	n := c.Len() - from
	if c.Ended() {
		n++
	}
	return c.Emit(from, n)
}

// EmitSpan gives the client what the last run generated.
func (c *Context) EmitSpan() error {
	s := c.Span()
	return c.Emit(s.From, s.Count)
}

// EmitText gives the client a text.
func EmitText(text string) error { return fails(host.CurrentProgram.EmitText(text)) }

// Render returns a context of a conversation through the model's template. request is that of a template.Request.
func Render(request string) (*Context, error) {
	id, err := check(host.CurrentProgram.Render(request))
	return &Context{int32(id)}, err
}

// GrammarPrefix returns how many bytes of a text a text of the grammar can begin with.
func GrammarPrefix(g Grammar, text string) (int, error) {
	return check(host.CurrentProgram.GrammarPrefix(string(g.append(nil)), text))
}
