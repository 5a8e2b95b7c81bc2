package toolcalls

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// demand is one for tools whose parameters are given, named f, g and so on.
func demand(choice Choice, strict bool, parameters ...string) Demand {
	d := Demand{Choice: choice}
	for i, p := range parameters {
		d.Tools = append(d.Tools, Tool{Name: string(rune('f' + i)), Parameters: []byte(p), Strict: strict})
	}
	return d
}

func preset(t testing.TB, name string) *Format {
	t.Helper()
	f, ok := Preset(name)
	if !ok {
		t.Fatalf("no preset %s", name)
	}
	return f
}

// TestConstraintSource: the whole grammar of a format that is small enough to be read.
func TestConstraintSource(t *testing.T) {
	f := &Format{Name: "small", Call: Span{Begin: []string{"<call>"}, End: []string{"</call>"}},
		Named: &Named{Separators: []string{" "}}}
	d := demand(Choice{Mode: Required, Single: true}, true, `{"type":"object"}`)
	d.Split = func(m string) []Piece { return []Piece{{Text: m, Special: m[0] == '<'}} }
	const call = `{"type":"token","token":"<call>"},{"type":"regex","pattern":"f"},{"type":"const_string","value":" "},{"type":"regex","pattern":"[ \\n]{0,2}"},` +
		`{"type":"json_schema","json_schema":{"type":"object"}},{"type":"regex","pattern":"[ \\n]{0,2}"},{"type":"token","token":"</call>"}`
	c, err := f.Constraint(d)
	if want := `{"type":"sequence","elements":[` + call + `]}`; err != nil || c.Source != want || c.Optional {
		t.Errorf("%v\ngot  %s\nwant %s", err, c.Source, want)
	}
	if want := []Place{{"#/elements/4/json_schema", "#/tools/0/function/parameters", "f"}}; !reflect.DeepEqual(c.Places,
		want) {
		t.Errorf("places %+v", c.Places)
	}
	d.Choice, d.Tools[0].Strict = Choice{}, true
	c, err = f.Constraint(d)
	const free = `{"type":"any_text","excludes":["<call>"]}`
	if want := `{"type":"sequence","elements":[{"type":"star","content":{"type":"sequence","elements":[` + free + `,` +
		call + `]}},` + free + `]}`; err != nil || c.Source != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, c.Source, want)
	}
	d.Choice.Mode, d.Tools[0].Strict = Required, false
	if c, err = f.Constraint(d); err != nil || !strings.Contains(c.Source, `"lenient":true`) || !c.Optional {
		t.Errorf("a tool that is not strict: %s, %v", c.Source, err)
	}
}

// TestConstraintNothing: where there is nothing to hold to.
func TestConstraintNothing(t *testing.T) {
	for _, d := range []Demand{
		{}, demand(Choice{}, false, `{}`), demand(Choice{Mode: None}, true, `{}`), demand(Choice{Mode: Required}, true),
		demand(Choice{Mode: Exact, Name: "x"}, true, `{}`),
	} {
		for _, name := range Presets() {
			if c, err := preset(t, name).Constraint(d); err != nil || !reflect.DeepEqual(c, Constraint{}) {
				t.Errorf("%s, %+v: %+v, %v", name, d, c, err)
			}
		}
	}
}

