package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// thinking is a template after which a model is taken to think until it says that it is done.
const thinking = "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"

func TestChatFoldsReasoning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "thinking.jinja")
	if err := os.WriteFile(file, []byte(thinking), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openSettled(t, serve(t, "[model]\ntemplate = "+quote(file)+"\ntools = \"hermes\"\n").URL)
	p.greedy()
	p.put("Max tokens", "12")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .thought summary", "Reasoning")
	if eval[bool](p, `document.querySelector('.thought').open`) {
		t.Error("the reasoning is not folded")
	}
	eval[chromedp.Void](p, `document.querySelector('.thought summary').click()`)
	p.eventually("the reasoning is shown", `document.querySelector('.thought-text').innerText.length > 3`)
	p.shots("chat-reasoning")
}

// TestChatJudgesBeginnings: whatever is the beginning of JSON may become JSON, and what is none is told at once.
func TestChatJudgesBeginnings(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	wrong := eval[string](p, `(async () => {
		const files = document.querySelector('script[type=module]').src.replace(/app\.js$/, '');
		const {judge} = await import(files + 'chat/validity.js');
		const whole = '{"a\\u00e9\\n\\"": [-12.5e+1, 0, true, false, null, {}, []], "b": {"c": "d\\\\"}}', wrong = [];
		const states = (grammar, text, whole) => judge(grammar, text, whole).state;
		for (let n = 0; n < whole.length; n++) {
			const state = states({kind: 'json_object'}, whole.slice(0, n), false);
			if (state !== 'open') wrong.push([whole.slice(0, n), state]);
		}
		if (states({kind: 'json_object'}, whole, true) !== 'good') wrong.push(whole);
		for (const text of ['{"a" 1', '{"a": 1}}', 'x', '{a', '[1 2', '{"a": tru3', '[01']) {
			if (states({kind: 'json_object'}, text, false) !== 'bad') wrong.push([text, 'is not bad']);
		}
		const schema = {kind: 'json_schema', text: '{"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}}}'};
		if (states(schema, '{"a": 3}', true) !== 'good' || states(schema, '{"a": 4}', true) !== 'bad') wrong.push('schema');
		const choice = {kind: 'choice', text: 'red\nreddish'};
		if (states(choice, 'r', false) !== 'open' || states(choice, 'red', true) !== 'good' ||
			states(choice, 'b', false) !== 'bad') wrong.push('choice');
		for (const [text, reply, want] of [['[0-9]{1,3} (a|b)', '12 a', 'good'], ['[0-9]+', 'x', 'bad'], ['(a+)+b',
			'a'.repeat(60), 'none'], ['((a|aa)c?)*b', 'a'.repeat(60), 'none'], ['(?:a+,?){2,}b', 'a'.repeat(60), 'none'],
			['a*a*a*a*b', 'a'.repeat(5000), 'none'], ['a(?<n', 'a', 'none']]) {
			const state = states({kind: 'regex', text}, reply, true);
			if (state !== want) wrong.push([text, state]);
		}
		for (const [part, want] of [[{pattern: '^(a+)+$'}, 'none'], [{pattern: '^(a?){40}a{40}$'}, 'none'],
			[{pattern: 'a?'.repeat(40) + 'b'}, 'none'], [{pattern: '^a+$'}, 'bad'], [{pattern: '^a+!$'}, 'good']]) {
			const hostile = JSON.stringify({type: 'object', properties: {x: {allOf: [part]}}});
			const state = states({kind: 'json_schema', text: hostile}, JSON.stringify({x: 'a'.repeat(36) + '!'}), true);
			if (state !== want) wrong.push([part, state]);
		}
		const keys = JSON.stringify({patternProperties: {'^(a+)+$': {type: 'string'}}});
		if (states({kind: 'json_schema', text: keys}, JSON.stringify({['a'.repeat(36) + '!']: 1}), true) !== 'none') {
			wrong.push('keys');
		}
		const {bodyOf} = await import(files + 'chat/request.js');
		const settings = {system: '', model: 'm', stop: '', tools: '', grammar: {kind: 'none'}, more: '',
			plugins: [{name: 'p', params: {x: 'a'.repeat(36) + '!'}, wrong: {}}]};
		for (const name of ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens', 'seed']) {
			settings[name] = '';
		}
		const offered = (pattern) => [{name: 'p', params: {type: 'object', properties: {x: {type: 'string', pattern}}}}];
		bodyOf(settings, [], offered('^(a+)+$')); // the server judges
		try {
			bodyOf(settings, [], offered('^a+$'));
			wrong.push('a parameter that does not match');
		} catch { /* as it is to be */ }
		return JSON.stringify(wrong);
	})()`)
	if wrong != "[]" {
		t.Errorf("judged wrongly: %s", wrong)
	}
}

