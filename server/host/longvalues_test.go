package host

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/server/config"
)

// longBodies are requests with every member in which a client names something, for each route that takes JSON. Those
// that are not sent as they stand are refused for something else than their form.
var longBodies = map[string][]string{
	"/generate": {generateBody}, "/generate_stream": {generateBody}, "/": {generateBody},
	"/invocations":   {generateBody},
	"/vertex":        {`{"instances":[` + generateBody + `],"parameters":{}}`, `{"instances":[` + chatBody + `]}`},
	"/predict":       {`{"inputs":"a","truncate":false,"raw_scores":false,"truncation_direction":"Right","model":"m"}`},
	"/tokenize":      {`{"inputs":"a","model":"m","add_special_tokens":true}`},
	"/decode":        {`{"ids":[[1]],"skip_special_tokens":true,"model":"m"}`},
	"/chat_tokenize": {chatBody}, "/v1/chat/completions": {chatBody},
	"/v1/completions": {`{"model":"x","prompt":"a","suffix":"b","max_tokens":2,"stop":["z"],"logit_bias":{"1":1},` +
		`"user":"u","plugins":[{"name":"dry","params":{"a":"b"}}],"grammar":{"type":"regex","value":"a+"},"seed":1,` +
		`"stream":false,"stream_options":{"include_usage":true},"guided_choice":["a"],"echo":false,"explain":"receipt",` +
		`"guidance":{"prompt":"a","scale":1.5},"service_tier":"auto","response_format":{"type":"json_object"}}`},
	"/v1/completions/generate":            {`{"prompt":"a","model":"x","parameters":{"max_new_tokens":2}}`, generateBody},
	"/v1/completions/generate_stream":     {generateBody},
	"/v1/responses":                       {responsesBody},
	"/v1/responses/input_tokens":          {responsesBody},
	"/v1/responses/compact":               {responsesBody},
	"/v1/conversations":                   {`{"metadata":{"k":"v"},"items":[{"type":"message","role":"user","content":"a"}]}`},
	"/v1/conversations/{conversation_id}": {`{"metadata":{"k":"v"}}`},
	"/v1/conversations/{conversation_id}/items": {
		`{"items":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]}`},
	"/v1/messages": {messagesBody}, "/v1/messages/count_tokens": {messagesBody},
	"/api/chat": {`{"model":"x","messages":[{"role":"user","content":"a","images":["aGk="],"thinking":"t","tool_calls":` +
		`[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"b","tool_name":"f"}],"tools":[` +
		`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":` +
		`{"type":"string"}}},"strict":true}}],"format":{"type":"object"},"options":{"num_predict":2,"stop":["z"]},` +
		`"keep_alive":"5m","think":"low","stream":false,"plugins":[{"name":"dry","params":{}}]}`},
	"/api/generate": {`{"model":"x","prompt":"a","suffix":"b","system":"s","template":"{{ .Prompt }}","format":"json",` +
		`"options":{"num_predict":2,"stop":["z"]},"images":["aGk="],"keep_alive":"5m","think":"low","context":[1],` +
		`"stream":false,"plugins":[{"name":"dry","params":{}}]}`},
	"/api/embed":      {`{"model":"x","input":["a"],"options":{"a":1},"keep_alive":"5m","truncate":true}`},
	"/api/embeddings": {`{"model":"x","prompt":"a","options":{},"keep_alive":"5m"}`},
	"/api/pull":       {`{"model":"org/m:tag","stream":false,"insecure":false,"name":"n"}`},
	"/api/push":       {`{"model":"org/m","stream":false}`},
	"/api/create":     {`{"model":"m","from":"x"}`},
	"/api/copy":       {`{"source":"a","destination":"b"}`},
	"/api/show":       {`{"model":"x","verbose":false}`, `{"name":"m"}`},
	"/api/delete":     {`{"model":"m"}`},
	"/api/generate-one": {`{"prompt":"a","request_id":"r","max_new_tokens":2,"stop_sequences":["z"],"model":"x",` +
		`"plugins":[{"name":"dry"}],"grammar":{"type":"regex","value":"a"}}`,
		`{"req_id":"r","prompt":"a","params":{"max_new_tokens":2},"session":"s"}`},
	"/api/generate-batch": {`{"prompts":[{"request_id":"r","prompt":"a"}],"max_new_tokens":2,"model":"x","plugins":[{"name":"dry"}],` +
		`"stop_sequences":["z"]}`},
	"/embed":        {`{"inputs":["a"],"normalize":true,"truncate":false,"prompt_name":"p","truncation_direction":"Right","model":"m"}`},
	"/embed_all":    {`{"inputs":["a"],"prompt_name":"p","truncation_direction":"Right","model":"m"}`},
	"/embed_sparse": {`{"inputs":["a"],"prompt_name":"p","truncation_direction":"Right","model":"m"}`},
	"/embeddings":   {`{"input":["a"],"model":"m","encoding_format":"float","user":"u","dimensions":3}`},
	"/v1/embeddings": {
		`{"input":["a"],"model":"m","encoding_format":"float","user":"u","dimensions":3,"task":"t","input_type":"query"}`},
	"/rerank":     {`{"query":"q","texts":["a"],"raw_scores":false,"truncation_direction":"Right","model":"m"}`},
	"/v1/rerank":  {`{"query":"q","documents":["a",{"text":"b"}],"model":"m","top_n":1}`},
	"/v2/rerank":  {`{"query":"q","documents":["a"],"model":"m","top_n":1}`},
	"/similarity": {`{"inputs":{"source_sentence":"a","sentences":["b"]},"parameters":{"prompt_name":"p"},"model":"m"}`},
	"/v1/batches": {`{"input_file_id":"file-a","endpoint":"/v1/chat/completions","completion_window":"24h",` +
		`"metadata":{"k":"v"},"output_expires_after":{"anchor":"created_at","seconds":3600}}`},
	"/v1/batches/{batch_id}/cancel":      {`{}`},
	"/v1/responses/{response_id}/cancel": {`{}`},
	"/v1/load_lora_adapter":              {`{"lora_name":"l","lora_path":"p","base_model":"m","load_inplace":false}`},
	"/v1/unload_lora_adapter":            {`{"lora_name":"l","lora_int_id":1,"base_model":"m"}`},
	"/v1/models/import":                  {`{"model":"m","modelPath":"/srv/m","name":"n","option":"copy","id":"c","files":["f"]}`},
	"/v1/models/pull":                    {`{"model":"org/m","source":"s","id":"m","revision":"r","sha256":"00","files":["f"]}`},
	"/v1/models/start":                   {`{"model":"m","id":"m","settings":{"a":1}}`},
	"/v1/models/stop":                    {`{"model":"m","id":"m"}`},
	"/v1/models/{id}/start":              {`{"settings":{"a":1}}`},
	"/v1/models/{id}/stop":               {`{}`},
	"/v2/models/{model_name}/versions/{model_version}/infer": {`{"id":"i","inputs":[{"name":"input","shape":[1],` +
		`"datatype":"BYTES","data":[97],"parameters":{"a":1}}],"outputs":[{"name":"o"}],"parameters":{"max_new_tokens":2}}`},
	"/admin/reload":                  {``},
	"/admin/plugins/{name}/rollback": {`{"to":"3f8a"}`},
}

