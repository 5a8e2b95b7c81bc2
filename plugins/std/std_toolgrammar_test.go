package std_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/plugins/std/toolcalls"
	"tgi/sdk/abi"
)

// marked is a vocabulary of all bytes, the token that ends a text, and special tokens.
type marked []string

const markedEnd = 256

func (m marked) Size() int { return markedEnd + 1 + len(m) }

func (m marked) Bytes(id uint32) []byte {
	switch {
	case id < markedEnd:
		return []byte{byte(id)}
	case id == markedEnd:
		return []byte("<|the end|>")
	case int(id) < m.Size():
		return []byte(m[id-markedEnd-1])
	}
	return nil
}

func (m marked) Flags(id uint32) uint32 {
	switch {
	case id < markedEnd:
		return 0
	case id == markedEnd:
		return abi.TokenSpecial | abi.TokenEnd
	}
	return abi.TokenSpecial
}

func (m marked) EncodeData(text string) []uint32 { return m.Encode(text) }

func (m marked) Encode(text string) (ids []uint32) {
next:
	for text != "" {
		for i, s := range m {
			if strings.HasPrefix(text, s) {
				ids, text = append(ids, uint32(markedEnd+1+i)), text[len(s):]
				continue next
			}
		}
		ids, text = append(ids, uint32(text[0])), text[1:]
	}
	return ids
}

// split cuts a marker as the guest does.
func (m marked) split(text string) (out []toolcalls.Piece) {
	for _, id := range m.Encode(text) {
		p := toolcalls.Piece{Text: string(m.Bytes(id)), Special: m.Flags(id)&abi.TokenSpecial != 0,
			End: m.Flags(id)&abi.TokenEnd != 0}
		if n := len(out); n > 0 && !p.Special && !out[n-1].Special {
			out[n-1].Text += p.Text
			continue
		}
		out = append(out, p)
	}
	return out
}

// specials are the markers of the formats that are special tokens in some vocabulary.
var specials = marked{
	"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<think>", "</think>",
	"<tool_call>", "</tool_call>",
	"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "<|START_THINKING|>", "<|END_THINKING|>",
	"<|START_ACTION|>", "<|END_ACTION|>",
	"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|tool_call_begin|>", "<|tool_call_end|>",
	"<|tool_calls_section_begin|>",
	"<|tool_calls_section_end|>", "<|tool_call_argument_begin|>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
	"<｜tool▁call▁begin｜>",
	"<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "｜DSML｜", "<|tool_call|>", "<|/tool_call|>", "<|python_tag|>",
	"<|python_start|>", "<|python_end|>",
	"<|tool_call_start|>", "<|tool_call_end|>", "<minimax:tool_call>", "</minimax:tool_call>", "<arg_key>",
	"</arg_key>", "<arg_value>", "</arg_value>",
	"<seed:tool_call>", "</seed:tool_call>",
}

// heldTools are those of these tests. Their schemas hold what formats differ in.
const heldTools = `[
{"name":"get_weather","parameters":{"type":"object","additionalProperties":false,"required":["city","unit"],"properties":{
 "city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahren heit"]},"days":{"type":"integer","minimum":1,"maximum":7}}}},
{"name":"set-all.v2","parameters":{"type":"object","additionalProperties":false,"required":["code","on"],"$defs":{"p":{"type":"object","additionalProperties":false,
 "required":["x"],"properties":{"x":{"type":"number","minimum":-1000,"maximum":1000}}}},"properties":{
 "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},"flags":{"type":"array","items":{"type":"boolean"},"maxItems":3},"at":{"$ref":"#/$defs/p"},
 "code":{"type":"string","pattern":"^[A-Z]{2}-\\d{3}$"},"note":{"type":"string","minLength":2,"maxLength":6},"on":{"type":"boolean"},
 "either":{"enum":["a",1,null]},"none":{"type":"null"}}}},
{"name":"opt","parameters":{"additionalProperties":false,"properties":{"a":{"enum":[1,2.5]},"b":{"type":"string","maxLength":3},
 "c":{"type":["string","null"]},"d":{"type":["integer","null"],"minimum":0,"maximum":9},"e":{"const":"it's \"so\"\n"},"f":{"type":"string","minLength":1}}}},
{"name":"now"}]`

