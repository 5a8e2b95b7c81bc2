package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRepairsWildBytes: what a model at a high temperature writes has bytes that are no character. json-repair takes
// them back like other mistakes.
func TestRepairsWildBytes(t *testing.T) {
	p := openChat(t, withPrograms)
	for seed := range 80 {
		status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"model":"x",`+
			`"max_tokens":60,"temperature":2.5,"seed":%d,"messages":[{"role":"user","content":"Who lives in the old `+
			`mill?"}],"plugins":[{"name":"json-repair","params":{"tries":8}}]}`, seed))
		text := textOf(string(reply))
		cut := strings.Contains(string(reply), `"finish_reason":"length"`)
		if status != http.StatusOK || !json.Valid([]byte(text)) && !cut {
			t.Errorf("seed %d: %d %q: %s", seed, status, text, reply)
		}
	}
}