const (
	generateBody = `{"inputs":"a","model":"x","stream":false,"parameters":{"max_new_tokens":2,"adapter_id":"a","stop":["z"],` +
		`"truncate":4,"grammar":{"type":"regex","value":"a+","plugin":"grammar"},"plugins":[{"name":"dry","params":{"a":` +
		`"b"}}],"seed":1,"top_n_tokens":1,"guidance":{"prompt":"a","scale":1.5},"details":true,"logit_bias":{"1":1},` +
		`"explain":"receipt","return_full_text":false,"typical_p":0.5,"num_beams":1}}`
	toolBody = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":` +
		`{"a":{"type":"string","enum":["x"]}},"required":["a"]},"strict":true}}`
	chatBody = `{"model":"x","messages":[{"role":"user","name":"n","content":[{"type":"text","text":"a"}]},{"role":` +
		`"assistant","content":"c","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","content":"b","tool_call_id":"i"},{"role":"user","content":[{"type":"image_url","image_url":{"url":` +
		`"data:image/png;base64,aGk=","detail":"low"}}]}],"tools":[` + toolBody + `],"tool_choice":{"type":"function",` +
		`"function":{"name":"f"}},"max_tokens":2,"response_format":{"type":"json_schema","json_schema":{"name":"s",` +
		`"schema":{"type":"object"}}},"plugins":[{"name":"dry","params":{"a":"b"}}],"stop":["z"],"logit_bias":{"1":1},` +
		`"user":"u","service_tier":"auto","reasoning_effort":"low","stream":false,"stream_options":{"include_usage":` +
		`true},"chat_template_kwargs":{"a":"b"},"modalities":["text"],"prediction":{"type":"content","content":"c"},` +
		`"metadata":{"k":"v"},"tool_prompt":"t","guidance":{"prompt":"a","scale":1.5},"program":"p","explain":"receipt",` +
		`"prompt_cache_key":"k","verbosity":"low","guideline":"g"}`
	responsesBody = `{"model":"x","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},` +
		`{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"low"}]},{"type":"function_call",` +
		`"call_id":"i","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"i","output":"o"}],` +
		`"instructions":"s","tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},` +
		`"strict":true},{"type":"mcp","server_label":"l","server_url":"http://127.0.0.1","allowed_tools":["t"],` +
		`"require_approval":"never"}],"tool_choice":{"type":"function","name":"f"},"text":{"format":{"type":` +
		`"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"},"reasoning":{"effort":"low","summary":` +
		`"auto"},"include":["reasoning.encrypted_content"],"previous_response_id":"resp_a","conversation":"conv_a",` +
		`"store":false,"background":false,"stream":false,"truncation":"auto","metadata":{"k":"v"},"max_output_tokens":2,` +
		`"plugins":[{"name":"dry","params":{}}],"service_tier":"auto","user":"u","grammar":{"type":"regex","value":"a"}}`
	messagesBody = `{"model":"x","max_tokens":2,"system":[{"type":"text","text":"s","cache_control":{"type":` +
		`"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{` +
		`"type":"base64","media_type":"image/png","data":"aGk="}}]},{"role":"assistant","content":[{"type":"tool_use",` +
		`"id":"i","name":"f","input":{"a":1}},{"type":"thinking","thinking":"t","signature":"s"}]},{"role":"user",` +
		`"content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"r"}]}]}],"tools":[{"name":` +
		`"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"string"}}},"strict":true,` +
		`"type":"custom"}],"tool_choice":{"type":"tool","name":"f"},"mcp_servers":[{"type":"url","name":"m","url":` +
		`"http://127.0.0.1"}],"thinking":{"type":"enabled","budget_tokens":1024},"stop_sequences":["z"],"metadata":{` +
		`"user_id":"u"},"service_tier":"auto","output_config":{"format":{"type":"json_schema","schema":{"type":` +
		`"object"}}},"plugins":[{"name":"dry","params":{}}],"stream":false}`
)

