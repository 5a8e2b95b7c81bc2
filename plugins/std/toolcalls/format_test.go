package toolcalls

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func marshal(t testing.TB, f *Format) []byte {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFormatJSON: every preset passes its check, and is the same after JSON.
func TestFormatJSON(t *testing.T) {
	for _, f := range presets {
		back, err := ReadFormat(marshal(t, f))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		if !reflect.DeepEqual(back, f) {
			t.Errorf("%s: after JSON\n%+v\nwant\n%+v", f.Name, back, f)
		}
	}
}

// TestFormatErrors: a format that can't work says what is wrong with it.
func TestFormatErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{`, "ends too early"},
		{`{} {}`, "something follows"},
		{`{"nam": "x"}`, `unknown field "nam"`},
		{`{"name": "x"}`, `"x": 0 bodies`},
		{`{"bare": "[", "python": {}, "json": {"name_keys": ["a"]}}`, "2 bodies"},
		{`{"python": {}}`, "no call would ever be seen"},
		{`{"bare": "{", "json": {"name_keys": ["name"]}}`, "json.argument_keys is missing"},
		{`{"bare": "{", "json": {}}`, "json.name_keys is missing"},
		{`{"bare": "{", "json": {"name_keys": ["name"], "flat": true}}`, "json.wrap is missing"},
		{`{"bare": "{", "fence": {"begin": ["f"]}, "python": {}}`, "fence needs json"},
		{`{"bare": "[", "fence": {"begin": ["f"]}, "json": {"name_keys": ["a"], "argument_keys": ["b"]}}`,
			"fence needs json, and bare"},
		{`{"bare": "{", "json": {"name_keys": ["a"], "argument_keys": ["b"], "plain_keys": ["c"]}}`,
			"json.plain_keys needs json.flat"},
		{`{"bare": "{", "json": {"name_keys": ["a"], "flat": true, "wrap": ["w"], "plain_keys": ["c"]}}`,
			"json.plain_keys needs json.flat and json.argument_keys"},
		{`{"call": {"begin": [""]}, "python": {}}`, "call.begin: a marker of 0 bytes"},
		{`{"call": {"begin": ["a"]}, "tagged": {}}`, "call.end is missing"},
		{`{"bare": "[", "python": {}, "ids": "ten"}`, `ids is "ten"`},
		{`{"bare": "[", "python": {}, "reasoning": {"begin": ["<t>"]}}`, "reasoning.end is missing"},
		{`{"channels": {"start": "<s>", "channel": "<c>", "message": "` + strings.Repeat("m", 129) +
			`", "end": ["<e>"], "recipient": "to="}}`,
			"channels: a marker of 129 bytes"},
		{`{"channels": {"start": "<s>"}}`, "channels.channel is missing"},
	} {
		_, err := ReadFormat([]byte(c.text))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want ErrFormat with %q", c.text, err, c.want)
		}
	}
}

// TestOwnFormat: a format that no preset has, from JSON.
func TestOwnFormat(t *testing.T) {
	f, err := ReadFormat([]byte(`{
		"name": "hunyuan-like",
		"reasoning": {"begin": ["<think>"], "end": ["</think>"]},
		"section": {"begin": ["<tool_calls>"], "end": ["</tool_calls>"]},
		"call": {"begin": ["<tool_call>"], "end": ["</tool_call>"]},
		"tagged": {"name_end": ["<tool_sep>"], "open": ["<arg_key>"], "open_end": ["</arg_key>"],
			"value_open": ["<arg_value>"], "close": ["</arg_value>"], "guess_types": true}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	text := "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>\n</tool_calls>"
	got := written(feed(New(f, Options{Tools: testTools(t)}), text))
	if want := "arguments 0 {\"city\": \"Paris\"}\nend 0"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at the end\n%s", got, want)
	}
}
