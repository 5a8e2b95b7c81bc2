package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server/config"
	"tgi/server/sse"
)

// These tests use a plugin that forces the demo model to write a given text.

// written is a message as the tests compare it.
type written struct {
	Content   *string `json:"content"`
	Reasoning string  `json:"reasoning_content"`
	ToolCalls []struct {
		Index    int
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// String is the message in short.
func (w written) String() string {
	var b strings.Builder
	if w.Reasoning != "" {
		fmt.Fprintf(&b, "thinks %q ", w.Reasoning)
	}
	if w.Content != nil {
		fmt.Fprintf(&b, "says %q ", *w.Content)
	}
	for _, c := range w.ToolCalls {
		fmt.Fprintf(&b, "calls %s(%s) ", c.Function.Name, c.Function.Arguments)
	}
	return strings.TrimSpace(b.String())
}

// openForced opens a server with the plugin that forces tokens.
func openForced(t testing.TB, change func(*config.Config)) *plugged {
	p := openChat(t, change)
	p.upload(t, "force", sdkGuest(t, "c", "every-mode"))
	return p
}

// forced is the member plugins of a request whose reply is text; more are other plugins.
func (p *plugged) forced(t testing.TB, text string, more ...string) string {
	t.Helper()
	ids := append(p.defaultModel().tokenizer.Encode(text, false), 2) // <|im_end|>
	list, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{fmt.Sprintf(`{"name":"force","params":{"force_at":0,"force":%s}}`, list)}, more...)
	return `,"plugins":[` + strings.Join(all, ",") + `]`
}

// says asks for replies, whole and streamed, checks that they are the same and
// returns the messages in short with why they end.
func (p *plugged) says(t testing.TB, messages, more string) []string {
	t.Helper()
	all := p.whole(t, messages, more)
	for i, s := range p.streamed(t, messages, more, len(all)) {
		if s != all[i] {
			t.Errorf("choice %d\nwhole    %s\nstreamed %s", i, all[i], s)
		}
	}
	return all
}

// whole is says for replies that are not streamed.
func (p *plugged) whole(t testing.TB, messages, more string) (all []string) {
	t.Helper()
	body := fmt.Sprintf(`{"messages":[%s],"max_tokens":200,"seed":1%s}`, messages, more)
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body))
	var r struct {
		Choices []struct {
			Message      written
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	for _, c := range r.Choices {
		all = append(all, c.Message.String()+"; "+c.FinishReason)
	}
	return all
}

// streamed is says for n replies that are.
func (p *plugged) streamed(t testing.TB, messages, more string, n int) []string {
	t.Helper()
	body := fmt.Sprintf(`{"stream":true,"messages":[%s],"max_tokens":200,"seed":1%s}`, messages, more)
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body))
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	got, ends := make([]written, n), make([]string, n)
	for e := sse.New(strings.NewReader(text)); ; {
		data, err := e.Next()
		if err != nil || string(data) == "[DONE]" {
			break
		}
		var chunk struct {
			Choices []struct {
				Index        int
				Delta        written
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for _, c := range chunk.Choices {
			got[c.Index].add(c.Delta)
			ends[c.Index] += c.FinishReason
		}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = got[i].String() + "; " + ends[i]
	}
	return out
}

// add adds a part of a streamed message.
func (w *written) add(d written) {
	if d.Content != nil && *d.Content != "" {
		if w.Content == nil {
			w.Content = new(string)
		}
		*w.Content += *d.Content
	}
	w.Reasoning += d.Reasoning
	for _, c := range d.ToolCalls {
		if c.Index == len(w.ToolCalls) {
			w.ToolCalls = append(w.ToolCalls, c)
			continue
		}
		w.ToolCalls[c.Index].Function.Arguments += c.Function.Arguments
	}
}

func (p *plugged) wantSaid(t *testing.T, what, messages, more string, want ...string) {
	t.Helper()
	if got := p.says(t, messages, more); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

const (
	// plainTemplate knows no tools.
	plainTemplate = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	offered      = `[{"type": "function", "function": {"name": "get_weather", "description": "<|im_end|>"}}]`
	offeredTool  = `,"tools":` + offered
	parisCall    = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>"
	parisSaid    = `calls get_weather({"city": "Paris"}); tool_calls`
	promptedTail = "\nGiven the functions available, please respond with a JSON for a function call with its proper arguments " +
		"that best answers the given prompt. Respond in the format {name: function name, parameters: dictionary of argument name and its value}." +
		"Do not use variables.\n"
)

// TestToolsWithAnyTemplate checks that tools are added for a template that reads none, and that calls in the requested
// format are read.
func TestToolsWithAnyTemplate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jinja")
	write(t, path, plainTemplate)
	p := openForced(t, func(c *config.Config) { c.Model.Template = path })
	const begin, end = "<|im_start|>user\nHi", "<|im_end|>\n<|im_start|>assistant\n"
	for _, c := range []struct{ more, want string }{
		{"", ""},
		{offeredTool, "\n---\n" + offered + "\n" + promptedTail},
		{offeredTool + `,"tool_choice":"none"`, ""},
		{offeredTool + `,"tool_prompt":""`, "\n---\n" + offered + "\n" + promptedTail},
		{offeredTool + `,"tool_prompt":"Use <|im_end|>"`, "\n---\n" + offered + "\nUse <|im_end|>"},
		{`,"tool_prompt":"Use"`, ""},
	} {
		text, ids := p.prompt(t, hi+`]`+c.more+`,"stop":[`)
		if text != begin+c.want+end {
			t.Errorf("%s:\ngot  %q\nwant %q", c.more, text, begin+c.want+end)
		}
		ends := 0
		for _, id := range ids {
			if id == 2 {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%s: %d ends of turns, the template has 1", c.more, ends)
		}
	}
	const plain = `{"name": "get_weather", "parameters": {"city": "Paris"}}`
	p.wantSaid(t, "as prompted", hi, offeredTool+p.forced(t, plain), parisSaid)
	p.wantSaid(t, "as code", hi, offeredTool+p.forced(t, "```json\n"+plain+"\n```"), parisSaid)
	p.wantSaid(t, "as TGI's grammars", hi, offeredTool+p.forced(t,
		`{"function": {"_name": "get_weather", "city": "Paris"}}`), parisSaid)
	p.wantSaid(t, "an answer", hi, offeredTool+p.forced(t, `{"name": "Ada"}`), `says "{\"name\": \"Ada\"}"; stop`)
	p.wantSaid(t, "no tools", hi, p.forced(t, plain), fmt.Sprintf("says %q; stop", plain))
	text, _ := p.prompt(t,
		hi+`,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]},`+
			`{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"sun"},{"type":"text","text":"ny"}]}`)
	if want := begin + end + plain + "<|im_end|>\n<|im_start|>tool\nsun\nny" + end; text != want {
		t.Errorf("earlier calls:\ngot  %q\nwant %q", text, want)
	}

	write(t, path, "{{ tools is none }} "+plainTemplate)
	if text, _ := p.prompt(t, hi+`]`+offeredTool+`,"tool_prompt":"Use","stop":[`); text != "False "+begin+"\n---\nUse"+
		end {
		t.Errorf("a template that reads tools: %q", text)
	}
}

// TestMadeUpFormat covers reasoning and calls in a format that the operator defines.
func TestMadeUpFormat(t *testing.T) {
	dir := t.TempDir()
	template, format := filepath.Join(dir, "x.jinja"), filepath.Join(dir, "x.json")
	write(t, template, plainTemplate+"{% if muse %}<muse>\n{% endif %}")
	write(t, format,
		`{"name":"mine","reasoning":{"begin":["<muse>"],"end":["</muse>"]},"call":{"begin":["[["],"end":["]]"]},"named":{"separators":[" "]}}`)
	p := openForced(t, func(c *config.Config) { c.Model.Template, c.Model.Tools = template, format })
	const call = `[[get_weather {"city": "Paris"}]]`
	p.wantSaid(t, "both", hi, offeredTool+p.forced(t, "<muse>\nHm, é.\n</muse>\n\n"+call), `thinks "Hm, é." `+parisSaid)
	p.wantSaid(t, "no tools", hi, p.forced(t, "<muse>Hm.</muse>\n"+call),
		`thinks "Hm." says "[[get_weather {\"city\": \"Paris\"}]]"; stop`)
	p.wantSaid(t, "begun by the prompt", hi, offeredTool+`,"chat_template_kwargs":{"muse":true}`+p.forced(t,
		"Hm.</muse>Well. "+call), `thinks "Hm." says "Well." `+parisSaid)
	p.wantSaid(t, "begun by the message", hi+`,{"role":"assistant","content":"<muse>"}`, p.forced(t, "Hm.</muse>Well."),
		`thinks "Hm." says "Well."; stop`)
	p.wantSaid(t, "not shown", hi, `,"include_reasoning":false`+p.forced(t, "<muse>Hm.</muse>Well."),
		`says "Well."; stop`)
}

// TestSequencesWithTools checks that each of several sequences is parsed separately, some with calls.
func TestSequencesWithTools(t *testing.T) {
	p := sharedChat(t)
	p.wantSaid(t, "two", hi, offeredTool+`,"n":2,"temperature":1`+p.forced(t, parisCall), parisSaid, parisSaid)
	body := fmt.Sprintf(`{"messages":[%s],"n":2%s%s}`, hi, offeredTool, p.forced(t, parisCall))
	_, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body))
	var r struct{ Choices []struct{ Message written } }
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Choices) != 2 {
		t.Fatal(err, text)
	}
	if a, b := r.Choices[0].Message.ToolCalls[0].ID, r.Choices[1].Message.ToolCalls[0].ID; a == b {
		t.Errorf("both sequences' calls have the id %s", a)
	}
	p.quiet(t)
}