// otherBodies are routes that take no JSON.
var otherBodies = []string{"/v1/files", "/api/blobs/{digest}", "/api/alive", "/api/ready"}

const (
	longValue  = 70_000
	longAnswer = 5 << 10 // what a plugin says has 4 KiB at most
)

// lengthened calls f with v, a value of JSON, in each way to have one long text in it, and with where that is: in the
// place of each value, behind each text, as a further member, and as a thousand members or entries.
func lengthened(v any, at string, f func(at string, v any)) {
	long := strings.Repeat("x", longValue)
	f(at, long)
	switch v := v.(type) {
	case string:
		if len(v) > 2 { // such as the beginning of an address
			f(at+" and more", v+long)
		}
	case map[string]any:
		one, many := maps.Clone(v), maps.Clone(v)
		one[long] = 1
		for i := range 1000 {
			many[fmt.Sprintf("%s%d", long[:60], i)] = "x"
		}
		f(at+".*", one)
		f(at+".**", many)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			lengthened(v[k], at+"."+k, func(at string, part any) {
				changed := maps.Clone(v)
				changed[k] = part
				f(at, changed)
			})
		}
	case []any:
		if len(v) > 0 {
			many := slices.Clone(v)
			for i := range 1000 {
				many = append(many, fmt.Sprintf("%s%d", long[:60], i))
			}
			f(at+"[*]", many)
		}
		for i := range v {
			lengthened(v[i], fmt.Sprintf("%s[%d]", at, i), func(at string, part any) {
				changed := slices.Clone(v)
				changed[i] = part
				f(at, changed)
			})
		}
	}
}

// baseMembers are those that a request needs, or that other members say something of.
var baseMembers = []string{"inputs", "input", "prompt", "prompts", "model", "messages", "max_tokens", "query", "texts",
	"documents", "request_id", "instances", "name", "source", "destination", "modelPath", "ids",
	"input_file_id", "endpoint", "completion_window", "lora_name", "lora_path"}

// sameReaders read the bodies of other routes.
var sameReaders = []string{"/", "/invocations", "/generate_stream", "/v1/completions/generate",
	"/v1/completions/generate_stream", "/v1/messages/count_tokens", "/v1/responses/input_tokens", "/chat_tokenize",
	"/vertex"}

// alone calls f with each member of a body and each entry of a list of it, and a function that gives what is made of
// it the members of the base alone, so that no other one is what is refused first.
func alone(body map[string]any, f func(at string, part any, in func(part any) any)) {
	base := map[string]any{}
	for k, v := range body {
		if slices.Contains(baseMembers, k) {
			base[k] = v
		}
	}
	if _, ok := base["messages"]; ok {
		base["messages"] = []any{map[string]any{"role": "user", "content": "a"}}
	}
	if items, ok := base["input"].([]any); ok && len(items) > 1 {
		base["input"] = "a"
	}
	for k, v := range body {
		with := func(part any) any {
			one := maps.Clone(base)
			one[k] = part
			return one
		}
		f("."+k, v, with)
		switch v := v.(type) {
		case []any:
			for i, entry := range v {
				f(fmt.Sprintf(".%s[%d]", k, i), entry, func(part any) any { return with([]any{part}) })
			}
		case map[string]any:
			for name, part := range v {
				f("."+k+"."+name, part, func(part any) any { return with(map[string]any{name: part}) })
			}
		}
	}
}

