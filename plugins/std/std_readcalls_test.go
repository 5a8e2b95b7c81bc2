package std_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// TestReadCalls: in a text of each format, as a template wrote it, with markers that are special tokens and with none,
// no place inside a call is one where something may be put: where the parser says that there is none, the calls are
// whole with a text put there. Behind the last call it says that there are some.
func TestReadCalls(t *testing.T) {
	const hint = "\nTime is up.\n"
	data, err := os.ReadFile("toolcalls/testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var goldens struct {
		Rendered []struct {
			Preset, Text string
			Calls        []struct{ Name string }
		}
	}
	if err := json.Unmarshal(data, &goldens); err != nil {
		t.Fatal(err)
	}
	texts, presets := map[string]string{}, []string(nil)
	tools := map[string]bool{}
	for _, r := range goldens.Rendered {
		if texts[r.Preset] == "" && len(r.Calls) == 1 {
			texts[r.Preset], presets = r.Text, append(presets, r.Preset)
			tools[r.Calls[0].Name] = true
		}
	}
	var offered []string
	for name := range tools {
		offered = append(offered, `{"type":"function","function":{"name":"`+name+`"}}`)
	}
	request := []byte(`{"tools":[` + strings.Join(offered, ",") + `],"tool_choice":"auto","parallel_tool_calls":true,` +
		`"prompt_end":""}`)
	var specs []plugins.Spec
	for _, name := range presets {
		specs = append(specs, plugins.Spec{Name: strings.ReplaceAll(name, ".", "-"), Source: "builtin:toolcalls",
			Config: []byte(`{"format":"` + name + `"}`)})
	}
	for _, v := range []marked{{}, specials} {
		set, err := plugins.Open(t.Context(), plugins.Options{Specs: specs, Builtin: std.FS(), Vocabulary: v,
			CacheDir: testcache.Dir()})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		for _, name := range presets {
			pick := plugins.ChatPlugins{Tools: strings.ReplaceAll(name, ".", "-")}
			chat, _, err := set.BindChat(t.Context(), nil, pick)
			if err != nil {
				t.Fatal(err)
			}
			made := func(tokens []uint32) (n int) {
				p, err := chat.Parser(t.Context(), request, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				count := func(events []plugins.Event, err error) {
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range events {
						if e.Kind == llm.DeltaEnd {
							n++
						}
					}
				}
				for _, id := range tokens {
					count(p.Feed(string(v.Bytes(id)), v.Flags(id)&abi.TokenSpecial != 0))
				}
				count(p.Finish(false))
				return n
			}
			all, inside := v.Encode(texts[name]), 0
			for i := range len(all) + 1 {
				state, size, err := chat.ReadCalls(t.Context(), request, all[:i])
				if err != nil || size > len(texts[name]) {
					t.Fatal(name, i, size, err)
				}
				switch {
				case state == abi.CallsOpen:
					inside++
				case len(strings.TrimSpace(string(bytesOf(v, all[:i])))) == 0: // formats without a marker begin a text
				case state == abi.CallsNone && made(append(append(append([]uint32(nil), all[:i]...), v.Encode(hint)...),
					all[i:]...)) != 1:
					t.Errorf("%s, %d special tokens: no call behind %q, one does not survive %q there", name, len(v),
						bytesOf(v, all[:i]), hint)
				case state == abi.CallsMade && made(all[:i]) != 1:
					t.Errorf("%s: a call behind %d tokens of %q", name, i, texts[name])
				}
			}
			state, _, err := chat.ReadCalls(t.Context(), request, append(all, v.Encode("\nIt is.")...))
			if err != nil || inside < len(all)/4 || inside == len(all)+1 || state == abi.CallsNone {
				t.Errorf("%s: %d of %d places are inside, the end is %d, %v", name, inside, len(all), state, err)
			}
			chat.Close()
		}
	}
}

func bytesOf(v marked, tokens []uint32) (out []byte) {
	for _, id := range tokens {
		out = append(out, v.Bytes(id)...)
	}
	return out
}
