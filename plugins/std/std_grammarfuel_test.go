package std_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
)

// listOf joins what f makes of the numbers below n.
func listOf(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

// TestGrammarFuel: schemas whose states multiply are refused, or compiled, for little fuel, which does not depend on
// how busy the machine is. 1,000,000 units are about 0.2 ms.
func TestGrammarFuel(t *testing.T) {
	names := listOf(60, func(i int) string { return fmt.Sprintf(`"name_of_member_%d":{}`, i) })
	for name, c := range map[string]struct {
		schema, refused string
		millions        uint64
	}{
		"contains": {
			schema: `{"type":"array","allOf":[` + listOf(6, func(i int) string {
				return fmt.Sprintf(`{"contains":{"const":%d},"minContains":5,"maxContains":9}`, i)
			}) + `]}`,
			refused: "counting items of certain kinds takes more than 6000 states", millions: 150,
		},
		"contains of which most may not come": {
			schema: `{"type":"array","allOf":[` + listOf(16, func(i int) string {
				return fmt.Sprintf(`{"contains":{"const":%d},"minContains":0,"maxContains":0}`, i)
			}) + `]}`, millions: 150,
		},
		"uniqueItems": {
			schema: `{"type":"array","uniqueItems":true,"items":{"enum":[` + listOf(24, func(i int) string {
				return fmt.Sprint(i)
			}) + `]}}`,
			refused: "telling the items apart takes more than 6000 states", millions: 60,
		},
		"multiples of none of several": {
			schema: `{"type":"integer","multipleOf":13,"not":{"anyOf":[{"multipleOf":2},{"multipleOf":3},{"multipleOf":5},{"multipleOf":7},
				{"multipleOf":11}]},"exclusiveMinimum":100,"exclusiveMaximum":1000}`, millions: 400,
		},
		"multiples of eight numbers": {
			schema: `{"type":"number","minimum":3,"allOf":[` + listOf(8, func(i int) string {
				return fmt.Sprintf(`{"multipleOf":%d}`, []int{7, 11, 13, 17, 19, 23, 29, 31}[i])
			}) + `]}`,
			refused: "bounds and multiples of a number take too many states together", millions: 100,
		},
		"multiples of 3999 with bounds": {
			schema:  `{"type":"number","multipleOf":3999,"minimum":-1e30,"maximum":1e30}`,
			refused: "bounds and multiples of a number take too many states together", millions: 600,
		},
		"13 patterns of names": {
			schema: `{"patternProperties":{` + listOf(13, func(i int) string {
				return fmt.Sprintf(`"[a-z]*%c[a-z]{8}":{"maxLength":%d}`, 'a'+i, i)
			}) + `}}`,
			refused: "patterns of names tell more than 64 kinds of names apart", millions: 800,
		},
		"names of two lists": {
			schema: `{"type":"object","allOf":[{"properties":{` + names + `,"one":{}},"additionalProperties":false},
				{"properties":{` + names + `,"other":{}},"additionalProperties":false}]}`, millions: 37,
		},
	} {
		set := openGrammar(t)
		set.Prepared()
		used := func() uint64 {
			st, _ := set.Get("grammar")
			return st.Stats.Fuel
		}
		before := used()
		g, err := set.Compile(context.Background(), plugins.GrammarCall{Plugin: "grammar", Language: "json_schema",
			Source: []byte(c.schema)})
		units := used() - before
		t.Logf("%-40s %6.1f million units: %v", name, float64(units)/1e6, err)
		if units > c.millions*1e6 || units == 0 {
			t.Errorf("%s: %d units of fuel, want at most %d million", name, units, c.millions)
		}
		if err == nil {
			g.Close()
		}
		if c.refused == "" && err != nil || c.refused != "" &&
			(err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

// TestPatternAndLength: a pattern behind whose first character is the same pattern again is followed beside a length;
// it took a stack without end to see whether the length counts all of its characters, which ends a process.
func TestPatternAndLength(t *testing.T) {
	world := kit.NewWorld()
	set := openGrammarOver(t, world)
	g, err := set.Compile(context.Background(), plugins.GrammarCall{
		Plugin: "grammar", Language: "json_schema",
		Source: []byte(`{"type":"string","pattern":"\\p{Letter}cole","maxLength":40}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s, err := g.Sequence(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bits := make([]uint32, (words{world}.Size()+31)/32)
	if _, err := s.Mask(bits); err != nil {
		t.Fatal(err)
	}
	if slices.Max(bits) == 0 {
		t.Error("no token may come")
	}
}
