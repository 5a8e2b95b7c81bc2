package tgi

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"tgi/sdk/abi"
	"tgi/server"
	"tgi/server/api/openapi"
)

// Paths of the documentation.
const (
	docsPath     = "/docs"
	documentPath = "/api-doc/openapi.json"
)

// page shows the document. It is one file and asks this server for the document
// and nobody for anything else.
//
//go:embed docs.html
var page []byte

// pagePolicy lets the page run its own script and style, and nothing else.
var pagePolicy = "default-src 'none'; connect-src 'self'; style-src " + digest("style") + "; script-src " +
	digest("script") + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// digest returns how a policy names the content of the page's one element of
// that name.
func digest(element string) string {
	_, rest, _ := bytes.Cut(page, []byte("<"+element+">"))
	content, _, ok := bytes.Cut(rest, []byte("</"+element+">"))
	if !ok {
		panic("BUG: docs.html has no <" + element + ">")
	}
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// servePage replies with the page. It says nothing about this server, so that a
// browser, which has no key to show, may load it.
func servePage(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(page)))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(page)
	return nil
}

func (a *API) serveDocument(w http.ResponseWriter, r *http.Request) error {
	var list []openapi.Plugin
	if a.options.Plugins != nil {
		list = nameable(r.Context(), a.options.Plugins())
	}
	server.WriteJSON(w, a.docs.of(list, a.document))
	return nil
}

// nameable returns of list those that requests of ctx may name beside their prompt, each name once.
func nameable(ctx context.Context, list []server.Plugin) []openapi.Plugin {
	out := []openapi.Plugin{}
	for _, p := range server.PluginsFor(ctx, list) {
		if p.Reserved || len(p.Kinds) == 1 && p.Kinds[0] == abi.KindGrammar { // a request names that beside its grammar
			continue
		}
		i := slices.IndexFunc(out, func(q openapi.Plugin) bool { return q.Name == p.Name })
		if i < 0 {
			i = len(out)
			out = append(out, openapi.Plugin{Name: p.Name, About: p.Doc})
		}
		if !slices.ContainsFunc(out[i].Params, func(q json.RawMessage) bool { return bytes.Equal(p.Params, q) }) {
			out[i].Params = append(out[i].Params, p.Params)
		}
	}
	return out
}

// documents keeps what was written lately, by the plugins that it names: keys may name different ones.
type documents struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]func() []byte // each writes once
}

// maxDocuments bounds how many are kept.
const maxDocuments = 8

// of returns the document that names plugins, which write makes if it is not kept.
func (d *documents) of(plugins []openapi.Plugin, write func([]openapi.Plugin) []byte) []byte {
	text, err := json.Marshal(plugins)
	if err != nil {
		panic("BUG: the plugins of the OpenAPI document: " + err.Error())
	}
	sum := sha256.Sum256(text)
	d.mu.Lock()
	doc, ok := d.kept[sum]
	if !ok {
		if d.kept == nil || len(d.kept) >= maxDocuments {
			d.kept = map[[sha256.Size]byte]func() []byte{}
		}
		doc = sync.OnceValue(func() []byte { return write(plugins) })
		d.kept[sum] = doc
	}
	d.mu.Unlock() // others need not wait while it is written
	return doc()
}

// document describes what is served to who may name plugins.
func (a *API) document(plugins []openapi.Plugin) []byte {
	s := openapi.Served{
		Version: a.options.Version, Limits: a.options.Limits, Plugins: plugins,
		Routes: slices.Concat(openapi.Probes(), a.Routes()), Alias: map[string]string{},
	}
	for _, api := range a.options.Beside {
		s.Routes = append(s.Routes, api.Routes()...)
	}
	if p := a.options.PredictRoute; p != "" {
		s.Alias[p] = "/vertex"
	}
	if p := a.options.HealthRoute; p != "" {
		s.Alias[p] = "/health"
	}
	return openapi.New(s).JSON()
}
