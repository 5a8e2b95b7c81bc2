package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"tgi/server/config"
)

// How long a server is left alone after it failed: doubled with each failure, up to the most.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// listLasts is how long a list of tools is taken to be right, unless the server says that it changed.
const listLasts = time.Minute

// mostTools bounds the tools that are read of a server, mostList their bytes.
const (
	mostTools = 1000
	mostList  = 4 << 20
)

// ErrDown: a server can't be used now.
var ErrDown = errors.New("the MCP server is not available")

// tool is one of a server.
type tool struct {
	name, description string
	schema            json.RawMessage // an object
	annotations       json.RawMessage // nil for none
	readOnly          bool
}

// server is one that is configured. It is safe for concurrent use.
type server struct {
	config  config.MCP
	version string
	log     *slog.Logger
	places  chan struct{} // one for each call at a time
	turn    chan struct{} // held by whoever connects or lists

	mu       sync.Mutex
	session  *session // nil while there is none
	failures int
	until    time.Time // it is left alone
	why      error
	closed   bool
	watchers sync.WaitGroup
}

// session is a connection to a server.
type session struct {
	client *sdk.ClientSession
	child  *process // nil for HTTP
	cancel context.CancelFunc
	idle   func() // closes connections of HTTP
	began  time.Time

	mu      sync.Mutex
	tools   []tool
	listed  time.Time     // zero for never
	changes int           // that the server told of
	gone    error         // why the connection is over
	over    chan struct{} // closed once that is known
}

func newServer(c config.MCP, version string, log *slog.Logger) *server {
	c = c.Complete()
	s := &server{config: c, version: version, log: log.With("mcp", c.Name), places: make(chan struct{}, c.Concurrency),
		turn: make(chan struct{}, 1)}
	return s
}

// messageBytes bounds a message of the server: a result may have six times its bytes in JSON.
func (s *server) messageBytes() int { return 6*int(s.config.ResultBytes) + 64<<10 }

// use returns a connection, and makes one where there is none.
func (s *server) use(ctx context.Context) (*session, error) {
	s.mu.Lock()
	there, over := s.session, s.closed
	s.mu.Unlock()
	if there != nil && !over { // a call does not wait for a list
		return there, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	now, wait, why, closed := s.session, time.Until(s.until), s.why, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("%w: `%s` is closing", ErrDown, s.config.Name)
	case now != nil:
		return now, nil
	case wait > 0:
		return nil, fmt.Errorf("%w: `%s` failed (%w), it is tried again in %s", ErrDown, s.config.Name, why,
			wait.Round(100*time.Millisecond))
	}
	made, err := s.connect()
	if err != nil {
		s.log.Warn("an MCP server cannot be reached", "error", err, "last_words", made.lastWords())
		s.failed(err)
		return nil, fmt.Errorf("%w: `%s` cannot be reached: %w", ErrDown, s.config.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = made
	s.watchers.Go(func() { s.watch(made) })
	s.log.Info("an MCP server is connected", "took", time.Since(made.began).String())
	return made, nil
}

// connect makes a connection. It has a time of its own: who waits for it is not the only one.
func (s *server) connect() (made *session, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	limit := time.Duration(s.config.StartTimeout)
	late := time.AfterFunc(limit, func() { cancel(fmt.Errorf("it did not answer within %s (start_timeout)", limit)) })
	made = &session{cancel: func() { cancel(nil) }, began: time.Now(), idle: func() {},
		over: make(chan struct{})}
	defer func() {
		if !late.Stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			ended := made.child != nil && made.child.ends(stuck/10)
			made.close()
			if ended { // how it did tells more than a pipe that broke
				err = fmt.Errorf("%w (%w)", err, made.child.err)
			}
		}
	}()
	var t sdk.Transport
	if s.config.Endpoint != "" {
		to, client, base, err := httpClient(s.config.Endpoint, s.config.Headers, int64(s.messageBytes()), limit)
		if err != nil {
			return made, err
		}
		made.idle = base.CloseIdleConnections
		t = &sdk.StreamableClientTransport{Endpoint: to, HTTPClient: client, MaxRetries: -1,
			DisableStandaloneSSE: true, MaxEventSize: s.messageBytes()}
	} else {
		if made.child, err = start(s.config, s.log); err != nil {
			return made, err
		}
		out := mended(newPaced(made.child.out, 2*s.messageBytes()), s.messageBytes(), false)
		t = &sdk.IOTransport{Reader: out, Writer: made.child.in, MaxLineLength: s.messageBytes()}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "tgi", Version: s.version}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			made.mu.Lock()
			defer made.mu.Unlock()
			made.listed = time.Time{}
			made.changes++
		},
	})
	made.client, err = client.Connect(ctx, t, nil)
	return made, err
}