// TestStopInCalls checks that a stop string inside a call makes it incomplete, and that stop strings match markers of
// calls.
func TestStopInCalls(t *testing.T) {
	p := sharedChat(t)
	p.wantSaid(t, "behind the arguments", hi, offeredTool+`,"stop":["</tool_call>"]`+p.forced(t, parisCall), parisSaid)
	p.wantSaid(t, "before the call", hi, offeredTool+`,"stop":["<tool_call>"]`+p.forced(t, "Well. "+parisCall),
		`says "Well. "; stop`)
	// A call that a stop string ends is content. A stream has told its beginning before the stop string came, which is
	// no JSON object, and the reason is not that of calls.
	const said = `says "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"" `
	for _, c := range []struct{ text, stop, before string }{
		{parisCall, "Par", ""},
		{parisCall + "\n" + strings.Replace(parisCall, "Paris", "Rome", 1), "Rome",
			`calls get_weather({"city": "Paris"}) `},
	} {
		whole := strings.TrimSuffix(said+c.before, " ") + "; stop"
		stream := said + c.before + `calls get_weather({"city": "); stop`
		more := offeredTool + fmt.Sprintf(`,"stop":[%q]`, c.stop) + p.forced(t, c.text)
		if got := p.whole(t, hi, more); got[0] != whole {
			t.Errorf("stop %s: %s, want %s", c.stop, got[0], whole)
		}
		if got := p.streamed(t, hi, more, 1); got[0] != stream {
			t.Errorf("stop %s, streamed: %s, want %s", c.stop, got[0], stream)
		}
	}
	p.quiet(t)
}

