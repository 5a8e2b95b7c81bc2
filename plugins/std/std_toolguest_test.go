package std_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/plugins"
	"tgi/plugins/std"
	"tgi/plugins/std/toolcalls"
)

// TestConstraintOfGuest: the plugin as the server loads it says what texts are held to, with the markers that are special tokens
// as tokens, and the grammar's plugin compiles it.
func TestConstraintOfGuest(t *testing.T) {
	var specs []plugins.Spec
	specs = append(specs, plugins.Spec{Name: "grammar", Source: "builtin:grammar"})
	for _, name := range toolcalls.Presets() {
		specs = append(specs, plugins.Spec{Name: strings.ReplaceAll(name, ".", "-"), Source: "builtin:toolcalls", Config: []byte(`{"format":"` + name + `"}`)})
	}
	set, err := plugins.Open(t.Context(), plugins.Options{
		Specs: specs, Builtin: std.FS(), Vocabulary: specials, CacheDir: filepath.Join(os.TempDir(), "tgi-test-modules"),
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
			if pieces := specials.split(m); len(pieces) == 1 && pieces[0].Special && !strings.Contains(c.Source, `{"type":"token","token":"`+m+`"}`) {
				t.Errorf("%s: %s is a special token: %s", name, m, c.Source)
			}
		}
		g, err := set.Compile(t.Context(), plugins.GrammarCall{Language: c.Language, Source: []byte(c.Source), Params: c.Params})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g.Close()
	}
}
