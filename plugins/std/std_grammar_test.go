package std_test

import (
	kit "tgi/conformance/guest"
	"tgi/plugins/check"
)

func init() {
	sources := []kit.Source{
		{Language: "json_schema",
			Text: `{"$defs":{"t":{"type":"object","properties":{"next":{"$ref":"#/$defs/t"}}}},"$ref":"#/$defs/t"}`},
		{Language: "json_schema", Text: `{"type":"string","format":"made-up"}`},
		{Language: "json_schema", Text: `{"type":"number","multipleOf":0.01,"minimum":-5}`},
		{Language: "regex", Text: `[ab]*a[ab]{13}`}, {Language: "regex", Text: `(a{1000}){1000}`},
		{Language: "regex", Text: `\p{L}+`},
		{Language: "choice", Text: `["` + "é\\n" + `"]`}, {Language: "json", Text: ""},
	}
	cases["grammar"] = []check.Case{
		{Sources: sources},
		{Params: `{"lenient":true}`, Sources: sources},
		{Config: `{"whitespace":"compact","formats":false}`, Params: `{"whitespace":"flexible","indent":2,"draft":"7"}`,
			Sources: sources},
		{Config: `{"x-order":"any"}`, Params: `{"x-order":"schema"}`, Sources: sources},
		{Params: `{"x-order":"any"}`, Sources: sources},
		{Params: `{"x-order":"none"}`, Refused: true},
		{Params: `{"whitespace":"none"}`, Refused: true},
		{Params: `{"whitespace":"compact","indent":2}`, Refused: true},
		{Params: `{"lenient":"yes"}`, Refused: true},
		{Params: `{"indent":201}`, Refused: true},
		{Params: `{"strict":true}`, Refused: true},
		{Params: `{"draft":"4"}`, Refused: true},
	}
}