// TestLongValues: no answer repeats much of what a client sent, in whichever member of a body, place of a path or query
// of any route that is.
func TestLongValues(t *testing.T) {
	for _, strict := range []bool{false, true} {
		p := openChat(t, func(c *config.Config) {
			c.Server.Ollama, c.Server.StrictFields = true, strict
			c.Server.AdminKeys = []string{adminKey}
			c.Batches.Folder = t.TempDir()
			c.Limits.MaxInputTokens = 500
			c.Models.Hub = "http://127.0.0.1:1"
			for _, name := range []string{"dry", "grammar"} {
				c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
					OnError: config.OnErrorFail, Apply: config.ApplyRequest})
			}
		})
		seen := map[[32]byte]bool{}
		statuses := map[int]int{}
		send := func(method, path, where, body string) {
			t.Helper()
			got := p.as(t, "", method, path, body)
			if got.status == http.StatusUnauthorized {
				got = p.as(t, adminKey, method, path, body)
			}
			statuses[got.status]++
			size := 0
			for name, values := range got.header {
				for _, v := range values {
					size += len(name) + len(v)
				}
			}
			short := got.status >= http.StatusBadRequest || strings.HasPrefix(got.text, `data: {"error"`) ||
				where == ".model"
			if size > longAnswer || len(got.text) > longAnswer && short {
				t.Errorf("%s %.60s, %.60s: %d, a header of %d bytes and %d bytes: %.300s", method, path, where, got.status,
					size, len(got.text), got.text)
			}
		}
		var document struct{ Paths map[string]map[string]any }
		served := p.as(t, "", http.MethodGet, "/api-doc/openapi.json", "").text
		if err := json.Unmarshal([]byte(served), &document); err != nil {
			t.Fatal(err)
		}
		ids := strings.Repeat("x", 60_000) // a header has 64 KiB at most
		for _, path := range []string{"", "/canary", "/canary/promote", "/versions", "/rollback", "/log"} {
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
				send(method, "/admin/plugins/"+ids+path, "path", "")
				send(method, "/admin/plugins/y"+path+"?"+ids+"=1", "query", "")
				for _, q := range []string{"keys", "apply", "on_error", "on_full", "config", "share", "to", "level",
					"lines", "promote_after", "shadow", "limits.memory", "limits.share", "limits.fuel_load",
					"limits.time_load"} {
					send(method, "/admin/plugins/y"+path+"?"+q+"="+ids, "query "+q, "")
				}
			}
		}
		for path, operations := range document.Paths {
			for method := range operations {
				method = strings.ToUpper(method)
				before, rest, variable := strings.Cut(path, "{")
				whole := path
				if variable {
					_, after, _ := strings.Cut(rest, "}")
					after = strings.NewReplacer("{item_id}", "y", "{model_version}", "1").Replace(after)
					send(method, before+ids+after, "path", "{}")
					whole = before + "y" + after
				}
				send(method, whole+"?"+ids+"=1", "query", "{}")
				send(method, whole+"?after="+ids+"&limit="+ids+"&order="+ids, "query", "{}")
				bodies, known := longBodies[path]
				if !known && method == http.MethodPost && !slices.Contains(otherBodies, path) {
					t.Errorf("POST %s has no body here", path)
				}
				if method == http.MethodGet {
					continue
				}
				for _, body := range bodies {
					var v map[string]any
					if err := json.Unmarshal([]byte(body), &v); err != nil {
						t.Fatalf("%s: %v", path, err)
					}
					once := func(at string, v any) {
						text, err := json.Marshal(v)
						if err != nil {
							t.Fatal(err)
						}
						// Strict fields are about members that nobody knows.
						sum := sha256.Sum256(append(text, method+whole...))
						if !seen[sum] && (!strict || strings.HasSuffix(at, ".**")) {
							seen[sum] = true
							send(method, whole, at, string(text))
						}
					}
					lengthened(v, "", once)
					if slices.Contains(sameReaders, path) {
						continue
					}
					alone(v, func(at string, part any, in func(any) any) {
						once(at, in(part))
						lengthened(part, at, func(at string, part any) { once(at, in(part)) })
					})
				}
			}
		}
		t.Logf("strict %v: %v", strict, statuses)
	}
}
