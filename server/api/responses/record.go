package responses

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"tgi/server"
	"tgi/server/api/responses/store"
	"tgi/server/generate"
	"tgi/server/wire"
)

// record is what is kept of a response.
type record struct {
	// Response is as the API shows it, Input the items of its request.
	Response json.RawMessage   `json:"response"`
	Input    []json.RawMessage `json:"input"`
	// Previous is the response that it follows; "" for none.
	Previous string `json:"previous,omitempty"`
	// Events are those of a response behind its handler: lines of name and data by turns, with gzip. Longest is how
	// many bytes the longest line has.
	Events  []byte `json:"events,omitempty"`
	Longest uint32 `json:"longest,omitempty"`
	// Lease is until when, in seconds since 1970, the replica that runs the response is known to live, and Lost the
	// response as it stands when it did not renew that; a response that ended has neither.
	Lease int64           `json:"lease,omitempty"`
	Lost  json.RawMessage `json:"lost,omitempty"`
}

// maxChain bounds how many responses one may follow.
const maxChain = 1000

// keepTimeout is how long a store may take for a response, which is written even when the client leaves in that moment.
const keepTimeout = 5 * time.Second

// load returns the record of a response. Errors are store.ErrNotFound, store.ErrUnavailable and those of the room.
func (a *API) load(ctx context.Context, o store.Owner, id string) (*record, error) {
	if core(id) == "" {
		return nil, store.ErrNotFound
	}
	raw, err := a.options.Store.Get(ctx, o, id)
	if err != nil {
		return nil, err
	}
	if err := generate.TakeRoom(ctx, int64(len(raw))); err != nil {
		return nil, err
	}
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return &rec, nil
}

// newRecord returns what is kept of a turn.
func (t *turn) record(response []byte) *record {
	rec := &record{Response: response, Previous: t.call.previous}
	for i := range t.call.input {
		rec.Input = append(rec.Input, t.call.input[i].json)
	}
	return rec
}

