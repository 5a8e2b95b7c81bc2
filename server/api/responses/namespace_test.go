package responses

import (
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// TestNamespace: tools of a namespace, as Codex offers them, are called by their own names, and calls name it.
func TestNamespace(t *testing.T) {
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		return generatetest.Sequence(r, 0, llm.FinishEOS, generate.Token{Text: `<call>close_agent c1 {"a": 1}</call>`},
			generate.Token{Text: `<call>ls c2 {}</call>`})
	}}
	s, _ := newServer(e, &generatetest.Chat{Parse: true})
	const body = `{"model":"m","input":"x","tools":[{"type":"function","name":"ls"},{"type":"namespace","name":"agents",` +
		`"description":"d","tools":[{"type":"function","name":"close_agent","strict":false,"parameters":{}}]}]`
	got := ask(s, "POST", path, body+`}`).Body.String()
	if !strings.Contains(got, `"name":"close_agent","arguments":"{\"a\": 1}","namespace":"agents"}`) ||
		strings.Count(got, `"namespace":"agents"`) != 1 {
		t.Errorf("got %s", got)
	}
	for tools, want := range map[string]string{
		`{"type":"namespace","name":"a b","tools":[]}`:                              "the name of a namespace",
		`{"type":"namespace","name":"a","tools":[{"type":"namespace","name":"b"}]}`: "tools of type `namespace`",
		`{"type":"namespace","name":"a","tools":[{"type":"web_search"}]}`:           "tools of type `web_search`",
		`{"type":"function","name":"x"},{"type":"namespace","name":"a","tools":[{"type":"function",` +
			`"name":"x"}]}`: "no other tool has",
	} {
		if rec := ask(s, "POST", path, `{"input":"x","tools":[`+tools+`]}`); rec.Code != 400 ||
			!strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", tools, rec.Code, rec.Body)
		}
	}
}
