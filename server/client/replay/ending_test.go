package replay

import (
	"net/http"
	"strings"
	"testing"
)

// TestEndings: a reply that ended in another way differs, whatever API has it; one that does not say how it ended does
// not.
func TestEndings(t *testing.T) {
	for _, x := range []struct{ path, reply, was, is, name string }{
		{"/generate", `{"generated_text": "b", "details": {"finish_reason": WORD}}`, "length", "eos_token", "finish_reason"},
		{"/generate", `[{"generated_text": "a"}, {"generated_text": "b", "details": {"finish_reason": WORD}}]`, "length",
			"eos_token", "finish_reason of text 1"},
		{"/generate", `{"generated_text": "b", "details": {"best_of_sequences": [{"generated_text": "c",
			"finish_reason": WORD}]}}`, "length", "eos_token", "finish_reason of text 1"},
		{"/generate_stream", "data: {\"token\": {\"text\": \"b\"}, \"details\": null}\n\n" +
			"data: {\"generated_text\": \"b\", \"details\": {\"finish_reason\": WORD}}\n\n", "length", "eos_token",
			"finish_reason"},
		{"/v1/chat/completions", `{"choices": [{"message": {"content": "b"}, "finish_reason": WORD}]}`, "length", "stop",
			"finish_reason"},
		{"/v1/completions", `{"choices": [{"text": "b", "finish_reason": "stop", "stop_reason": WORD}]}`, "plugin:a",
			"plugin:b", "stop_reason"},
		{"/v1/chat/completions", "data: {\"choices\": [{\"delta\": {\"content\": \"b\"}, \"finish_reason\": null}]}\n\n" +
			"data: {\"choices\": [{\"delta\": {}, \"finish_reason\": WORD}]}\n\ndata: [DONE]\n\n", "length", "stop",
			"finish_reason"},
		{"/v1/messages", `{"content": [{"type": "text", "text": "b"}], "stop_reason": WORD}`, "max_tokens", "end_turn",
			"stop_reason"},
		{"/v1/messages", "data: {\"type\": \"content_block_delta\", \"delta\": {\"text\": \"b\"}}\n\n" +
			"data: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": WORD}}\n\n", "max_tokens", "end_turn",
			"stop_reason"},
		{"/v1/responses", `{"output": [], "status": WORD}`, "incomplete", "completed", "status"},
		{"/v1/responses", `{"output": [], "status": "incomplete", "incomplete_details": {"reason": WORD}}`,
			"max_output_tokens", "content_filter", "incomplete_details.reason"},
		{"/v1/responses", "data: {\"type\": \"response.created\", \"response\": {\"status\": \"in_progress\"}}\n\n" +
			"data: {\"type\": \"response.output_text.delta\", \"delta\": \"b\"}\n\n" +
			"data: {\"type\": \"response.x\", \"response\": {\"status\": WORD}}\n\n", "incomplete", "completed", "status"},
		{"/api/chat", `{"message": {"content": "b"}, "done": true, "done_reason": WORD}`, "length", "stop", "done_reason"},
		{"/api/generate", `{"response": "b", "done": true, "done_reason": WORD}`, "length", "stop", "done_reason"},
	} {
		with := func(word string) string { return strings.Replace(x.reply, "WORD", word, 1) }
		c, _ := answering(t, http.StatusOK, with(`"`+x.is+`"`))
		for word, want := range map[string]string{
			`"` + x.is + `"`:  "r: the same text\n",
			`"` + x.was + `"`: "r: differs\n  " + x.name + `: was "` + x.was + `", is "` + x.is + "\"\n",
			`null`:            "r: the same text\n", `""`: "r: the same text\n",
			`{"a":1}`: "r: not compared: the reply that was kept: ",
		} {
			e := Exchange{Label: "r", Method: http.MethodPost, Path: x.path, Status: 200, Reply: []byte(with(word)),
				Body: []byte(`{"seed": 1, "inputs": "a", "parameters": {"seed": 1}, "options": {"seed": 1}}`)}
			if r, err := Run(t.Context(), c, e, Options{}); err != nil || !strings.HasPrefix(r.String(), want) ||
				r.Incomparable != strings.HasPrefix(word, "{") || r.Incomparable &&
				!strings.Contains(r.Error, strings.Fields(x.name)[0]+": want a string, given an object") {
				t.Errorf("%s: %v %s, want %s", with(word), err, r.String(), want)
			}
		}
	}
}

// TestEndingsThatTellNothing: what is not the request's doing does not differ.
func TestEndingsThatTellNothing(t *testing.T) {
	for _, x := range []struct{ was, is string }{
		{`{"response": "", "done_reason": "unload"}`, `{"response": "", "done_reason": "load"}`},
		{`{"output": [], "status": "queued"}`, `{"output": [], "status": "completed"}`},
		{`{"output": [], "status": "cancelled"}`, `{"output": [], "status": "completed"}`},
		{`{"choices": [{"text": "b", "finish_reason": "stop"}]}`, `{"choices": [{"text": "b", "finish_reason": "stop",
			"stop_reason": 5}]}`},
		{`{"choices": [{"text": "b"}]}`, `{"choices": [{"text": "b", "finish_reason": "stop"}]}`},
	} {
		was, is := outcomeOf([]byte(x.was)), outcomeOf([]byte(x.is))
		if list := endDifferences(&was, &is); len(list) > 0 || was.flaw != nil || is.flaw != nil {
			t.Errorf("%s: %v %v %v", x.was, list, was.flaw, is.flaw)
		}
	}
}
