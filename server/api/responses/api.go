package responses

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"tgi/server"
	"tgi/server/api/mcptools"
	"tgi/server/api/responses/store"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// Options of an API.
type Options struct {
	// Models run the requests.
	Models dispatch.Models
	// Tools are MCP servers whose tools requests may want; nil has none.
	Tools *mcp.Servers
	// Store keeps responses. It stays the caller's to close.
	Store store.Store
	// Places are how many requests read long histories at once; 0 is a few.
	Places int
	// Log receives what went wrong behind a reply.
	Log *slog.Logger
}

// API is the Responses API.
type API struct {
	options Options
	// now and name are the clock and the last part of ids; tests fix them.
	now  func() time.Time
	name func() string
	// owner returns whose responses a request may use: those of its key. Tests have no keys and tell it by the token.
	owner func(*http.Request) store.Owner
	// renews is how often the lease of a response that runs is renewed.
	renews time.Duration

	// gate bounds how many histories are read at once.
	gate *generate.Gate

	mu   sync.Mutex
	jobs map[jobKey]*job // those that run
}

// New returns the API.
func New(o Options) *API {
	places := o.Places
	if places == 0 {
		places = defaultPlaces
	}
	return &API{options: o, now: time.Now, name: rand.Text, renews: leaseRenews, jobs: map[jobKey]*job{},
		owner: func(r *http.Request) store.Owner { return store.OwnerOf(server.OwnerOf(r)) },
		gate:  generate.NewGate(places, readers)}
}

const (
	path = "/v1/responses"
	one  = path + "/{response_id}"

	conversations    = "/v1/conversations"
	conversationName = "conversation_id"
	itemName         = "item_id"
	oneConversation  = conversations + "/{" + conversationName + "}"
	oneItem          = oneConversation + "/items/{" + itemName + "}"
)

const (
	defaultPlaces = 16
	// readers is how many histories are read at once.
	readers = 2
)

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	routes := []server.Route{
		{Method: http.MethodPost, Path: path, Operation: server.Chat, Handle: a.create},
		{Method: http.MethodPost, Path: path + "/input_tokens", Handle: a.inputTokens},
		{Method: http.MethodGet, Path: one, Handle: a.get},
		{Method: http.MethodDelete, Path: one, Handle: a.delete},
		{Method: http.MethodPost, Path: one + "/cancel", Handle: a.cancel},
		{Method: http.MethodGet, Path: one + "/input_items", Handle: a.inputItems},
		{Method: http.MethodPost, Path: path + "/compact", Handle: compact},
		{Method: http.MethodPost, Path: conversations, Handle: a.createConversation},
		{Method: http.MethodGet, Path: oneConversation, Handle: a.getConversation},
		{Method: http.MethodPost, Path: oneConversation, Handle: a.updateConversation},
		{Method: http.MethodDelete, Path: oneConversation, Handle: a.deleteConversation},
		{Method: http.MethodPost, Path: oneConversation + "/items", Handle: a.addItems},
		{Method: http.MethodGet, Path: oneConversation + "/items", Handle: a.listItems},
		{Method: http.MethodGet, Path: oneItem, Handle: a.getItem},
		{Method: http.MethodDelete, Path: oneItem, Handle: a.deleteItem},
	}
	for i := range routes {
		routes[i].Refuse = refuse
	}
	return routes
}

// open reads a call and what it refers to, and acquires its model until release.
func (a *API) open(r *http.Request, generates bool) (c *call, release func(), err error) {
	body, err := server.ReadBody(r)
	if err != nil {
		return nil, nil, err
	}
	if c, err = server.Parse(r.Context(), body, func(body []byte) (*call, error) {
		return decode(body, generates)
	}); err != nil {
		return nil, nil, err
	}
	core := a.name()
	c.id, c.created = "resp_"+core, a.now().Unix()
	c.settings.CallID = func() string { return "call_" + a.name() }
	if err := a.inTurn(r.Context(), func() error { return a.resolve(r.Context(), a.owner(r), c) }); err != nil {
		return nil, nil, err
	}
	for i := range c.input {
		if c.input[i].json == nil {
			c.input[i].show(fmt.Sprintf("%s%s_i%d", itemPrefix(c.input[i].kind), core, i))
		}
	}
	c.draft.Conversation.Messages = messages(c.instructions, c.items())
	m, release, err := dispatch.Use(a.options.Models, r, c.named)
	if err != nil {
		return nil, nil, err
	}
	c.model = m
	if err := a.equip(r.Context(), c); err != nil {
		release()
		return nil, nil, err
	}
	return c, release, nil
}

// equip gives the call the tools of MCP servers that it and its key want.
func (a *API) equip(ctx context.Context, c *call) (err error) {
	most := 0
	if n := c.shown.calls; n != nil {
		most = int(min(*n, math.MaxInt32))
	}
	if c.loop, err = mcptools.Begin(ctx, a.options.Tools, c.wants, &c.tools, most); err != nil || c.loop == nil {
		return err
	}
	return c.offer()
}

