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
	"slices"
	"strings"
	"time"

	"tgi/server/api/openaierror"
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
	// Conversation is that which it belongs to; "" for none.
	Conversation string `json:"conversation,omitempty"`
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
	rec, size, err := a.read(ctx, o, id)
	if err != nil {
		return nil, err
	}
	return rec, generate.TakeRoom(ctx, itemCopies*int64(size))
}

// read is load for who takes the room himself; it also returns how many bytes the record has.
func (a *API) read(ctx context.Context, o store.Owner, id string) (*record, int, error) {
	if !strings.HasPrefix(id, responsePrefix) || core(id) == "" {
		return nil, 0, store.ErrNotFound
	}
	raw, err := a.options.Store.Get(ctx, o, id)
	if err != nil {
		return nil, 0, err
	}
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", store.ErrUnavailable, wire.Told(err))
	}
	return &rec, len(raw), nil
}

// responsePrefix begins the ids of responses.
const responsePrefix = "resp_"

// newRecord returns what is kept of a turn.
func (t *turn) record(response []byte) *record {
	rec := &record{Response: response, Previous: t.call.previous, Conversation: t.call.within}
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
	a.extend(ctx, of, t, o)
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

func previousNotFound(id string) error {
	return refused(http.StatusBadRequest, "previous_response_not_found", "previous_response_id",
		"Previous response with id '%.100s' not found.", id)
}

func tooManyFollowed() error {
	return refused(http.StatusBadRequest, "validation", "previous_response_id",
		"`previous_response_id` must follow at most %d responses", maxChain)
}

// history returns the items of a response and of those before it.
func (a *API) history(ctx context.Context, o store.Owner, id string) ([]item, error) {
	var parts [][]item
	n := 0
	for first := id; id != ""; n++ {
		rec, err := a.load(ctx, o, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, previousNotFound(id)
		case err != nil:
			return nil, err
		case n == maxChain:
			return nil, tooManyFollowed()
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
		if rec.Conversation != "" {
			before, err := a.earlier(ctx, o, rec.Conversation, id)
			if err != nil {
				return nil, err
			}
			parts = append(parts, before)
		}
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
	if c.within == "" {
		c.context, err = a.history(ctx, o, c.previous)
	} else {
		var conv *conversation
		if conv, err = a.conversationOf(ctx, o, c.within); err == nil {
			c.context, err = parse(conv.Items)
		}
	}
	if err != nil {
		return err
	}
	return a.refer(ctx, o, c.context, c.input)
}

// refer puts the items in the place of those that refer to them: items of a context, or such as are kept.
func (a *API) refer(ctx context.Context, o store.Owner, known, list []item) (err error) {
	kept := map[string]map[string]json.RawMessage{} // the items of each record that is referred to, by id
	for i := range list {
		if list[i].kind != kindReference {
			continue
		}
		id := list[i].id
		if at := slices.IndexFunc(known, func(k item) bool { return k.id == id }); at >= 0 {
			list[i] = known[at]
			continue
		}
		items, ok := kept[core(id)]
		if !ok {
			if items, err = a.items(ctx, o, id); err != nil {
				return err
			}
			kept[core(id)] = items
		}
		raw, ok := items[id]
		if !ok {
			return refused(http.StatusNotFound, "not_found", "input",
				"Item with id '%.100s' not found. Items are kept with "+
					"their responses, where `store` is not false, and with their conversations.", id)
		}
		if err := generate.TakeRoom(ctx, itemCopies*int64(len(raw))); err != nil {
			return err
		}
		found, err := parse([]json.RawMessage{raw})
		if err != nil {
			return err
		}
		list[i] = found[0]
	}
	return nil
}

// itemCopies is how often an item that is referred to is in memory until it is a prompt: as JSON, as a message, and
// in what the template is given.
const itemCopies = 4

// items returns the items that were kept with the response or the conversation that an item's id is of, by their ids;
// none if it is not there.
func (a *API) items(ctx context.Context, o store.Owner, id string) (map[string]json.RawMessage, error) {
	var list []json.RawMessage
	rec, err := a.load(ctx, o, responsePrefix+core(id))
	switch {
	case err == nil:
		_, output, err := rec.output()
		if err != nil {
			return nil, err
		}
		list = append(rec.Input, output...)
	case errors.Is(err, store.ErrNotFound):
		conv, err := a.conversationOf(ctx, o, conversationPrefix+core(id))
		if own, ok := errors.AsType[*openaierror.Refusal](err); ok && own.Status == http.StatusNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		list = conv.Items
	default:
		return nil, err
	}
	all := map[string]json.RawMessage{}
	for _, i := range shallow(list) {
		if all[i.id] == nil {
			all[i.id] = i.json
		}
	}
	return all, nil
}

// known is load for a response that a path names.
func (a *API) known(r *http.Request) (string, *record, error) {
	id := r.PathValue("response_id")
	rec, err := a.load(r.Context(), a.owner(r), id)
	if errors.Is(err, store.ErrNotFound) {
		err = notFound(id)
	}
	return id, rec, err
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
