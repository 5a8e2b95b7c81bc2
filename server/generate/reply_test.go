package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// offering is a conversation with the tools f and g.
func offering(choice generate.ToolChoice) *generate.Conversation {
	c := talk(say("user", "a"))
	c.Tools = []byte(`[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`)
	c.ToolNames, c.ToolChoice = []string{"f", "g"}, choice
	return c
}

// tokens reads "a|^<x>|b": pieces of text, "^" before a special token's.
func tokens(notation string) []generate.Token {
	var out []generate.Token
	for _, p := range strings.Split(notation, "|") {
		text, special := strings.CutPrefix(p, "^")
		out = append(out, generate.Token{Text: text, Special: special})
	}
	return out
}

// read returns what a streamed reply makes of tokens.
func read(t *testing.T, c *generate.Conversation, end llm.Reason, stops []string,
	list []generate.Token) (*generate.Reply, []generate.Delta, error) {
	t.Helper()
	return readAs(t, generate.Draft{Conversation: c, Stop: stops, Stream: true}, end, list)
}

// readAs is read for a draft.
func readAs(t *testing.T, d generate.Draft, end llm.Reason, list []generate.Token) (*generate.Reply, []generate.Delta,
	error) {
	t.Helper()
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		return generatetest.Sequence(r, 0, end, list...)
	}}
	s := generatetest.UserCode{Chat: &generatetest.Chat{Parse: true}}.On(
		generate.New(e, generatetest.Words{}, generatetest.Limits(), nil))
	run, err := s.Start(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	replies, all, err := collect(t, run)
	return replies[0], all[0], err
}

// spell writes deltas as a row of "content", "(reasoning)", "[0 f id" for a call that
// begins, and "0:arguments".
func spell(deltas []generate.Delta) string {
	var b strings.Builder
	for i, d := range deltas {
		again := i > 0 && deltas[i-1].Kind == d.Kind && deltas[i-1].Index == d.Index
		switch d.Kind {
		case generate.DeltaContent:
			b.WriteString(d.Text)
		case generate.DeltaReasoning:
			fmt.Fprintf(&b, "(%s)", d.Text)
		case generate.DeltaBegin:
			fmt.Fprintf(&b, "[%d %s %s ", d.Index, d.Name, d.ID)
		case generate.DeltaArguments:
			if !again {
				fmt.Fprintf(&b, "%d:", d.Index)
			}
			b.WriteString(d.Text)
		default:
			fmt.Fprintf(&b, "!%d", d.Kind)
		}
	}
	return strings.ReplaceAll(b.String(), ")(", "")
}

