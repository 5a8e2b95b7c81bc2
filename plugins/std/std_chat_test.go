package std_test

import (
	"os"
	"strings"

	"tgi/plugins/check"
)

func init() {
	cases["jinja"] = []check.Case{
		{},
		{Params: `{"template":"default"}`},
		{Config: `{"source":"{% for m in messages %}{{ m.role ~ ': ' ~ m.content }}\n{% endfor %}"}`},
		{Config: `{"parts":"join"}`},
		{Config: `{"parts":"keep"}`},
		{Config: `{"tools":"keep"}`},
		{Params: `{"template":7}`, Refused: true},
		{Params: `{"name":"default"}`, Refused: true},
	}
	cases["toolcalls"] = []check.Case{
		{},
		{Config: `{"format":"auto"}`, Params: `{"format":"auto"}`},
		{Params: `{"format":{"name":"mine","call":{"begin":["<call>"],"end":["</call>"]},"named":{"separators":["<args>"]}}}`},
		{Config: `{"template":"{{ '<tool_call>' }}"}`},
		{Params: `{"format":"nonesuch"}`, Refused: true},
		{Params: `{"format":{"name":"mine"}}`, Refused: true},
		{Params: `{"preset":"hermes"}`, Refused: true},
	}
	for _, preset := range []string{"hermes", "gpt-oss"} { // TestToolcallsGoldens has them all
		c := check.Case{Config: `{"format":"` + preset + `"}`}
		data, err := os.ReadFile("toolcalls/testdata/presets/" + preset + ".txt")
		if err != nil {
			panic(err)
		}
		for _, part := range strings.Split("\n"+string(data), "\n== ")[1:] {
			_, rest, _ := strings.Cut(part, "\n")
			text, _, _ := strings.Cut(rest, "\n--\n")
			if len(c.Texts) < 1 {
				c.Texts = append(c.Texts, strings.ToValidUTF8(text, "\uFFFD"))
			}
		}
		cases["toolcalls"] = append(cases["toolcalls"], c)
	}
}