// items are all that the model reads.
func (c *call) items() []item {
	return append(append(c.context[:len(c.context):len(c.context)], c.input...), c.rounds...)
}

// itemPrefix begins the id of an item of a kind.
func itemPrefix(kind string) string {
	if p, ok := prefixes[kind]; ok {
		return p
	}
	return "fco_"
}

// inputTokens serves POST /v1/responses/input_tokens.
func (a *API) inputTokens(w http.ResponseWriter, r *http.Request) error {
	c, release, err := a.open(r, false)
	if err != nil {
		return err
	}
	defer release()
	n, err := c.model.Service.Count(r.Context(), c.draft, 0)
	if err != nil {
		return err
	}
	b := wire.AppendInt([]byte(`{"object":"response.input_tokens",`), "input_tokens", n)
	server.WriteJSON(w, append(b, '}'))
	return nil
}

// start starts the call. Where truncation is automatic, the oldest items that do not fit are left out.
func (a *API) start(ctx context.Context, c *call) (*turn, error) {
	run, err := c.model.Service.Start(ctx, c.draft)
	if rule, ok := errors.AsType[*generate.Invalid](err); ok && rule.TooLong && c.truncate {
		if err := c.fit(ctx); err != nil {
			return nil, err
		}
		run, err = c.model.Service.Start(ctx, c.draft)
	}
	if err != nil {
		return nil, err
	}
	t := newTurn(c, run)
	t.again = func(ctx context.Context) (*generate.Run, error) {
		next, err := a.start(ctx, c)
		if err != nil {
			return nil, err
		}
		return next.run, nil
	}
	return t, nil
}

// fit leaves out as few of the oldest items as it takes for the others to fit.
func (c *call) fit(ctx context.Context) error {
	items := c.items()
	most := min(c.model.Limits.MaxInputTokens, c.model.Limits.MaxTotalTokens-1)
	conversation := *c.draft.Conversation
	c.draft.Conversation = &conversation
	low, high := 1, len(items) // what fits is in (low-1, high]
	for low < high {
		drop := (low + high) / 2
		conversation.Messages = messages(c.instructions, without(items, drop))
		n, err := c.model.Service.Count(ctx, c.draft, most)
		if err != nil {
			return err
		}
		if n <= most {
			high = drop
		} else {
			low = drop + 1
		}
	}
	conversation.Messages = messages(c.instructions, without(items, low))
	return nil
}

// create serves POST /v1/responses.
func (a *API) create(w http.ResponseWriter, r *http.Request) error {
	c, release, err := a.open(r, true)
	if err != nil {
		return err
	}
	if c.background {
		return a.createBehind(w, r, c, release)
	}
	defer release()
	ctx := r.Context()
	t, err := a.start(ctx, c)
	if err != nil {
		return err
	}
	defer t.close()
	if c.stream {
		return a.stream(w, r, t)
	}
	if err := t.pump(ctx, t.next); err != nil {
		return err
	}
	b := a.keep(ctx, a.owner(r), t, t.outcome(a.now().Unix()))
	t.setHeader(w.Header())
	server.WriteJSON(w, b)
	return nil
}

// setHeader sets what the header says of the run.
func (t *turn) setHeader(h http.Header) {
	generate.SetUnknown(h, t.run.Unknown())
	generate.SetDropped(h, t.run.Dropped())
	generate.SetSkipped(h, t.run.Skipped())
}

// stream replies with events.
func (a *API) stream(w http.ResponseWriter, r *http.Request, t *turn) error {
	ctx := r.Context()
	t.setHeader(w.Header())
	events, err := server.StartEvents(w)
	if err != nil {
		return nil // the client left before the first byte
	}
	t.emit = events.Named
	t.tell("response.created", t.appendResponse(nil, outcome{status: inProgress}))
	t.tell("response.in_progress", t.appendResponse(nil, outcome{status: inProgress}))
	err = t.pump(ctx, func(ctx context.Context) (step, error) { return server.Await(ctx, events, t.next) })
	generate.TrailSkipped(w.Header(), t.run.Skipped())
	o := a.ended(t, err)
	if err != nil {
		server.Note(ctx, err)
		t.err = nil // the last words, heard or not
		t.tell("response.failed", t.appendResponse(nil, o))
		return nil
	}
	t.tell("response."+o.status, a.keep(ctx, a.owner(r), t, o))
	return nil
}

// tell sends an event with the response.
func (t *turn) tell(name string, response []byte) {
	t.event(name, func(b []byte) []byte { return append(append(b, `,"response":`...), response...) })
}

// ended returns how a turn ended whose pump returned err.
func (a *API) ended(t *turn, err error) outcome {
	if err == nil {
		return t.outcome(a.now().Unix())
	}
	t.breakOff()
	if errors.Is(err, errCancelled) {
		return outcome{status: statusCancelled}
	}
	if errors.Is(err, generate.ErrIncomplete) {
		err = server.ErrIncompleteStream
	}
	f := explain(err)
	return outcome{status: statusFailed, failed: &f}
}