func TestReply(t *testing.T) {
	const eos, length, stop = llm.FinishEOS, llm.FinishLength, llm.FinishStop
	auto := generate.ToolChoice{}
	required, named := generate.ToolChoice{Mode: generate.ChooseRequired},
		generate.ToolChoice{Mode: generate.ChooseNamed, Name: "g"}
	for _, c := range []struct {
		choice generate.ToolChoice
		text   string
		end    llm.Reason
		stops  []string
		want   string // see spell
		calls  string // those that are complete, as "f id arguments"
		called bool
		fault  string
	}{
		{auto, "Hi| you|^</s>", eos, nil, "Hi you", "", false, ""},
		{auto, "<th|ink>hm|m</think>Hi", length, nil, "(hmm)Hi", "", false, ""},
		{auto, "^<think>|hm|^</think>|Hi|^</s>", eos, nil, "(hm)Hi", "", false, ""},
		{auto, `ok<call>f c1 {"x":|{"y":1}|}</call>|^</s>`, eos, nil, `ok[0 f c1 0:{"x":{"y":1}}`, `f c1 {"x":{"y":1}}`,
			true, ""},
		// Ids are made where there are none; calls are numbered.
		{auto, `<call>f - {}</call><call>g - {} </call>`, eos, nil, `[0 f id1 0:{}[1 g id2 1:{} `, `f id1 {},g id2 {} `,
			true, ""},
		// A call that the length limit cut is never whole: its last brace is missing.
		{auto, `<call>f c1 {"x":{}}`, length, nil, `[0 f c1 0:{"x":{`, "", false, ""},
		{auto, `<call>f c1 {"x":"}|a"}`, length, nil, `[0 f c1 0:{"x":"}a"`, "", false, ""},
		{auto, `<call>f c1 {}</call><call>g c2 {"x":1`, length, nil, `[0 f c1 0:{}[1 g c2 1:{"x":1`, "f c1 {}", false,
			""},
		// One that had not begun is content.
		{auto, `ok <call>f c1`, length, nil, `ok <call>f c1`, "", false, ""},
		// The limit that comes behind the call has cut nothing.
		{auto, `<call>f c1 {}</call> and`, length, nil, `[0 f c1 0:{} and`, "f c1 {}", true, ""},
		// The model's own end inside a call: not cut, and no call.
		{auto, `<call>f c1 {"x":1`, eos, nil, `[0 f c1 0:{"x":1<call>f c1 {"x":1`, "", false, ""},
		{auto, `<call>f c1 {"x":1!!}</call>`, eos, nil, `[0 f c1 0:{"x":1!!<call>f c1 {"x":1!!}</call>`, "", false, ""},
		{auto, `<call>f c1 {"x":1}}</call>`, eos, nil, `[0 f c1 0:{"x":1{"x":1}}`, "", false, ""},
		{auto, `<call>f c1 [1]</call>`, eos, nil, `[0 f c1 0:[1][1]`, "", false, ""},
		{auto, `<call>h c1 {}</call>.`, eos, nil, `<call>h c1 {}</call>.`, "", false, ""},
		// Stop strings come first, whatever they are in.
		{auto, `<call>f c1 {}</call> S|T`, stop, []string{"ST"}, `[0 f c1 0:{} `, "f c1 {}", true, ""},
		{auto, `<call>f c1 {"x":"S|T`, stop, []string{"ST"}, `[0 f c1 0:{"x":"<call>f c1 {"x":"`, "", false,
			""},
		{auto, `a^b|^<call>|f c1 {}|^</call>`, stop, []string{"{}</call>"}, `a^b[0 f c1 <call>f c1 `, "", false,
			""},
		{auto, `Hi|^<call>`, stop, []string{"<call>"}, "Hi", "", false, ""},
		{auto, `Hi|^<call>|f c1 {}</call>`, length, []string{"<call>g"}, "Hi[0 f c1 0:{}", "f c1 {}", true, ""},
		// Demands.
		{required, `<call>f c1 {}</call>`, eos, nil, `[0 f c1 0:{}`, "f c1 {}", true, ""},
		{named, `hm<call>g c1 {}</call>`, eos, nil, `hm[0 g c1 0:{}`, "g c1 {}", true, ""},
		{named, `<call>f c1 {}</call>`, eos, nil, ``, "", false,
			"the model's call is of a tool that was not offered or not demanded"},
		{required, `<call>h c1 {}</call>`, eos, nil, ``, "", false,
			"the model's call is of a tool that was not offered or not demanded"},
		{required, `no`, eos, nil, `no`, "", false, "the model called no tool, `tool_choice` demands a call"},
		{required, `no`, length, nil, `no`, "", false, ""},
		{required, `<call>f c1 {"x`, length, nil, `[0 f c1 0:{"x`, "", false, ""},
		{required, `<call>f c1 {"x`, eos, nil, `[0 f c1 0:{"x`, "", false, "the model's call is incomplete"},
		{required, `<call>f c1 {!!}</call>`, eos, nil, `[0 f c1 0:{!!`, "", false,
			"the model's call is not what the format demands"},
		{required, `<call>f c1 1</call>`, eos, nil, `[0 f c1 0:1`, "", false,
			"the model's call is not what the format demands"},
		{required, `<call>f c1 {"x":"S|T`, length, []string{"ST"}, `[0 f c1 0:{"x":"`, "", false,
			"the model's call is incomplete"},
		{auto, "a<fault>b", eos, nil, "a", "", false, "plugin failed: the parser met <fault>"},
	} {
		reply, deltas, err := read(t, offering(c.choice), c.end, c.stops, tokens(c.text))
		fault := ""
		if err != nil {
			fault = err.Error()
			if errors.Is(err, generate.ErrTool) == errors.Is(err, llm.ErrPlugin) {
				t.Errorf("%s: %v wraps neither or both", c.text, err)
			}
		}
		if got := spell(deltas); fault != c.fault || err == nil && got != c.want {
			t.Errorf("%s:\n got %q, %v\nwant %q, %s", c.text, got, err, c.want, c.fault)
		}
		if err != nil {
			continue
		}
		if got := complete(reply); got != c.calls || reply.Called() != c.called {
			t.Errorf("%s: got the calls %q, called %v, want %q, %v", c.text, got, reply.Called(), c.calls, c.called)
		}
	}
}

