package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"tgi/server/config"
)

// bad are blocks that the SDK does not read.
var bad = []string{`{"type":"hologram","data":{"x":[1,"\u00e9}"]}}`, `null`, `7`, `{"text":"no type"}`,
	`{"type":"image","mimeType":"image/png","data":"no base64!"}`, `{"type":"text","text":7}`,
	`{"type":"resource","resource":"x"}`, `[]`}

// TestMend: of a result with blocks that cannot be read the others are; other messages pass as they are, to the byte,
// however they come in pieces.
func TestMend(t *testing.T) {
	for _, block := range bad {
		in := `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"a \"content\""},` + block +
			`,{"type":"text","text":"b"}],"isError":true,"_meta":{"m":1}}}`
		fixed, ok := mend([]byte(in))
		var got struct {
			ID     int
			Result struct {
				Content []struct{ Type, Text string }
				IsError bool
				Meta    json.RawMessage `json:"_meta"`
			}
		}
		if err := json.Unmarshal(fixed, &got); err != nil || !ok || got.ID != 3 || !got.Result.IsError ||
			len(got.Result.Content) != 3 || got.Result.Content[0].Text != `a "content"` ||
			got.Result.Content[2].Text != "b" ||
			!strings.Contains(got.Result.Content[1].Text, "cannot be read") || string(got.Result.Meta) != `{"m":1}` {
			t.Errorf("%s: %v %s", block, err, fixed)
		}
		if again, ok := mend(fixed); ok {
			t.Errorf("mended again: %s", again)
		}
		for before, after := range map[string]string{"": "\n", "data: ": "\r\n\r\n", "event: x\ndata:": ""} {
			for _, most := range []int{8, 1 << 20} {
				want := before + in + after
				if most > len(in) {
					want = before + string(fixed) + after
				}
				r := mended(io.NopCloser(iotest.HalfReader(strings.NewReader(before+in+after))), most, false)
				if most == 8 { // a line is long beyond the reader's own memory
					r = mended(io.NopCloser(strings.NewReader(before+strings.Repeat(" ", 5000)+in+after)), most, false)
					want = before + strings.Repeat(" ", 5000) + in + after
				}
				if all, err := io.ReadAll(iotest.OneByteReader(r)); err != nil || string(all) != want {
					t.Errorf("%v %q, want %q", err, all, want)
				}
			}
		}
		pretty := strings.ReplaceAll(in, `,"isError"`, ",\n\"isError\"")
		all, err := io.ReadAll(mended(io.NopCloser(strings.NewReader(pretty)), 1, true))
		if err != nil || string(all) != string(fixed) {
			t.Errorf("%v %q of several lines", err, all)
		}
	}
	for _, in := range []string{"", "{", `{"content":[null]}`, `{"result":{"content":7}}`, `{"result":{"content":[]}}`,
		`{"result":{"content":[{"type":"text","text":"x"}]}}`, `{"error":{"content":[7]}}`, `[{"result":{"content":[7]}}]`,
		`{"result":{"content":[{"type":"text","text":"x"}],"isError":"no"}}`} {
		if fixed, ok := mend([]byte(in)); ok {
			t.Errorf("%s became %s", in, fixed)
		}
		all, err := io.ReadAll(mended(io.NopCloser(strings.NewReader(in+"\n"+in)), 100, false))
		if err != nil || string(all) != in+"\n"+in {
			t.Errorf("%v %q", err, all)
		}
	}
}

// TestBadBlocks: a tool's result with such blocks is passed on, by HTTP as a body and as events.
func TestBadBlocks(t *testing.T) {
	for _, events := range []bool{false, true} {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var q struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := map[string]string{
				"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` +
					`"serverInfo":{"name":"x","version":"1"}}`,
				"tools/list": `{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}`,
				"tools/call": `{"content":[{"type":"text","text":"Hi"},` + strings.Join(bad, ",") + `]}`,
			}[q.Method]
			reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
			if result == "" {
				reply = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, q.ID)
			}
			if events {
				w.Header().Set("Content-Type", "text/event-stream")
				reply = "event: message\ndata: " + reply + "\n\n"
			} else {
				w.Header().Set("Content-Type", "application/json")
			}
			_, _ = io.WriteString(w, reply)
		}))
		s := open(t, config.MCP{Name: "tools", Endpoint: at.URL}, nil)
		out := ask(t, begin(t, s), `greet {"name":"Ada"}`)
		if text := out[0].Text; !strings.HasPrefix(text, "Hi\n") || strings.Count(text, "cannot be read") != len(bad) ||
			!strings.Contains(text, `"hologram"`) {
			t.Errorf("events %v: %q, %v", events, text, out[0].Err)
		}
		s.Close()
		at.Close()
	}
}
