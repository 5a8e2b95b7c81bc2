package host

import (
	"bytes"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestListsAllocateLittle: of a body that lists very many small things no more is made than it counts for in the memory
// of all bodies, within a small factor: what is allocated lives until the collector comes by.
func TestListsAllocateLittle(t *testing.T) {
	const size, most = 1_900_000, 4
	p := openChat(t, nil)
	for _, c := range []struct{ path, before, each, after string }{
		{"/v1/completions", `{"prompt":[`, `[1]`, `]}`},
		{"/v1/completions", `{"prompt":[`, `""`, `]}`},
		{"/v1/completions", `{"prompt":[`, `1`, `]}`},
		{"/v1/completions", `{"prompt":"a","stop":[`, `"a"`, `]}`},
		{"/generate", `{"inputs":"a","parameters":{"stop":[`, `"a"`, `]}}`},
		{"/vertex", `{"instances":[`, `{"inputs":"a"}`, `]}`},
		{"/v2/models/tgi-demo/versions/1/infer", `{"id":"a","inputs":[`, `{"name":"a","shape":[],"datatype":"","data":[]}`,
			`],"outputs":[]}`},
		{"/v2/models/tgi-demo/versions/1/infer", `{"id":"a","inputs":[{"name":"a","shape":[],"datatype":"","data":[`, `1`,
			`]}],"outputs":[]}`},
		{"/api/generate-batch", `{"prompts":[`, `""`, `]}`},
		{"/api/generate-batch", `{"requests":[`, `{}`, `]}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"plugins":[`, `{"name":"x"}`, `]}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[`,
			`{"type":"function","function":{"name":"a"}}`, `]}`},
		{"/v1/chat/completions", `{"tool_choice":"x","messages":[`, `{"role":"user","content":""}`, `]}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[`, `{"type":"image_url"}`, `]}]}`},
	} {
		n := (size - len(c.before) - len(c.after)) / (len(c.each) + 1)
		body := []byte(c.before + strings.TrimSuffix(strings.Repeat(c.each+",", n), ",") + c.after)
		counted := len(body)
		for _, mark := range ",[{" {
			counted += 48 * bytes.Count(body, []byte(string(mark)))
		}
		// What else runs in the process allocates too: the least of some tries is the call's own.
		var ratio float64
		var status int
		var text string
		for try := 0; try < 4 && (try == 0 || ratio > most); try++ {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			status, text = p.call(t, http.MethodPost, c.path, body)
			runtime.ReadMemStats(&after)
			ratio = float64(after.TotalAlloc-before.TotalAlloc) / float64(counted)
		}
		if ratio > most || status < 400 || status == http.StatusNotFound {
			t.Errorf("%s %s%s: %d bytes, counts for %d, took %.1f times as many: %d %.200s", c.path, c.before, c.each,
				len(body), counted, ratio, status, text)
		}
	}
}