// TestWholeReply: a reply that is no stream has nothing of a call that became content, and else what a stream has: the
// same calls, complete or cut, the same text, and the same end.
func TestWholeReply(t *testing.T) {
	const eos, length = llm.FinishEOS, llm.FinishLength
	for _, c := range []struct {
		text, want string
		end        llm.Reason
	}{
		{`ok<call>f c1 {"x":|{"y":1}|}</call>|^</s>`, `ok[0 f c1 0:{"x":{"y":1}}`, eos},
		{`<call>f - {}</call><call>g - {} </call>`, `[0 f id1 0:{}[1 g id2 1:{} `, eos},
		{`<call>f c1 {"x":"}|a"}`, `[0 f c1 0:{"x":"}a"`, length},
		{`<call>f c1 {}</call><call>g c2 {"x":1`, `[0 f c1 0:{}[1 g c2 1:{"x":1`, length},
		{`<call>f c1 {"x":1`, `<call>f c1 {"x":1`, eos},
		{`<call>f c1`, `<call>f c1`, length},
		// Calls that became content: the calls behind them are numbered without them.
		{`a <call>f c1 {"x"|:1!!}</call>`, `a <call>f c1 {"x":1!!}</call>`, eos},
		{`<call>f c1 [1]</call>.`, `[1].`, eos},
		{`<call>f c1 [1]</call>.<call>g - {}</call>`, `[1].[0 g id1 0:{}`, eos},
		{`<call>h c1 {}</call>.`, `<call>h c1 {}</call>.`, eos},
	} {
		whole, deltas, err := readAs(t, generate.Draft{Conversation: offering(generate.ToolChoice{})}, c.end,
			tokens(c.text))
		if got := spell(deltas); got != c.want || err != nil {
			t.Errorf("%s:\n got %q, %v\nwant %q", c.text, got, err, c.want)
		}
		streamed, _, err := read(t, offering(generate.ToolChoice{}), c.end, nil, tokens(c.text))
		if err != nil || whole.Called() != streamed.Called() || whole.Torn() != streamed.Torn() ||
			len(whole.Calls()) != len(streamed.Calls()) || len(whole.Made()) != len(streamed.Made()) {
			t.Errorf("%s: %v, whole %+v, streamed %+v", c.text, err, whole.Made(), streamed.Made())
		}
	}
}

func complete(r *generate.Reply) string {
	var out []string
	for _, c := range r.Calls() {
		out = append(out, c.Name+" "+c.ID+" "+c.Arguments)
	}
	return strings.Join(out, ",")
}

