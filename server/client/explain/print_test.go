package explain

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const reply = `{"generated_text": "ab", "details": {"explain": [
 {"id": 1, "text": "a", "raw_logprob": -2.302585, "logprob": -0.6931472, "rank": 1, "picked": "draw",
  "changes": [{"kind": "mask", "name": "grammar", "allowed": 2, "forbidden": 0.8, "before": -2.302585, "after": -0.6931472,
   "overtook": {"id": 1, "text": "a"}, "count": 9, "moved": [{"id": 7, "text": "z", "by": null}]}],
  "candidates": [{"id": 1, "text": "a", "raw_logprob": -2.302585, "logprob": -0.6931472},
   {"id": 7, "text": "z", "raw_logprob": -0.2, "logprob": null}], "draft": {"source": "prompt", "id": 1, "text": "a", "accepted": true},
  "rewound": [{"by": "watch", "tokens": 2}], "replaced": [{"by": "mask", "tokens": 3}]},
 {"id": 2, "text": "b\u001b[31m", "raw_logprob": -1, "logprob": -1, "rank": 0, "picked": "sampler", "by": "s",
  "changes": [{"kind": "plugin", "name": "p", "allowed": 5, "forbidden": 0, "before": -1.5, "after": -1, "count": 3,
   "moved": [{"id": 3, "text": "c", "by": -2}], "temperature": 0.5}], "candidates": []}]}}`