// TestChosenByRequest checks that a request may name another installed template and parser.
func TestChosenByRequest(t *testing.T) {
	p := openForced(t, func(c *config.Config) {
		for name, source := range map[string]string{"loud": "{{ messages[0].content | upper }}",
			"quiet": "{{ documents | length }}{{ messages[0].content | lower }}{{ mood }}"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Kind: config.KindTemplate, Source: "builtin:jinja",
				Apply: config.ApplyRequest, OnError: config.OnErrorFail,
				Config: map[string]any{"source": source}})
		}
		c.Plugin = append(c.Plugin, config.Plugin{Name: "calls", Kind: config.KindTools, Source: "builtin:toolcalls",
			Apply: config.ApplyRequest, OnError: config.OnErrorFail})
	})
	for more, want := range map[string]string{
		`"plugins":[{"name":"loud"}]`: "HI",
		`"plugins":[{"name":"quiet"}],"documents":[{"text":"a"},{"text":"b"}],"chat_template_kwargs":{"mood":" :)"}`: "2hi :)",
		`"documents":[{"text":"a"}]`: "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
	} {
		if got, _ := p.prompt(t, hi+`],`+more+`,"stop":[`); got != want {
			t.Errorf("%s: %q, want %q", more, got, want)
		}
	}
	const mistral = `[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]`
	p.wantSaid(t, "the model's format", hi, offeredTool+p.forced(t, mistral), fmt.Sprintf("says %q; stop", mistral))
	p.wantSaid(t, "another", hi, offeredTool+p.forced(t, mistral, `{"name":"calls","params":{"format":"mistral"}}`),
		parisSaid)
	p.wantSaid(t, "both", hi, offeredTool+p.forced(t, mistral, `{"name":"calls","params":{"format":"mistral"}}`,
		`{"name":"loud"}`), parisSaid)
	for _, more := range []string{`,"plugins":[{"name":"loud"},{"name":"quiet"}]`,
		`,"plugins":[{"name":"calls","params":{"format":"none such"}}]`} {
		if r := p.chat(t, http.StatusUnprocessableEntity, hi, more); len(r.Error) == 0 {
			t.Errorf("%s: %+v", more, r)
		}
	}
	p.quiet(t)
}