// TestOneCall: where only one call is allowed the others are left out, also where a
// call is demanded.
func TestOneCall(t *testing.T) {
	for _, choice := range []generate.ToolChoice{{}, {Mode: generate.ChooseRequired}} {
		c := offering(choice)
		c.Parallel = false
		reply, deltas, err := read(t, c, llm.FinishEOS, nil, tokens(`<call>f c1 {}</call><call>g c2 {}</call>.`))
		if got := spell(deltas); err != nil || got != `[0 f c1 0:{}.` || complete(reply) != "f c1 {}" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// badParser makes what the contract forbids.
type badParser struct{ deltas []generate.Delta }

func (p badParser) Feed(string, bool) ([]generate.Delta, error) { return p.deltas, nil }
func (p badParser) Finish(bool) ([]generate.Delta, error)       { return nil, nil }

// badCode has that parser.
type badCode struct{ deltas []generate.Delta }

// Bind implements generate.UserCode.
func (c badCode) Bind(context.Context, []generate.PluginCall, *generate.Conversation, time.Time) (generate.BoundCode,
	generate.Rendered, error) {
	return c, generate.Rendered{Text: "a"}, nil
}

// Begin implements generate.BoundCode.
func (c badCode) Begin(context.Context, *generate.Wanted) (generate.Begun, error) {
	return generate.Begun{Parsers: []generate.Parser{badParser(c)}}, nil
}

// Skipped implements generate.BoundCode.
func (badCode) Skipped() []generate.Skip { return nil }

// Close implements generate.BoundCode.
func (badCode) Close() {}

// TestDisorder: a parser out of order is a plugin's fault, and a tool that was not
// demanded an error, whatever the parser says.
func TestDisorder(t *testing.T) {
	begin := generate.Delta{Kind: generate.DeltaBegin, Name: "f"}
	for _, c := range []struct {
		deltas []generate.Delta
		choice generate.ToolChoice
		want   error
	}{
		{[]generate.Delta{{Kind: generate.DeltaArguments}}, generate.ToolChoice{}, llm.ErrPlugin},
		{[]generate.Delta{{Kind: generate.DeltaEnd}}, generate.ToolChoice{}, llm.ErrPlugin},
		{[]generate.Delta{begin, begin}, generate.ToolChoice{}, llm.ErrPlugin},
		{[]generate.Delta{{Kind: 9}}, generate.ToolChoice{}, llm.ErrPlugin},
		{[]generate.Delta{begin}, generate.ToolChoice{Mode: generate.ChooseNamed, Name: "g"}, generate.ErrTool},
		{[]generate.Delta{{Kind: generate.DeltaBegin, Name: "h"}}, generate.ToolChoice{Mode: generate.ChooseRequired},
			generate.ErrTool},
	} {
		s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(),
			nil).WithUserCode(badCode{deltas: c.deltas})
		run, err := s.Start(t.Context(), generate.Draft{Conversation: offering(c.choice)})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := collect(t, run); !errors.Is(err, c.want) {
			t.Errorf("%+v: got %v, want %v", c.deltas, err, c.want)
		}
		run.Close()
	}
}

// TestAnyCut: however a text is cut into tokens, the deltas say the same, and no
// beginning of the arguments of a call is JSON unless the call is complete.
func TestAnyCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{
		`<think>a }{ b</think>Héllo <call>f c1 {"x":{"y":"}"},"z":[{}]}</call> and <call>g - {}</call>.`,
		`<call>f c1 {"x":1} x}</call><call>h c2 {}</call><call>f c3 {!!}</call>`,
		`ab<call>g c1 {"a":{"b":{}}}`, `a<think`, `a <call>f`, `<call>f c1 {}</call>aSTb`, `<call>f c1 {"S`,
	} {
		for _, end := range []llm.Reason{llm.FinishEOS, llm.FinishLength} {
			want, wantCalls := "", ""
			for round := range 200 {
				list := cut(rng, text, round)
				reply, deltas, err := read(t, offering(generate.ToolChoice{}), end, []string{"ST"}, list)
				if err != nil {
					t.Fatal(err)
				}
				got, calls := spell(deltas), complete(reply)
				if round == 0 {
					want, wantCalls = got, calls
				}
				if got != want || calls != wantCalls {
					t.Fatalf("%+v:\n got %q, %q\nwant %q, %q", list, got, calls, want, wantCalls)
				}
				held(t, reply, deltas)
			}
		}
	}
}

// cut cuts text at random places, in the first round nowhere. It cuts characters
// too: the engine does not, but it may not matter.
func cut(rng *rand.Rand, text string, round int) []generate.Token {
	if round == 0 {
		return []generate.Token{{Text: text}}
	}
	var out []generate.Token
	for text != "" {
		n := min(len(text), 1+rng.IntN(1+round%9))
		out = append(out, generate.Token{Text: text[:n]})
		text = text[n:]
	}
	return out
}

// held checks that the arguments of no call are JSON before their last piece, and
// then only those of complete calls.
func held(t *testing.T, reply *generate.Reply, deltas []generate.Delta) {
	t.Helper()
	done := map[int]string{}
	for _, c := range reply.Calls() {
		done[c.Index] = c.Arguments
	}
	said := map[int]string{}
	for _, d := range deltas {
		if d.Kind != generate.DeltaArguments {
			continue
		}
		said[d.Index] += d.Text
		if json.Valid([]byte(said[d.Index])) && said[d.Index] != done[d.Index] {
			t.Fatalf("call %d can be read as %s, complete is %q", d.Index, said[d.Index], done[d.Index])
		}
	}
	for i, text := range done {
		if said[i] != text {
			t.Fatalf("call %d has the arguments %s, %s were told", i, text, said[i])
		}
	}
}

