package api

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Document is an OpenAPI document that replies are held to.
type Document struct {
	name, version string
	paths         map[string]map[string]*operation
	schemas       schemas
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema *Schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// NewDocument reads a document; name is what violations call it. A schema with
// keywords that the kit cannot check is an error.
func NewDocument(name string, text []byte) (*Document, error) {
	var raw struct {
		OpenAPI string `json:"openapi"`
		Info    struct {
			Version string `json:"version"`
		} `json:"info"`
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas schemas `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !strings.HasPrefix(raw.OpenAPI, "3.") {
		return nil, fmt.Errorf("%s: openapi is %q, want 3.x", name, raw.OpenAPI)
	}
	d := &Document{name: name, version: raw.Info.Version, paths: map[string]map[string]*operation{},
		schemas: raw.Components.Schemas}
	for path, methods := range raw.Paths {
		d.paths[path] = map[string]*operation{}
		for method, text := range methods {
			if !slices.Contains([]string{"get", "post", "put", "delete", "patch", "head", "options"}, method) {
				continue // what all operations of the path share
			}
			o := &operation{}
			if err := json.Unmarshal(text, o); err != nil {
				return nil, fmt.Errorf("%s: %s %s: %w", name, method, path, err)
			}
			d.paths[path][method] = o
		}
	}
	return d, nil
}

// ReadDocument reads the document in a file.
func ReadDocument(file string) (*Document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return NewDocument(file, text)
}

// exception is a known difference between a document and the servers of a dialect.
type exception struct {
	// version of the document, and the dialects; nil is all.
	version  string
	dialects []string
	// path of the request, and what the finding holds; empty is any.
	path, finding string
	why           string
}

var exceptions = []exception{
	{version: "2.2.1-dev0", path: "/", finding: "is no object", why: "the document forgets the array"},
	{version: "2.2.1-dev0", path: "/v1/completions", finding: "logprobs",
		why: "the document has TGI's list, which no server ever sent"},
	{version: "2.2.1-dev0", dialects: []string{TGI06}, finding: "lacks index", why: "came with 1.4.0"},
	{version: "2.2.1-dev0", dialects: []string{TGI06}, path: "/info", why: "the limits came later"},
	{version: "2.2.1-dev0", dialects: []string{TGI3}, path: "/v1/chat/completions", finding: ".delta",
		why: "role-first chunks and empty last deltas are OpenAI's"},
	{version: "2.2.1-dev0", dialects: []string{TGI3}, path: "/v1/completions", finding: ".finish_reason: null",
		why: "null is OpenAI's"},
	{version: "2.2.1-dev0", dialects: []string{TGI3}, path: "/v1/", finding: ".error: {",
		why: "error objects are OpenAI's"},
}

func (e exception) covers(version string, f form, path, finding string) bool {
	if e.version != version || e.dialects != nil && !slices.Contains(e.dialects, f.name) ||
		!strings.Contains(finding, e.finding) {
		return false
	}
	return e.path == "" || e.path == path || strings.HasSuffix(e.path, "/") && e.path != "/" &&
		strings.HasPrefix(path, e.path)
}

// hold returns where the reply differs from the document. It accepts requests and statuses that the document does not
// describe.
func (d *Document) hold(f form, r *reply) (wrong []string) {
	o := d.operation(strings.ToLower(r.request.method), r.request.path)
	if o == nil {
		return nil
	}
	response, ok := o.Responses[strconv.Itoa(r.status)]
	if !ok || len(response.Content) == 0 {
		return nil
	}
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	content, ok := response.Content[kind]
	if !ok || content.Schema == nil {
		// A stream's errors are events with status 200; before it began they are JSON.
		return nil
	}
	for _, text := range r.parts(kind) {
		v, err := parse([]byte(text))
		if err != nil || v.at("error").there && kind == "text/event-stream" {
			continue // the cases report the one, and the other is no response of the schema
		}
		for _, finding := range d.schemas.check("reply", content.Schema, v.any) {
			if !slices.ContainsFunc(exceptions, func(e exception) bool {
				return e.covers(d.version, f, r.request.path, finding)
			}) {
				wrong = append(wrong, finding)
			}
		}
	}
	return wrong
}

// parts returns the JSON texts of a body.
func (r *reply) parts(kind string) []string {
	switch kind {
	case "application/json":
		return []string{string(r.body)}
	case "text/event-stream":
		var out []string
		for line := range strings.Lines(string(r.body)) {
			if data, ok := strings.CutPrefix(line, "data:"); ok {
				out = append(out, strings.TrimSpace(data))
			}
		}
		return out
	}
	return nil
}

// operation finds the operation of a path, which may be an instance of a
// template.
func (d *Document) operation(method, path string) *operation {
	if o := d.paths[path][method]; o != nil {
		return o
	}
	given := strings.Split(path, "/")
	for template, methods := range d.paths {
		parts := strings.Split(template, "/")
		if len(parts) != len(given) || methods[method] == nil {
			continue
		}
		same := true
		for i := range parts {
			same = same && (parts[i] == given[i] || strings.HasPrefix(parts[i], "{"))
		}
		if same {
			return methods[method]
		}
	}
	return nil
}
