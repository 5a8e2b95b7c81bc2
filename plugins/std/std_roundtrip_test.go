package std_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/plugins/std/toolcalls"
	"tgi/sdk/abi"
)

// TestRoundTrip: a call that a model's own template renders, as a turn of the assistant, is parsed back to the same
// call, by the format that is found from the template. Both plugins run in the sandbox.
func TestRoundTrip(t *testing.T) {
	long.Test(t)
	offered, err := os.ReadFile("toolcalls/testdata/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	arguments := object{"city": "São Paulo", "unit": "celsius"}
	call := object{"role": "assistant", "content": "", "tool_calls": []object{
		{"id": "abcdefghi", "type": "function", "function": object{"name": "get_weather", "arguments": arguments}}}}
	user := object{"role": "user", "content": "What is the weather?"}
	sources := map[string]string{}
	err = filepath.WalkDir("jinja/testdata/templates", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jinja") {
			var src []byte
			src, err = os.ReadFile(path)
			if _, ok := toolcalls.Detect(string(src)); ok {
				sources[strings.TrimPrefix(filepath.ToSlash(path), "jinja/testdata/templates/")] = string(src)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g := renders(t, object{"model": object{"tokens": tokens, "templates": sources}})
	o, done := parses(t, object{}), map[string]int{}
	for name, src := range sources {
		render := func(prompt bool, messages ...object) string {
			r, err := rendered(t, g, marshal(t, object{"messages": messages, "tools": json.RawMessage(offered),
				"add_generation_prompt": prompt,
				"template":              name, "now": "2025-07-10T15:06:07Z"}))
			if err != nil {
				t.Logf("%s: %v", name, err)
			}
			return r.Text
		}
		preset, _ := toolcalls.Detect(src)
		prompt := render(true, user)
		full := render(false, user, call)
		at := 0 // where the turn begins: some prompts end with <think>, and no turn of the past does
		for at < min(len(prompt), len(full)) && prompt[at] == full[at] {
			at++
		}
		for at < len(prompt) && at > 0 && !strings.ContainsRune("\n>]", rune(full[at-1])) { // inside a marker
			at--
		}
		turn := full[at:]
		if !strings.Contains(turn, "get_weather") {
			t.Logf("%s (%s): shows no calls", name, preset)
			continue
		}
		prompt = prompt[:at]
		f, _ := toolcalls.Preset(preset)
		request := marshal(t, object{"tools": json.RawMessage(offered), "tool_choice": "auto",
			"parallel_tool_calls": true, "prompt_end": prompt[max(0, len(prompt)-200):]})
		got, name2 := object{}, ""
		ended := 0
		for _, e := range parsed(t, o, request, marshal(t, object{"format": preset}), special(t, f, turn)) {
			switch e.Kind {
			case abi.EventBegin:
				name2 = e.Name
			case abi.EventArguments:
				if err := json.Unmarshal([]byte(e.Text), &got); err != nil {
					t.Error(err)
				}
			case abi.EventEnd:
				ended++
			}
		}
		if ended != 1 || name2 != "get_weather" || !reflect.DeepEqual(got, arguments) {
			t.Errorf("%s (%s): %d calls, %s %v of %q", name, preset, ended, name2, got, turn)
			continue
		}
		done[preset]++
	}
	t.Logf("%d presets: %v", len(done), done)
	if len(done) < 13 {
		t.Errorf("calls of %d presets came back, want 13", len(done))
	}
}
