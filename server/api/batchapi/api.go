// Package batchapi serves OpenAI's files and batches: package batches keeps and runs them, this one reads requests and
// writes replies. Bad requests are 400, as OpenAI has it.
package batchapi

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tgi/server"
	"tgi/server/api/openaierror"
	"tgi/server/batches"
)

// Options of an API.
type Options struct {
	// Store keeps files and batches; nil where they are switched off.
	Store *batches.Store
	// MaxFile bounds a file, in bytes.
	MaxFile int64
}

// API is the routes.
type API struct{ options Options }

// New returns the API.
func New(o Options) *API { return &API{o} }

const (
	filesPath   = "/v1/files"
	oneFile     = filesPath + "/{file_id}"
	batchesPath = "/v1/batches"
	oneBatch    = batchesPath + "/{batch_id}"
)

// formBytes is what a form has at most beside its file.
const formBytes = 64 << 10

// Endpoints are the routes that batches may call.
func Endpoints() []string {
	return []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	routes := []server.Route{
		{Method: http.MethodPost, Path: filesPath, BodyLimit: a.options.MaxFile + formBytes, Streamed: true,
			Light: true, Handle: a.upload},
		{Method: http.MethodGet, Path: filesPath, Handle: a.listFiles},
		{Method: http.MethodGet, Path: oneFile, Handle: a.file},
		{Method: http.MethodDelete, Path: oneFile, Handle: a.deleteFile},
		{Method: http.MethodGet, Path: oneFile + "/content", Handle: a.content},
		{Method: http.MethodPost, Path: batchesPath, Handle: a.create},
		{Method: http.MethodGet, Path: batchesPath, Handle: a.listBatches},
		{Method: http.MethodGet, Path: oneBatch, Handle: a.batch},
		{Method: http.MethodPost, Path: oneBatch + "/cancel", Handle: a.cancel},
	}
	for i := range routes {
		handle := routes[i].Handle
		routes[i].Refuse = refuse
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) error {
			if a.options.Store == nil {
				return refusal(http.StatusNotFound, "not_enabled", "",
					"files and batches are switched off: batches.folder is empty")
			}
			return handle(w, r)
		}
	}
	return routes
}

// refusal is a request that cannot be served as things are.
func refusal(status int, code, param, format string, args ...any) error {
	return &openaierror.Refusal{Status: status, Kind: code, Param: param, Text: fmt.Sprintf(format, args...)}
}

// invalid is a request that is wrong.
func invalid(param, format string, args ...any) error {
	return refusal(http.StatusBadRequest, "invalid_value", param, format, args...)
}

// refuse replies with err; nothing was written yet.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	for of, as := range map[error]struct {
		status int
		code   string
	}{
		batches.ErrNotFound: {http.StatusNotFound, "not_found"},
		batches.ErrInvalid:  {http.StatusBadRequest, "invalid_value"},
		batches.ErrConflict: {http.StatusConflict, "conflict"},
		batches.ErrTooLarge: {http.StatusRequestEntityTooLarge, "file_too_large"},
		batches.ErrQuota:    {http.StatusInsufficientStorage, "insufficient_storage"},
		batches.ErrStopping: {http.StatusServiceUnavailable, "draining"},
	} {
		if errors.Is(err, of) {
			err = refusal(as.status, as.code, "", "%s", err)
			break
		}
	}
	f := openaierror.Explain(err, nil)
	if f.Status == http.StatusUnprocessableEntity {
		f.Status = http.StatusBadRequest
	}
	f.SetHeader(w.Header())
	server.WriteStatus(w, f.Status, f.AppendObject(nil, false))
}

// list is a page of a list.
type list[T any] struct {
	Object string  `json:"object"`
	Data   []T     `json:"data"`
	First  *string `json:"first_id"`
	Last   *string `json:"last_id"`
	More   bool    `json:"has_more"`
}

// writePage replies with a page.
func writePage[T any](w http.ResponseWriter, data []T, more bool, id func(T) string) error {
	out := list[T]{Object: "list", Data: data, More: more}
	if len(data) == 0 {
		out.Data = []T{}
	} else {
		first, last := id(data[0]), id(data[len(data)-1])
		out.First, out.Last = &first, &last
	}
	return server.WriteValue(w, http.StatusOK, out)
}

// limit returns the number of entries that a query asks for.
func limit(q url.Values, otherwise, most int) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, invalid("limit", "`limit` must be from 1 to %d. Given: %.32q", most, text)
	}
	return n, nil
}

func (a *API) listFiles(w http.ResponseWriter, r *http.Request) error {
	const most = 10_000
	q := r.URL.Query()
	n, err := limit(q, most, most)
	if err != nil {
		return err
	}
	order := q.Get("order")
	if !slices.Contains([]string{"", "asc", "desc"}, order) {
		return invalid("order", "`order` must be asc or desc. Given: %.32q", order)
	}
	files, more, err := a.options.Store.Files(server.OwnerOf(r), q.Get("purpose"), q.Get("after"), n, order == "asc")
	if err != nil {
		return err
	}
	return writePage(w, files, more, func(f batches.File) string { return f.ID })
}

func (a *API) file(w http.ResponseWriter, r *http.Request) error {
	f, err := a.options.Store.File(server.OwnerOf(r), r.PathValue("file_id"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, f)
}

func (a *API) deleteFile(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("file_id")
	if err := a.options.Store.DeleteFile(server.OwnerOf(r), id); err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, map[string]any{"id": id, "object": "file", "deleted": true})
}

// content replies with a file. Browsers keep it, and do not show it.
func (a *API) content(w http.ResponseWriter, r *http.Request) error {
	file, f, err := a.options.Store.OpenFile(server.OwnerOf(r), r.PathValue("file_id"))
	if err != nil {
		return err
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	http.ServeContent(w, r, "", time.Unix(f.CreatedAt, 0), file)
	return nil
}

func (a *API) listBatches(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	n, err := limit(q, 20, 100)
	if err != nil {
		return err
	}
	all, more, err := a.options.Store.Batches(server.OwnerOf(r), q.Get("after"), n)
	if err != nil {
		return err
	}
	return writePage(w, all, more, func(b batches.Batch) string { return b.ID })
}

func (a *API) batch(w http.ResponseWriter, r *http.Request) error {
	b, err := a.options.Store.Batch(server.OwnerOf(r), r.PathValue("batch_id"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, b)
}

func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	b, err := a.options.Store.Cancel(server.OwnerOf(r), r.PathValue("batch_id"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, b)
}
