package std_test

import (
	"context"
	"errors"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/plugins/template"
	"tgi/sdk/abi"
)

// TestBindChat: both plugins serve a chat request the way the server loads and calls them.
func TestBindChat(t *testing.T) {
	ctx := context.Background()
	set, err := plugins.Open(ctx, plugins.Options{
		Specs: []plugins.Spec{{Name: "jinja", Source: "builtin:jinja"},
			{Name: "toolcalls", Source: "builtin:toolcalls"},
			{Name: "mistral", Source: "builtin:toolcalls", Config: []byte(`{"format":"mistral"}`)}},
		Builtin: std.FS(), Vocabulary: words{kit.NewWorld()}, CacheDir: testcache.Dir(),
		Model: marshal(t, object{"tokens": object{"bos_token": "<s>"}, "templates": object{
			"default": "{{ bos_token }}{% for m in messages %}{% if m.role == 'x' %}{{ raise_exception('no role ' ~ m.role) }}{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{# <tool_call> #}"}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	chat, rest, err := set.BindChat(ctx, []plugins.Call{{Name: "mistral"}}, plugins.ChatPlugins{Template: "jinja",
		Tools: "toolcalls"})
	if err != nil || len(rest) > 0 {
		t.Fatal(rest, err)
	}
	defer chat.Close()
	r, err := chat.Render(ctx, []byte(`{"messages":[{"role":"user","content":"<s>"}]}`))
	if err != nil || r.Text != "<s><|user|><s>" || len(r.Data) != 1 ||
		r.Data[0] != (template.Span{Start: 11, End: 14}) {
		t.Errorf("%+v, %v", r, err)
	}
	var no *plugins.RenderRefusal
	if _, err := chat.Render(ctx, []byte(`{"messages":[{"role":"x"}]}`)); !errors.As(err, &no) ||
		no.Text != "no role x" {
		t.Errorf("%v, want the template's refusal", err)
	}
	p, err := chat.Parser(ctx,
		[]byte(`{"tools":[{"type":"function","function":{"name":"now"}}],"tool_choice":"auto","parallel_tool_calls":true,"prompt_end":""}`), 7)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	events, err := p.Feed("[TOOL_CALLS]", true)
	if err != nil || len(events) > 0 {
		t.Fatal(events, err)
	}
	events, err = p.Feed(`[{"name": "now", "arguments": {}}]`, false)
	if err != nil || len(events) != 3 || events[0].Kind != abi.EventBegin || len(events[0].ID) != 9 {
		t.Errorf("%+v, %v", events, err)
	}
	if events, err := p.Finish(false); err != nil || len(events) > 0 {
		t.Errorf("%+v, %v", events, err)
	}
}
