package responses

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"tgi/server"
	"tgi/server/api/responses/store"
	"tgi/server/generate"
	"tgi/server/wire"
)

// Bounds of a page, from OpenAI's API reference.
const (
	defaultPage = 20
	maxPage     = 100
)

// pageOf is the part of a list that a query asks for: limit items behind the one that after names, in an order.
type pageOf struct {
	limit     int
	after     string // "" once it was found
	ascending bool

	items []item
	more  bool
}

// readPage reads a query.
func readPage(r *http.Request) (*pageOf, error) {
	q := r.URL.Query()
	p := &pageOf{limit: defaultPage, after: q.Get("after")}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, &generate.Invalid{Field: "limit",
				Msg: fmt.Sprintf("`limit` must be >= 1 and <= %d. Given: %.20s", maxPage, text)}
		}
		p.limit = n
	}
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		p.ascending = true
	default:
		return nil, &generate.Invalid{Field: "order", Msg: fmt.Sprintf("`order` must be asc or desc. Given: %.20q", order)}
	}
	return p, nil
}

// take takes the list's next item, and reports whether the page is full.
func (p *pageOf) take(i item) (full bool) {
	switch {
	case p.after != "":
		if i.id == p.after {
			p.after = ""
		}
	case len(p.items) == p.limit:
		p.more = true
	default:
		p.items = append(p.items, i)
	}
	return p.more
}

// reply replies with the page.
func (p *pageOf) reply(w http.ResponseWriter) error {
	if p.after != "" {
		return refused(http.StatusBadRequest, "validation", "after", "`after` names no item of the list")
	}
	server.WriteJSON(w, p.append(nil))
	return nil
}

// append writes the page.
func (p *pageOf) append(b []byte) []byte {
	first, last := "", ""
	b = append(b, `{"object":"list","data":[`...)
	for i := range p.items {
		b = append(wire.Comma(b, i), p.items[i].json...)
		if last = p.items[i].id; i == 0 {
			first = last
		}
	}
	b = wire.AppendString(append(b, `],"first_id":`...), first)
	b = wire.AppendString(append(b, `,"last_id":`...), last)
	return append(strconv.AppendBool(append(b, `,"has_more":`...), p.more), '}')
}

// inputItems serves GET /v1/responses/ID/input_items. It takes a place, and holds a record at a time, however many
// responses came before.
func (a *API) inputItems(w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r)
	if err != nil {
		return err
	}
	id := r.PathValue("response_id")
	leave, err := a.gate.Enter(server.ClientID(r.Context()))
	if err != nil {
		return err
	}
	defer leave()
	l := &lister{api: a, page: p, of: a.owner(r)}
	err = a.inTurn(r.Context(), func() error { return l.list(r.Context(), id) })
	if errors.Is(err, store.ErrNotFound) {
		return notFound(id)
	}
	if err != nil {
		return err
	}
	return p.reply(w)
}

// inTurn calls read while few others read histories; clients take turns.
func (a *API) inTurn(ctx context.Context, read func() error) (err error) {
	if late := a.gate.Work(ctx, server.ClientID(ctx), func() { err = read() }); late != nil {
		return late
	}
	return err
}

// lister lists what a response and those before it were given and said.
type lister struct {
	api  *API
	page *pageOf
	of   store.Owner
	held int64 // room that was taken, of a record and for the items of the page
	kept int64 // what of it the page has
}

// load returns a record; the one before it is not held any more.
func (l *lister) load(ctx context.Context, id string) (*record, error) {
	rec, size, err := l.api.read(ctx, l.of, id)
	if err != nil {
		return nil, err
	}
	if need := itemCopies*int64(size) + l.kept; need > l.held {
		if err := generate.TakeRoom(ctx, need-l.held); err != nil {
			return nil, err
		}
		l.held = need
	}
	return rec, nil
}

// take gives the page items, in their order or from the last to the first, and reports whether it is full.
func (l *lister) take(items []item) bool {
	if !l.page.ascending {
		slices.Reverse(items)
	}
	for _, i := range items {
		n := len(l.page.items)
		full := l.page.take(i)
		if len(l.page.items) > n {
			l.kept += int64(len(i.json))
		}
		if full {
			return true
		}
	}
	return false
}

// part returns the items that a record adds to a list: those of its request, and what it said where another follows it.
func (l *lister) part(ctx context.Context, id string, rec *record, followed bool) ([]item, error) {
	list := rec.Input
	if followed {
		_, output, err := rec.output()
		if err != nil {
			return nil, err
		}
		list = append(list, output...)
	}
	items := shallow(list)
	if rec.Conversation == "" {
		return items, nil
	}
	before, err := l.api.earlier(ctx, l.of, rec.Conversation, id)
	return append(before, items...), err
}

// list gives the page the items of a response and of those before it.
func (l *lister) list(ctx context.Context, first string) error {
	var ids []string // from the newest to the oldest
	for id := first; id != ""; {
		if len(ids) > maxChain {
			return tooManyFollowed()
		}
		rec, err := l.load(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound) && id != first:
			return previousNotFound(id)
		case err != nil:
			return err
		}
		if !l.page.ascending {
			items, err := l.part(ctx, id, rec, id != first)
			if err != nil || l.take(items) {
				return err
			}
		}
		ids = append(ids, id)
		id = rec.Previous
	}
	if !l.page.ascending {
		return nil
	}
	for _, id := range slices.Backward(ids) {
		rec, err := l.load(ctx, id)
		if err != nil {
			return err
		}
		items, err := l.part(ctx, id, rec, id != first)
		if err != nil || l.take(items) {
			return err
		}
	}
	return nil
}