// heldAnswer is what an answer is to be where it is no call.
const heldAnswer = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`

type heldTool struct {
	Name       string
	Parameters json.RawMessage
}

// schema is what a validator needs to know of the schemas of these tests.
type schema struct {
	Type       any
	Properties map[string]*schema
	Required   []string
	Enum       []any
	Const      any
	AnyOf      []*schema
	Items      *schema
	Pattern    string
	Ref        string `json:"$ref"`
	Minimum    *float64
	Maximum    *float64
	MinLength  int
	MaxLength  *int
	MaxItems   *int
	Defs       map[string]*schema `json:"$defs"`
}

// fault says why a value does not fit, or nothing. No object may have more than its properties.
func (s *schema) fault(v any, root *schema) string {
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].fault(v, root)
	}
	kind := map[bool]string{true: "null"}[v == nil]
	bad := ""
	switch x := v.(type) {
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
		n := utf8.RuneCountInString(x)
		if n < s.MinLength || s.MaxLength != nil && n > *s.MaxLength || s.Pattern != "" &&
			!regexp.MustCompile(s.Pattern).MatchString(x) {
			bad = "length or pattern"
		}
	case float64:
		kind = "number"
		if s.is("integer") && x == math.Trunc(x) {
			kind = "integer"
		}
		if s.Minimum != nil && x < *s.Minimum || s.Maximum != nil && x > *s.Maximum {
			bad = "bounds"
		}
	case []any:
		kind = "array"
		if s.MaxItems != nil && len(x) > *s.MaxItems {
			bad = "too many"
		}
		for _, y := range x {
			bad += s.Items.fault(y, root)
		}
	case map[string]any:
		kind = "object"
		for _, name := range s.Required {
			if _, ok := x[name]; !ok {
				bad += " lacks " + name
			}
		}
		for name, y := range x {
			if s.Properties[name] == nil {
				bad += " has " + name
			} else {
				bad += s.Properties[name].fault(y, root)
			}
		}
	}
	if s.AnyOf != nil && !slices.ContainsFunc(s.AnyOf, func(a *schema) bool { return a.fault(v, root) == "" }) {
		bad += " none of anyOf"
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		bad += " not in enum"
	}
	if s.Const != nil && v != s.Const {
		bad += " not the constant"
	}
	if s.Type != nil && !s.is(kind) {
		bad += fmt.Sprintf(" %s, not %s", kind, s.Type)
	}
	return bad
}

// is says whether a type is one that the schema allows.
func (s *schema) is(kind string) bool {
	if list, ok := s.Type.([]any); ok {
		return slices.Contains(list, any(kind))
	}
	return s.Type == kind
}

// writer writes random texts of a grammar.
type writer struct {
	r     *rand.Rand
	v     marked
	begin []string // texts that begin calls: one is tried first, mostly
	hints []string // texts that are tried now and then
	ends  []string // markers that end something: tried more often once the text is long
}

// write gives the tokens of a text, or of its beginning where it gets too long.
func (w *writer) write(t *testing.T, g *plugins.Grammar) (ids []uint32, whole bool) {
	t.Helper()
	s, err := g.Sequence(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bits := make([]uint32, abi.MaskWords(uint32(w.v.Size())))
	var plan []uint32
	if len(w.begin) > 0 && w.r.IntN(4) > 0 {
		plan = w.v.Encode(w.begin[w.r.IntN(len(w.begin))])
	}
	for len(ids) < 1500 {
		if _, err := s.Mask(bits); err != nil {
			t.Fatalf("%v after %q", err, w.text(ids))
		}
		allowed := func(id uint32) bool { return bits[id/32]>>(id%32)&1 == 1 }
		if late := len(ids) > 200; len(plan) == 0 && (late || w.r.IntN(4) == 0) {
			list := w.hints
			if late && w.r.IntN(2) == 0 && len(w.ends) > 0 {
				list = w.ends
			}
			plan = w.v.Encode(list[w.r.IntN(len(list))])
		}
		var next uint32
		switch {
		case allowed(markedEnd) && (len(ids) > 200 || len(ids) > 40 && len(plan) == 0 && w.r.IntN(4) == 0):
			return ids, true
		case len(plan) > 0 && allowed(plan[0]):
			next, plan = plan[0], plan[1:]
		default:
			plan = nil
			if next = w.any(allowed); next == markedEnd {
				return ids, true
			}
		}
		if err := s.Accept(next); err != nil {
			t.Fatalf("%v after %q", err, w.text(ids))
		}
		ids = append(ids, next)
	}
	return ids, false
}

// any is an allowed token, mostly one that is read well.
func (w *writer) any(allowed func(uint32) bool) uint32 {
	var list, plain []uint32
	for id := range uint32(w.v.Size()) {
		if allowed(id) {
			list = append(list, id)
			if id >= ' ' && id < 0x7f {
				plain = append(plain, id)
			}
		}
	}
	if len(plain) > 0 && w.r.IntN(8) > 0 {
		list = plain
	}
	return list[w.r.IntN(len(list))]
}

func (w *writer) text(ids []uint32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, w.v.Bytes(id)...)
	}
	return string(b)
}

// parseHeld reads a text, or its beginning, as the format does.
func parseHeld(f *toolcalls.Format, o toolcalls.Options, v marked, ids []uint32, whole bool) (calls []toolcalls.Event,
	said, failed string) {
	p := toolcalls.New(f, o)
	var events []toolcalls.Event
	for _, id := range ids {
		if v.Flags(id) != 0 {
			events = append(events, p.Special(string(v.Bytes(id)))...)
		} else {
			events = append(events, p.Feed(string(v.Bytes(id)))...)
		}
	}
	if whole {
		events = append(events, p.Finish()...)
	}
	for _, e := range events {
		switch e.Kind {
		case toolcalls.Content:
			said += strings.Join(strings.Fields(e.Text), "")
		case toolcalls.CallBegin:
			calls = append(calls, e)
		case toolcalls.Arguments:
			calls[len(calls)-1].Text += e.Text
		case toolcalls.CallEnd:
			calls[len(calls)-1].Kind = toolcalls.CallEnd
		case toolcalls.CallFailed:
			failed += fmt.Sprintf(" %s %s %q", e.Name, e.Reason, e.Text)
		}
	}
	return calls, said, failed
}

// TestConstrainedCalls writes random texts that the grammars of the formats admit and reads them back: every text is
// complete calls of tools that were offered, as many as are allowed, with arguments that fit.
func TestConstrainedCalls(t *testing.T) {
	var tools []heldTool
	if err := json.Unmarshal([]byte(heldTools), &tools); err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*schema{"now": {Type: "object"}}
	for _, x := range tools {
		if x.Parameters != nil {
			schemas[x.Name] = &schema{}
			if err := json.Unmarshal(x.Parameters, schemas[x.Name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, v := range []marked{{}, specials} {
		set, err := plugins.Open(t.Context(), plugins.Options{
			Specs: []plugins.Spec{{Name: "grammar", Source: "builtin:grammar"}}, Builtin: std.FS(), Vocabulary: v,
			CacheDir: testcache.Dir(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(set.Close)
		for _, name := range toolcalls.Presets() {
			t.Run(fmt.Sprintf("%s/%d", name, len(v)), func(t *testing.T) {
				for i, mode := range []toolcalls.Choice{
					{Mode: toolcalls.Required}, {Mode: toolcalls.Required, Single: true}, {Mode: toolcalls.Exact,
						Name: "set-all.v2"}, {}, {Single: true},
				} {
					checkHeld(t, set, v, name, mode, i%2 == 1, nil, tools, schemas)
				}
				for _, thinking := range []bool{false, true} {
					checkHeld(t, set, v, name, toolcalls.Choice{}, thinking, []byte(heldAnswer), tools, schemas)
				}
			})
		}
	}
}

func checkHeld(t *testing.T, set *plugins.Set, v marked, preset string, choice toolcalls.Choice, thinking bool,
	answer []byte, tools []heldTool, schemas map[string]*schema) {
	t.Helper()
	f, _ := toolcalls.Preset(preset)
	thinking = thinking && f.Reasoning != nil
	d := toolcalls.Demand{Choice: choice, Thinking: thinking, Reasons: true, Split: v.split}
	if answer != nil {
		d.Answer = &toolcalls.Answer{Language: "json_schema", Source: string(answer)}
	}
	o := toolcalls.Options{Choice: choice, Thinking: thinking, Seed: 1}
	for _, x := range tools {
		tool := toolcalls.Tool{Name: x.Name, Parameters: x.Parameters, Strict: true}
		d.Tools, o.Tools = append(d.Tools, tool), append(o.Tools, tool)
	}
	c, err := f.Constraint(d)
	if err != nil {
		t.Errorf("%+v: %v", choice, err)
		return
	}
	if c.Source == "" {
		if answer == nil && len(c.Dropped) == 0 || answer != nil && f.Bare == "" || choice.Mode != toolcalls.Auto {
			t.Errorf("%+v: held to nothing, and nothing is said of it", choice)
		}
		return
	}
	g, err := set.Compile(t.Context(), plugins.GrammarCall{Language: "structural_tag", Source: []byte(c.Source)})
	if err != nil {
		t.Errorf("%+v: %v\n%s", choice, err, c.Source)
		return
	}
	defer g.Close()
	w := &writer{r: rand.New(rand.NewPCG(1, uint64(len(preset)))), v: v, hints: []string{`"`, "}", "]", ")", "x", `"}`,
		"</parameter>", `a": 1`}}
	w.begin = slices.Concat(f.Section.Begin, f.Call.Begin)
	for _, list := range [][]string{f.Call.Begin, f.Call.End, f.Section.Begin, f.Section.End} {
		w.hints = append(w.hints, list...)
	}
	w.ends = slices.Concat(f.Call.End, f.Section.End)
	if f.Reasoning != nil {
		w.ends = append(w.ends, f.Reasoning.End...)
	}
	if f.Tagged != nil {
		w.hints = append(append(w.hints, f.Tagged.Close...), "\n"+f.Tagged.Close[0])
		w.ends = append(w.ends, "\n"+f.Tagged.Close[0], f.Tagged.Close[0])
	}
	if f.Reasoning != nil {
		w.hints = append(append(w.hints, f.Reasoning.Begin...), f.Reasoning.End...)
		for i := range w.begin {
			if thinking {
				w.begin[i] = f.Reasoning.End[0] + w.begin[i]
			}
		}
	}
	if f.Channels != nil {
		w.begin = []string{"<|channel|>commentary to=functions.", "<|channel|>analysis<|message|>",
			"<|channel|>final<|message|>"}
		w.hints = append(w.hints, "<|end|>", "<|end|><|start|>assistant",
			"<|channel|>commentary to=functions.now <|message|>{")
	}
	seen := 0
	for range 8 {
		ids, whole := w.write(t, g)
		text := w.text(ids)
		calls, said, failed := parseHeld(f, o, v, ids, whole)
		if !whole && len(calls) > 0 && calls[len(calls)-1].Kind != toolcalls.CallEnd {
			calls = calls[:len(calls)-1]
		}
		seen += len(calls)
		switch {
		case failed != "":
			t.Errorf("%+v: a call failed:%s\nof %q", choice, failed, text)
		case whole && choice.Mode != toolcalls.Auto && len(calls) == 0, choice.Single && len(calls) > 1:
			t.Errorf("%+v: %d calls in %q", choice, len(calls), text)
		case answer != nil && whole && len(calls) == 0 && said != `{"ok":true}` && said != `{"ok":false}`,
			answer != nil && len(calls) > 0 && said != "":
			t.Errorf("%+v: %d calls, and it says %q: %q", choice, len(calls), said, text)
		}
		for _, e := range calls {
			var value any
			if err := json.Unmarshal([]byte(e.Text), &value); err != nil || e.Kind != toolcalls.CallEnd {
				t.Errorf("%+v: %v in %q of %q", choice, err, e.Text, text)
			} else if why := schemas[e.Name].fault(value, schemas[e.Name]); why != "" {
				t.Errorf("%+v: %s: %s of %q", choice, why, e.Text, text)
			}
			if choice.Mode == toolcalls.Exact && e.Name != choice.Name {
				t.Errorf("%+v: a call of %s", choice, e.Name)
			}
		}
		if t.Failed() {
			return
		}
	}
	if seen == 0 {
		t.Errorf("%+v: no text has a call", choice)
	}
}
