package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/config"
	"tgi/server/generate"
)

// Tracer makes traces of requests and sends them to an OpenTelemetry collector,
// on a goroutine of its own that never holds a request up: what the collector
// does not take in time is dropped. The nil Tracer makes none. It is safe for
// concurrent use.
//
// A request is a span with one child for each of the stages of TGI, under its
// names and with its fields.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// NewTracer returns the tracer of c, nil without an endpoint. It must be closed.
func NewTracer(c config.Trace, version string, log *slog.Logger) (*Tracer, error) {
	if c.OTLPEndpoint == "" {
		return nil, nil
	}
	to, err := newCollector(c.OTLPEndpoint, log)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), to)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.SampleRatio))),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", c.OTLPServiceName), attribute.String("service.version", version))),
	)
	return &Tracer{provider, provider.Tracer("tgi/server")}, nil
}

// Close sends what is left, until ctx ends. The Tracer makes no traces after it.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// requestTrace is the trace of one request.
type requestTrace struct {
	began time.Time
	span  trace.Span // nil while it is not recorded

	mu          sync.Mutex
	engineSpans []*engineSpan
}

// begin starts the trace of a request for a route, or continues its caller's
// (W3C Trace Context).
func (t *Tracer) begin(r *http.Request, route string) *http.Request {
	v, _ := r.Context().Value(requestLogKey{}).(*requestLog)
	if t == nil || v == nil {
		return r
	}
	v.trace.began = time.Now()
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(v.trace.began))
	v.traceID = span.SpanContext().TraceID().String()
	if span.IsRecording() {
		v.trace.span = span
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route),
			attribute.String("url.path", r.URL.Path), attribute.String("request_id", v.id))
	}
	return r.WithContext(ctx)
}

// end ends the trace of a request that was answered with status.
func (t *Tracer) end(ctx context.Context, status int) {
	v, _ := ctx.Value(requestLogKey{}).(*requestLog)
	if t == nil || v == nil || v.trace.span == nil {
		return
	}
	span := v.trace.span
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if v.err != nil {
		span.SetAttributes(attribute.String("error.type", Explain(v.err).Type))
		if status >= http.StatusInternalServerError || status == http.StatusFailedDependency {
			span.SetStatus(codes.Error, v.err.Error())
		}
	}
	v.trace.mu.Lock()
	defer v.trace.mu.Unlock()
	for _, p := range v.trace.engineSpans {
		t.stages(ctx, v.trace.began, p)
	}
	if len(v.trace.engineSpans) > 0 {
		span.SetAttributes(v.trace.engineSpans[0].fields(v.trace.began)...)
	}
	span.End()
}

// engineSpan records one request in the engine.
type engineSpan struct {
	params    llm.Params
	submitted time.Time

	mu     sync.Mutex
	queued time.Duration
	last   time.Time // of the latest token; zero for none
	most   int       // tokens of the longest sequence
	counts []int     // tokens of each sequence
}

// stages makes a span of each stage of p.
func (t *Tracer) stages(ctx context.Context, began time.Time, p *engineSpan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stage := func(name string, from, to time.Time) {
		_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
		span.End(trace.WithTimestamp(to))
	}
	stage("validation", began, p.submitted)
	if p.last.IsZero() {
		stage("queue", p.submitted, time.Now())
		return
	}
	started := p.submitted.Add(p.queued)
	stage("queue", p.submitted, started)
	stage("inference", started, p.last)
}

// fields are those of TGI's spans, in its form.
func (p *engineSpan) fields(began time.Time) []attribute.KeyValue {
	p.mu.Lock()
	defer p.mu.Unlock()
	settings := p.params
	settings.Stop, settings.LogitBias = nil, nil // the first are a user's words
	all := []attribute.KeyValue{
		attribute.String("parameters", fmt.Sprintf("%+v", settings)),
		attribute.String("seed", strconv.FormatUint(p.params.Seed, 10)),
		attribute.String("validation_time", p.submitted.Sub(began).String()),
	}
	if p.last.IsZero() {
		return all
	}
	inference := max(0, p.last.Sub(p.submitted)-p.queued)
	return append(all,
		attribute.String("total_time", p.last.Sub(began).String()),
		attribute.String("queue_time", p.queued.String()),
		attribute.String("inference_time", inference.String()),
		attribute.String("time_per_token", (inference/time.Duration(max(1, p.most))).String()))
}

// Engine returns e, with the stages of traced requests recorded; other requests pass
// through unchanged.
func (t *Tracer) Engine(e generate.Engine) generate.Engine {
	if t == nil {
		return e
	}
	return watched{e}
}

type watched struct{ generate.Engine }

// Submit implements generate.Engine.
func (w watched) Submit(ctx context.Context, r engine.Request) (generate.Stream, error) {
	v, _ := ctx.Value(requestLogKey{}).(*requestLog)
	if v == nil || v.trace.span == nil {
		return w.Engine.Submit(ctx, r)
	}
	p := &engineSpan{params: r.Params, submitted: time.Now()}
	s, err := w.Engine.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	v.trace.mu.Lock()
	v.trace.engineSpans = append(v.trace.engineSpans, p)
	v.trace.mu.Unlock()
	return &watchedStream{s, p}, nil
}

type watchedStream struct {
	generate.Stream
	span *engineSpan
}

// Next implements generate.Stream.
func (s *watchedStream) Next(ctx context.Context) (generate.Event, error) {
	e, err := s.Stream.Next(ctx)
	if err == nil {
		s.span.record(e)
	}
	return e, err
}

// record notes an event. Its index may be any: a beam search has more sequences in the end than it begins with.
func (p *engineSpan) record(e generate.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Index == 0 {
		p.queued = e.Timings.Queued
	}
	p.last = time.Now()
	if more := e.Index + 1 - len(p.counts); more > 0 {
		p.counts = append(p.counts, make([]int, more)...)
	}
	p.counts[e.Index]++
	p.most = max(p.most, p.counts[e.Index])
}