// put keeps a record.
func (a *API) put(ctx context.Context, o store.Owner, id string, rec *record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("BUG: a record that is no JSON: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	return a.options.Store.Put(ctx, o, id, b)
}

// keep returns the response of a turn that ended, and keeps it where the request wants that. One that cannot be kept
// says so: its store is false.
func (a *API) keep(ctx context.Context, of store.Owner, t *turn, o outcome) []byte {
	b := t.appendResponse(nil, o)
	if !t.call.store {
		return b
	}
	if err := a.put(ctx, of, t.call.id, t.record(b)); err != nil {
		a.options.Log.Warn("a response could not be kept", "id", t.call.id, "error", err)
		t.call.store = false
		return t.appendResponse(nil, o)
	}
	return b
}

// output returns the items of a response that a later one reads: not calls that were cut off.
func (rec *record) output() (status string, list []json.RawMessage, err error) {
	var response struct {
		Status string
		Output []json.RawMessage
	}
	if err := json.Unmarshal(rec.Response, &response); err != nil {
		return "", nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	for _, raw := range response.Output {
		var one struct{ Type, Status string }
		if json.Unmarshal(raw, &one) == nil && (one.Status == statusCompleted || one.Type == kindMessage) {
			list = append(list, raw)
		}
	}
	return response.Status, list, nil
}

// parse reads items that are kept.
func parse(list []json.RawMessage) ([]item, error) {
	var out []item
	for _, raw := range list {
		err := wire.Decode(raw, func(r *wire.Reader) error {
			one, err := readItem(r, "item")
			one.json = raw
			out = append(out, one)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
	return out, nil
}

// history returns the items of a response and of those before it.
func (a *API) history(ctx context.Context, o store.Owner, id string) ([]item, error) {
	var parts [][]item
	n := 0
	for first := id; id != ""; n++ {
		rec, err := a.load(ctx, o, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, refused(http.StatusBadRequest, "previous_response_not_found", "previous_response_id",
				"Previous response with id '%.100s' not found.", id)
		case err != nil:
			return nil, err
		case n == maxChain:
			return nil, refused(http.StatusBadRequest, "validation", "previous_response_id",
				"`previous_response_id` must follow at most %d responses", maxChain)
		}
		status, output, err := rec.output()
		if err != nil {
			return nil, err
		}
		if id == first && status != statusCompleted && status != statusIncomplete {
			return nil, refused(http.StatusBadRequest, "validation", "previous_response_id",
				"Previous response with id '%.100s' is %s: only one that is completed or incomplete can be followed.",
				id,
				status)
		}
		items, err := parse(append(rec.Input, output...))
		if err != nil {
			return nil, err
		}
		parts = append(parts, items)
		id = rec.Previous
	}
	var all []item
	for i := len(parts) - 1; i >= 0; i-- {
		all = append(all, parts[i]...)
	}
	return all, nil
}

// resolve puts what a call refers to in its place.
func (a *API) resolve(ctx context.Context, o store.Owner, c *call) (err error) {
	if c.context, err = a.history(ctx, o, c.previous); err != nil {
		return err
	}
	kept := map[string]map[string]json.RawMessage{} // the items of each response that is referred to, by id
	for i := range c.input {
		if c.input[i].kind != kindReference {
			continue
		}
		id := c.input[i].id
		items, ok := kept[core(id)]
		if !ok {
			if items, err = a.items(ctx, o, "resp_"+core(id)); err != nil {
				return err
			}
			kept[core(id)] = items
		}
		raw, ok := items[id]
		if !ok {
			return refused(http.StatusNotFound, "not_found", "input",
				"Item with id '%.100s' not found. Items are kept with "+
					"their responses, where `store` is not false.", id)
		}
		if err := generate.TakeRoom(ctx, itemCopies*int64(len(raw))); err != nil {
			return err
		}
		found, err := parse([]json.RawMessage{raw})
		if err != nil {
			return err
		}
		c.input[i] = found[0]
	}
	return nil
}

// itemCopies is how often an item that is referred to is in memory until it is a prompt: as JSON, as a message, and
// in what the template is given.
const itemCopies = 4

// items returns the items that were kept with a response, by their ids; none if it is not there.
func (a *API) items(ctx context.Context, o store.Owner, id string) (map[string]json.RawMessage, error) {
	rec, err := a.load(ctx, o, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, output, err := rec.output()
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	for _, raw := range append(rec.Input, output...) {
		var one struct{ ID string }
		if json.Unmarshal(raw, &one) == nil && all[one.ID] == nil {
			all[one.ID] = raw
		}
	}
	return all, nil
}

// known is load for a response that a path names.
func (a *API) known(r *http.Request) (string, *record, error) {
	id := r.PathValue("response_id")
	rec, err := a.load(r.Context(), owner(r), id)
	if errors.Is(err, store.ErrNotFound) {
		err = notFound(id)
	}
	return id, rec, err
}

// inputItems serves GET /v1/responses/ID/input_items.
func (a *API) inputItems(w http.ResponseWriter, r *http.Request) error {
	_, rec, err := a.known(r)
	if err != nil {
		return err
	}
	items, err := a.history(r.Context(), owner(r), rec.Previous)
	if err != nil {
		return err
	}
	own, err := parse(rec.Input)
	if err != nil {
		return err
	}
	b, err := page(append(items, own...), r)
	if err != nil {
		return err
	}
	server.WriteJSON(w, b)
	return nil
}

// page writes the part of a list that a query asks for: limit items behind the one that after names, in an order.
func page(items []item, r *http.Request) ([]byte, error) {
	q := r.URL.Query()
	limit, order := 20, q.Get("order")
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return nil, &generate.Invalid{Field: "limit",
				Msg: fmt.Sprintf("`limit` must be >= 1 and <= 100. Given: %.20s",
					text)}
		}
		limit = n
	}
	switch order {
	case "", "desc":
		for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
			items[i], items[j] = items[j], items[i]
		}
	case "asc":
	default:
		return nil, &generate.Invalid{Field: "order", Msg: fmt.Sprintf("`order` must be asc or desc. Given: %.20q",
			order)}
	}
	if after := q.Get("after"); after != "" {
		at := 0
		for at < len(items) && items[at].id != after {
			at++
		}
		if at == len(items) {
			return nil, refused(http.StatusBadRequest, "validation", "after", "`after` names no item of the list")
		}
		items = items[at+1:]
	}
	more := len(items) > limit
	items = items[:min(limit, len(items))]
	first, last := "", ""
	b := []byte(`{"object":"list","data":[`)
	for i := range items {
		b = append(wire.Comma(b, i), items[i].json...)
		if last = items[i].id; i == 0 {
			first = last
		}
	}
	b = wire.AppendString(append(b, `],"first_id":`...), first)
	b = wire.AppendString(append(b, `,"last_id":`...), last)
	return append(strconv.AppendBool(append(b, `,"has_more":`...), more), '}'), nil
}

// pack returns events as a record has them, and the bytes of the longest line.
func pack(events []event) (packed []byte, longest uint32) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, e := range events {
		_, _ = z.Write(append(append(append([]byte(e.name), '\n'), e.json...), '\n')) // into memory
		longest = max(longest, uint32(len(e.name)), uint32(len(e.json)))
	}
	_ = z.Close()
	return b.Bytes(), longest
}

// unpackRoom is about what unpacking takes beside the lines, in bytes.
const unpackRoom = 64 << 10

// unpacking reads what pack packed.
type unpacking struct{ lines *bufio.Reader }

// unpack begins to read the events of a record. It holds one line at a time, and refuses a longer one than the longest.
func unpack(rec *record) (*unpacking, error) {
	z, err := gzip.NewReader(bytes.NewReader(rec.Events))
	if err != nil {
		return nil, err
	}
	return &unpacking{bufio.NewReaderSize(z, int(rec.Longest)+1)}, nil
}

// next returns the next event, whose JSON is valid until the one after it. At the end it fails with io.EOF.
func (u *unpacking) next() (event, error) {
	line, err := u.lines.ReadSlice('\n')
	if err != nil {
		if len(line) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return event{}, err
	}
	name := string(line[:len(line)-1])
	if line, err = u.lines.ReadSlice('\n'); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return event{}, err
	}
	return event{name, line[:len(line)-1]}, nil
}