// demoWith writes the demo model with templates of the given names, and an adapter of it that changes nothing.
func demoWith(t *testing.T, templates ...string) (model, adapter string) {
	t.Helper()
	model, adapter = filepath.Join(t.TempDir(), "model"), t.TempDir()
	if err := os.CopyFS(model, demo.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	settings := map[string]any{}
	text, err := os.ReadFile(filepath.Join(model, "tokenizer_config.json"))
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for _, name := range templates {
		list = append(list, map[string]any{"name": name, "template": settings["chat_template"]})
	}
	settings["chat_template"] = list
	put := func(file string, value any) {
		data, ok := value.([]byte)
		if !ok {
			if data, err = json.Marshal(value); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(model, "tokenizer_config.json"), settings)
	base, err := hf.OpenFS(demo.Checkpoint(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	width := int64(base.Config.Hidden)
	const module = "base_model.model.model.layers.0.mlp.gate_proj.lora_"
	var file bytes.Buffer
	rows := int64(base.Config.Intermediate)
	if err := safetensors.WriteHeader(&file, []safetensors.Spec{
		{Name: module + "A.weight", DType: tensors.F32, Shape: []int64{1, width}},
		{Name: module + "B.weight", DType: tensors.F32, Shape: []int64{rows, 1}}}); err != nil {
		t.Fatal(err)
	}
	file.Write(make([]byte, 4*(width+rows)))
	put(filepath.Join(adapter, hf.AdapterFile), file.Bytes())
	put(filepath.Join(adapter, hf.AdapterConfigFile), map[string]any{"peft_type": "LORA", "r": 1, "lora_alpha": 1,
		"target_modules": []string{"gate_proj"}})
	return model, adapter
}

// TestChatChoosesModels: model, adapter and template are those of the server, and go with the request.
func TestChatChoosesModels(t *testing.T) {
	model, adapter := demoWith(t, "default", "shout")
	plain, _ := demoWith(t, "default")
	s := serve(t, "[[model]]\nname = \"plain\"\npath = "+quote(plain)+
		"\n[[model]]\nname = \"many\"\npath = "+quote(model)+
		"\n[[model.adapter]]\nname = \"pirate\"\npath = "+quote(adapter)+"\n")
	p := open(t, s.URL, "/#/chat")
	p.reads(".model-name", "plain")
	p.absent("combobox", "Chat template")
	for end := time.Now().Add(patience); !eval[bool](p, `(async () => (await (await fetch('v1/models')).json()).data
		.every((m) => m.status === 'running'))()`); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the other model does not run")
		}
	}
	p.do(chromedp.Reload())
	p.reads(".model-name", "plain")
	p.choose("Model", "many")
	p.choose("Chat template", "shout")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .stats", "tokens")
	p.choose("Adapter", "pirate")
	p.reads(".model-name", "pirate")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .stats", "tokens")
	p.click("button", "Code")
	p.reads("#snippet", `"model": "pirate"`)
	p.reads("#snippet", `"chat_template": "shout"`)
}

// TestChatBehindProxies: the pages work below a path of a proxy, and a reply that breaks off there says so, is kept as
// far as it came, and can be asked for again.
func TestChatBehindProxies(t *testing.T) {
	behind, err := url.Parse(serve(t, "").URL)
	if err != nil {
		t.Fatal(err)
	}
	var cut atomic.Bool
	seen := make(chan struct{})
	through := httputil.NewSingleHostReverseProxy(behind)
	proxy := httptest.NewServer(http.StripPrefix("/tgi", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && cut.Load() {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices": [{"index": 0, "delta": {"content": "Once upon"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-seen:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		}
		through.ServeHTTP(w, r)
	})))
	t.Cleanup(proxy.Close) // behind the tab, which is opened later
	p := openSettled(t, proxy.URL+"/tgi")
	p.greedy()
	cut.Store(true)
	p.fill("textbox", messageBox, "Who lives in the old mill?")
	p.click("button", "Send")
	p.reads(".message.busy .text", "Once upon")
	close(seen)
	p.replied(1)
	p.reads(reply+" [role=alert]", "broke off")
	p.reads(reply+" .text", "Once upon")
	cut.Store(false)
	p.click("button", "Retry")
	p.reads(reply+" .text", "Mira lives in the old mill.")
	p.silent(reply, "broke off")
	p.click("button", "Code")
	p.reads("#snippet", proxy.URL+"/tgi/v1/chat/completions")
}
