package check_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program returns the server's program, which `make build` made.
func program(t *testing.T) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join(root, "bin", "tgi"))
	if err == nil {
		_, err = os.Stat(p)
	}
	if err != nil {
		t.Fatalf("run `make build` first: %v", err)
	}
	return p
}

var serving = regexp.MustCompile(`"msg":"serving","url":"([^"]+)"`)

// serve starts a server on a free port with the embedded model, and returns its URL once it serves.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program(t), append([]string{"serve", "--hostname", "127.0.0.1", "--port", "0"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, all := make(chan string, 1), &bytes.Buffer{}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(url)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				url <- m[1]
			}
		}
	})
	t.Cleanup(func() {
		stop()
		reader.Wait()
		_ = cmd.Wait()
	})
	at, ok := <-url
	if !ok {
		t.Fatalf("the server did not start:\n%s", all)
	}
	return at
}

// post sends a request and returns the status.
func post(t *testing.T, url, body string) int {
	t.Helper()
	reply, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	_, _ = io.Copy(io.Discard, reply.Body)
	return reply.StatusCode
}

// trial has a server try a new version of a plugin as a shadow.
func trial(t *testing.T, url string) {
	t.Helper()
	for _, x := range [][2]string{{"marker", "marker-1.wasm"}, {"marker?canary=100&canary_shadow", "marker-2.wasm"}} {
		wasm, err := os.ReadFile(filepath.Join("..", "..", "..", "hot-swap", "marker", x[1]))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/admin/plugins/"+x[0],
			bytes.NewReader(wasm))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer boss")
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", x[0], reply.Status)
		}
	}
	post(t, url+"/generate", `{"inputs": "x", "parameters": {"max_new_tokens": 4, "plugins": [{"name": "marker"}]}}`)
}

// get returns what is at a URL.
func get(t *testing.T, url string) []byte {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, reply.Status, err, text)
	}
	return text
}

// busy lets a server do what its metrics are about: chats with and without a grammar, texts, many at once so that prompts
// join what runs, guesses, and requests that it refuses.
func busy(t *testing.T, url string) {
	t.Helper()
	const text = `{"inputs": "The island of Ostrel", "parameters": {"max_new_tokens": 60, "do_sample": true, "seed": 1}}`
	for path, body := range map[string]string{
		"/generate": text,
		"/v1/chat/completions": `{"messages": [{"role": "user", "content": "What is three plus four?"}], "temperature": 0,
			"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object",
			"properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}}}}`,
		"/v1/embeddings": `{"input": "x"}`,
	} {
		if status := post(t, url+path, body); status != http.StatusOK && path != "/v1/embeddings" {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status := post(t, url+"/generate", `{"inputs": "x", "parameters": {"temperature": -1}}`); status != 422 {
		t.Errorf("a temperature below 0: %d", status)
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() { post(t, url+"/generate", text) })
		time.Sleep(10 * time.Millisecond) // so that prompts come while others generate
	}
	all.Wait()
}