// TestSegments: special tokens come in their place among what may be shown.
func TestSegments(t *testing.T) {
	events := generatetest.Sequence(engine.Request{}, 0, llm.FinishEOS, tokens("a|^<x>|bS|^<T|c|^</s>")...)
	events[len(events)-1].Finish.Text += "\uFFFD" // a character that stayed incomplete
	h := generate.NewStopFilter([]string{"S<TU", "c</s>"}, false)
	var got []generate.Segment
	for i := range events {
		got = append(got, h.Next(&events[i])...)
	}
	want := []generate.Segment{{Text: "a"}, {Text: "<x>", Special: true}, {Text: "b"}, {Text: "S"},
		{Text: "<T", Special: true}, {Text: "c"}, {Text: "\uFFFD"}, {Text: "</s>", Special: true}}
	if !reflect.DeepEqual(got, want) || h.Stopped() {
		t.Errorf("got %+v", got)
	}
}

// TestStopInRest: the rest of a text, known at its end alone, may hold a stop string.
func TestStopInRest(t *testing.T) {
	events := generatetest.Sequence(engine.Request{}, 0, llm.FinishEOS, tokens("a|^</s>")...)
	events[len(events)-1].Finish.Text += "\uFFFD"
	h := generate.NewStopFilter([]string{"\uFFFD"}, false)
	var got strings.Builder
	for i := range events {
		for _, s := range h.Next(&events[i]) {
			got.WriteString(s.Text)
		}
	}
	if got.String() != "a\uFFFD</s>" {
		t.Errorf("got %q", got.String())
	}
}

// TestCallsThatAreNone: what a parser says is a call of a tool that may not be called is content, and a call beyond the
// one that is allowed is nothing.
func TestCallsThatAreNone(t *testing.T) {
	begin := func(i int, name string) generate.Delta {
		return generate.Delta{Kind: generate.DeltaBegin, Index: i, Name: name, ID: "c" + name}
	}
	args := func(i int, text string) generate.Delta {
		return generate.Delta{Kind: generate.DeltaArguments, Index: i, Text: text}
	}
	end := func(i int) generate.Delta { return generate.Delta{Kind: generate.DeltaEnd, Index: i} }
	two := []generate.Delta{begin(0, "odd"), args(0, `{"a":`), args(0, `1}`), end(0), begin(1, "f"), args(1, `{}`),
		end(1), begin(2, "f"), args(2, `{"b":2}`), end(2)}
	one := offering(generate.ToolChoice{Mode: generate.ChooseNamed, Name: "f"})
	none := offering(generate.ToolChoice{Mode: generate.ChooseNone})
	none.Parallel, one.Parallel = true, true
	auto := offering(generate.ToolChoice{})
	auto.Parallel = true
	for _, c := range []struct {
		name    string
		in      *generate.Conversation
		deltas  []generate.Delta
		content string
		calls   []string
	}{
		{"auto", auto, two, `{"name": "odd", "arguments": {"a":1}}`, []string{`0 f {}`, `1 f {"b":2}`}},
		{"none", none, two[4:7], `{"name": "f", "arguments": {}}`, nil},
		{"by name", one, two[4:], "", []string{`0 f {}`}},
		{"a failure of another tool", auto, []generate.Delta{begin(0, "odd"), args(0, `{"a`),
			{Kind: generate.DeltaFailed, Index: 0, Text: `<odd {"a>`, Failed: generate.FailedMalformed}}, `<odd {"a>`,
			nil},
	} {
		reply, deltas := fed(t, c.in, c.deltas)
		content, shown := "", 0
		for _, d := range deltas {
			switch d.Kind {
			case generate.DeltaContent:
				content += d.Text
			case generate.DeltaBegin:
				if d.Index != shown {
					t.Errorf("%s: call %d begins as %d", c.name, shown, d.Index)
				}
				shown++
			}
		}
		var calls []string
		for _, k := range reply.Calls() {
			calls = append(calls, fmt.Sprint(k.Index, " ", k.Name, " ", k.Arguments))
		}
		if content != c.content || !reflect.DeepEqual(calls, c.calls) || shown != len(calls) ||
			reply.Called() != (len(calls) > 0) {
			t.Errorf("%s: content %s, calls %q, %d shown", c.name, content, calls, shown)
		}
	}
}

// fed returns what a reply makes of the deltas of a parser.
func fed(t *testing.T, c *generate.Conversation, list []generate.Delta) (*generate.Reply, []generate.Delta) {
	t.Helper()
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		return generatetest.Sequence(r, 0, llm.FinishEOS, generate.Token{Text: "x"})
	}}
	s := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).WithUserCode(badCode{deltas: list})
	run, err := s.Start(t.Context(), generate.Draft{Conversation: c})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	replies, all, err := collect(t, run)
	if err != nil {
		t.Fatal(err)
	}
	return replies[0], all[0]
}