// TestConstraintCannot: what a format can't say is an error where a strict tool's call is demanded, and a note
// elsewhere.
func TestConstraintCannot(t *testing.T) {
	for _, c := range []struct{ preset, parameters, pointer, keyword string }{
		{"qwen3-coder", `{"properties":{"a":{"type":"string","format":"date"}}}`, "/properties/a", "type"},
		{"qwen3-coder", `{"properties":{"a~/b":{"type":"string","pattern":"<"}}}`, "/properties/a~0~1b", "type"},
		{"glm-4.5", `{"properties":{"a":{"type":"string","pattern":"^.$"}}}`, "/properties/a", "type"},
		{"glm-4.5", `{"properties":{"a":{"type":["string","integer"],"minimum":3}}}`, "/properties/a", "type"},
		{"glm-4.5", `{"properties":{"a":{"type":"string","pattern":"^a$","minLength":1}}}`, "/properties/a", "type"},
		{"minimax-m2", `{"properties":{"a":{"type":"string"}},"minProperties":1}`, "/minProperties", "minProperties"},
		{"deepseek-v3.2", `{"properties":{},"required":[" a"]}`, "/additionalProperties", "required"},
		{"pythonic", `{"properties":{"a":{}},"oneOf":[{}]}`, "/oneOf", "oneOf"},
		{"lfm2", `{"properties":{"a b":{}},"required":["a b"]}`, "/properties/a b", "required"},
		{"hermes", `{"type":"string"}`, "/type", "type"},
		{"mistral", `false`, "", "parameters"},
	} {
		f, pointer := preset(t, c.preset), "#/tools/0/function/parameters"+c.pointer
		_, err := f.Constraint(demand(Choice{Mode: Required}, true, c.parameters))
		if want := "tool `f`: " + pointer + ": " + c.keyword + ": "; err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s, %s: got %v, want %s", c.preset, c.parameters, err, want)
		}
		for _, d := range []Demand{demand(Choice{}, true, c.parameters), demand(Choice{Mode: Required}, false,
			c.parameters)} {
			got, err := f.Constraint(d)
			noted := false
			for _, x := range got.Dropped {
				noted = noted || x.Pointer == pointer && x.Keyword == c.keyword && x.Reason != ""
			}
			if err != nil || !noted {
				t.Errorf("%s, %s: %+v, %v", c.preset, c.parameters, got.Dropped, err)
			}
		}
	}
}