func TestPrint(t *testing.T) {
	texts, err := Read([]byte(reply))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Print(&b, texts, Options{Changes: true, Candidates: true}); err != nil {
		t.Fatal(err)
	}
	want := `<-ab\x1b[31m

      watch took back 2 tokens
      mask gave other text for 3 tokens
   0  "a"                 10.0% ->  50.0%  drawn, the model's number 2, guessed by prompt
          mask       grammar: leaves 2 tokens, takes 80.0%, 10.0% -> 50.0%, "a" comes first
          "a"             10.0% ->  50.0%
          "z"             81.9% ->      0
   1  "b\x1b[31m"         36.8% ->  36.8%  chosen by s
          plugin     p: 22.3% -> 36.8%, temperature 0.5, "c" -2, and 2 more
`
	if b.String() != want {
		t.Errorf("prints\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	one := []Text{{Tokens: []Token{{Text: "x", Picked: "guard", By: "mask",
		Replaced: []Rewound{{By: "mask", Tokens: 1}},
		Changes:  []Change{{Kind: "mask", Name: "g", Allowed: 1}}}}}}
	if err := Print(&b, one, Options{Changes: true}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"other text for 1 token\n", "     - ->      -  given by mask\n", "leaves 1 token, "} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q lacks %q", b.String(), part)
		}
	}
	b.Reset()
	if err := Print(&b, texts, Options{Colour: true}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{red + "<-" + plain, green + "a" + plain, magenta + `b\x1b[31m` + plain} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q lacks %q", b.String(), part)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `{"choices": [{}]}`, `nonsense`} {
		if _, err := Read([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// TestReceiptAlone: of a reply with a receipt and no explanation the receipt is shown, whatever the API, and a note
// says what to ask for; one with neither is told so, and explanations beside a receipt are read.
func TestReceiptAlone(t *testing.T) {
	receipt := `{"version": 1, "seed": 7, "model": "m\u001b\u202e"}`
	for _, reply := range []string{
		`{"generated_text": "a", "details": {"explain": %s, "receipt": ` + receipt + `}}`,
		`{"choices": [{"index": 0, "explain": %s}], "receipts": [` + receipt + `]}`,
		`{"object": "response", "output": [], "explain": %s, "receipt": ` + receipt + `}`,
		`{"type": "message", "content": [], "explain": %s, "receipt": ` + receipt + `}`,
		`{"message": {"content": "a"}, "done": true, "explain": %s, "receipt": ` + receipt + `}`,
	} {
		var b, notes strings.Builder
		_, err := Read([]byte(strings.Replace(reply, "%s", "[]", 1)))
		want := "{\n  \"version\": 1,\n  \"seed\": 7,\n  \"model\": \"m\\u001b\\u202e\"\n}\n"
		if err := PrintReceipts(&b, &notes, err); err != nil || b.String() != want {
			t.Errorf("%s: %v: %q, want %q", reply, err, b.String(), want)
		}
		if note := notes.String(); !strings.Contains(note, "a receipt and no explanation") ||
			!strings.Contains(note, `"explain": true`) {
			t.Errorf("%s: %s", reply, note)
		}
		list, err := Read([]byte(strings.Replace(reply, "%s", `[{"id": 1, "text": "a"}]`, 1)))
		if err != nil || len(list) != 1 || list[0].Tokens[0].Text != "a" {
			t.Errorf("%s: %+v, %v", reply, list, err)
		}
	}
	var b strings.Builder
	_, err := Read([]byte(`{"choices": [{"index": 0}]}`))
	if got := PrintReceipts(&b, &b, err); !errors.Is(got, errNothing) || b.Len() > 0 {
		t.Errorf("%v, %s", got, b.String())
	}
}

// TestReadTells: what is no reply is told in plain words.
func TestReadTells(t *testing.T) {
	for text, want := range map[string]string{
		`[1, 2]`:                      "want one reply, which is an object or a stream of events, given an array",
		`[]`:                          "want one reply, which is an object or a stream of events, given an array",
		`[3]`:                         "want one reply, which is an object or a stream of events, given a number",
		`"data:"`:                     "want one reply, which is an object or a stream of events, given a string",
		`null`:                        "want one reply, which is an object or a stream of events, given null",
		`{"a"`:                        "it is no JSON: it ends too early",
		``:                            "it is no JSON: it ends too early",
		`data: {`:                     "it is neither JSON nor a stream with a whole event, such as `data: {...}` and an empty line",
		"hello":                       "it is neither JSON nor a stream with a whole event, such as `data: {...}` and an empty line",
		"data: {}\n\ndata: {\n\n":     "event 2: it is no JSON: it ends too early",
		"data: {\"choices\": {}}\n\n": "event 1: choices: want an array, given an object",
		`{"choices": [{"explain": [{"id": -1}]}]}`: "the reply: choices.explain.id: want a whole number from 0 to 2^32-1, " +
			"given -1",
		`{"choices": [{"explain": [{"candidates": [{"id": "x"}]}]}]}`: "the reply: choices.explain.candidates.id: want a " +
			"whole number from 0 to 2^32-1, given a string",
		`{"explain": [{"changes": [{"allowed": -1}]}]}`: "the reply: explain.changes.allowed: want a whole number from 0 to " +
			"2^32-1, given -1",
		`{"explain": [{"id": 1}], "receipt": 5}`: "the reply: receipt: want an object, given a number",
		`{"explain": [{"id": 1}], "receipt": {"version": 2}}`: "the reply: receipt.version: this tgi reads version 1, " +
			"given 2",
		`{"choices": [{"explain": [{"id": 1}]}], "receipts": "x"}`: "the reply: receipts: want an array of receipts, given " +
			"a string",
		`{"details": []}`: "the reply: details: want an object, given an array",
		`{"choices": {}}`: "the reply: choices: want an array, given an object",
	} {
		if _, err := Read([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestStreams: the events of a stream, of any API, explain what its reply in one piece does.
func TestStreams(t *testing.T) {
	const a, b = `{"id": 1, "text": "a", "picked": "draw"}`, `{"id": 2, "text": "b", "picked": "best"}`
	const receipt = `{"version": 1, "plugins": []}`
	one := []Text{{Tokens: []Token{{ID: 1, Text: "a", Picked: "draw"}, {ID: 2, Text: "b", Picked: "best"}}}}
	two := []Text{{Index: 1, Tokens: one[0].Tokens[:1]}, {Index: 0, Tokens: one[0].Tokens[1:]}}
	for name, c := range map[string]struct {
		text string
		want []Text
	}{
		"tgi": {`data: {"token": {"id": 1, "text": "a"}, "explain": ` + a + `, "details": null}` + "\n\n" +
			`data: {"token": {"id": 2, "text": "b"}, "explain": ` + b + `, "generated_text": "ab", "details": {"receipt": ` +
			receipt + "}}\n\n", one},
		"chat": {`data: {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}` + "\n\n" +
			`data: {"choices": [{"index": 0, "delta": {"content": "a"}, "explain": [` + a + "]}]}\n\n" +
			`data: {"choices": [{"index": 0, "delta": {"content": "b"}, "explain": [` + b + "]}]}\n\n" +
			`data: {"choices": [], "receipts": [` + receipt + "]}\n\ndata: [DONE]\n\n", one},
		"choices": {`data: {"choices": [{"index": 1, "explain": [` + a + "]}]}\n\n" +
			`data: {"choices": [{"index": 0, "explain": [` + b + "]}]}\n\n", two},
		"messages": {"event: ping\ndata: {\"type\": \"ping\"}\n\nevent: message_delta\n" +
			`data: {"type": "message_delta", "delta": {}, "explain": [` + a + `, ` + b + "]}\n\n", one},
		"responses": {`data: {"type": "response.created", "response": {"output": []}}` + "\n\n" +
			`data: {"type": "response.completed", "response": {"explain": [` + a + `, ` + b + `], "receipt": ` + receipt +
			"}}\n\n", one},
		"ollama": {`{"response": "a", "done": false}` + "\n" + `{"response": "", "done": true, "explain": [` + a + `, ` + b +
			"]}\n", one},
	} {
		kept, err := json.Marshal(map[string]any{"request": map[string]any{"path": "/", "body": map[string]any{}},
			"reply": c.text})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{[]byte(c.text), []byte(strings.ReplaceAll(c.text, "\n", "\r\n")), kept} {
			reply, err := Kept(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Read(reply); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// TestProgram: whose receipt names a program, of that reply it is told, in whichever form it is shown.
func TestProgram(t *testing.T) {
	receipt := `{"version": 1, "plugins": [{"name": "chat", "use": "template"}, {"name": "vote", "use": "program", ` +
		`"version": "1.2.0", "sha256": "` + strings.Repeat("a", 64) + `"}]}`
	for _, reply := range []string{
		`{"details": {"explain": %s, "receipt": ` + receipt + `}}`,
		`{"choices": [{"index": 0, "explain": %s}], "receipts": [` + receipt + `]}`,
		`{"explain": %s, "receipt": ` + receipt + `}`,
	} {
		list, err := Read([]byte(strings.Replace(reply, "%s", `[{"id": 1, "text": "a", "picked": "draw"}]`, 1)))
		if err != nil || len(list) != 1 || list[0].Program == nil || *list[0].Program != (Program{"vote", "1.2.0"}) {
			t.Fatalf("%s: %+v, %v", reply, list, err)
		}
		var b strings.Builder
		if err := Print(&b, list, Options{}); err != nil ||
			!strings.HasPrefix(b.String(), "written by the program vote 1.2.0\n\na\n\n") {
			t.Errorf("%v: %s", err, b.String())
		}
		if _, err = Read([]byte(strings.Replace(reply, "%s", `[]`, 1))); err == nil ||
			!strings.HasPrefix(err.Error(), "the program vote 1.2.0 wrote the reply; the reply has a receipt and no") {
			t.Error(err)
		}
	}
}

// FuzzRead: whatever is read is printed, without a panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(reply))
	f.Add([]byte(`{"choices": [{"index": 1, "explain": [null]}], "receipts": [{"version": 1, "plugins": null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		kept, err := Kept(data)
		if err != nil {
			return
		}
		list, err := Read(kept)
		var b strings.Builder
		switch {
		case err == nil:
			err = Print(&b, list, Options{Changes: true, Candidates: true, Colour: true})
		case errors.As(err, new(receiptsOnly)):
			err = PrintReceipts(&b, &b, err)
		default:
			return
		}
		if err != nil {
			t.Errorf("%q: %v", data, err)
		}
	})
}
