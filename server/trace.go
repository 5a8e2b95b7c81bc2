package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tgi/server/config"
)

// Tracer makes traces of requests and sends them to an OpenTelemetry collector,
// on a goroutine of its own that never holds a request up: what the collector
// does not take in time is dropped. The nil Tracer makes none. It is safe for
// concurrent use.
//
// A request is a span with TGI's fields and with children: one for each call of a model, as OpenTelemetry's GenAI
// conventions have it, and one for each of the stages of TGI, under its names.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	content  bool // spans hold what was said
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
	return &Tracer{provider, provider.Tracer("tgi/server"), c.Content}, nil
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
	// described: the span has the fields of TGI's spans, which are those of the first call of a model.
	described bool
}

// begin starts the trace of a request for a route, or continues its caller's
// (W3C Trace Context).
func (t *Tracer) begin(r *http.Request, route string) *http.Request {
	v := logOf(r.Context())
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
	v := logOf(ctx)
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
	span.End()
}

// stages makes a span of each stage of c, under TGI's names.
func (t *Tracer) stages(ctx context.Context, began time.Time, c *modelCall) {
	stage := func(name string, from, to time.Time) {
		_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
		span.End(trace.WithTimestamp(to))
	}
	stage("validation", began, c.submitted)
	if c.last.IsZero() {
		stage("queue", c.submitted, time.Now())
		return
	}
	started := c.submitted.Add(c.queued)
	stage("queue", c.submitted, started)
	stage("inference", started, c.last)
}

// fields are those of TGI's spans, in its form.
func (c *modelCall) fields(began time.Time) []attribute.KeyValue {
	settings := c.params
	settings.Stop, settings.LogitBias = nil, nil // the first are a user's words
	all := []attribute.KeyValue{
		attribute.String("parameters", fmt.Sprintf("%+v", settings)),
		attribute.String("seed", strconv.FormatUint(c.params.Seed, 10)),
		attribute.String("validation_time", c.submitted.Sub(began).String()),
	}
	if c.last.IsZero() {
		return all
	}
	inference := max(0, c.last.Sub(c.submitted)-c.queued)
	return append(all,
		attribute.String("total_time", c.last.Sub(began).String()),
		attribute.String("queue_time", c.queued.String()),
		attribute.String("inference_time", inference.String()),
		attribute.String("time_per_token", (inference/time.Duration(max(1, c.most()))).String()))
}
