package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/server/config"
	"tgi/server/generate"
)

// Observer is told of calls. It must not block.
type Observer interface {
	// Called: a tool of a server was called in the request of ctx, from began on until now; err is why it has no
	// result.
	Called(ctx context.Context, server, tool string, began time.Time, err error)
}

// Servers are those that are configured. It is safe for concurrent use; nil has none.
type Servers struct {
	limits  config.MCPLimits
	list    []*server
	observe Observer
	log     *slog.Logger
	// policies are the servers whose tools are offered to each request of a key, by its name.
	policies map[string][]string
}

// New returns the servers of the settings. None is connected yet. It must be closed.
func New(c config.Config, version string, o Observer, log *slog.Logger) *Servers {
	s := &Servers{limits: c.MCPLimits, observe: o, log: log, policies: map[string][]string{}}
	for _, k := range c.Key {
		s.policies[k.Name] = k.MCP
	}
	for _, one := range c.MCP {
		s.list = append(s.list, newServer(one, version, log))
	}
	return s
}

// Close ends all connections and processes.
func (s *Servers) Close() {
	if s == nil {
		return
	}
	var all sync.WaitGroup
	for _, one := range s.list {
		all.Go(one.close)
	}
	all.Wait()
}

// Want is a server whose tools a request wants.
type Want struct {
	// Label is the server's name.
	Label string
	// Allowed are the tools that may be called; nil is all that the settings allow. ReadOnly leaves out those that do
	// not say that they change nothing.
	Allowed  []string
	ReadOnly bool
	// Denied are tools that may not be called.
	Denied []string
	// Field is where the request asks for it; "" is a policy of its key, which asks for what there is.
	Field string
}

// Tool is one that a model is offered.
type Tool struct {
	// Name is what the model calls it, Label its server, Own what the server calls it.
	Name, Label, Own string
	// Description says what it does, Schema what it takes: an object. Annotations are the server's; nil for none.
	Description         string
	Schema, Annotations json.RawMessage
}

// Listed is what a server offers a request.
type Listed struct {
	Label string
	Tools []Tool
}

// Loop is what one request uses of servers. It belongs to one goroutine.
type Loop struct {
	servers *Servers
	lists   []Listed
	tools   map[string]Tool

	rounds, calls int // that were made
	bytes         int // of their results
	most          int // calls that may be made
	spent         time.Duration
}

// Policy returns what is wanted for each request of a key, beside what the request wants.
func (s *Servers) Policy(key string, wants []Want) (more []Want) {
	if s == nil {
		return nil
	}
	for _, label := range s.policies[key] {
		if !slices.ContainsFunc(wants, func(w Want) bool { return w.Label == label }) {
			more = append(more, Want{Label: label})
		}
	}
	return more
}

// ErrList: a server that a request asks for can't say what its tools are.
var ErrList = generate.ErrToolServer

// Begin asks the servers that a request wants for their tools. key names its key, taken reports whether the client
// has a tool of that name itself. calls bounds the calls besides the settings; 0 does not. It returns nil where
// nothing is wanted. Errors are *generate.Invalid for what the request must not want, and those that wrap ErrList.
func (s *Servers) Begin(ctx context.Context, key string, wants []Want, taken []string, calls int) (*Loop, error) {
	if len(wants) == 0 {
		return nil, nil
	}
	if s == nil {
		_, err := s.find(wants[0], key)
		return nil, err
	}
	l := &Loop{servers: s, tools: map[string]Tool{}, most: calls}
	if l.most == 0 || l.most > s.limits.Calls {
		l.most = s.limits.Calls
	}
	for _, w := range wants {
		from, err := s.find(w, key)
		if err != nil {
			return nil, err
		}
		tools, err := from.list(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			s.log.Warn("an MCP server has no tools for a request", "mcp", w.Label, "error", err)
			if w.Field == "" {
				continue
			}
			return nil, fmt.Errorf("%w: %w", ErrList, unplaced{err})
		}
		if err := l.offer(w, tools, taken); err != nil {
			return nil, err
		}
	}
	if len(l.tools) > s.limits.Tools {
		return nil, &generate.Invalid{Field: "tools", Msg: fmt.Sprintf("the MCP servers have %d tools, at most %d may be "+
			"offered (mcp_limits.tools): name some with `allowed_tools`", len(l.tools), s.limits.Tools)}
	}
	return l, nil
}

// find returns a server that a request may use.
func (s *Servers) find(w Want, key string) (*server, error) {
	var known []string
	if s != nil {
		for _, one := range s.list {
			if len(one.config.Keys) > 0 && !slices.Contains(one.config.Keys, key) {
				continue
			}
			if one.config.Name == w.Label {
				return one, nil
			}
			known = append(known, one.config.Name)
		}
	}
	have := "this server has none for this key"
	if len(known) > 0 {
		have = "these are: " + strings.Join(known, ", ")
	}
	return nil, &generate.Invalid{Field: "tools", Msg: fmt.Sprintf("`%s`: there is no MCP server `%.64s`, %s", w.Field,
		w.Label, have)}
}

// offer adds the tools of a server. Each has a name that no other has and that models can call.
func (l *Loop) offer(w Want, tools []tool, taken []string) error {
	listed := Listed{Label: w.Label}
	for _, name := range w.Allowed {
		if !slices.ContainsFunc(tools, func(t tool) bool { return t.name == name }) {
			return &generate.Invalid{Field: "tools", Msg: fmt.Sprintf("`%s`: the MCP server `%s` has no tool `%.64s` that "+
				"may be called", w.Field, w.Label, name)}
		}
	}
	for _, t := range tools {
		if w.Allowed != nil && !slices.Contains(w.Allowed, t.name) || w.ReadOnly && !t.readOnly ||
			slices.Contains(w.Denied, t.name) {
			continue
		}
		one := Tool{Name: l.name(w.Label, t.name, taken), Label: w.Label, Own: t.name, Description: t.description,
			Schema: t.schema, Annotations: t.annotations}
		listed.Tools = append(listed.Tools, one)
		l.tools[one.Name] = one
	}
	l.lists = append(l.lists, listed)
	return nil
}