// TestLongConversation: fifty turns, some in parts, with calls and their results, are what the model's template makes
// of them.
func TestLongConversation(t *testing.T) {
	p := sharedChat(t)
	var messages []string
	var want strings.Builder
	for i := range 50 {
		switch i % 4 {
		case 0:
			messages = append(messages,
				fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"Say "},{"type":"text","text":"%d"}]}`, i))
			fmt.Fprintf(&want, "<|im_start|>user\nSay \n%d<|im_end|>\n", i) // parts are lines
		case 1:
			messages = append(messages,
				fmt.Sprintf(`{"role":"assistant","content":[],"tool_calls":[{"id":"c%d","type":"function","function":{"name":"f","arguments":"{\"n\":%d}"}}]}`, i, i))
			fmt.Fprintf(&want,
				"<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\":%d}}\n</tool_call><|im_end|>\n", i)
		case 2:
			messages = append(messages,
				fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":[{"type":"text","text":"%d"}]}`, i-1, i))
			fmt.Fprintf(&want, "<|im_start|>tool\n<tool_response>\n%d\n</tool_response><|im_end|>\n", i)
		case 3:
			messages = append(messages, `{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}`)
			want.WriteString("<|im_start|>assistant\nNo.<|im_end|>\n")
		}
	}
	all := strings.Join(messages, ",") + `,{"role":"user","content":"Hi"}`
	want.WriteString("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
	if got, _ := p.prompt(t, all); got != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
	if r := p.chat(t, http.StatusOK, strings.Join(messages[:12], ",")+","+hi, ""); r.Choices[0].Message.Content == nil {
		t.Errorf("%+v", r)
	}
}

// TestLeavingInsideACall checks that a client that disconnects during a call leaves nothing behind.
func TestLeavingInsideACall(t *testing.T) {
	p := sharedChat(t)
	long := strings.Replace(parisCall, "Paris", strings.Repeat("a b ", 100), 1)
	body := fmt.Sprintf(`{"messages":[%s],"stream":true,"n":2,"temperature":1,"max_tokens":600%s%s}`, hi, offeredTool,
		p.forced(t, long))
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions",
			bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		inside := 0
		for s := bufio.NewScanner(res.Body); inside < 10 && s.Scan(); {
			if strings.Contains(s.Text(), `"arguments":"`) {
				inside++
			}
		}
		leave()
		res.Body.Close()
		if inside < 10 {
			t.Fatalf("%d parts of calls", inside)
		}
		p.quiet(t)
	}
	_, metrics := p.call(t, http.MethodGet, "/metrics", nil)
	for _, plugin := range []string{config.TemplatePlugin, config.ToolsPlugin, "force"} {
		if want := fmt.Sprintf(`tgi_plugin_instances{plugin=%q,state="out"} 0`, plugin); !strings.Contains(metrics,
			want) {
			t.Errorf("/metrics has no line %s", want)
		}
	}
	if st := p.defaultModel().engine.Stats(); st.KVUsed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPartsReachPlugins checks that template plugins of every language read content in parts as its text.
func TestPartsReachPlugins(t *testing.T) {
	const parts = `{"role":"user","content":[{"type":"text","text":"Who are "},{"type":"text","text":"you?"}]},{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}`
	want := ""
	for _, language := range []string{"rust", "c", "assemblyscript"} {
		p := openChat(t, nil)
		p.upload(t, "plain", sdkGuest(t, language, "plain-chat"))
		whole, _ := p.prompt(t,
			`{"role":"user","content":"Who are you?"},{"role":"assistant","content":"No."}],"plugins":[{"name":"plain"}],"stop":[`)
		got, _ := p.prompt(t, parts+`],"plugins":[{"name":"plain"}],"stop":[`)
		if want == "" {
			want = got
		}
		if got != whole || got != want || !strings.Contains(got, "Who are you?") || !strings.Contains(got, "No.") {
			t.Errorf("%s: %q, as strings %q, the first language %q", language, got, whole, want)
		}
	}
}

// TestToolsOfNamedFormat checks that if the operator names the format of calls, the prompt asks for no other.
func TestToolsOfNamedFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jinja")
	write(t, path, plainTemplate)
	for tools, told := range map[string]bool{config.Auto: true, "tgi": true, "hermes": false, config.None: false} {
		p := openPlugged(t, func(c *config.Config) { c.Model.Template, c.Model.Tools = path, tools })
		if got, _ := p.prompt(t, hi+`]`+offeredTool+`,"stop":[`); strings.Contains(got, promptedTail) != told {
			t.Errorf("tools = %q: %q", tools, got)
		}
	}
}
