package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tgi/server/config"
)

var _ otlptrace.Client = (*collector)(nil)

// collector sends spans to an OpenTelemetry collector: OTLP over HTTP with
// Protobuf (opentelemetry.io/docs/specs/otlp, "OTLP/HTTP"). It implements
// otlptrace.Client; the module's own client would link gRPC.
type collector struct {
	url    string
	hint   string
	client *http.Client
	log    *slog.Logger
}

// collectorPatience bounds one attempt to send.
const collectorPatience = 10 * time.Second

// tracesPath is where OTLP/HTTP takes spans, below the endpoint.
const tracesPath = "/v1/traces"

func newCollector(endpoint string, log *slog.Logger) (*collector, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("traces: trace.otlp_endpoint %q is no URL", config.Shown(endpoint)) // err has its text
	}
	if !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + tracesPath
	}
	c := &collector{url: u.String(), client: &http.Client{Timeout: collectorPatience}, log: log}
	if u.Port() == "4317" {
		c.hint = " (collectors speak gRPC on port 4317; this server speaks HTTP, for which they have port 4318)"
	}
	return c, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. Spans that the collector does not
// take are logged and lost: a request waits for none of this.
func (c *collector) UploadTraces(ctx context.Context, spans []*traces.ResourceSpans) error {
	if err := c.send(ctx, spans); err != nil {
		c.log.Warn("traces were dropped", "error", err.Error()+c.hint)
	}
	return nil
}

func (c *collector) send(ctx context.Context, spans []*traces.ResourceSpans) error {
	// TracesData has the wire form of the protocol's ExportTraceServiceRequest:
	// one field, number 1, of the same type.
	body, err := proto.Marshal(&traces.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return c.failed(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	reply, err := c.client.Do(r)
	if err != nil {
		return c.failed(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 256))
		return fmt.Errorf("%s answered %s: %q", config.Shown(c.url), reply.Status, text)
	}
	return nil
}

// failed is the error of a request, without what may be secret of the address.
func (c *collector) failed(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	return fmt.Errorf("%s: %w", config.Shown(c.url), err)
}
