package std_test

import (
	"fmt"
	"strings"
	"testing"

	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/plugins/std/toolcalls"
)

// TestConstraintOfGuest: the plugin as the server loads it says what texts are held to, with the markers that are
// special tokens as tokens, and the grammar's plugin compiles it.
func TestConstraintOfGuest(t *testing.T) {
	var specs []plugins.Spec
	specs = append(specs, plugins.Spec{Name: "grammar", Source: "builtin:grammar"})
	for _, name := range toolcalls.Presets() {
		specs = append(specs, plugins.Spec{Name: strings.ReplaceAll(name, ".", "-"), Source: "builtin:toolcalls",
			Config: []byte(`{"format":"` + name + `"}`)})
	}
	set, err := plugins.Open(t.Context(), plugins.Options{
		Specs: specs, Builtin: std.FS(), Vocabulary: specials, CacheDir: testcache.Dir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	const request = `{"tools":[{"type":"function","function":{"name":"now","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}}],` +
		`"tool_choice":"required","parallel_tool_calls":false,"prompt_end":""}`
	for _, name := range toolcalls.Presets() {
		chat, _, err := set.BindChat(t.Context(), nil, plugins.ChatPlugins{Tools: strings.ReplaceAll(name, ".", "-")})
		if err != nil {
			t.Fatal(err)
		}
		c, err := chat.Constraint(t.Context(), []byte(request))
		chat.Close()
		if err != nil || c == nil || c.Language != "structural_tag" || len(c.Places) == 0 || c.Optional {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		f, _ := toolcalls.Preset(name)
		for _, m := range append(f.Section.Begin, f.Call.Begin...) {
			if pieces := specials.split(m); len(pieces) == 1 && pieces[0].Special &&
				!strings.Contains(c.Source, `{"type":"token","token":"`+m+`"}`) {
				t.Errorf("%s: %s is a special token: %s", name, m, c.Source)
			}
		}
		g, err := set.Compile(t.Context(), plugins.GrammarCall{Language: c.Language, Source: []byte(c.Source),
			Params: c.Params})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g.Close()
	}
}

// TestConstraintFuel: the largest tools that messages are held to, and larger ones, are within the fuel of a plugin's
// call.
func TestConstraintFuel(t *testing.T) {
	var specs []plugins.Spec
	formats := []string{"hermes", "deepseek-v3.1", "qwen3-coder", "deepseek-v3.2", "lfm2", "gpt-oss"}
	plugin := func(format string) string { return strings.ReplaceAll(format, ".", "-") }
	for _, name := range formats {
		specs = append(specs, plugins.Spec{Name: plugin(name), Source: "builtin:toolcalls",
			Config: []byte(`{"format":"` + name + `"}`)})
	}
	set, err := plugins.Open(t.Context(), plugins.Options{Specs: specs, Builtin: std.FS(), Vocabulary: specials,
		CacheDir: testcache.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	wide := func(n int, schema string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"p%d":%s`, i, schema)
		}
		return `{"type":"object","properties":{` + strings.Join(list, ",") + `}}`
	}
	for name, c := range map[string]struct {
		n      int
		schema string
	}{
		"many tools": {180, `{}`}, "tools": {90, wide(8, `{"type":"string","description":"`+strings.Repeat("x", 100)+
			`"}`)}, "parameters": {1, wide(795, `{}`)},
		"strings": {1, wide(398, `{"type":["string","null"],"description":"x"}`)},
		"bytes":   {1, `{"description":"` + strings.Repeat("x", 180<<10) + `"}`}, "members": {1, wide(20000, `0`)},
	} {
		tools := make([]string, c.n)
		for i := range tools {
			tools[i] = fmt.Sprintf(`{"type":"function","function":{"name":"f%d","parameters":%s}}`, i, c.schema)
		}
		request := []byte(`{"tools":[` + strings.Join(tools, ",") +
			`],"tool_choice":"required","parallel_tool_calls":true,"prompt_end":""}`)
		for _, format := range formats {
			chat, _, err := set.BindChat(t.Context(), nil, plugins.ChatPlugins{Tools: plugin(format)})
			if err != nil {
				t.Fatal(err)
			}
			before, _ := set.Get(plugin(format))
			g, err := chat.Constraint(t.Context(), request)
			after, _ := set.Get(plugin(format))
			if chat.Close(); err != nil || g == nil {
				t.Errorf("%s, %s: %v after %d M fuel", name, format, err, (after.Stats.Fuel-before.Stats.Fuel)/1e6)
			}
		}
	}
}
