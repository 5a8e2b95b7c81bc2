package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/server/client/call"
	"tgi/server/generate"
)

// carriers are replies with a receipt, one of each API that has them.
var carriers = []struct{ path, body, reply string }{
	{"/generate", `{"inputs": "a", "parameters": {"seed": 7}}`, `{"generated_text": "b", "details": {"receipt": RECEIPT}}`},
	{"/generate_stream", `{"inputs": "a", "parameters": {"seed": 7}}`,
		"data: {\"token\": {\"text\": \"b\"}, \"generated_text\": \"b\", \"details\": {\"receipt\": RECEIPT}}\n\n"},
	{"/v1/chat/completions", `{"seed": 7}`, `{"choices": [{"message": {"content": "b"}}], "receipts": [RECEIPT]}`},
	{"/v1/chat/completions", `{"seed": 7, "stream": true}`,
		"data: {\"choices\": [{\"delta\": {\"content\": \"b\"}}], \"receipts\": [RECEIPT]}\n\ndata: [DONE]\n\n"},
	{"/v1/completions", `{"seed": 7}`, `{"choices": [{"text": "b"}], "receipts": [RECEIPT]}`},
	{"/v1/responses", `{"seed": 7}`, `{"output": [{"type": "message", "content": [{"text": "b"}]}], "receipt": RECEIPT}`},
	{"/v1/responses", `{"seed": 7, "stream": true}`,
		"data: {\"type\": \"response.output_text.delta\", \"delta\": \"b\"}\n\n" +
			"data: {\"type\": \"response.completed\", \"response\": {\"receipt\": RECEIPT}}\n\n"},
	{"/v1/messages", `{"seed": 7}`, `{"content": [{"type": "text", "text": "b"}], "receipt": RECEIPT}`},
	{"/v1/messages", `{"seed": 7, "stream": true}`,
		"data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"text\": \"b\"}}\n\n" +
			"data: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}, \"receipt\": RECEIPT}\n\n"},
	{"/api/chat", `{"options": {"seed": 7}}`, `{"message": {"content": "b"}, "receipt": RECEIPT}`},
	{"/api/generate", `{"options": {"seed": 7}}`, `{"response": "b", "receipt": RECEIPT}`},
	{"/api/generate-batch", `{"seed": 7, "prompts": [{"prompt": "a"}]}`, `[{"response": "b", "receipt": RECEIPT}]`},
}

var goodReceipt = `{"version": 1, "server": "1", "model": "m", "plugins": [{"name": "p", "use": "logits", ` +
	`"sha256": "` + sum("aa") + `"}], "prompt": {"tokens": 2, "sha256": "` + sum("p") + `"}, "seed": 7, ` +
	`"settings": {"sample": true, "temperature": 0.5, "ignore_eos": false}, ` +
	`"outputs": [{"tokens": 3, "sha256": "` + sum("o") + `"}]}`

// places returns JSON texts, each with one value of text replaced, by the path to it; and with one left out.
func places(t *testing.T, text, value string) map[string]string {
	list := map[string]string{}
	var walk func(path string, at any, put func(any) any)
	show := func(whole any) string {
		b, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var put any = json.RawMessage(value)
	walk = func(path string, at any, whole func(any) any) {
		list[path] = show(whole(put))
		switch at := at.(type) {
		case map[string]any:
			for name, was := range at {
				walk(path+"."+name, was, func(v any) any { // called before the next is walked
					at[name] = v
					w := whole(at)
					return w
				})
				delete(at, name)
				list[path+"."+name+" left out"] = show(whole(at))
				at[name] = was
			}
		case []any:
			for i, was := range at {
				walk(fmt.Sprintf("%s[%d]", path, i), was, func(v any) any { at[i] = v; return whole(at) })
				at[i] = was
			}
		}
	}
	var at any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&at); err != nil {
		t.Fatal(err)
	}
	walk("receipt", at, func(v any) any { return v })
	return list
}

