package openai

import (
	"strings"
	"testing"

	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// TestSkippedPlugins: a reply tells of plugins that failed at its end, a stream
// in the last chunk of the last choice, once.
func TestSkippedPlugins(t *testing.T) {
	e := &generatetest.Engine{}
	s := newServer(e, func(l *generate.Limits, m *dispatch.Model) {
		code := generatetest.UserCode{Chat: &generatetest.Chat{}, Skips: []generate.Skip{{Plugin: "a", Reason: "b\"c"}}}
		m.Service = code.On(generate.New(e, generatetest.Words{}, *l, nil))
	})
	const told = `,"plugins":[{"name":"a","error":"b\"c"}]}`
	if got := ask(s, chatPath, `{`+hi+`,"max_tokens":1}`).Body.String(); !strings.HasSuffix(got, `}`+told) {
		t.Errorf("got %s", got)
	}
	got := ask(s, chatPath, `{`+hi+`,"max_tokens":2,"n":2,"stream":true}`).Body.String()
	if !strings.HasSuffix(got, `"finish_reason":"length"}]`+told+"\n\ndata: [DONE]\n\n") ||
		strings.Count(got, "plugins") != 1 {
		t.Errorf("got %s", got)
	}
}
