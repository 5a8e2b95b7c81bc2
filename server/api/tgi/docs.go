package tgi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"

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

func (a *API) serveDocument(w http.ResponseWriter, _ *http.Request) error {
	server.WriteJSON(w, a.docs())
	return nil
}

// document describes what is served.
func (a *API) document() []byte {
	s := openapi.Served{
		Version: a.options.Version, Limits: a.options.Limits,
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
