package host

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestUnknownFields: members that mean nothing are named in the header of each API, or refused by its name for them.
func TestUnknownFields(t *testing.T) {
	requests := map[string]string{
		"/generate":            `{"inputs":"a","parameters":{"max_new_tokens":1,"max_newtokens":2},"x\u0001y":1}`,
		"/generate_stream":     `{"inputs":"a","parameters":{"max_new_tokens":1,"max_newtokens":2}}`,
		"/v1/completions":      `{"prompt":"a","max_tokens":1,"user":"u","max_newtokens":2}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a","x":1}],"max_tokens":1,"max_newtokens":2,"stream":true}`,
		"/v1/responses":        `{"input":"a","max_output_tokens":1,"metadata":{},"max_newtokens":2}`,
		"/v1/messages": `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":1,"max_newtokens":2,` +
			`"metadata":{"user_id":"u"}}`,
		"/api/chat": `{"model":"m","messages":[{"role":"user","content":"a"}],"options":{"num_predict":1},"max_newtokens":2}`,
		"/api/generate-one": `{"request_id":"a","prompt":"a","plugins":[{"name":"x"}],` +
			`"generation_config":{"max_new_tokens":1,"max_newtokens":2}}`,
		"/api/generate-batch": `{"prompts":[{"request_id":"b","prompt":"a","max_newtokens":2}],` +
			`"generation_config":{"max_new_tokens":1}}`,
		"/vertex": `{"instances":[{"inputs":"a","user":"u","parameters":{"max_new_tokens":1,"max_newtokens":2}},` +
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"max_newtokens":2}]}`,
		"/v2/models/m/versions/1/infer": `{"id":"i","parameters":{"max_new_tokens":1,"max_newtokens":2},` +
			`"outputs":[{"name":"o"}],"inputs":[{"name":"i","shape":[1,1],"datatype":"BYTES","data":[97]}]}`,
	}
	for _, strict := range []bool{false, true} {
		c := chatConfig()
		c.Server.StrictFields, c.Server.Ollama = strict, true
		h := openServer(t, c)
		for path, body := range requests {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			named := rec.Header().Get("X-Ignored-Fields")
			ok := rec.Code == http.StatusOK || path == "/api/generate-batch" && rec.Code == http.StatusPartialContent
			switch {
			case !strict && (!ok || !strings.Contains(named, "max_newtokens") ||
				strings.ContainsAny(named, "\x01\n") || strings.Contains(named, "user")):
				t.Errorf("%s: %d, named are %q: %s", path, rec.Code, named, rec.Body)
			case strict && (ok && path != "/generate_stream" ||
				!strings.Contains(rec.Body.String(), "max_newtokens` is not known here")):
				t.Errorf("%s, strictly: %d %s", path, rec.Code, rec.Body)
			}
		}
	}
}
