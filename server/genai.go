package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"tgi/runtime/embed"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/embeddings"
	"tgi/server/generate"
	"tgi/server/mcp"
)

// Operation is what a request wants of a model, as OpenTelemetry's GenAI semantic conventions 1.41 name it
// (gen_ai.operation.name).
type Operation string

// The operations. The conventions have no name for the last two.
const (
	Chat           Operation = "chat"
	TextCompletion Operation = "text_completion"
	Embeddings     Operation = "embeddings"
	Rerank         Operation = "rerank"
	Classify       Operation = "classify"
)

// provider is gen_ai.provider.name: the conventions let a provider that they do not list name itself.
const provider = "tgi"

// operation is what a request wants of a model, and what came of it. A request has several model calls with several
// prompts.
type operation struct {
	began time.Time

	mu                sync.Mutex
	name              Operation // "" while nothing is known to be wanted of a model
	requested, served string    // the model
	calls             []*modelCall
	tools             []toolCall
}

type operationKey struct{}

func operationOf(ctx context.Context) *operation {
	o, _ := ctx.Value(operationKey{}).(*operation)
	return o
}

// NoteModel records which model the request of ctx names, "" for none, and which one serves it.
func NoteModel(ctx context.Context, requested, served string) {
	if o := operationOf(ctx); o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.requested, o.served = requested, served
	}
}

// add begins a call of a model that wants what name says.
func (o *operation) add(name Operation, c *modelCall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.name = name
	o.calls = append(o.calls, c)
}

// called reports whether there was a call of a model, false for nil.
func (o *operation) called() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls) > 0
}

// modelCall is one call of a model: a request to the engine, or texts for vectors. Whoever reads its stream fills it.
type modelCall struct {
	model     string
	operation Operation
	submitted time.Time
	generates bool            // and does not turn texts into vectors or scores
	draft     *generate.Draft // nil for texts
	params    llm.Params
	sequences int
	input     int // tokens
	cached    int // of them in the prefix cache
	width     int // of vectors; 0 of a text

	mu       sync.Mutex
	queued   time.Duration
	first    time.Time // when the first token came; zero for none
	last     time.Time // when the latest did
	counts   []int     // tokens of each sequence
	finishes []llm.Finish
	err      error
}

// most returns the tokens of the longest sequence.
func (c *modelCall) most() (n int) {
	for _, k := range c.counts {
		n = max(n, k)
	}
	return n
}

// output returns the tokens of all sequences.
func (c *modelCall) output() (n int) {
	for _, k := range c.counts {
		n += k
	}
	return n
}

// Engine returns e, the engine of a model, with the calls of requests recorded.
func Engine(model string, e generate.Engine) generate.Engine { return watched{e, model} }

type watched struct {
	generate.Engine
	model string
}

// OpenSession implements generate.Sessions.
func (w watched) OpenSession(r engine.SessionRequest) (*engine.Session, error) {
	s, ok := w.Engine.(generate.Sessions)
	if !ok {
		return nil, fmt.Errorf("%w: this engine has no contexts", llm.ErrInvalid)
	}
	return s.OpenSession(r)
}

// Watch implements generate.Sessions.
func (w watched) Watch(ctx context.Context, r engine.Request, s generate.Stream) generate.Stream {
	o := operationOf(ctx)
	if o == nil {
		return s
	}
	c := w.call(ctx, r)
	o.add(c.operation, c)
	return &watchedStream{s, c}
}

// Submit implements generate.Engine.
func (w watched) Submit(ctx context.Context, r engine.Request) (generate.Stream, error) {
	o := operationOf(ctx)
	if o == nil {
		return w.Engine.Submit(ctx, r)
	}
	c := w.call(ctx, r)
	s, err := w.Engine.Submit(ctx, r)
	c.err = err
	o.add(c.operation, c)
	if err != nil {
		return nil, err
	}
	return &watchedStream{s, c}, nil
}

// call returns the call that a request makes.
func (w watched) call(ctx context.Context, r engine.Request) *modelCall {
	c := &modelCall{model: w.model, operation: TextCompletion, generates: true, params: r.Params,
		submitted: time.Now(), sequences: max(r.N, 1), input: len(r.Prompt), draft: generate.DraftOf(ctx)}
	if c.draft != nil && c.draft.Conversation != nil {
		c.operation = Chat
	}
	return c
}

type watchedStream struct {
	generate.Stream
	call *modelCall
}

// Next implements generate.Stream.
func (s *watchedStream) Next(ctx context.Context) (generate.Event, error) {
	e, err := s.Stream.Next(ctx)
	switch {
	case err == nil:
		s.call.record(&e)
	case ctx.Err() == nil:
		s.call.fail(err)
	}
	return e, err
}

// record notes an event. Its index may be any: a beam search has more sequences in the end than it begins with.
func (c *modelCall) record(e *generate.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.first.IsZero() {
		c.first = c.last
	}
	if e.Index == 0 {
		c.queued = e.Timings.Queued
	}
	if more := e.Index + 1 - len(c.counts); more > 0 {
		c.counts = append(c.counts, make([]int, more)...)
	}
	c.counts[e.Index]++
	if e.Finish != nil {
		c.finishes = append(c.finishes, *e.Finish)
		c.cached = max(c.cached, e.Finish.Cached)
	}
}

// fail notes why a stream ended: its end is no failure once a sequence has finished.
func (c *modelCall) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.finishes) == 0 {
		c.err = err
	}
}