// TestReceiptKinds: whatever kind of JSON stands in whichever place of a receipt, all APIs say the same of it, in the
// same words: that the reply is the same, with what differs, or which field cannot be read.
func TestReceiptKinds(t *testing.T) {
	if known != generate.ReceiptVersion {
		t.Errorf("version %d is read, %d is written", known, generate.ReceiptVersion)
	}
	callers, all := make([]*call.Caller, len(carriers)), make([]*string, len(carriers))
	for i, on := range carriers {
		callers[i], all[i] = answering(t, 200, strings.Replace(on.reply, "RECEIPT", goodReceipt, 1))
	}
	for _, value := range []string{`null`, `"x"`, `5`, `-1`, `1.5`, `1e99`, `true`, `[]`, `[null]`, `["x"]`, `{}`,
		`{"a": 1}`, `[[{}]]`} {
		for path, doctored := range places(t, goodReceipt, value) {
			first := ""
			for i, on := range carriers {
				asked := all[i]
				*asked = ""
				file, _ := json.Marshal(strings.Replace(on.reply, "RECEIPT", doctored, 1))
				list, err := Read("f", strings.NewReader(fmt.Sprintf(`{"request": {"path": %q, "body": %s}, "reply": %s}`,
					on.path, on.body, file)))
				if err != nil {
					t.Fatal(err)
				}
				var r Report
				keep := func(one Report) error { r = one; return nil }
				tally, err := RunAll(t.Context(), callers[i], list, Options{}, keep)
				if err != nil {
					t.Fatal(err)
				}
				name := path + " = " + value + " on " + on.path
				agree(t, name, r, tally)
				said := fmt.Sprintf("%v %v %s", tally.Same(), tally.Unknown(), r.String())
				if i == 0 {
					first = said
				}
				if said != first {
					t.Errorf("%s says\n%s%s says\n%s", name, said, carriers[0].path, first)
				}
				bad := strings.Contains(r.Error, "the reply that was kept: receipt")
				field, _, _ := strings.Cut(strings.TrimSuffix(path, " left out"), "[")
				if bad && (!strings.Contains(r.Error, field) || !r.Incomparable) || bad != (*asked == "") {
					t.Errorf("%s: asked %q, %s", name, *asked, r.String())
				}
			}
		}
	}
}

// agree checks that all that tells what became of an exchange tells the same.
func agree(t *testing.T, name string, r Report, tally Tally) {
	t.Helper()
	text := r.String()
	var verdict, count = "failed", 0
	switch {
	case r.Same:
		verdict, count = "same", strings.Count(text, ": the same ")
	case r.Refused || r.Incomparable || r.Error != "":
		verdict, count = "unknown", strings.Count(text, ": not compared: ")
	case len(r.Differences) > 0:
		verdict, count = "differs", strings.Count(text, ": differs\n")
	}
	if r.Same != tally.Same() || r.Same && (len(r.Differences) > 0 || r.Error != "") || count == 0 ||
		tally.Unknown() && verdict != "unknown" || verdict == "differs" && (tally.Same() || tally.Unknown()) {
		t.Errorf("%s: %s, %+v\n%s", name, verdict, tally, text)
	}
}