// close ends a connection and the process behind it.
func (c *session) close() {
	c.cancel()
	if c.child != nil {
		c.child.close()
	}
	if c.client != nil {
		_ = c.client.Close()
	}
	c.idle()
}

// lastWords are what a process wrote last, for the log: clients do not read it.
func (c *session) lastWords() string {
	if c == nil || c.child == nil {
		return ""
	}
	return c.child.tail.last()
}

// watch waits for the end of a connection, and lets the next request make another.
func (s *server) watch(c *session) {
	err := c.client.Wait()
	c.close()
	if c.child != nil {
		err = c.child.err
	}
	if err == nil {
		err = errors.New("it closed the connection")
	}
	c.mu.Lock()
	c.gone = err
	c.mu.Unlock()
	close(c.over)
	s.drop(c, err)
}

// drop forgets a connection that is over.
func (s *server) drop(c *session, err error) {
	s.mu.Lock()
	ours := s.session == c
	if ours {
		s.session = nil
	}
	closed := s.closed
	s.mu.Unlock()
	if !ours || closed {
		return
	}
	s.log.Warn("an MCP server is gone", "error", err, "last_words", c.lastWords(), "after",
		time.Since(c.began).String())
	s.failed(err)
}

// failed leaves the server alone for a while.
func (s *server) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := min(firstPause<<min(s.failures, 10), mostPause)
	s.failures++
	s.until, s.why = time.Now().Add(pause/2+rand.N(pause/2+1)), err
}

// worked forgets failures.
func (s *server) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// close ends the server.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	c := s.session
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
	s.turn <- struct{}{} // whoever connects is done
	s.mu.Lock()
	c = s.session
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
	<-s.turn
	s.watchers.Wait()
}

// list returns the tools of the server that may be called.
func (s *server) list(client context.Context) ([]tool, error) {
	limit := time.Duration(s.config.StartTimeout)
	ctx, cancel := context.WithTimeoutCause(client, limit, fmt.Errorf("%w: `%s` did not list its tools within %s",
		ErrDown, s.config.Name, limit))
	defer cancel()
	c, err := s.use(ctx)
	if err != nil {
		return nil, err
	}
	if tools, fresh, _ := c.known(); fresh {
		return tools, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	tools, fresh, changes := c.known()
	if fresh { // another request listed them meanwhile
		return tools, nil
	}
	s.mu.Lock()
	wait, why := time.Until(s.until), s.why
	s.mu.Unlock()
	if wait > 0 { // a connection whose lists fail is left alone, too
		return nil, fmt.Errorf("%w: `%s` failed (%w), it is tried again in %s", ErrDown, s.config.Name, why,
			wait.Round(100*time.Millisecond))
	}
	asked := time.Now()
	err = s.ask(ctx, c, func() (err error) {
		tools, err = s.read(ctx, c)
		return err
	})
	if err != nil {
		if client.Err() != nil { // who left says nothing of the server
			return nil, context.Cause(client)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else {
			err = fmt.Errorf("%w: `%s` cannot list its tools: %w", ErrDown, s.config.Name, s.reason(c, err))
		}
		s.failed(errors.New(clip(err.Error())))
		return nil, err
	}
	s.worked()
	c.mu.Lock()
	if c.tools, c.listed = tools, asked; c.changes != changes { // while they were read
		c.listed = time.Time{}
	}
	c.mu.Unlock()
	return tools, nil
}

// known returns the tools as they were listed last, whether that is still taken to be right, and how often the server
// said that they changed.
func (c *session) known() (tools []tool, fresh bool, changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tools, time.Since(c.listed) < listLasts, c.changes
}

// read asks for the tools.
func (s *server) read(ctx context.Context, c *session) ([]tool, error) {
	var out []tool
	bytes := 0
	for t, err := range c.client.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if len(s.config.AllowedTools) > 0 && !slices.Contains(s.config.AllowedTools, t.Name) {
			continue
		}
		if t.Name == "" {
			continue // nobody could call it
		}
		one := tool{name: t.Name, description: t.Description}
		if one.schema, err = json.Marshal(t.InputSchema); err != nil || len(one.schema) == 0 || one.schema[0] != '{' {
			one.schema = json.RawMessage(`{"type":"object"}`)
		}
		if t.Annotations != nil {
			one.readOnly = t.Annotations.ReadOnlyHint
			if one.annotations, err = json.Marshal(t.Annotations); err != nil {
				return nil, err
			}
		}
		if bytes += len(one.name) + len(one.description) + len(one.schema); bytes > mostList {
			return nil, fmt.Errorf("its list of tools has more than %d bytes", mostList)
		}
		if out = append(out, one); len(out) > mostTools {
			return nil, fmt.Errorf("it has more than %d tools", mostTools)
		}
	}
	return out, nil
}

// stuck is how long the SDK has to return once a context has ended. It does not where a server reads nothing any more.
const stuck = time.Second

// ask runs f, which asks a server, and returns when ctx ends. A server that holds f up longer is ended, and with it f.
func (s *server) ask(ctx context.Context, c *session, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(stuck)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		s.drop(c, errors.New("it does not read what it is sent"))
		c.close()
		return <-done
	}
}

