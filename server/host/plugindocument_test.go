package host

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"tgi/plugins/std"
	"tgi/server/config"
)

// TestDocumentKnowsPlugins: the OpenAPI document, as other software reads it, lets pass the plugins and parameters that
// the server takes from a key, and no others; it changes with the plugins.
func TestDocumentKnowsPlugins(t *testing.T) {
	const admin = "of-the-admin"
	p := programming(t, func(c *config.Config) {
		c.Server.AdminKeys = []string{admin}
		c.Key = []config.Key{{Name: "all", Key: "of-all", Scopes: []string{config.ScopeGenerate, config.ScopeModels}},
			{Name: "some", Key: "of-some", Scopes: []string{config.ScopeGenerate}, // which reads the document, too
				Plugins: []string{"banned-*", "dr*"}}}
		for _, name := range []string{"dry", "xtc"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		}
	})
	check := func(key, call string, want bool) {
		t.Helper()
		_, text := p.withKey(t, key, http.MethodGet, "/api-doc/openapi.json", "")
		doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
		if err == nil {
			err = doc.Validate(t.Context())
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		chat := fmt.Sprintf(`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"plugins":[%s]}`, call)
		var body any
		if err := json.Unmarshal([]byte(chat), &body); err != nil {
			t.Fatal(err)
		}
		schema := doc.Paths.Find("/v1/chat/completions").Post.RequestBody.Value.Content["application/json"].Schema
		said := schema.Value.VisitJSON(body)
		status, reply := p.withKey(t, key, http.MethodPost, "/v1/chat/completions", chat)
		if took := status == http.StatusOK; took != want || (said == nil) != want {
			t.Errorf("key %s, %s: the server replies %d %s, the document says %v", key, call, status, reply, said)
		}
	}
	check("of-all", `{"name":"dry","params":{"multiplier":0.5}}`, true)
	check("of-all", `{"name":"dry","params":{"multiplier":-1}}`, false)
	check("of-all", `{"name":"dry","params":{"multiplyer":1}}`, false)
	check("of-all", `{"name":"dry"}`, true)
	check("of-all", `{"name":"xtc","params":{}}`, true)
	check("of-all", `{"name":"no-such"}`, false)
	check("of-some", `{"name":"xtc"}`, false)
	check("of-some", `{"name":"banned-strings","params":{"strings":["zebra"]}}`, true)
	check("of-some", `{"name":"banned-strings","params":{"strings":"zebra"}}`, false)
	check("of-some", `{"name":"banned-strings","params":{"depth":17}}`, false)

	check("of-some", `{"name":"drier"}`, false)
	wasm, err := fs.ReadFile(std.FS(), "dry.wasm")
	if err != nil {
		t.Fatal(err)
	}
	status, text := p.withKey(t, admin, http.MethodPut, "/admin/plugins/drier", string(wasm),
		"Content-Type", "application/wasm")
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	check("of-some", `{"name":"drier","params":{"base":2}}`, true)
	check("of-some", `{"name":"drier","params":{"base":0}}`, false)
	if status, text := p.withKey(t, admin, http.MethodDelete, "/admin/plugins/drier", ""); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	check("of-some", `{"name":"drier"}`, false)
}
