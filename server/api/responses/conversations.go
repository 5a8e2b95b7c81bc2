package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tgi/server"
	"tgi/server/api/responses/store"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// conversation is what is kept of one.
type conversation struct {
	Created  int64             `json:"created"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Items    []json.RawMessage `json:"items,omitempty"`

	id  string
	raw []byte // as it is kept
}

const (
	// conversationPrefix begins the ids of conversations.
	conversationPrefix = "conv_"
	// maxAdded bounds the items that are added at once, from OpenAI's API reference.
	maxAdded = 20
	// maxTries is how often a change is tried again that another one came before.
	maxTries = 8
)

// noConversation is about a conversation that is not kept, or not for this key.
func noConversation(id string) error {
	return refused(http.StatusNotFound, "not_found", "conversation", "Conversation with id '%.100s' not found.", id)
}

// conversationOf returns a conversation.
func (a *API) conversationOf(ctx context.Context, o store.Owner, id string) (*conversation, error) {
	if id == conversationPrefix || !strings.HasPrefix(id, conversationPrefix) {
		return nil, noConversation(id)
	}
	raw, err := a.options.Store.Get(ctx, o, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noConversation(id)
	}
	if err != nil {
		return nil, err
	}
	if err := generate.TakeRoom(ctx, itemCopies*int64(len(raw))); err != nil {
		return nil, err
	}
	c := &conversation{id: id, raw: raw}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, wire.Told(err))
	}
	return c, nil
}

// changeConversation lets change change a conversation, and keeps it. Of changes at the same time none is lost: it may
// be called more than once.
func (a *API) changeConversation(ctx context.Context, o store.Owner, id string, change func(*conversation) error) (
	*conversation, error) {
	for range maxTries {
		c, err := a.conversationOf(ctx, o, id)
		if err != nil {
			return nil, err
		}
		if err := change(c); err != nil {
			return nil, err
		}
		b, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("BUG: a conversation that is no JSON: %w", err)
		}
		kept, cancel := context.WithTimeout(ctx, keepTimeout)
		err = a.options.Store.Replace(kept, o, id, c.raw, b)
		cancel()
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrDeleted):
			return nil, noConversation(id)
		case err == nil:
			return c, nil
		case !errors.Is(err, store.ErrChanged):
			return nil, err
		}
	}
	return nil, refused(http.StatusConflict, "conversation_locked", "conversation",
		"Another process is currently operating on this conversation. Please retry in a few seconds.")
}

// append writes the conversation.
func (c *conversation) append(b []byte) []byte {
	b = wire.AppendString(append(b, `{"id":`...), c.id)
	b = wire.AppendInt(append(b, `,"object":"conversation",`...), "created_at", int(c.Created))
	if b = append(b, `,"metadata":`...); c.Metadata == nil {
		return append(b, `{}}`...)
	}
	return append(append(b, c.Metadata...), '}')
}

// add adds items, shown already. None may have an id that is there.
func (c *conversation) add(items []item) error {
	taken := map[string]bool{}
	for _, i := range shallow(c.Items) {
		taken[i.id] = true
	}
	for i := range items {
		if taken[items[i].id] {
			return refused(http.StatusBadRequest, "validation", "items", "The conversation has an item with the id '%.100s'.",
				items[i].id)
		}
		taken[items[i].id] = true
		c.Items = append(c.Items, items[i].json)
	}
	return nil
}

// additions are a body that adds items to a conversation, or begins one.
type additions struct {
	items    []item
	metadata []byte
}

// readAdditions reads a body with these members.
func readAdditions(r *http.Request, optional bool, members ...string) (*additions, error) {
	var body []byte
	var err error
	if !optional || r.ContentLength != 0 {
		if body, err = server.ReadBody(r); err != nil {
			return nil, err
		}
	}
	if optional && len(body) == 0 {
		return &additions{}, nil
	}
	return decodeAdditions(r.Context(), body, members...)
}

func decodeAdditions(ctx context.Context, text []byte, members ...string) (*additions, error) {
	in, settings := &additions{}, &body{}
	all := []wire.Field{
		{Name: "items", Read: func(r *wire.Reader) error {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			in.items = nil
			return r.Array(func(i int) error {
				if i == maxAdded {
					return r.Refuse(fmt.Sprintf("invalid length: more, expected at most %d items at a time", maxAdded))
				}
				one, err := readItem(r, fmt.Sprintf("items[%d]", i))
				in.items = append(in.items, one)
				return err
			})
		}},
		{Name: "metadata", Read: settings.metadata},
	}
	list := slices.DeleteFunc(all, func(f wire.Field) bool { return !slices.Contains(members, f.Name) })
	err := server.Decode(ctx, text, func(r *wire.Reader) error { return r.Object("struct Conversation", list) })
	in.metadata = settings.shown.metadata
	return in, err
}

// enter gives the items of a body ids, and puts those that are references in their place.
func (a *API) enter(r *http.Request, id string, items []item) error {
	if err := a.refer(r.Context(), a.owner(r), nil, items); err != nil {
		return err
	}
	for i := range items {
		if items[i].json == nil {
			items[i].show(itemPrefix(items[i].kind) + core(id) + "_" + a.name())
		}
	}
	return nil
}

// createConversation serves POST /v1/conversations.
func (a *API) createConversation(w http.ResponseWriter, r *http.Request) error {
	in, err := readAdditions(r, true, "items", "metadata")
	if err != nil {
		return err
	}
	c := &conversation{id: conversationPrefix + a.name(), Created: a.now().Unix(), Metadata: in.metadata}
	if err := a.enter(r, c.id, in.items); err != nil {
		return err
	}
	if err := c.add(in.items); err != nil {
		return err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("BUG: a conversation that is no JSON: %w", err)
	}
	if err := a.options.Store.Put(r.Context(), a.owner(r), c.id, b); err != nil {
		return err
	}
	server.WriteJSON(w, c.append(nil))
	return nil
}

// getConversation serves GET /v1/conversations/ID.
func (a *API) getConversation(w http.ResponseWriter, r *http.Request) error {
	c, err := a.conversationOf(r.Context(), a.owner(r), r.PathValue(conversationName))
	if err != nil {
		return err
	}
	server.WriteJSON(w, c.append(nil))
	return nil
}

// updateConversation serves POST /v1/conversations/ID: it replaces the metadata.
func (a *API) updateConversation(w http.ResponseWriter, r *http.Request) error {
	in, err := readAdditions(r, false, "metadata")
	if err != nil {
		return err
	}
	c, err := a.changeConversation(r.Context(), a.owner(r), r.PathValue(conversationName), func(c *conversation) error {
		c.Metadata = in.metadata
		return nil
	})
	if err != nil {
		return err
	}
	server.WriteJSON(w, c.append(nil))
	return nil
}

// deleteConversation serves DELETE /v1/conversations/ID. Responses that belong to it stay.
func (a *API) deleteConversation(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue(conversationName)
	if core(id) == "" || !strings.HasPrefix(id, conversationPrefix) {
		return noConversation(id)
	}
	err := a.options.Store.Delete(r.Context(), a.owner(r), id)
	if errors.Is(err, store.ErrNotFound) {
		return noConversation(id)
	}
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "conversation.deleted", true})
}

// addItems serves POST /v1/conversations/ID/items.
func (a *API) addItems(w http.ResponseWriter, r *http.Request) error {
	in, err := readAdditions(r, false, "items")
	if err != nil {
		return err
	}
	id := r.PathValue(conversationName)
	if len(in.items) == 0 {
		return &generate.Invalid{Field: "items", Msg: "`items` must have at least one item"}
	}
	if err := a.enter(r, id, in.items); err != nil {
		return err
	}
	_, err = a.changeConversation(r.Context(), a.owner(r), id, func(c *conversation) error { return c.add(in.items) })
	if err != nil {
		return err
	}
	p := pageOf{limit: len(in.items)}
	for _, i := range in.items {
		p.take(i)
	}
	server.WriteJSON(w, p.append(nil))
	return nil
}

// listItems serves GET /v1/conversations/ID/items.
func (a *API) listItems(w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r)
	if err != nil {
		return err
	}
	c, err := a.conversationOf(r.Context(), a.owner(r), r.PathValue(conversationName))
	if err != nil {
		return err
	}
	items := shallow(c.Items)
	if !p.ascending {
		slices.Reverse(items)
	}
	for _, i := range items {
		if p.take(i) {
			break
		}
	}
	return p.reply(w)
}

// getItem serves GET /v1/conversations/ID/items/ITEM.
func (a *API) getItem(w http.ResponseWriter, r *http.Request) error {
	c, err := a.conversationOf(r.Context(), a.owner(r), r.PathValue(conversationName))
	if err != nil {
		return err
	}
	at, err := c.find(r.PathValue(itemName))
	if err != nil {
		return err
	}
	server.WriteJSON(w, c.Items[at])
	return nil
}

// deleteItem serves DELETE /v1/conversations/ID/items/ITEM.
func (a *API) deleteItem(w http.ResponseWriter, r *http.Request) error {
	c, err := a.changeConversation(r.Context(), a.owner(r), r.PathValue(conversationName), func(c *conversation) error {
		at, err := c.find(r.PathValue(itemName))
		if err == nil {
			c.Items = slices.Delete(c.Items, at, at+1)
		}
		return err
	})
	if err != nil {
		return err
	}
	server.WriteJSON(w, c.append(nil))
	return nil
}

// find returns where an item is.
func (c *conversation) find(id string) (int, error) {
	at := slices.IndexFunc(shallow(c.Items), func(i item) bool { return i.id == id })
	if at < 0 {
		return 0, refused(http.StatusNotFound, "not_found", "", "Item with id '%.100s' not found in conversation '%.100s'.",
			id, c.id)
	}
	return at, nil
}

// shallow returns items of which the id and the JSON alone are known.
func shallow(list []json.RawMessage) []item {
	out := make([]item, len(list))
	for i, raw := range list {
		var one struct{ ID string }
		_ = json.Unmarshal(raw, &one) // what is kept was written here
		out[i] = item{id: one.ID, json: raw}
	}
	return out
}

// extend adds to its conversation what a turn that ended read and wrote. Where that cannot be, the response says so: it
// has no conversation.
func (a *API) extend(ctx context.Context, of store.Owner, t *turn, o outcome) {
	c := t.call
	if c.within == "" || o.status != statusCompleted && o.status != statusIncomplete {
		return
	}
	items := slices.Clone(c.input)
	for _, s := range t.items {
		if s.status == statusCompleted || s.kind == kindMessage {
			items = append(items, item{id: s.id, json: t.appendItem(nil, s)})
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	_, err := a.changeConversation(ctx, of, c.within, func(conv *conversation) error { return conv.add(items) })
	if err != nil {
		a.options.Log.Warn("a response could not be added to its conversation", "id", c.id, "error", err)
		c.within = ""
	}
}

// earlier returns the items of a conversation before those that a response added.
func (a *API) earlier(ctx context.Context, o store.Owner, id, response string) ([]item, error) {
	c, err := a.conversationOf(ctx, o, id)
	if err != nil {
		return nil, err
	}
	all := shallow(c.Items)
	if at := slices.IndexFunc(all, func(i item) bool { return core(i.id) == core(response) }); at >= 0 {
		c.Items = c.Items[:at]
	}
	return parse(c.Items)
}

// readConversation reads the id of a conversation, {"id":…} or null.
func readConversation(dst *string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		probe := *r
		if raw, _ := probe.Raw(); len(raw) == 0 || raw[0] != '{' { // what is no JSON fails when it is read
			return fields.Text(dst)(r)
		}
		return r.Object("struct Conversation", []wire.Field{
			{Name: "id", Required: true, Read: wire.Into(dst, (*wire.Reader).String)},
		})
	}
}

// compact refuses POST /v1/responses/compact by name.
func compact(http.ResponseWriter, *http.Request) error {
	return refused(http.StatusNotFound, "not_supported", "", "Responses are not compacted here: what a model says of a "+
		"conversation in fewer words is for the client to ask for, as any text; `truncation`: \"auto\" leaves out the "+
		"oldest items that do not fit.")
}