// reason is why something failed on a connection: why that is over says more than that something was not sent. What the
// server answered itself says it all.
func (s *server) reason(c *session, err error) error {
	if _, own := errors.AsType[*jsonrpc.Error](err); own || c.child == nil {
		return err
	}
	late := time.NewTimer(stuck)
	defer late.Stop()
	select {
	case <-c.over:
	case <-late.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return c.gone
	}
	return err
}

// call calls a tool. Errors are those of the tool and its server, or ctx's cause.
func (s *server) call(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
	limit := time.Duration(s.config.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the tool did not answer within %s", limit))
	defer cancel()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	c, err := s.use(ctx)
	if err != nil {
		return "", err
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	var result *sdk.CallToolResult
	err = s.ask(ctx, c, func() (err error) {
		result, err = c.client.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: arguments})
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", s.reason(c, err)
	}
	s.worked()
	text, err := s.text(result)
	if err != nil {
		return "", err
	}
	if result.IsError {
		return "", &ToolError{text}
	}
	return text, nil
}

// ToolError is what a tool says that failed.
type ToolError struct{ Text string }

// Error implements error.
func (e *ToolError) Error() string {
	if e.Text == "" {
		return "the tool failed"
	}
	return e.Text
}

// text returns a result as models read it.
func (s *server) text(r *sdk.CallToolResult) (string, error) {
	var parts []string
	for _, one := range r.Content {
		switch c := one.(type) {
		case *sdk.TextContent:
			parts = append(parts, c.Text)
		case *sdk.ImageContent:
			parts = append(parts, fmt.Sprintf("[an image of type %.64s, %d bytes]", c.MIMEType, len(c.Data)))
		case *sdk.AudioContent:
			parts = append(parts, fmt.Sprintf("[a sound of type %.64s, %d bytes]", c.MIMEType, len(c.Data)))
		case *sdk.ResourceLink:
			parts = append(parts, fmt.Sprintf("[%s: %s]", c.Name, c.URI))
		case *sdk.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
			} else if c.Resource != nil {
				parts = append(parts, fmt.Sprintf("[%s, %d bytes]", c.Resource.URI, len(c.Resource.Blob)))
			}
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		b, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return "", err
		}
		parts = append(parts, string(b))
	}
	text := strings.ToValidUTF8(strings.Join(parts, "\n"), "\ufffd")
	if most := int(s.config.ResultBytes); len(text) > most {
		return "", fmt.Errorf("the result has %d bytes, at most %d are passed on (result_bytes of mcp `%s`)", len(text),
			most, s.config.Name)
	}
	return text, nil
}
