package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
	"tgi/server/wire"
)

// A request may name a program, which generates the texts of the reply itself: it forks, rewinds and scores contexts of
// the model, and what it emits are the reply's events, behind which everything is as ever. Contexts are its host.

// ProgramCode is UserCode with programs.
type ProgramCode interface {
	UserCode
	// FindProgram returns the program that calls name, and how many of its contexts run at once; 0 if there is none.
	FindProgram(calls []PluginCall) (name string, contexts int)
}

// BoundProgram is the BoundCode of a request with a program.
type BoundProgram interface {
	// RunProgram runs the program for one text. request is the JSON object of abi.Program without "params". One
	// goroutine uses h, until it returns.
	RunProgram(ctx context.Context, seed uint64, request []byte, h *Contexts) error
	// RunFailed notes in the program's log that one of its runs failed by an error that names no plugin.
	RunFailed(err error)
	// Calls are the plugins of its runs: those of the request that are no guards.
	Calls() []PluginCall
	// BindRun is UserCode.Bind for a run with these plugins. Those that the request has too are at its versions. The
	// run is closed before the request.
	BindRun(calls []PluginCall) BoundCode
	// Render renders a conversation, the JSON object of abi.Template without "params".
	// fuel is the template's, also where it failed.
	Render(ctx context.Context, request []byte) (r Rendered, fuel int64, err error)
	// GrammarPrefix returns how many bytes of text a text of the grammar can begin with, and what work that was; nil is
	// what holds calls.
	GrammarPrefix(ctx context.Context, g *Grammar, text []byte) (n int, work int64, err error)
	// ReadCalls returns what the tokens of a reply have of calls, as in abi.CallsNone, and how many bytes the parser
	// read for that.
	ReadCalls(ctx context.Context, tokens []llm.Token) (state, size int, err error)
	// HoldsCalls reports whether a text that what holds calls allows can begin with tokens.
	HoldsCalls(ctx context.Context, tokens []llm.Token) bool
}

// Sessions is an Engine with contexts.
type Sessions interface {
	Engine
	// OpenSession is that of engine.Engine.
	OpenSession(r engine.SessionRequest) (*engine.Session, error)
	// Watch returns s, the events of programs that serve r, for the reader.
	Watch(ctx context.Context, r engine.Request, s Stream) Stream
}

// errFinished ends a program whose text has ended.
var errFinished = errors.New("the text has ended")

// sized is the size of d, with the contexts of its program.
func (s *Service) sized(d *Draft) (size, error) {
	n, err := s.limits.size(d)
	if err != nil || len(d.Plugins) == 0 {
		return n, err
	}
	code, ok := s.code.(ProgramCode)
	if !ok {
		return n, nil
	}
	name, contexts := code.FindProgram(d.Plugins)
	if contexts == 0 {
		return n, nil
	}
	exclude := func(field string) error {
		return invalid(field, "`%s` and program `%s` in `plugins` exclude each other: the program says what is generated",
			field, name)
	}
	switch {
	case n.beams > 0:
		field, _ := d.searchField()
		return n, exclude(field)
	case n.prompts > 1:
		_, field := d.Guidance.kind()
		return n, exclude(field)
	case or(d.BestOf, 1) > 1:
		return n, exclude("best_of")
	case d.PromptLogprobs:
		return n, exclude(d.echoField())
	case or(d.Heal, false):
		return n, exclude("token_healing")
	}
	n.program = name
	n.contexts = max(1, min(contexts, s.limits.perRequest()/n.sequences))
	return n, nil
}

// programs are the programs of one run, one for each text, and the stream of their events.
type programs struct {
	mu    sync.Mutex
	queue []programItem
	left  int           // programs that have not ended
	ready chan struct{} // holds a token when there may be something new
	done  sync.WaitGroup

	// Of those that have ended: tokens that the model computed for them, and, if one of them had the prompt computed,
	// how much of it the cache held when the first did.
	computed, cached int
	prompted         bool
}

type programItem struct {
	event Event
	err   error
}

// startPrograms starts the programs of r. They end with ctx.
func (s *Service) startPrograms(ctx context.Context, r *Run, d *Draft, bound BoundProgram,
	embeddings []llm.Embedding, client llm.Client, priority int) error {
	sessions, ok := s.engine.(Sessions)
	if !ok {
		return invalid("plugins", "this model runs no programs")
	}
	q := &r.Request
	p := &programs{left: q.Sequences, ready: make(chan struct{}, 1)}
	var list []*engine.Session
	for range q.Sequences {
		session, err := sessions.OpenSession(engine.SessionRequest{Slots: q.contexts, Client: client.Name,
			Share: client.Share, Beneath: client.Beneath, Priority: priority, Salt: r.adapter.Salt,
			Adapter: r.adapter.ID, Guarded: r.guarded, Prompt: q.Prompt})
		if err != nil {
			for _, open := range list {
				open.Close()
			}
			return err
		}
		list = append(list, session)
	}
	r.programs, r.stream = p, sessions.Watch(ctx, engine.Request{Prompt: q.Prompt, Params: q.Params, N: q.Sequences}, p)
	request, began := r.programRequest(d), make(chan error, q.Sequences)
	for i, session := range list {
		p.done.Go(func() { s.runProgram(ctx, r, d, bound, i, session, request, embeddings, began) })
	}
	return r.programsBegin(ctx, began)
}