// maxName bounds names of tools that models read.
const maxName = 64

// name returns what a model calls a tool: its name if that is free, otherwise with that of its server before it.
func (l *Loop) name(label, own string, taken []string) string {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
				return r
			}
			return '_'
		}, s)
	}
	name := clean(own)
	free := func(name string) bool {
		_, ok := l.tools[name]
		return name != "" && len(name) <= maxName && !ok && !slices.Contains(taken, name)
	}
	if free(name) {
		return name
	}
	name = clean(label) + "_" + name
	for n := 2; !free(name); n++ {
		end := fmt.Sprint("_", n)
		name = name[:min(len(name), maxName-len(end))] + end
	}
	return name
}

// Lists are the servers with their tools.
func (l *Loop) Lists() []Listed {
	if l == nil {
		return nil
	}
	return l.lists
}

// Tool returns the tool that a model calls name.
func (l *Loop) Tool(name string) (t Tool, ok bool) {
	if l == nil {
		return Tool{}, false
	}
	t, ok = l.tools[name]
	return t, ok
}

// Open reports whether the model may call tools once more. If not, it has to answer with what it has.
func (l *Loop) Open() bool {
	s := &l.servers.limits
	return l.rounds < s.Rounds && l.calls < l.most && l.bytes < int(s.ResultBytes) && l.spent < time.Duration(s.Time)
}

// Outcome is what a call came to.
type Outcome struct {
	// Text is what the tool said; Err is why there is none.
	Text string
	Err  error
}

// Said is what the model reads of it.
func (o *Outcome) Said() string {
	if o.Err != nil {
		return "Error: " + o.Err.Error()
	}
	return o.Text
}

// Run makes a round of calls, some at a time, and returns the outcome of each. done is called when a call has one, from
// any goroutine but one at a time. When ctx ends all have one.
func (l *Loop) Run(ctx context.Context, calls []generate.Call, done func(i int, o Outcome)) []Outcome {
	s := l.servers
	began := time.Now()
	left := time.Duration(s.limits.Time) - l.spent
	ctx, cancel := context.WithTimeoutCause(ctx, left, fmt.Errorf("all calls together may take %s (mcp_limits.time)",
		time.Duration(s.limits.Time)))
	defer cancel()
	out := make([]Outcome, len(calls))
	var mu sync.Mutex
	var all sync.WaitGroup
	places := make(chan struct{}, s.limits.Parallel)
	for i := range calls {
		l.calls++
		may := l.calls <= l.most
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			o := Outcome{Err: fmt.Errorf("at most %d calls may be made", l.most)}
			if may {
				o = l.call(ctx, &calls[i])
			}
			mu.Lock()
			defer mu.Unlock()
			if room := int(s.limits.ResultBytes) - l.bytes; len(o.Said()) > room { // errors are read, too
				o = Outcome{Err: fmt.Errorf("the results of all calls together may have %d bytes (mcp_limits.result_bytes)",
					int(s.limits.ResultBytes))}
			} else {
				l.bytes += len(o.Said())
			}
			out[i] = o
			done(i, o)
		})
	}
	all.Wait()
	l.rounds++
	l.spent += time.Since(began)
	return out
}

// call makes one call.
func (l *Loop) call(ctx context.Context, c *generate.Call) Outcome {
	t, ok := l.tools[c.Name]
	if !ok {
		return Outcome{Err: fmt.Errorf("there is no tool `%.64s`", c.Name)}
	}
	i := slices.IndexFunc(l.servers.list, func(s *server) bool { return s.config.Name == t.Label })
	began := time.Now()
	text, err := l.servers.list[i].call(ctx, t.Own, json.RawMessage(c.Arguments))
	log := l.servers.log.With("mcp", t.Label, "tool", t.Own, "seconds", time.Since(began).Seconds())
	if err != nil {
		log.Info("a tool was called", "error", clip(err.Error()))
	} else {
		log.Info("a tool was called", "bytes", len(text))
	}
	if l.servers.observe != nil {
		l.servers.observe.Called(ctx, t.Label, t.Own, began, err)
	}
	if own := (*ToolError)(nil); err != nil && !errors.As(err, &own) {
		if err = (unplaced{err}); len(err.Error()) > maxLine {
			err = clipped{err}
		}
	}
	return Outcome{Text: text, Err: err}
}

// clipped is an error of a server whose text is longer than models and clients read. That of a tool is bounded as its
// results are.
type clipped struct{ error }

// Error implements error.
func (e clipped) Error() string { return clip(e.error.Error()) }

// Unwrap returns the error as it was.
func (e clipped) Unwrap() error { return e.error }

// unplaced is an error of a server without addresses: where the operator's servers are is not for models and clients.
// The log has it whole.
type unplaced struct{ error }

var addresses = regexp.MustCompile(`"?\bhttps?://[^\s"]+"?|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?`)

// Error implements error.
func (e unplaced) Error() string { return addresses.ReplaceAllString(e.error.Error(), "(an address)") }

// Unwrap returns the error as it was.
func (e unplaced) Unwrap() error { return e.error }

// clip bounds what is passed on of an error, which is a server's text.
func clip(s string) string {
	if len(s) > maxLine {
		return strings.ToValidUTF8(s[:maxLine], "") + "..."
	}
	return s
}
