package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCheckChatMember: each member takes what its reader takes.
func TestCheckChatMember(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"temperature", "0.5", ""},
		{"temperature", `"abc"`, `invalid type: string "abc", expected f32`},
		{"max_tokens", "-1", "invalid value: integer `-1`, expected u32"},
		{"stop", `["a"]`, ""},
		{"stop", "7", "invalid type"},
		{"nothing", "1", "no such member"},
	} {
		err := CheckChatMember(c.name, json.RawMessage(c.value))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s %s: got %v, want %s", c.name, c.value, err, c.want)
		}
	}
	for _, name := range ChatMembers() {
		if err := CheckChatMember(name, json.RawMessage("1e")); err == nil {
			t.Errorf("%s takes what is not JSON", name)
		}
	}
}
