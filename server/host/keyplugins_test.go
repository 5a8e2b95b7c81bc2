package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestPluginsOfKeys: requests of a key may name the plugins of its list alone, on each route and in each way to name
// one, and what the operator chose takes part all the same.
func TestPluginsOfKeys(t *testing.T) {
	p := programming(t, func(c *config.Config) {
		c.Server.Ollama = true
		for _, k := range []config.Key{
			{Name: "all"}, {Name: "none", Plugins: []string{}}, {Name: "some", Plugins: []string{"banned-*", "house"}},
		} {
			k.Key, k.Scopes = "of-"+k.Name, []string{config.ScopeGenerate}
			c.Key = append(c.Key, k)
		}
		add := func(name, source, apply string, keys ...string) {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + source,
				OnError: config.OnErrorFail, Apply: apply, Keys: keys})
		}
		add("dry", "dry", config.ApplyRequest)
		add("other-grammar", "grammar", config.ApplyRequest)
		add("other-jinja", "jinja", config.ApplyRequest)
		add("other-tools", "toolcalls", config.ApplyRequest)
		// A processor and a sampler that apply always, for some keys.
		add("no-repeat", "no-repeat-ngram", config.ApplyAlways, "none")
		add("house", "mirostat", config.ApplyAlways, "some")
	})
	ask := func(key, path, body string) (int, string) {
		t.Helper()
		return p.withKey(t, "of-"+key, http.MethodPost, path, body)
	}
	refusals := map[string]string{"none": "key `none` names none", "some": "key `some` may name banned-*, house"}
	refused := func(what, path, body, plugin string) {
		t.Helper()
		for key, want := range refusals {
			status, reply := ask(key, path, body)
			// Streams of TGI have begun when a request is refused.
			says := strings.Contains(reply, "plugin `"+plugin+"`, "+want)
			if status != http.StatusForbidden && path != "/generate_stream" || !says {
				t.Errorf("%s, key %s: %d %s", what, key, status, reply)
			}
		}
	}
	named := `[{"name":"dry"}]`
	for _, r := range spokenRoutes() {
		member := "," + fmt.Sprintf(r.plugins, named)
		body := fmt.Sprintf(r.body, member)
		refused(r.name, r.path, body, "dry")
		if strings.HasPrefix(r.stream, "/") {
			refused(r.name+", stream", r.stream, body, "dry")
		} else {
			refused(r.name+", stream", r.path, fmt.Sprintf(r.body, member+","+r.stream), "dry")
		}
		if status, reply := ask("all", r.path, body); status != http.StatusOK {
			t.Errorf("%s, key all: %d %s", r.name, status, reply)
		}
		named := `[{"name":"banned-strings","params":{"strings":["zebra"]}}]`
		body = fmt.Sprintf(r.body, ","+fmt.Sprintf(r.plugins, named))
		if status, reply := ask("some", r.path, body); status != http.StatusOK {
			t.Errorf("%s, key some: %d %s", r.name, status, reply)
		}
	}
	text := `{"inputs":"Once upon a","parameters":{"max_new_tokens":4,%s}}`
	chat := `{"model":"x","max_tokens":4,"messages":[{"role":"user","content":"Hi"}],%s}`
	const ofDry, ofJinja = `"plugins":[{"name":"dry"}]`, `"plugins":[{"name":"other-jinja"}]`
	const octets = `{"id":"1","inputs":[{"name":"a","shape":[1],"datatype":"BYTES","data":[97]}],` +
		`"outputs":[{"name":"a"}]`
	byPlugin := `"grammar":{"type":"regex","value":"a+"%s}`
	for _, c := range []struct{ what, path, body, member, plugin string }{
		{"grammar", "/generate", text, fmt.Sprintf(byPlugin, `,"plugin":"other-grammar"`), "other-grammar"},
		{"program", "/generate", text, `"plugins":` + do("plain"), "hostile"},
		{"template", "/v1/chat/completions", chat, `"plugins":[{"name":"other-jinja"}]`, "other-jinja"},
		{"tools", "/v1/chat/completions", chat, `"plugins":[{"name":"other-tools"}]`, "other-tools"},
		{"unknown", "/generate", text, `"plugins":[{"name":"no-such"}]`, "no-such"},
		// What spokenRoutes has not.
		{"root", "/", text, ofDry, "dry"},
		{"shared path", "/v1/completions/generate", text, ofDry, "dry"},
		{"SageMaker", "/invocations", text, ofDry, "dry"},
		{"Vertex AI", "/vertex", `{"instances":[{"inputs":"a"},{"inputs":"Once upon a",%s}]}`, ofDry, "dry"},
		{"Vertex AI, parameters", "/vertex", `{"instances":[{"inputs":"a","parameters":{%s}}]}`, ofDry, "dry"},
		{"Vertex AI, chat", "/vertex", `{"instances":[{"messages":[{"role":"user","content":"Hi"}],%s}]}`, ofDry,
			"dry"},
		{"KServe", "/v2/models/m/versions/1/infer", octets + `,%s}`, ofDry, "dry"},
		{"KServe, parameters", "/v2/models/m/versions/1/infer", octets + `,"parameters":{%s}}`, ofDry, "dry"},
		{"Ollama, chat", "/api/chat", chat, ofDry, "dry"},
		{"Ollama, generate", "/api/generate", `{"model":"x","prompt":"Once upon a",%s}`, ofDry, "dry"},
		{"prompt of TGI", "/chat_tokenize", chat, ofJinja, "other-jinja"},
		{"prompt of messages", "/v1/messages/count_tokens", chat, ofJinja, "other-jinja"},
		{"prompt of responses", "/v1/responses/input_tokens", `{"model":"x","input":"Hi",%s}`, ofJinja, "other-jinja"},
	} {
		refused(c.what, c.path, fmt.Sprintf(c.body, c.member), c.plugin)
	}
	for what, key := range map[string]string{"no-repeat": "none", "house": "some"} {
		members := `"details":true,"receipt":true,` + fmt.Sprintf(byPlugin, "")
		status, reply := ask(key, "/generate", fmt.Sprintf(text, members))
		if status != http.StatusOK || !strings.Contains(reply, what) {
			t.Errorf("%s, which applies always to key %s: %d %s", what, key, status, reply)
		}
		status, reply = ask("all", "/generate", fmt.Sprintf(text, `"receipt":true`))
		if status != http.StatusOK || strings.Contains(reply, what) {
			t.Errorf("%s applies to another key: %d %s", what, status, reply)
		}
	}
	shown := map[string]map[string]string{}
	for _, key := range []string{"all", "none", "some"} {
		shown[key] = p.infoPlugins(t, "of-"+key)
	}
	for _, c := range []struct{ key, plugin, want string }{
		{"all", "dry", "request"}, {"all", "banned-strings", "request"},
		{"all", "other-grammar", "request"},
		// Which it may name, and which always apply to others.
		{"all", "no-repeat", "request"}, {"all", "house", "request"},
		{"none", "dry", ""}, {"none", "house", ""}, {"none", "other-grammar", ""},
		{"none", "no-repeat", "always, reserved"},
		{"some", "dry", ""}, {"some", "no-repeat", ""}, {"some", "banned-strings", "request"},
		{"some", "house", "always"},
	} {
		if got := shown[c.key][c.plugin]; got != c.want {
			t.Errorf("/info shows key %s of %s %q, want %q", c.key, c.plugin, got, c.want)
		}
	}
	if n := len(shown["none"]); n != 1 {
		t.Errorf("/info shows key none %v", shown["none"])
	}
	if status, reply := ask("some", "/v1/chat/completions", fmt.Sprintf(chat, `"temperature":0`)); status != 200 {
		t.Errorf("the model's own template: %d %s", status, reply)
	}
}

// infoPlugins returns how each plugin applies that GET /info shows a key.
func (p *plugged) infoPlugins(t *testing.T, key string) map[string]string {
	t.Helper()
	_, text := p.withKey(t, key, http.MethodGet, "/info", "")
	var info struct {
		Plugins []struct {
			Name, Apply string
			Nameable    *bool
		}
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, p := range info.Plugins {
		list[p.Name] = p.Apply
		if p.Nameable != nil && !*p.Nameable {
			list[p.Name] += ", reserved"
		}
	}
	return list
}
