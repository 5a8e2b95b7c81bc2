package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/api/admin"
)

// TestCanary: a canary over HTTP: begun, shown, aborted by its faults, ended, promoted.
func TestCanary(t *testing.T) {
	p := openPlugged(t, nil)
	p.upload(t, "mine", when([]byte{0x01}).wasm())
	want := func(method, path string, body []byte, status int, says string) string {
		t.Helper()
		got, text := p.call(t, method, "/admin/plugins/"+path, body)
		if got != status || !strings.Contains(text, says) {
			t.Fatalf("%s %s: %d %s, want %d %s", method, path, got, text, status, says)
		}
		return text
	}
	show := func() (c admin.Canary) {
		t.Helper()
		if err := json.Unmarshal([]byte(want("GET", "mine/canary", nil, 200, "")), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	generate := func(params string) (int, string) {
		return p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
			`{"inputs":"Once","parameters":{"max_new_tokens":2,"plugins":[{"name":"mine","params":%s}]}}`, params))
	}
	bad := when([]byte{unreached})
	bad.description = strings.Replace(bad.description, `"version":"1"`, `"version":"bad"`, 1)
	want("GET", "mine/canary", nil, 404, "has no canary")
	want("DELETE", "mine/canary", nil, 404, "has no canary")
	want("POST", "mine/canary/promote", nil, 404, "has no canary")
	want("PUT", "other?canary=10", bad.wasm(), 404, "other")
	want("PUT", "mine?canary=0", bad.wasm(), 422, "whole number from 1 to 100")
	want("PUT", "mine?canary=101", bad.wasm(), 422, "whole number from 1 to 100")
	want("PUT", "mine?canary_faults=3", bad.wasm(), 422, "goes with canary")
	want("PUT", "mine?canary=1&dry_run", bad.wasm(), 422, "do not go together")
	want("PUT", "mine?canary=100&canary_faults=2", bad.wasm(), 201, `"percent":100,"abort_after":2`)
	if status, text := generate("{}"); status != 200 {
		t.Fatal(status, text)
	}
	for range 2 {
		if status, text := generate(`{"a":1}`); status != 424 {
			t.Fatal(status, text)
		}
	}
	c := show()
	if c.State != admin.CanaryAborted || c.Faulty != 2 || c.Bound != 3 || c.Canary.Faults["trap"] != 2 ||
		c.Canary.Version != "bad" || c.Serving.Version == "bad" || c.Canary.SHA256 != moduleSum(bad.wasm()) {
		t.Errorf("%+v", c)
	}
	if status, text := generate(`{"a":1}`); status != 200 {
		t.Error("after the abort:", status, text)
	}
	want("POST", "mine/canary/promote", nil, 422, "was aborted")
	want("DELETE", "mine/canary", nil, 204, "")
	want("GET", "mine/canary", nil, 404, "has no canary")

	good := when([]byte{0x01, 0x01})
	good.description = strings.Replace(good.description, `"version":"1"`, `"version":"good"`, 1)
	want("PUT", "mine?canary=100", good.wasm(), 201, `"abort_after":3`)
	if status, text := generate(`{"a":1}`); status != 200 {
		t.Error(status, text)
	}
	if c := show(); c.State != admin.CanaryRuns || c.Bound != 1 || c.Canary.Calls == 0 || c.Serving.Calls != 0 {
		t.Errorf("%+v", c)
	}
	want("POST", "mine/canary/promote", nil, 200, `"version":"good"`)
	want("GET", "mine/canary", nil, 404, "has no canary")
	want("GET", "mine/versions", nil, 200, `"version":"good"`)
	want("POST", "mine/rollback", nil, 200, `"version":"1"`)
}