// TestConstraintBare: a call that begins without a marker is held where it is demanded; in Auto only what a marker
// begins is, and that is told.
func TestConstraintBare(t *testing.T) {
	for name, marked := range map[string]bool{"tgi": false, "llama3-json": true, "pythonic": true} {
		f := preset(t, name)
		if c, err := f.Constraint(demand(Choice{Mode: Required}, true, `{}`)); err != nil || c.Source == "" ||
			len(c.Dropped) > 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		c, err := f.Constraint(demand(Choice{}, true, `{}`, `{}`))
		if err != nil || (c.Source != "") != marked || len(c.Dropped) != 2 ||
			c.Dropped[1].Pointer != "#/tools/1/function/strict" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// TestConstraintLarge: tools of which no grammar is made are left alone, unless somebody insists.
func TestConstraintLarge(t *testing.T) {
	wide := func(n int) string {
		s := `{"properties":{"p":{}`
		for i := range n {
			s += fmt.Sprintf(`,"p%d":{"type":"integer"}`, i)
		}
		return s + "}}"
	}
	for name, members := range map[string]int{"hermes": 450, "lfm2": 45, "glm-4.5": 45, "deepseek-v3.2": 22} {
		f := preset(t, name)
		many := make([]string, 20)
		for i := range many {
			many[i] = wide(members)
		}
		c, err := f.Constraint(demand(Choice{Mode: Required}, false, many...))
		if err != nil || c.Source != "" || len(c.Dropped) != 1 || c.Dropped[0].Pointer != "#/tools" {
			t.Errorf("%s: %d bytes, %+v, %v", name, len(c.Source), c.Dropped, err)
		}
		if _, err := f.Constraint(demand(Choice{Mode: Required}, true, many...)); err == nil ||
			!strings.Contains(err.Error(), map[bool]string{true: "the limit is 196608",
				false: "more than 800 parameters"}[name == "hermes"]) {
			t.Errorf("%s: %v", name, err)
		}
		if c, err := f.Constraint(demand(Choice{Mode: Required}, true, many[:14]...)); err != nil || c.Source == "" ||
			len(c.Places) > 4096 {
			t.Errorf("%s: %d bytes, %d places, %v", name, len(c.Source), len(c.Places), err)
		}
	}
	for _, name := range Presets() { // 200 parameters, none of which must come, are not too many
		if c, err := preset(t, name).Constraint(demand(Choice{Mode: Required}, true, wide(200))); err != nil ||
			c.Source == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	big := `{"description":"` + strings.Repeat("x", maxListed) + `"}`
	if _, err := preset(t, "lfm2").Constraint(demand(Choice{Mode: Required}, true, big)); err == nil ||
		!strings.Contains(err.Error(), "the limit is 131072") {
		t.Errorf("too many bytes: %v", err)
	}
}

// TestConstraintFlat: a format of one's own that has the name among the arguments.
func TestConstraintFlat(t *testing.T) {
	f := &Format{Name: "flat", Bare: "{", JSON: &JSON{NameKeys: []string{"_name"}, Wrap: []string{"function"},
		Flat: true}}
	c, err := f.Constraint(demand(Choice{Mode: Required, Single: true}, true,
		`{"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false}`))
	want := `{"properties":{"_name":{"const":"f"},"a":{"type":"null"}},"required":["_name","a"],"type":"object","additionalProperties":false}`
	if err != nil || !strings.Contains(c.Source, `"json_schema":`+want) {
		t.Errorf("%s, %v", c.Source, err)
	}
	if _, err := f.Constraint(demand(Choice{Mode: Required}, true, `{"properties":{"_name":{}}}`)); err == nil {
		t.Error("a parameter in the name's place is accepted")
	}
}

func TestParametersOfTools(t *testing.T) {
	const any = `{"type":"object"}`
	for raw, want := range map[string]string{
		"":     `{"type":"object","properties":{},"additionalProperties":false}`,
		"null": `{"type":"object","properties":{},"additionalProperties":false}`,
		"{}":   any, " { } ": any, "true": any, `{"type":"object","a":1}`: `{"type":"object","a":1}`,
		`{"a":1}`:                                `{"type":"object","a":1}`,
		`{"a":1,"type":["null","object"],"b":2}`: `{"type":"object","a":1,"b":2}`, `{"type":["object"]}`: any,
		"[]": any, `{"a"`: any,
	} {
		h := &constraintBuilder{f: &Format{}}
		if got := h.parameters(&offered{Tool: Tool{Parameters: []byte(raw)}}); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// FuzzConstraint: whatever a tool's schema is, and whatever the format, the grammar is JSON whose places are schemas.
func FuzzConstraint(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z]$","minLength":1e99},"b":false,"c":true},"required":["c","d"],"$defs":{"x":{}}}`,
		`{"properties":{"a":{"enum":["</parameter>",1,null]},"b":{"anyOf":[{"type":"string"},{"type":"null"}]},"c":{"type":["string","object"]}}}`, `{"properties":{"":{}},"required":[1]}`, `{"a"`,
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, parameters string, strict bool) {
		for _, name := range append(Presets(), "flat") {
			format := &Format{Name: "flat", Bare: "{", JSON: &JSON{NameKeys: []string{"n"}, Wrap: []string{"w"},
				Flat: true}}
			if name != "flat" {
				format = preset(t, name)
			}
			for _, mode := range []Mode{Auto, Required} {
				c, err := format.Constraint(demand(Choice{Mode: mode}, strict, parameters, `{}`))
				if err != nil || c.Source == "" {
					continue
				}
				if !json.Valid([]byte(parameters)) {
					continue
				}
				var v any
				if err := json.Unmarshal([]byte(c.Source), &v); err != nil {
					t.Fatalf("%s: %v in %s", name, err, c.Source)
				}
				for _, p := range c.Places {
					if found := follow(v, p.At); found == nil {
						t.Fatalf("%s: nothing at %s of %s", name, p.At, c.Source)
					}
				}
			}
		}
	})
}

// follow is what a JSON pointer leads to, nil for nothing.
func follow(v any, pointer string) any {
	for _, part := range strings.Split(pointer, "/")[1:] {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return fmt.Errorf("no %s", part)
		}
	}
	return v
}
