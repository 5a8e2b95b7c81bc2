package replay

import (
	"net/http"
	"strings"
	"testing"
)

// TestMCPCalls: a call of a tool of an MCP server that was kept otherwise than it is made now differs on every route,
// also where receipts tell of the same tokens. What it came to is another server's word, and a note.
func TestMCPCalls(t *testing.T) {
	const chat = `{"id": "c1", "server_label": "SERVER", "name": "NAME", "arguments": "{\"a\": ARG}", "output": "OUT", "error": null}`
	line := func(text string) string { return "data: " + strings.ReplaceAll(text, "\n", " ") + "\n\n" }
	const item = `{"type": "mcp_call", "id": "i", "server_label": "SERVER", "name": "NAME", "arguments": "{\"a\": ARG}",
		"output": "OUT", "error": null, "status": "completed"}`
	const use = `{"type": "mcp_tool_use", "id": "c1", "server_name": "SERVER", "name": "NAME", "input": INPUT}`
	const result = `{"type": "mcp_tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "OUT"}]}`
	for _, x := range []struct{ name, path, reply string }{
		{"chat", "/v1/chat/completions", `{"choices": [{"message": {"content": "b", "mcp_calls": [` + chat +
			`]}}], "receipts": [RECEIPT]}`},
		{"stream of chat", "/v1/chat/completions", line(`{"choices": [{"delta": {"mcp_calls": [`+chat+`]}}]}`) +
			line(`{"choices": [{"delta": {"content": "b"}}], "receipts": [RECEIPT]}`)},
		{"failed in chat", "/v1/chat/completions", `{"choices": [{"message": {"content": "b", "mcp_calls": [` +
			strings.Replace(chat, `"OUT", "error": null`, `null, "error": "OUT"`, 1) + `]}}], "receipts": [RECEIPT]}`},
		{"responses", "/v1/responses", `{"output": [` + item + `, {"type": "message", "content": [{"text": "b"}]}],
			"receipt": RECEIPT}`},
		{"stream of responses", "/v1/responses",
			line(`{"type": "response.output_item.added", "output_index": 0, "item": `+
				strings.Replace(item, `"{\"a\": ARG}"`, `""`, 1)+`}`) +
				line(`{"type": "response.mcp_call_arguments.delta", "output_index": 0, "delta": "{\"a\": ARG}"}`) +
				line(`{"type": "response.output_item.done", "output_index": 0, "item": `+item+`}`) +
				line(`{"type": "response.completed", "response": {"output": [`+item+`], "receipt": RECEIPT}}`)},
		{"messages", "/v1/messages", `{"content": [` + strings.Replace(use, "INPUT", `{"a": ARG}`, 1) + `, ` + result +
			`, {"type": "text", "text": "b"}], "receipt": RECEIPT}`},
		{"stream of messages", "/v1/messages",
			line(`{"type": "content_block_start", "index": 0, "content_block": `+
				strings.Replace(use, "INPUT", `{}`, 1)+`}`) +
				line(`{"type": "content_block_delta", "index": 0, "delta": {"partial_json": "{\"a\":"}}`) +
				line(`{"type": "content_block_delta", "index": 0, "delta": {"partial_json": " ARG}"}}`) +
				line(`{"type": "content_block_start", "index": 1, "content_block": `+result+`}`) +
				line(`{"type": "message_delta", "delta": {}, "receipt": RECEIPT}`)},
	} {
		with := func(word, other string) string {
			said := []string{word, other, "SERVER", "files", "NAME", "list", "ARG", "1", "OUT", "seven", "RECEIPT",
				goodReceipt}
			if word == "" {
				said = said[2:]
			}
			return strings.NewReplacer(said...).Replace(x.reply)
		}
		c, _ := answering(t, http.StatusOK, with("", ""))
		for _, y := range []struct{ word, was, want string }{
			{"", "", "r: the same tokens (3 tokens)\n"},
			{"NAME", "read", "r: differs\n  name of "},
			{"ARG", "2", "r: differs\n  arguments of "},
			{"SERVER", "web", "r: differs\n  server of MCP call 0 behind 0 bytes: was \"web\", is \"files\"\n"},
			{"OUT", "six", "r: the same tokens (3 tokens)\n  note: the output of MCP call \"list\" differs: another server " +
				"wrote it, and what follows depends on it\n"},
		} {
			e := Exchange{Label: "r", Method: http.MethodPost, Path: x.path, Status: 200, Body: []byte(`{"seed": 7}`),
				Reply: []byte(with(y.word, y.was))}
			r, err := Run(t.Context(), c, e, Options{})
			if text := r.String(); err != nil || !strings.HasPrefix(text, y.want) || r.Same != strings.HasPrefix(y.want,
				"r: the same") || r.Same && text != y.want {
				t.Errorf("%s, %s: %v\n%s\nwant\n%s", x.name, y.word, err, text, y.want)
			}
		}
	}
}

// TestMCPCallsInAnyOrder: streams tell of calls as they end, and whoever left early was told of fewer.
func TestMCPCallsInAnyOrder(t *testing.T) {
	calls := func(list ...string) string {
		for i, one := range list {
			name, output, _ := strings.Cut(one, "=")
			list[i] = `{"server_label": "s", "name": "` + name + `", "arguments": "{}", "output": "` + output + `"}`
		}
		return `{"choices": [{"message": {"content": "b", "mcp_calls": [` + strings.Join(list, ", ") + `]}}]}`
	}
	for _, x := range []struct{ was, is, want string }{
		{calls("a=1", "b=2", "a=3"), calls("a=3", "a=1", "b=2"), "r: the same text\n"},
		{calls("a=1", "b=2"), calls("b=5", "a=1"), "r: the same text\n  note: the output of MCP call \"b\" differs: " +
			"another server wrote it, and what follows depends on it\n"},
		{calls("a=1"), calls("a=1", "b=2"), "r: differs\n  MCP call 1: is \"b\", there was none\n"},
		{calls("a=1", "b=2"), calls("b=2"), "r: differs\n  MCP call 0: was \"a\", there is none\n"},
	} {
		c, _ := answering(t, http.StatusOK, x.is)
		e := Exchange{Label: "r", Method: http.MethodPost, Path: "/v1/chat/completions", Status: 200,
			Reply: []byte(x.was), Body: []byte(`{"seed": 7}`)}
		if r, err := Run(t.Context(), c, e, Options{}); err != nil || r.String() != x.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", x.was, err, r.String(), x.want)
		}
	}
}

// TestCustomCalls: input of custom tools is compared in chat, too.
func TestCustomCalls(t *testing.T) {
	const reply = `{"choices": [{"message": {"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "7"}}]}}]}`
	c, _ := answering(t, http.StatusOK, reply)
	e := Exchange{Label: "r", Method: http.MethodPost, Path: "/v1/chat/completions", Status: 200,
		Reply: []byte(strings.Replace(reply, "7", "8", 1)), Body: []byte(`{"seed": 7}`)}
	const want = "r: differs\n  arguments of call 0 behind 0 bytes: was \"8\", is \"7\"\n"
	if r, err := Run(t.Context(), c, e, Options{}); err != nil || r.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, r.String(), want)
	}
}