// programsBegin waits until each program has the model compute something or has ended. One that failed before that
// refuses the request, so that a stream gets the status of a whole reply. Fuel and time bound the wait.
func (r *Run) programsBegin(ctx context.Context, began <-chan error) error {
	for range r.Request.Sequences {
		var err error
		select {
		case err = <-began:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err == nil {
			continue
		}
		r.cancel()
		r.waitPrograms()
		for drained := error(nil); drained == nil; { // who watches the stream learns of the end
			_, drained = r.stream.Next(context.WithoutCancel(ctx))
		}
		return err
	}
	return nil
}

// runProgram runs one program to its end. began gets an error of a program that had the model compute nothing, else nil
// as soon as it does.
func (s *Service) runProgram(ctx context.Context, r *Run, d *Draft, bound BoundProgram, i int, session *engine.Session,
	request []byte, embeddings []llm.Embedding, began chan<- error) {
	ctx, stop := context.WithCancelCause(ctx)
	wall := cmp.Or(s.limits.ProgramTime, 5*time.Minute)
	timed, cancel := context.WithTimeoutCause(ctx, wall, failed(
		"plugin %s: it took longer than plugins.program_time, %v", llm.Shorten(r.Request.program), wall))
	h := s.newContexts(timed, r, d, bound, i, session, stop, embeddings)
	h.begins = func(err error) {
		began <- err
		h.begins = func(error) {}
	}
	err := bound.RunProgram(timed, h.params.Seed, request, h)
	last, err := h.close(err)
	if h.saw || h.gave { // what it says else it cannot have from a text
		err = r.conceal(err)
	}
	cancel()
	stop(nil)
	r.programs.end(last, err)
	h.begins(err)
}

// count adds what the model computed for a program, which knows from cached how much of the prompt is not in that.
func (p *programs) count(computed, cached int, prompted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.computed += computed
	if prompted && (!p.prompted || cached < p.cached) {
		p.prompted, p.cached = true, cached
	}
}

// unseen is how many tokens were computed for the programs that are neither the prompt's nor as many as were emitted.
func (p *programs) unseen(prompt, emitted int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.computed
	if p.prompted {
		n -= prompt - p.cached
	}
	return max(n-emitted, 0)
}

// push gives the reader an event.
func (p *programs) push(it programItem) {
	p.mu.Lock()
	p.queue = append(p.queue, it)
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// end gives the reader the last event of a text, or its error.
func (p *programs) end(last Event, err error) {
	p.push(programItem{event: last, err: err})
	p.mu.Lock()
	p.left--
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// Next implements Stream.
func (p *programs) Next(ctx context.Context) (Event, error) {
	for {
		p.mu.Lock()
		over := p.left == 0
		if len(p.queue) > 0 {
			it := p.queue[0]
			p.queue[0] = programItem{}
			p.queue = p.queue[1:]
			p.mu.Unlock()
			return it.event, it.err
		}
		p.mu.Unlock()
		if over {
			return Event{}, io.EOF
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// programRequest is what a program is told.
func (r *Run) programRequest(d *Draft) []byte {
	q := &r.Request
	b := appendSettings([]byte(`{"settings":`), &q.Params)
	if d.Grammar != nil || r.calls == callsWhole {
		b = append(b[:len(b)-1], `,"grammar":true}`...)
	}
	b = strconv.AppendInt(append(b, `,"prompt_count":`...), int64(len(q.Prompt)), 10)
	if c := d.Conversation; c != nil {
		b = append(b, `,"messages":[`...)
		for i := range c.Messages {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, c.Messages[i].JSON...)
		}
		b = append(b, ']')
	}
	return fmt.Appendf(b, `,"limits":{"handles":%d,"forks":%d,"tokens":%d,"max_new_tokens":%d}}`, abi.MaxHandles,
		abi.MaxForks, purseOf(q), q.Params.MaxNewTokens)
}

// appendSettings writes the settings that a run has if it says nothing.
func appendSettings(b []byte, p *llm.Params) []byte {
	temperature := p.Temperature
	if !p.Sample {
		temperature = 0
	}
	b = fmt.Appendf(b, `{"max_tokens":%d,"temperature":%v,"top_p":%v,"top_k":%d,"min_p":%v,"stop":[`, p.MaxNewTokens,
		temperature, p.TopP, p.TopK, p.MinP)
	for i, s := range p.Stop {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, s)
	}
	return append(b, "]}"...)
}

// purseOf is how many tokens a program may have computed, for its text, that no cache holds.
func purseOf(q *Request) int { return 8*q.Params.MaxNewTokens + 2*len(q.Prompt) + 4096 }

// waitPrograms returns when no program of the run is left.
func (r *Run) waitPrograms() {
	if r.programs != nil {
		r.programs.done.Wait()
	}
}

// addUsed adds the plugins of a program's run to those that the receipt names.
func (r *Run) addUsed(list []llm.UsedPlugin) {
	r.skipMu.Lock()
	defer r.skipMu.Unlock()
	for _, p := range list {
		if !slices.Contains(r.used.Plugins, p) {
			r.used.Plugins = append(r.used.Plugins, p)
		}
	}
}

// addSkips adds what the runs of programs went on without.
func (r *Run) addSkips(list []Skip) {
	r.skipMu.Lock()
	defer r.skipMu.Unlock()
	r.programSkips = addSkips(r.programSkips, list)
}

// addSkips adds those of more whose plugins are not in the list.
func addSkips(list, more []Skip) []Skip {
	for _, s := range more {
		if !slices.ContainsFunc(list, func(o Skip) bool { return o.Plugin == s.Plugin }) {
			list = append(list, s)
		}
	}
	return list
}
