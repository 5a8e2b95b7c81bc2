package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/server/api/generateapi/store"
	"tgi/server/config"
)

// stories are prompts that the demo model goes on with for long enough.
var stories = []string{"Once upon a time", "The red cat sat on a hill. Zoë said: “",
	"<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n"}

// piece posts a body of generate-one and returns the text and how it ended.
func piece(t *testing.T, url, body string) (text, reason string) {
	t.Helper()
	res := post(t, t.Context(), url+"/api/generate-one", body)
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %d %s %v", body, res.StatusCode, b, err)
	}
	return string(b), res.Trailer.Get("X-Finish-Reason")
}

func one(id, prompt string, n int, more string) string {
	return fmt.Sprintf(`{"request_id":%q,"prompt":%s,"generation_config":{"do_sample":false,"max_new_tokens":%d}%s}`,
		id, string(sure(json.Marshal(prompt))), n, more)
}

func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestGenerateAPIContinuation: a text in ten pieces is the text of one run, token
// by token, whatever else runs, and whether or not the pieces are streamed.
func TestGenerateAPIContinuation(t *testing.T) {
	for _, share := range []bool{true, false} {
		t.Run(fmt.Sprintf("share=%v", share), func(t *testing.T) {
			c := testConfig()
			c.Limits.MaxTotalTokens = 256
			c.Runtime.PrefixSharing = share
			ts := httptest.NewServer(openServer(t, c))
			t.Cleanup(ts.Close)
			for i, prompt := range stories {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					for _, length := range []int{1, 3, 9} {
						inPieces(t, ts.URL, prompt, fmt.Sprintf("%d-%d", i, length), length)
					}
				})
			}
		})
	}
}

// inPieces holds ten pieces against one text.
func inPieces(t *testing.T, url, prompt, id string, length int) {
	want, end := piece(t, url, one("whole-"+id, prompt, 10*length, ""))
	got, reason := "", ""
	for k := 0; k < 10 && reason != "eos_token"; k++ {
		var p string
		p, reason = piece(t, url, one("pieces-"+id, prompt, length, fmt.Sprintf(`,"stream_response":%v`, k%2 == 0)))
		got += p
	}
	if got != want || reason != end {
		t.Errorf("%q in pieces of %d:\n got %q, %s\nwant %q, %s", prompt, length, got, reason, want, end)
	}
	if end != "length" {
		return
	}
	all, _ := piece(t, url, one("pieces-"+id, " ", 1, `,"only_new_tokens":false`))
	if !strings.HasPrefix(all, prompt+want) {
		t.Errorf("with what was known it is %q, want %q", all, prompt+want)
	}
}

// TestGenerateAPIBatch checks that the texts of a batch equal those of its prompts sent separately.
func TestGenerateAPIBatch(t *testing.T) {
	c := testConfig()
	c.Limits.MaxTotalTokens = 256
	h := openServer(t, c)
	ts := httptest.NewServer(h)
	defer ts.Close()
	const hello = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
	prompts := append(slices.Clone(stories), hello)
	var items []string
	for i, prompt := range prompts {
		items = append(items, fmt.Sprintf(`{"request_id":"%d","prompt":%s}`, i, string(sure(json.Marshal(prompt)))))
	}
	for _, n := range []int{20, 40, 2048} {
		res := post(t, t.Context(), ts.URL+"/api/generate-batch", fmt.Sprintf(
			`{"prompts":[%s],"only_new_tokens":false,"generation_config":{"do_sample":false,"max_new_tokens":%d}}`,
			strings.Join(items, ","), n))
		var got []struct{ RequestID, Prompt, Response string }
		b := sure(io.ReadAll(res.Body))
		b = []byte(strings.ReplaceAll(string(b), "request_id", "RequestID"))
		if err := json.Unmarshal(b, &got); err != nil || len(got) != len(prompts) {
			t.Fatalf("%d %s %v", res.StatusCode, b, err)
		}
		status := 200
		for i, prompt := range prompts {
			want, reason := piece(t, ts.URL, one(fmt.Sprintf("alone-%d-%d", n, i), prompt, n, ""))
			if got[i].RequestID != fmt.Sprint(i) || got[i].Prompt != prompt || got[i].Response != want {
				t.Errorf("%d: got %+v, want %q", i, got[i], want)
			}
			if reason != "eos_token" {
				status = 206
			}
			if prompt == hello && !strings.HasSuffix(want, "<|im_end|>") {
				t.Errorf("the demo model's answer to a greeting is %q", want)
			}
		}
		if res.StatusCode != status {
			t.Errorf("%d tokens: status %d, want %d", n, res.StatusCode, status)
		}
		res.Body.Close()
		key := make([]string, len(prompts))
		for i := range key {
			key[i] = fmt.Sprint(i)
		}
		claim := sure(h.models.continuations.Claim(t.Context(), store.KeyOf("", key)))
		if (claim.State() != nil) != (status == 206) {
			t.Errorf("%d tokens: what is kept: %d bytes", n, len(claim.State()))
		}
		if err := claim.Drop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestGenerateAPISocketEndToEnd: a socket through everything that is between it
// and the engine.
func TestGenerateAPISocketEndToEnd(t *testing.T) {
	c := testConfig()
	c.Limits.MaxTotalTokens = 256
	c.Server.APIKeys = []string{"k"}
	h := openServer(t, c)
	ts := httptest.NewServer(h)
	defer ts.Close()
	if _, res, err := websocket.Dial(t.Context(), ts.URL+"/api/ws", nil); err == nil ||
		res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v", err)
	}
	conn, _, err := websocket.Dial(t.Context(), ts.URL+"/api/ws",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer k"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	body := `{"prompts":[{"request_id":"s","prompt":"Once upon a time"}],"generation_config":{"do_sample":false,"max_new_tokens":20}}`
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(body)); err != nil {
		t.Fatal(err)
	}
	text, types := "", map[string]int{}
	for types["COMPLETE"] == 0 {
		_, b, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var events []struct{ Text, Type string }
		if err := json.Unmarshal(b, &events); err != nil || len(events) != 1 {
			t.Fatalf("%s: %v", b, err)
		}
		types[events[0].Type]++
		switch events[0].Type {
		case "PROGRESS":
			text += events[0].Text
		case "COMPLETE":
			if events[0].Text != text || text == "" {
				t.Errorf("the pieces are %q, the whole is %q", text, events[0].Text)
			}
		}
	}
	if types["ACCEPTED"] != 1 || types["STARTED"] != 1 || types["INITIALIZED"] != 1 || types["PROGRESS"] != 20 {
		t.Errorf("events: %v", types)
	}
}

// redisServer runs redis-server on a socket of its own.
func redisServer(t *testing.T) (url string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	dir := sure(os.MkdirTemp("", "redis"))
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	awaitLine(t, cmd, false, "eady to accept connections")
	return "unix://" + socket
}

// awaitLine starts cmd, which is killed at the test's end, and returns the line of
// its output that holds what.
func awaitLine(t *testing.T, cmd *exec.Cmd, stderr bool, what string) string {
	t.Helper()
	pipe := cmd.StdoutPipe
	if stderr {
		pipe = cmd.StderrPipe
	}
	out := sure(pipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), what) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return lines.Text()
		}
	}
	t.Fatalf("%s ended", cmd.Path)
	return ""
}

