package openapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"tgi/server"
	"tgi/server/config"
)

// Document is an OpenAPI 3.0 document.
type Document struct {
	OpenAPI    string                           `json:"openapi"`
	Info       About                            `json:"info"`
	Paths      map[string]map[string]*Operation `json:"paths"`
	Components Components                       `json:"components"`
	Security   []map[string][]string            `json:"security"`
	Tags       []Tag                            `json:"tags"`
}

// About is the document's info object.
type About struct {
	Title       string  `json:"title"`
	Description string  `json:"description"`
	License     License `json:"license"`
	Version     string  `json:"version"`
}

// License is the server's.
type License struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Components are the parts that operations refer to.
type Components struct {
	Schemas         map[string]*Schema `json:"schemas"`
	SecuritySchemes map[string]Scheme  `json:"securitySchemes"`
}

// Scheme is a way to show a key.
type Scheme struct {
	Type   string `json:"type"`
	Scheme string `json:"scheme"`
}

// Tag groups operations.
type Tag struct {
	Name string `json:"name"`
}

// Served is a server as its document describes it.
type Served struct {
	// Version is the server's.
	Version string
	// Limits bound the request's fields; those that are 0 bound nothing, because they
	// are each model's.
	Limits config.Limits
	// Routes are all that it answers. Those below server.AdminPath are left out, one
	// without a description of its own is listed by its path alone.
	Routes []server.Route
	// Plugins are those that requests may name; nil is unknown.
	Plugins []Plugin
	// Alias maps the paths of further routes to those that they answer like.
	Alias map[string]string
}

// New returns the document of a server.
func New(s Served) *Document {
	d := &Document{
		OpenAPI: "3.0.3",
		Info: About{
			Title: "Text Generation Inference", Version: s.Version,
			Description: "Text generation with user code in the token loop, over the APIs of TGI, OpenAI, Anthropic and Ollama.",
			License:     License{"Apache 2.0", "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		Paths: map[string]map[string]*Operation{},
		Components: Components{
			Schemas: native(&s.Limits), SecuritySchemes: map[string]Scheme{"key": {"http", "bearer"}},
		},
		Security: []map[string][]string{{"key": {}}, {}},
	}
	maps.Copy(d.Components.Schemas, clouds())
	maps.Copy(d.Components.Schemas, openai())
	maps.Copy(d.Components.Schemas, models())
	maps.Copy(d.Components.Schemas, plain())
	maps.Copy(d.Components.Schemas, anthropic())
	maps.Copy(d.Components.Schemas, texts())
	maps.Copy(d.Components.Schemas, responses())
	maps.Copy(d.Components.Schemas, ollama())
	maps.Copy(d.Components.Schemas, explained())
	maps.Copy(d.Components.Schemas, batches())
	maps.Copy(d.Components.Schemas, routers())
	maps.Copy(d.Components.Schemas, pluginCalls(s.Plugins))
	known := calls()
	for _, r := range s.Routes {
		if strings.HasPrefix(r.Path, server.AdminPath) {
			continue
		}
		at := bare(r.Path)
		path := at
		if as, ok := s.Alias[at]; ok {
			path = as
		}
		c := call{method: r.Method, tag: tagServer, summary: "Not described here"}
		if i := slices.IndexFunc(known, func(c call) bool { return c.method == r.Method && c.path == path }); i >= 0 {
			c = known[i]
		}
		if d.Paths[at] == nil {
			d.Paths[at] = map[string]*Operation{}
		}
		d.Paths[at][strings.ToLower(r.Method)] = c.operation(at, r.Scope != server.Open)
		if !slices.Contains(d.Tags, Tag{c.tag}) {
			d.Tags = append(d.Tags, Tag{c.tag})
		}
	}
	return d
}

// variable is a part of a route's path with the form that it must have.
var variable = regexp.MustCompile(`\{(\w+):[^}]*\}`)

// bare leaves these forms out.
func bare(path string) string { return variable.ReplaceAllString(path, "{$1}") }

// JSON returns the document as bytes.
func (d *Document) JSON() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic("BUG: the OpenAPI document: " + err.Error())
	}
	return b
}

// Probes are the routes of package server itself.
func Probes() []server.Route {
	var out []server.Route
	for _, path := range append(server.Probes(), "/metrics") {
		out = append(out, server.Route{Method: http.MethodGet, Path: path, Scope: server.Open})
	}
	return out
}
