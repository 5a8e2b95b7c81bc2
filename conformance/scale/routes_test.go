package scale

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"tgi/conformance/api"
	"tgi/conformance/live"
)

// TestRoutes: every route passes HAProxy. The kit that holds the server itself to TGI's, OpenAI's, Ollama's and the
// other APIs finds nothing behind it, and neither do requests that are larger than HAProxy's buffers, streams and
// sockets. One server is both replicas, since the kit asks for what it left there.
func TestRoutes(t *testing.T) {
	enabled(t)
	s := live.Start(t, fmt.Sprintf("[server]\nollama = true\napi_keys = [\"free\"]\nadmin_keys = [\"boss\"]\n"+
		"[batches]\nfolder = %q\n[plugins]\nuploads = %q\n", t.TempDir(), t.TempDir()))
	f := behind(t, routers[1], s, s)
	t.Run("kit", func(t *testing.T) { f.keepsTheRules(t) })
	t.Run("stream", func(t *testing.T) { f.streams(t) })
	t.Run("file", func(t *testing.T) { f.takesFiles(t) })
	t.Run("plugin", func(t *testing.T) { f.takesPlugins(t) })
	t.Run("socket", func(t *testing.T) { f.opensSockets(t) })
}

// keepsTheRules runs the kit.
func (f *fleet) keepsTheRules(t *testing.T) {
	report, err := api.Run(t.Context(), api.Target{URL: f.url, Key: "free", AdminKey: "boss", Timeout: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations() {
		t.Errorf("%v\n%s", v, v.Transcript)
	}
	left := 0
	for _, r := range report.Results {
		if r.Skipped != "" {
			left++
		}
	}
	if !report.This || len(report.Results)-left < 150 {
		t.Errorf("%d of %d cases were left out", left, len(report.Results))
	}
}

// send sends a request with a key and returns the reply, which is 200 or 201.
func (f *fleet) send(t *testing.T, method, path, key, kind string, body io.Reader) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, f.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	q.Header.Set("Content-Type", kind)
	r, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(r.Body)
		t.Fatalf("%s %s: %s %s", method, path, r.Status, text)
	}
	return r
}

// streams: events come one by one, each when it is made: of several streams, one at least has its first event while the
// server still makes others.
func (f *fleet) streams(t *testing.T) {
	const tokens, tries = 700, 5
	body := fmt.Sprintf(`{"inputs": "Once upon a time", "parameters": {"max_new_tokens": %d, "ignore_eos": true}}`, tokens)
	early := false
	for try := 0; try < tries && !early; try++ {
		r := f.send(t, http.MethodPost, "/generate_stream", "free", "application/json", strings.NewReader(body))
		lines, n := bufio.NewScanner(r.Body), 0
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), "data:") {
				continue
			}
			if n++; n == 1 {
				early = counter(t, f.replicas[0], "tgi_batch_current_size") > 0
			}
		}
		if n != tokens {
			t.Fatalf("%d events, %v", n, lines.Err())
		}
	}
	if !early {
		t.Errorf("%d first events came after the last was made", tries)
	}
}

// large is more than HAProxy's buffer, which the example makes 256 KiB.
const large = 3 << 20

// takesFiles: a file larger than a buffer comes back as it was sent.
func (f *fleet) takesFiles(t *testing.T) {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := w.WriteField("purpose", "batch"); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("file", "requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	line := `{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "` +
		strings.Repeat("a", 1000) + "\"}}\n"
	text := strings.Repeat(line, large/len(line))
	if _, err := io.WriteString(part, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var file struct{ ID string }
	r := f.send(t, http.MethodPost, "/v1/files", "free", w.FormDataContentType(), &form)
	if err := json.NewDecoder(r.Body).Decode(&file); err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(f.send(t, http.MethodGet, "/v1/files/"+file.ID+"/content", "free", "", nil).Body)
	if err != nil || string(back) != text {
		t.Errorf("%d of %d bytes came back, %v", len(back), len(text), err)
	}
}

// takesPlugins: an upload serves the next request.
func (f *fleet) takesPlugins(t *testing.T) {
	module, err := os.ReadFile("../../examples/hot-swap/marker/marker-1.wasm")
	if err != nil {
		t.Fatal(err)
	}
	f.send(t, http.MethodPut, "/admin/plugins/marker", "boss", "application/wasm", bytes.NewReader(module))
	f.send(t, http.MethodPost, "/generate", "free", "application/json", strings.NewReader(
		`{"inputs": "x", "parameters": {"max_new_tokens": 4, "plugins": [{"name": "marker"}]}}`))
}

// opensSockets: what is asked on a WebSocket is answered there, piece by piece.
func (f *fleet) opensSockets(t *testing.T) {
	conn, _, err := websocket.Dial(t.Context(), f.url+"/api/ws",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer free"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for i := range 3 {
		ask := fmt.Sprintf(`{"prompts": [{"request_id": "s%d", "prompt": "Once upon a time"}], `+
			`"generation_config": {"do_sample": false, "max_new_tokens": 20}}`, i)
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(ask)); err != nil {
			t.Fatal(err)
		}
		pieces := ""
		for done := false; !done; {
			_, b, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var events []struct{ Text, Type string }
			if err := json.Unmarshal(b, &events); err != nil || len(events) != 1 {
				t.Fatalf("%s: %v", b, err)
			}
			switch e := events[0]; e.Type {
			case "ACCEPTED", "INITIALIZED", "STARTED":
			case "PROGRESS":
				pieces += e.Text
			case "COMPLETE":
				if done = true; e.Text != pieces || pieces == "" {
					t.Errorf("the pieces are %q, the whole is %q", pieces, e.Text)
				}
			default:
				t.Fatalf("%s", b)
			}
		}
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}
