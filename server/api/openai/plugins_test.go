package openai

import (
	"context"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// passedOver are plugins of which one failed and was passed over.
type passedOver struct{}

func (passedOver) Bind(context.Context, []generate.PluginCall) (generate.BoundPlugins, error) {
	return passedOver{}, nil
}
func (passedOver) Begin(context.Context, []llm.Token, int, uint64, int) error { return nil }
func (passedOver) Sequence(int) sample.Plugins                                { return sample.Plugins{} }
func (passedOver) Skipped() []generate.Skip {
	return []generate.Skip{{Plugin: "a", Reason: "b\"c"}}
}
func (passedOver) Close() {}

// TestSkippedPlugins: a reply tells of plugins that failed at its end, a stream
// in the last chunk of the last choice, once.
func TestSkippedPlugins(t *testing.T) {
	e := &generatetest.Engine{}
	s := newServer(e, func(l *generate.Limits, m *dispatch.Model) {
		m.Service = generate.New(e, generatetest.Words{}, *l,
			nil).WithPlugins(passedOver{}).WithChat(&generatetest.Chat{})
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
