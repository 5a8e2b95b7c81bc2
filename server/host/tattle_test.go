package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/server/config"
)

// tattled is what the demo model writes, without sampling, on all tattleRoutes, and what guards of these tests allow no
// client to see.
const tattled = "school"

// tattleRoutes give texts, streamed and not. %s is the list of plugins.
func tattleRoutes() (out [][2]string) {
	const talk = `"model":"x",` + story + `,"max_tokens":40,"temperature":0,"plugins":%s,"stream":`
	for _, path := range []string{"/generate", "/generate_stream", "/invocations"} {
		out = append(out, [2]string{path, `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40,"details":true,` +
			`"plugins":%s}}`})
	}
	for _, stream := range []string{"false", "true"} {
		out = append(out,
			[2]string{"/", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40,"plugins":%s},"stream":` +
				stream + `}`},
			[2]string{"/v1/chat/completions", `{` + talk + stream + `}`},
			[2]string{"/v1/messages", `{` + talk + stream + `}`},
			[2]string{"/v1/completions", `{"model":"x","prompt":"Once upon a time","max_tokens":40,"temperature":0,` +
				`"plugins":%s,"stream":` + stream + `}`},
			[2]string{"/v1/responses", `{"model":"x","input":"Tell me a story about a fox.","max_output_tokens":40,` +
				`"temperature":0,"plugins":%s,"stream":` + stream + `}`},
			[2]string{"/api/generate", `{"model":"x","prompt":"Once upon a time","options":{"num_predict":40,"temperature":0},` +
				`"plugins":%s,"stream":` + stream + `}`},
			[2]string{"/api/chat", `{"model":"x",` + story + `,"options":{"num_predict":40,"temperature":0},` +
				`"plugins":%s,"stream":` + stream + `}`})
	}
	return out
}

// tattle adds plugins of every kind that fail with the text that they saw, or print it and trap, by their names.
func tattle(c *config.Config, kinds ...string) (names []string) {
	c.Server.Ollama = true
	c.Model.Speculation = config.Speculation{Kinds: []string{"draft"}, Tokens: 2, Always: true}
	for _, kind := range kinds {
		file := map[string]string{"draft": "draft", "guard": "guard", "program": "program"}[kind]
		if file == "" {
			file = "tokens"
		}
		for _, prints := range []bool{false, true} {
			for _, onError := range []string{config.OnErrorFail, config.OnErrorSkip} {
				name := fmt.Sprintf("%s-%v-%s", kind, prints, onError)
				p := config.Plugin{Name: name, Kind: kind, Source: "testdata/tattle/" + file + ".wasm",
					OnError: onError, Apply: config.ApplyRequest,
					Config: config.Table{"word": tattled, "print": prints}}
				if onError == config.OnErrorSkip && (kind == "program" || kind == "tools" || kind == "grammar") {
					continue // they are not skipped
				}
				c.Plugin = append(c.Plugin, p)
				names = append(names, name)
			}
		}
	}
	return names
}

// house is a guard of the operator's that no request gets past.
func house(c *config.Config) {
	c.Plugin = append(c.Plugin, config.Plugin{Name: "house", Source: config.Builtin + "redact",
		OnError: config.OnErrorFail, Apply: config.ApplyAlways,
		Config: config.Table{"strings": []any{tattled}, "locked": true}})
}

// raw is all that comes back for a request: status, headers, trailers and body.
func (p *plugged) raw(t *testing.T, path, body string) string {
	t.Helper()
	req := sure(http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	res := sure(http.DefaultClient.Do(req))
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // by which the generate API ends a stream that failed
		t.Error(err)
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, res.Status)
	_ = res.Header.Write(&b)
	_ = res.Trailer.Write(&b)
	return b.String() + string(text)
}

// programsTattle are what the program of testdata/tattle does.
var programsTattle = []string{"say", "emit and say", "refused", "walk", "stream", "why", "language"}

// tattleCalls are the entries of `plugins` that name a plugin, one for all that it can do.
func tattleCalls(name string) (out []string) {
	if !strings.HasPrefix(name, "program") {
		return []string{fmt.Sprintf(`{"name":%q}`, name)}
	}
	for _, do := range programsTattle {
		out = append(out, fmt.Sprintf(`{"name":%q,"params":{"do":%q,"a":"x"}}`, name, do))
	}
	return out
}

// TestNoErrorShowsWhatWasTakenBack: whatever a plugin of any kind says of its failure, as its error or on its way to a
// trap, nothing of a reply has a text that guards take back or replace: neither the error, whole or as an event of a
// stream, nor the list of the plugins that were skipped, nor a header. Without guards the words are the client's.
func TestNoErrorShowsWhatWasTakenBack(t *testing.T) {
	const client = `{"name":"redact","params":{"strings":["` + tattled + `"]}}`
	const rewinds = `{"name":"banned-strings","params":{"strings":["` + tattled + `"],"depth":1}}`
	kinds := []string{"logits", "sampler", "draft", "tools", "guard", "program"}
	var names []string
	open := func(always bool) *plugged {
		return guarding(t, func(c *config.Config) {
			if names = tattle(c, kinds...); always {
				house(c)
			}
		})
	}
	free, guarded := open(false), open(true)
	for _, name := range names {
		failed, shown := 0, 0
		for _, call := range tattleCalls(name) {
			for i, r := range tattleRoutes() {
				if strings.HasPrefix(name, "tools") && strings.Contains(r[1], "nce upon") {
					continue // no conversation
				}
				type asked struct {
					p    *plugged
					list string
				}
				all := []asked{{guarded, `[` + call + `]`}}
				if i < 2 || strings.HasSuffix(r[0], "/chat/completions") {
					if strings.Contains(free.raw(t, r[0], fmt.Sprintf(r[1], `[`+call+`]`)), tattled) {
						shown++
					}
					all = append(all, asked{free, `[` + call + `,` + client + `]`},
						asked{free, `[` + client + `,` + call + `]`}, asked{free, `[` + call + `,` + rewinds + `]`})
				} else if strings.Contains(name, "true") {
					continue
				}
				for _, x := range all {
					got := x.p.raw(t, r[0], fmt.Sprintf(r[1], x.list))
					if strings.Contains(got, "; more is in its log") {
						failed++
					}
					if strings.Contains(got, tattled) {
						t.Errorf("%s %s: %s", r[0], x.list, got)
					}
					if strings.Contains(call, "language") && !strings.Contains(got, "parameter `a` of plugin") {
						t.Errorf("%s %s: no parameter is blamed: %s", r[0], x.list, got)
					}
				}
			}
		}
		kind, _, _ := strings.Cut(name, "-")
		if shown == 0 && kind != "guard" || failed == 0 && kind != "tools" { // which read what guards let out
			t.Errorf("%s: without guards %d replies have the text, with guards %d tell of a failure", name, shown, failed)
		}
	}
	// The operator finds the words.
	for _, name := range []string{"logits-false-fail", "sampler-true-skip", "program-false-fail"} {
		_, log := guarded.call(t, http.MethodGet, "/admin/plugins/"+name+"/log", nil)
		if !strings.Contains(log, tattled) {
			t.Errorf("the log of %s: %s", name, log)
		}
	}
}

// TestNoGrammarTellsWhatWasTakenBack: likewise for a grammar whose plugin follows the text.
func TestNoGrammarTellsWhatWasTakenBack(t *testing.T) {
	for _, guards := range []bool{false, true} {
		var names []string
		p := guarding(t, func(c *config.Config) {
			if names = tattle(c, "grammar"); guards {
				house(c)
			}
		})
		for _, name := range names {
			grammar := fmt.Sprintf(`{"type":"grammar","plugin":%q,"language":"tattle","value":"x"}`, name)
			for _, r := range tattleRoutes() {
				body := strings.Replace(r[1], `"plugins":%s`, `"grammar":`+grammar, 1)
				if strings.HasPrefix(r[0], "/v1") {
					body = strings.Replace(r[1], `"plugins":%s`, `"response_format":`+grammar, 1)
				}
				if !slices.Contains(grammarRoutes, r[0]) {
					continue
				}
				got := p.raw(t, r[0], body)
				if !strings.Contains(got, name) || strings.Contains(got, tattled) == guards {
					t.Errorf("%s, guards %v: %s", r[0], guards, got)
				}
			}
		}
	}
}

// TestNobodyIsToldOfOthersTexts: what a plugin that is always there said of its failures is neither in the lines of
// batches, in responses in the background and on the generate API's ways to a text, nor, once it is switched off for
// it, in what other requests and /info say of that.
func TestNobodyIsToldOfOthersTexts(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugins.BreakerFaults = 8
		c.Batches.Folder = t.TempDir()
		tattle(c, "logits")
		c.Plugin = slices.DeleteFunc(c.Plugin, func(x config.Plugin) bool { return strings.HasSuffix(x.Name, "skip") })
		c.Plugin[len(c.Plugin)-1].Apply = config.ApplyAlways
		house(c)
	})
	const ask = `"input":"Tell me a story about a fox.","max_output_tokens":60,"temperature":0`
	replies := map[string]string{
		"generate API": p.raw(t, "/api/generate-one", one("g", "Once upon a time", 40, "")),
		"generate API, stream": p.raw(t, "/api/generate-one",
			one("h", "Once upon a time", 40, `,"stream_response":true`)),
		"socket": p.socket(t, "", `{"prompts":[{"request_id":"i","prompt":"Once upon a time"}],`+
			`"stream_response":true,"generation_config":{"do_sample":false,"max_new_tokens":40}}`),
		"background": p.inBackground(t, `{"model":"x",`+ask+`,"background":true}`),
		"KServe": p.raw(t, "/v2/models/x/versions/1/infer", `{"id":"1","inputs":[{"name":"a","shape":[6],"datatype":"UINT8",`+
			`"data":[79,110,99,101,32,117,112,111,110,32,97,32,116,105,109,101]}],"parameters":{"max_new_tokens":40},`+
			`"outputs":[{"name":"a"}]}`),
		"batch": p.batch(t, "", "/v1/responses", `{"model":"x",`+ask+`}`),
	}
	for range 8 {
		p.raw(t, "/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40}}`)
	}
	p.quiet(t)
	replies["off"] = p.raw(t, "/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40}}`)
	_, replies["info"] = p.call(t, http.MethodGet, "/info", nil)
	_, replies["metrics"] = p.call(t, http.MethodGet, "/metrics", nil)
	for name, reply := range replies {
		if strings.Contains(reply, tattled) {
			t.Errorf("%s: %s", name, reply)
		}
	}
	if off := replies["off"]; !strings.Contains(off, "switched off") || !strings.Contains(off, "tgi_logits_process") {
		t.Errorf("%s", off)
	}
}

// TestRefusalsKeepTheirWords: what a program says before there is a text is told as it is, beside guards too: no text
// can be in it.
func TestRefusalsKeepTheirWords(t *testing.T) {
	p := programming(t, func(c *config.Config) {
		tattle(c, "program")
		house(c)
	})
	for call, want := range map[string]string{
		`{"name":"program-false-fail","params":{"do":"before"}}`:                      "plugin program-false-fail: " + tattled,
		`{"name":"hostile","params":{"do":"error"}}`:                                  "plugin hostile: no, thank you",
		`{"name":"json-repair","params":{"schema":{"type":"objekt"}}}`:                "objekt",
		`{"name":"vote","params":{"n":-1}}`:                                           "n",
		`{"name":"best-of-judge","params":{"n":2,"question":"` + longQuestion + `"}}`: "`question` is too long",
	} {
		got := p.raw(t, "/v1/chat/completions", `{`+story+`,"max_tokens":40,"plugins":[`+call+`]}`)
		if !strings.HasPrefix(got, "422") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", call, got)
		}
	}
}

var longQuestion = strings.Repeat("why ", 3000)