// wrong returns why the call has no result, nil where it has one.
func (c *modelCall) wrong() error {
	if c.err == nil && c.generates && len(c.finishes) == 0 {
		return context.Canceled // whoever read its stream stopped
	}
	return c.err
}

// Runner returns r, which computes texts of a model, with the calls of requests recorded. o is what it does.
func Runner(model string, o Operation, r embeddings.Runner) embeddings.Runner {
	return watchedRunner{r, model, o}
}

type watchedRunner struct {
	embeddings.Runner
	model     string
	operation Operation
}

// Run implements embeddings.Runner.
func (w watchedRunner) Run(ctx context.Context, client llm.Client, texts []embed.Text, want embed.Want) ([][]float32,
	error) {
	c := &modelCall{model: w.model, operation: w.operation, submitted: time.Now()}
	if w.operation == Embeddings {
		c.width = w.Shape().Out
	}
	for i := range texts {
		c.input += len(texts[i].IDs)
	}
	vectors, err := w.Runner.Run(ctx, client, texts, want)
	c.last, c.err = time.Now(), err
	if o := operationOf(ctx); o != nil {
		o.add(w.operation, c)
	}
	return vectors, err
}

// observe makes metrics and spans of the operation, whose request ended with status and err, if it wanted anything of a
// model.
func (o *operation) observe(ctx context.Context, m *Metrics, t *Tracer, status int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.name == "" {
		return
	}
	if o.served == "" && len(o.calls) > 0 {
		o.served = o.calls[0].model
	}
	requested := cmp.Or(o.requested, o.served)
	for _, c := range o.calls {
		c.mu.Lock()
		m.observeCall(c, requested, o.served)
		t.call(ctx, c, requested, o.served)
		err = cmp.Or(err, c.wrong())
		c.mu.Unlock()
	}
	for i := range o.tools {
		t.tool(ctx, &o.tools[i])
	}
	m.observeOperation(o, requested, errorType(status, err))
}

// errorType names how a request went wrong, "" for one that did not. A client that left is no error of the server's,
// but neither is it a success.
func errorType(status int, err error) string {
	switch {
	case err != nil && errors.Is(err, context.Canceled):
		return "canceled"
	case err != nil:
		return Explain(err).Type
	case status >= http.StatusBadRequest:
		return http.StatusText(status)
	}
	return ""
}

// call makes the span of a call of a model, and those of its stages under TGI's names.
func (t *Tracer) call(ctx context.Context, c *modelCall, requested, served string) {
	v := logOf(ctx)
	if t == nil || v == nil || v.trace.span == nil {
		return
	}
	name := string(c.operation)
	if requested != "" {
		name += " " + bounded(requested)
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(c.submitted), trace.WithSpanKind(trace.SpanKindInternal))
	span.SetAttributes(c.attributes(requested, served)...)
	if t.content {
		span.SetAttributes(c.content()...)
	}
	if wrong := c.wrong(); wrong != nil {
		span.SetAttributes(attribute.String("error.type", errorType(0, wrong)))
		if !errors.Is(wrong, context.Canceled) {
			span.SetStatus(codes.Error, wrong.Error())
		}
	}
	end := c.last
	if end.IsZero() {
		end = time.Now()
	}
	span.End(trace.WithTimestamp(end))
	if !c.generates {
		return
	}
	t.stages(ctx, v.trace.began, c)
	if !v.trace.described {
		v.trace.described = true
		v.trace.span.SetAttributes(c.fields(v.trace.began)...)
	}
}

// mostName bounds what a client calls a model, in spans.
const mostName = 256

// bounded cuts a name. It stays UTF-8: collectors refuse other strings, and with one all spans that it is sent with.
func bounded(s string) string { return strings.ToValidUTF8(s[:min(len(s), mostName)], "") }

// toolCall is a call of a tool of a server.
type toolCall struct {
	server, tool string
	began, ended time.Time
	err          error
}

// Tools is told of the calls of tools of servers. It implements mcp.Observer.
type Tools struct {
	// Metrics count them.
	Metrics *Metrics
}

// Called implements mcp.Observer.
func (t Tools) Called(ctx context.Context, server, tool string, began time.Time, err error) {
	c := toolCall{server, tool, began, time.Now(), err}
	t.Metrics.observeTool(&c)
	if o := operationOf(ctx); o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.tools = append(o.tools, c)
	}
}

// errorType names how a call went wrong, "" for one that did not.
func (c *toolCall) errorType() string {
	own := &mcp.ToolError{}
	switch {
	case c.err == nil:
		return ""
	case errors.As(c.err, &own):
		return "tool_error"
	case errors.Is(c.err, context.Canceled):
		return "canceled"
	}
	return otherModel // which is _OTHER for errors, too
}

// tool makes the span of a call of a tool.
func (t *Tracer) tool(ctx context.Context, c *toolCall) {
	v := logOf(ctx)
	if t == nil || v == nil || v.trace.span == nil {
		return
	}
	_, span := t.tracer.Start(ctx, "execute_tool "+c.tool, trace.WithTimestamp(c.began),
		trace.WithSpanKind(trace.SpanKindInternal))
	span.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", c.tool), attribute.String("gen_ai.tool.type", "extension"),
		attribute.String("mcp.method.name", "tools/call"), attribute.String("tgi.mcp.server", c.server))
	if c.err != nil {
		span.SetAttributes(attribute.String("error.type", c.errorType()))
		span.SetStatus(codes.Error, c.errorType())
	}
	span.End(trace.WithTimestamp(c.ended))
}