// replicaOf names the Redis of a server that the test's own program is to be.
const replicaOf = "TGI_TEST_REPLICA_OF"

// TestGenerateAPIReplica is that server.
func TestGenerateAPIReplica(t *testing.T) {
	url := os.Getenv(replicaOf)
	if url == "" {
		t.Skip("a part of TestGenerateAPIContinuationElsewhere")
	}
	c := testConfig()
	c.Server.Hostname, c.Server.Port, c.Limits.MaxTotalTokens, c.GenerateAPI.Store.RedisURL = "127.0.0.1", 0, 256, url
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	err := Serve(t.Context(), Options{Config: c, Version: "dev", Log: log}, nil, func(_ *Server, a net.Addr) {
		log.Info("serving", "url", "http://"+a.String())
	})
	log.Error("stopped", "error", err)
}

// TestGenerateAPIContinuationElsewhere: a text that one process began is continued
// by another, the first having been killed between two pieces, and is the text of
// one run.
func TestGenerateAPIContinuationElsewhere(t *testing.T) {
	url := redisServer(t)
	replica := func() (string, *exec.Cmd) {
		cmd := exec.Command(sure(os.Executable()), "-test.run=^TestGenerateAPIReplica$")
		cmd.Env = append(os.Environ(), replicaOf+"="+url)
		cmd.Dir = t.TempDir()
		line := awaitLine(t, cmd, true, `"msg":"serving"`)
		var said struct{ URL string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		return said.URL, cmd
	}
	first, process := replica()
	c := testConfig()
	c.Limits.MaxTotalTokens = 256
	c.GenerateAPI.Store.RedisURL = url
	h := openServer(t, c)
	ts := httptest.NewServer(h)
	defer ts.Close()
	whole, _ := piece(t, ts.URL, one("whole", stories[0], 50, ""))
	got := ""
	for k := range 10 {
		at := first
		if k == 5 {
			if err := process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if k >= 5 || k%2 == 1 {
			at = ts.URL
		}
		p, _ := piece(t, at, one("pieces", stories[0], 5, ""))
		got += p
	}
	if got != whole {
		t.Errorf("got  %q\nwant %q", got, whole)
	}

	// What one replica generates, another does not begin.
	claim := sure(h.models.continuations.Claim(t.Context(), store.KeyOf("", []string{"pieces"})))
	second, _ := replica()
	res := post(t, t.Context(), second+"/api/generate-one", one("pieces", " ", 5, ""))
	if b := sure(io.ReadAll(res.Body)); res.StatusCode != http.StatusConflict {
		t.Errorf("in use elsewhere: %d %s", res.StatusCode, b)
	}
	claim.Release()
	if p, _ := piece(t, second, one("pieces", " ", 5, "")); p == "" {
		t.Error("nothing after the claim was given back")
	}
}

// TestGenerateAPIWithoutStore checks that a missing Redis fails requests, not the server.
func TestGenerateAPIWithoutStore(t *testing.T) {
	c := testConfig()
	c.Limits.MaxTotalTokens = 256
	c.GenerateAPI.Store.RedisURL = "unix://" + filepath.Join(t.TempDir(), "nobody")
	h := openServer(t, c)
	ts := httptest.NewServer(h)
	defer ts.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res := post(t, ctx, ts.URL+"/api/generate-one", one("a", "x", 5, ""))
	if b := sure(io.ReadAll(res.Body)); res.StatusCode != 503 ||
		string(b) != "The store of texts to continue does not answer" {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	res = post(t, ctx, ts.URL+"/generate", `{"inputs":"x","parameters":{"max_new_tokens":3}}`)
	if res.StatusCode != 200 {
		t.Errorf("the other routes: %d", res.StatusCode)
	}
	if _, err := openContinuations(config.GenerateStore{RedisURL: "redis://x/no-number"}, nil); err == nil {
		t.Error("a wrong URL is taken")
	}
	var log logBuffer
	s, err := openContinuations(config.GenerateStore{RedisURL: "redis://127.0.0.1:1"},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.Close() // which awaits the warning
	if !strings.Contains(log.String(), "nobody answers at generate_api.store.redis_url") {
		t.Errorf("the log says %q", log.String())
	}
}