// TestReceiptTells: what is wrong with a receipt is told in plain words, with the field.
func TestReceiptTells(t *testing.T) {
	with := func(was, is string) string { return strings.Replace(goodReceipt, was, is, 1) }
	for text, want := range map[string]string{
		`"x"`:                                     "receipt: want an object, given a string",
		`[]`:                                      "receipt: want an object, given an array",
		`{"a": 1}`:                                "receipt.version is missing: this tgi reads version 1",
		with(`"version": 1`, `"version": 2`):      "receipt.version: this tgi reads version 1, given 2",
		with(`"version": 1`, `"version": "1"`):    `receipt.version: this tgi reads version 1, given "1"`,
		with(`"version": 1`, `"version": null`):   "receipt.version: this tgi reads version 1, given null",
		with(`"model": "m"`, `"model": 5`):        "receipt.model: want a string, given a number",
		with(`"sample": true`, `"sample": "yes"`): `receipt.settings.sample: want true or false, given "yes"`,
		with(`"name": "p", `, ``):                 "receipt.plugins[0].name is missing",
		with(`"tokens": 3`, `"tokens": -3`):       "receipt.outputs.tokens: want a whole number from 0 to 2^32-1, given -3",
		with(`"`+sum("o")+`"`, `null`):            "receipt.outputs[0].sha256: want a checksum, 64 of 0-9 and a-f, given null",
		with(`"sample": true`, `"sample": null`):  "receipt.settings.sample: want true or false, given null",
		with(`"model"`, `"weights_sha256": null, "model"`): "receipt.weights_sha256: want a checksum, 64 of 0-9 and a-f, " +
			`given null`,
		with(`"model": "m"`, `"model": null`):    "receipt.model: want a string, given null",
		with(`"name": "p"`, `"version": null`):   "receipt.plugins[0].version: want a string, given null",
		with(`"tokens": 2`, `"tokens": null`):    "receipt.prompt.tokens: want a whole number from 0 to 2^32-1, given null",
		with(`"prompt"`, `"plugins": null, "x"`): "receipt.plugins: want an array, given null",
		with(`"`+sum("o")+`"`, `"x"`):            `receipt.outputs[0].sha256: want a checksum, 64 of 0-9 and a-f, given "x"`,
		with(`"`+sum("o")+`"`, `""`):             `receipt.outputs[0].sha256: want a checksum, 64 of 0-9 and a-f, given ""`,
		with(sum("aa"), "AA"):                    `receipt.plugins[0].sha256: want a checksum, 64 of 0-9 and a-f, given "AA"`,
		with(sum("p"), "p"):                      `receipt.prompt.sha256: want a checksum, 64 of 0-9 and a-f, given "p"`,
		with(`"model"`, `"weights_sha256": "x", "model"`): "receipt.weights_sha256: want a checksum, 64 of 0-9 and a-f, " +
			`given "x"`,
		with(`"tokens": 2`, `"tokens": {"a": [1]}`): "receipt.prompt.tokens: want a whole number from 0 to 2^32-1, given an object",
	} {
		if _, err := readReceipt(json.RawMessage(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"choices": [], "receipts": "x"}`:       "receipts: want an array of receipts, given a string",
		`{"choices": [], "receipts": {"a": 1}}`:  "receipts: want an array of receipts, given an object",
		`{"generated_text": "", "details": "x"}`: "details: want an object, given a string",
		`{"choices": [{"message": "x"}]}`:        "choices.message: want an object, given a string",
		`{"message": {"content": 5}}`:            "message.content: want a string, given a number",
		`{"message": 5}`:                         "message: want an object, given a number",
		`{"response": 5}`:                        "response: want a string, or an object in an event, given a number",
		`{"choices": [{"message": {"tool_calls": [{"function": {"arguments": 5}}]}}]}`: "choices.message.tool_calls." +
			"function.arguments: want a string, given a number",
		`{"message": {"tool_calls": [{"function": {"arguments": [1]}}]}}`: "message.tool_calls.function.arguments: want a " +
			"string, given an array",
		`{"output": [{"arguments": true}]}`:                        "output.arguments: want a string, given true or false",
		`{"content": [{"input": "x"}]}`:                            "content.input: want an object, given a string",
		"data: {\"type\": \"response.x.delta\", \"delta\": 5}\n\n": "delta: want a string, given a number",
		`{"outputs": [{"data": [360]}]}`:                           "outputs.data: want bytes from 0 to 255, given 360",
		`{"choices": [{"index": -1}]}`:                             "the index of a choice: want a whole number from 0 to 65535, given -1",
		`[null]`:                                                   "element 0: want an object, given null",
		`{"generated_text": "a"} x`:                                "it is no JSON: invalid character 'x' looking for beginning of value at byte 25",
		"data: {\"choices\": 5}\n\n":                               "choices: want an array, given a number",
		"data: {\"choices\"\n\n":                                   "it is no JSON: it ends too early",
		"data: {\"type\": \"response.x\", \"output_index\": -1, \"text\": \"a\"}\n\n": "the index of a part: want a whole " +
			"number from 0 to 65535, given -1",
	} {
		if o := outcomeOf([]byte(text)); o.flaw == nil || o.flaw.Error() != want {
			t.Errorf("%s: %v, want %s", text, o.flaw, want)
		}
	}
	for _, none := range []string{`{"choices": [], "receipts": null}`, `{"choices": [], "receipts": []}`,
		`{"choices": [], "receipts": [null]}`, `{"receipt": null}`, `{"details": {"receipt": null}}`} {
		if o := outcomeOf([]byte(none)); o.flaw != nil || len(o.receipts) != 0 {
			t.Errorf("%s: %v, %v", none, o.flaw, o.receipts)
		}
	}
}

// TestFileTells: a file of a wrong form is refused with the field.
func TestFileTells(t *testing.T) {
	for text, want := range map[string]string{
		`{"request": 5, "reply": {}}`:                    "f: request 1: request: want an object, given a number",
		`{"request": {"path": 5, "body": {}}}`:           "f: request 1: request.path: want a string, given a number",
		`{"request": {"path": "/generate"}}`:             "f: request 1: request.body is missing",
		`{"request": {"headers": {"a": 5}, "body": {}}}`: "f: request 1: request.headers: want a string, given a number",
		`{"record": 2}`:                                  "f: request 1: record: this tgi reads version 1, given 2",
		`{"record": 1}`:                                  "f: request 1: path is missing",
		`{"record": 1, "path": [1]}`:                     "f: request 1: path: want a string, given an array",
	} {
		if _, err := Read("f", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzFile: whatever a file holds is replayed without a panic, what tells of it agrees, and a reply is the same only
// where its text, its calls and its tokens are.
func FuzzFile(f *testing.F) {
	for _, on := range carriers {
		f.Add(on.path, []byte(on.body), []byte(strings.Replace(on.reply, "RECEIPT", goodReceipt, 1)))
	}
	const call1 = `{"choices": [{"message": {"content": "b", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}],
		"receipts": [RECEIPT]}`
	f.Add("/v1/chat/completions", []byte(`{}`), []byte(strings.Replace(call1, "RECEIPT", goodReceipt, 1)))
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer)
	}))
	f.Cleanup(s.Close)
	c, err := call.New(s.URL, "", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string, body, reply []byte) {
		answer = strings.Replace(call1, "RECEIPT", goodReceipt, 1)
		for _, on := range carriers {
			if on.path == path && !strings.Contains(on.body, "stream") {
				answer = strings.Replace(on.reply, "RECEIPT", goodReceipt, 1)
			}
		}
		if !json.Valid(reply) { // it is the text of a stream
			reply, _ = json.Marshal(string(reply))
		}
		file := fmt.Sprintf(`{"request": {"path": %q, "body": %s}, "reply": %s}`, path, body, reply)
		list, err := Read("f", strings.NewReader(file))
		if err != nil || len(list) != 1 {
			return
		}
		var r Report
		tally, err := RunAll(t.Context(), c, list, Options{}, func(one Report) error { r = one; return nil })
		if err != nil {
			t.Fatal(err)
		}
		agree(t, file, r, tally)
		was, is := list[0].outcome(list[0].Reply, list[0].Status), list[0].outcome([]byte(answer), 200)
		if !r.Same {
			return
		}
		if r.Compared == "tokens" && fmt.Sprint(was.receipts[0].Outputs) != fmt.Sprint(is.receipts[0].Outputs) {
			t.Errorf("%s: other tokens", file)
		}
		if said := is.said[place{kind: text}]; was.speaks && string(was.said[place{kind: text}]) != string(said) {
			t.Errorf("%s: another text than %q", file, said)
		}
		for p, said := range is.said {
			if p.again == "" && p.kind >= callName && was.speaks && string(was.said[p]) != string(said) {
				t.Errorf("%s: another call than %q", file, said)
			}
		}
	})
}

// TestReplyKinds: whatever kind of JSON stands in whichever place of a reply, all that tells of it agrees, what cannot
// be read is named, and a reply is the same only where its text and its tokens are.
func TestReplyKinds(t *testing.T) {
	for _, on := range carriers {
		if strings.HasPrefix(on.reply, "data: ") {
			continue
		}
		reply := strings.Replace(on.reply, "RECEIPT", goodReceipt, 1)
		c, _ := answering(t, 200, reply)
		for _, value := range []string{`null`, `"x"`, `5`, `true`, `[]`, `["x"]`, `{}`, `{"content": "x"}`} {
			for path, doctored := range places(t, reply, value) {
				e := Exchange{Label: "r", Method: http.MethodPost, Path: on.path, Body: []byte(on.body), Status: 200,
					Reply: []byte(doctored)}
				var r Report
				keep := func(one Report) error { r = one; return nil }
				tally, err := RunAll(t.Context(), c, []Exchange{e}, Options{}, keep)
				if err != nil {
					t.Fatal(err)
				}
				name := on.path + ": " + path + " = " + value
				agree(t, name, r, tally)
				changed := !strings.Contains(doctored, `"b"`) || !strings.Contains(doctored, sum("o")) ||
					!strings.Contains(doctored, `"tokens":3`)
				if r.Same && changed && len(r.Notes) == 0 { // a note says what is not compared, for it was not kept
					t.Errorf("%s: %s%s", name, r.String(), doctored)
				}
				if strings.Contains(r.Error, "no known form") {
					t.Errorf("%s: %s", name, r.Error)
				}
			}
		}
	}
}

// TestSettingKinds: every setting that a receipt has is read with its kind, and only so.
func TestSettingKinds(t *testing.T) {
	mix := generate.Receipt{Guidance: "cfg", Healed: 1, Twin: sum("t")}
	mix.Mix.Weights = []float32{1}
	mix.Params = llm.Params{Watermark: true, NumBeams: 2, Stop: []string{"a"}, LogitBias: []llm.Bias{{Token: 1}}}
	var all struct{ Settings map[string]json.RawMessage }
	if err := json.Unmarshal(generate.AppendReceipt(nil, &mix), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Settings) != len(settingKinds) {
		t.Errorf("%d settings are written, %d known", len(all.Settings), len(settingKinds))
	}
	var s settings
	for name, raw := range all.Settings {
		if settingKinds[name].is == nil {
			t.Errorf("%s is not known", name)
		}
		if err := json.Unmarshal(fmt.Appendf(nil, `{%q: %s}`, name, raw), &s); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		for _, wrong := range []string{`{"a":1}`, `["x"]`, `5`, `"x"`, `true`} {
			if settingKinds[name].is(json.RawMessage(wrong)) {
				continue
			}
			err := json.Unmarshal(fmt.Appendf(nil, `{%q: %s}`, name, wrong), &s)
			want := fmt.Sprintf("settings.%s: want %s, given %s", name, settingKinds[name].name, wrong)
			if err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", wrong, err, want)
			}
		}
		if is := settingKinds[name].is; is([]byte(`{"a":1}`)) || is([]byte(`["x"]`)) {
			t.Errorf("%s may be anything", name)
		}
	}
	if err := json.Unmarshal([]byte(`{"top_k": 5.0, "later": "x", "latest": null}`), &s); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal([]byte(`{"top_k": 5.5}`), &s); err == nil {
		t.Error("half a token is taken")
	}
}

// TestConfigurations: what plugins are configured with is compared where both checksums were made with the same key.
func TestConfigurations(t *testing.T) {
	mac := func(key, text string) string { return sum(key)[48:] + "." + sum(text) }
	for _, x := range []struct {
		was, is string
		differ  bool
	}{
		{mac("k", "a"), mac("k", "a"), false},
		{mac("k", "a"), mac("k", "b"), true},
		{mac("k", "a"), mac("another", "a"), false},
		{mac("k", "a"), mac("another", "b"), false},
		{mac("k", "a"), "", true},
		{"", mac("k", "a"), true},
		{"", "", false},
	} {
		read := func(mac string) receipt {
			text := goodReceipt
			if mac != "" {
				text = strings.Replace(text, sum("aa")+`"`, sum("aa")+`", "config_mac": "`+mac+`"`, 1)
			}
			r, err := readReceipt(json.RawMessage(text))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		was, is := read(x.was), read(x.is)
		if list := was.origin(&is); (len(list) > 0) != x.differ {
			t.Errorf("%q and %q: %v", x.was, x.is, list)
		}
	}
	bad := strings.Replace(goodReceipt, sum("aa")+`"`, sum("aa")+`", "config_mac": "`+sum("a")+`"`, 1)
	_, err := readReceipt(json.RawMessage(bad))
	if err == nil || !strings.Contains(err.Error(), "plugins[0].config_mac") {
		t.Errorf("%v", err)
	}
}
