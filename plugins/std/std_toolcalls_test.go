package std_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/std/toolcalls"
	"tgi/plugins/tools"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// parses is a loaded guest of kind tools.
func parses(t testing.TB, config object) *guest.Guest {
	t.Helper()
	g, err := tryLoad(t, module(t, "toolcalls"), string(marshal(t, config)))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// piece is a piece of a message.
type piece struct {
	text    string
	special bool
}

// parsed feeds a message to an instance of its own, and joins neighbouring texts.
func parsed(t testing.TB, g *guest.Guest, request, params []byte, pieces []piece) []tools.Event {
	t.Helper()
	s, err := g.Open(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := tools.Begin(s, request, params)
	if err != nil {
		t.Fatal(err)
	}
	var all []tools.Event
	add := func(events []tools.Event, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			n := len(all) - 1
			goesOn := e.Kind == abi.EventContent || e.Kind == abi.EventReasoning || e.Kind == abi.EventArguments
			if goesOn && n >= 0 && all[n].Kind == e.Kind && all[n].Index == e.Index {
				all[n].Text += e.Text
				continue
			}
			all = append(all, e)
		}
	}
	for _, x := range pieces {
		add(p.Feed(x.text, x.special))
	}
	add(p.Finish(false))
	return all
}

// reasons are the library's in the contract's numbers.
var reasons = map[toolcalls.Reason]uint8{
	toolcalls.Incomplete: abi.FailedIncomplete, toolcalls.UnknownTool: abi.FailedUnknown,
	toolcalls.Malformed: abi.FailedMalformed,
	toolcalls.TooLong:   abi.FailedTooLong, toolcalls.TooMany: abi.FailedTooMany,
}

// natively is what the library tells of a message, as events of the contract. seed is that of the first id.
func natively(f *toolcalls.Format, o toolcalls.Options, text string) (all []tools.Event) {
	p := toolcalls.New(f, o)
	for _, e := range append(append([]toolcalls.Event(nil), p.Feed(text)...), p.Finish()...) {
		x := tools.Event{Kind: llm.DeltaKind(e.Kind), Index: e.Index, Text: e.Text, Name: e.Name, ID: e.ID,
			Failed: llm.CallFailure(reasons[e.Reason])}
		if x.Kind == abi.EventFailed {
			x.Name = ""
		}
		n := len(all) - 1
		goesOn := x.Kind == abi.EventContent || x.Kind == abi.EventReasoning || x.Kind == abi.EventArguments
		if goesOn && n >= 0 && all[n].Kind == x.Kind && all[n].Index == x.Index {
			all[n].Text += x.Text
			continue
		}
		all = append(all, x)
	}
	return all
}

// withoutIDs hides the ids that are made: they depend on the random numbers of the sandbox.
func withoutIDs(events []tools.Event) []tools.Event {
	made := regexp.MustCompile(`^(call_[A-Za-z0-9]{24}|[A-Za-z0-9]{9})$`)
	for i, e := range events {
		if made.MatchString(e.ID) {
			events[i].ID = "made"
		}
	}
	return events
}

// special cuts what models have as special tokens out of a text, where the format has it in a marker.
func special(t testing.TB, f *toolcalls.Format, text string) (pieces []piece) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, m := range regexp.MustCompile(`<\|[^|>]*\|>|<｜[^｜]*｜>|</?[a-z_:]+>|\[[A-Z_]+\]|◁/?think▷`).FindAllStringIndex(text, -1) {
		if !strings.Contains(b.String(), text[m[0]:m[1]]) {
			continue
		}
		pieces = append(pieces, cut(text[at:m[0]], 7)...)
		pieces = append(pieces, piece{text[m[0]:m[1]], true})
		at = m[1]
	}
	return append(pieces, cut(text[at:], 7)...)
}

// cut cuts a text into pieces of n characters.
func cut(text string, n int) (pieces []piece) {
	r := []rune(text)
	for i := 0; i < len(r); i += n {
		pieces = append(pieces, piece{string(r[i:min(i+n, len(r))]), false})
	}
	return pieces
}

// TestToolcallsGoldens: in the sandbox, every sample of the library gives the events that it gives natively, however it
// is cut, and whether its markers come as text or as special tokens.
func TestToolcallsGoldens(t *testing.T) {
	offered, err := os.ReadFile("toolcalls/testdata/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("toolcalls/testdata/presets/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	g := parses(t, object{})
	r := rand.New(rand.NewPCG(3, 4))
	n := 0
	for _, file := range files {
		preset := strings.TrimSuffix(filepath.Base(file), ".txt")
		f, _ := toolcalls.Preset(preset)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split("\n"+string(data), "\n== ")[1:] {
			title, rest, _ := strings.Cut(part, "\n")
			text, _, _ := strings.Cut(rest, "\n--\n")
			text = strings.ToValidUTF8(text, "\uFFFD")
			request, o := sampleRequest(t, f, offered, strings.Split(title, " | ")[1:])
			want := withoutIDs(natively(f, o, text))
			for how, pieces := range map[string][]piece{
				"whole": {{text, false}}, "characters": cut(text, 1), "some": cut(text, 2+r.IntN(5)),
				"special": special(t, f, text),
			} {
				got := withoutIDs(parsed(t, g, request, marshal(t, object{"format": preset}), pieces))
				if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s, %s: %q\ngot  %+v\nwant %+v", preset, title, how, text, got, want)
				}
				n++
			}
		}
	}
	t.Logf("%d messages", n)
	if n < 800 {
		t.Errorf("%d messages: samples are missing", n)
	}
}

// sampleRequest makes a request of a sample's options, and the library's options that mean the same.
func sampleRequest(t testing.TB, f *toolcalls.Format, offered []byte, words []string) ([]byte, toolcalls.Options) {
	t.Helper()
	var list []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal(offered, &list); err != nil {
		t.Fatal(err)
	}
	o := toolcalls.Options{Seed: 1}
	for _, x := range list {
		o.Tools = append(o.Tools, toolcalls.Tool{Name: x.Function.Name, Parameters: x.Function.Parameters})
	}
	r := object{"tools": json.RawMessage(offered), "tool_choice": "auto", "parallel_tool_calls": true,
		"prompt_end": "<|assistant|>"}
	for _, word := range words {
		key, value, _ := strings.Cut(word, " ")
		switch key {
		case "thinking":
			o.Thinking = true
			r["prompt_end"] = "<|assistant|>" + f.Reasoning.Begin[0] + "\n"
		case "none", "required":
			o.Choice.Mode = toolcalls.Mode(key)
			r["tool_choice"] = key
		case "named":
			o.Choice.Mode, o.Choice.Name = toolcalls.Exact, value
			r["tool_choice"] = object{"name": value}
		case "single":
			o.Choice.Single = true
			r["parallel_tool_calls"] = false
		case "no-tools":
			o.Tools = nil
			delete(r, "tools")
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return marshal(t, r), o
}
