package generateapi

import "testing"

// TestGenerateAPIUnknown: members that mean nothing are named, by HTTP in the header and on a socket in the first
// event.
func TestGenerateAPIUnknown(t *testing.T) {
	k := newKit(t)
	a := k.ask(t, "a", " ", `"generation_config":{"max_newtokens":1},"plugins":[{"name":"dry"}],"prompts":1`)
	if got := a.Header.Get("X-Ignored-Fields"); got != "generation_config.max_newtokens, plugins, prompts" {
		t.Errorf("named are %q: %d %s", got, a.StatusCode, a.text)
	}
	a = k.do(t, "POST", "/api/generate-batch",
		`{"prompts":[{"request_id":"b","é":1},{"request_id":"c","é":1}],"prompt":""}`)
	if got := a.Header.Get("X-Ignored-Fields"); got != `prompts.\u00e9, prompt` {
		t.Errorf("named are %q: %d %s", got, a.StatusCode, a.text)
	}
	if a = k.ask(t, "d", " ", ""); a.Header["X-Ignored-Fields"] != nil {
		t.Errorf("named are %q", a.Header["X-Ignored-Fields"])
	}
	c := k.dial(t)
	say(t, c, `{"prompts":[{"request_id":"s","prompt":" "}],"x":1,"é":2,"stream_response":false}`)
	expect(t, c,
		`[{"request_id": "s", "ignored_fields": ["x", "\u00e9"], "type": "ACCEPTED"}]`,
		`[{"request_id": "s", "type": "STARTED"}]`,
		`[{"request_id": "s", "text": "Nothing was asked.</s>", "is_eos": true, "new_tokens_count": 19, `+
			`"execution_time": T, "type": "COMPLETE"}]`)
}

// TestGenerateAPIStrict: where such members are refused, the id is free again and its text as it was.
func TestGenerateAPIStrict(t *testing.T) {
	k := newKit(t)
	k.model.Service.WithStrictFields()
	const want = "`x` is not known here (server.strict_fields)"
	if a := k.ask(t, "a", dogs, `"generation_config":{"max_new_tokens":6}`); a.text != "Tails " {
		t.Fatalf("%q", a.text)
	}
	if a := k.ask(t, "a", "", `"x":1`); a.StatusCode != 400 || a.text != want {
		t.Errorf("%d %q", a.StatusCode, a.text)
	}
	c := k.dial(t)
	say(t, c, `{"prompts":[{"request_id":"s","prompt":" "}],"x":1}`)
	expect(t, c,
		`[{"request_id": "s", "ignored_fields": ["x"], "type": "ACCEPTED"}]`,
		`[{"request_id": "s", "type": "ERROR", "error": "`+want+`"}]`)
	if a := k.ask(t, "a", "", `"generation_config":{"max_new_tokens":7}`); a.text != "wagging" {
		t.Errorf("%d %q", a.StatusCode, a.text)
	}
}
