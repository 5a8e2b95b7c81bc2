package ui

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
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
		return JSON.stringify(wrong);
	})()`)
	if wrong != "[]" {
		t.Errorf("judged wrongly: %s", wrong)
	}
}
