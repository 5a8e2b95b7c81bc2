package chat

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// update shows new transcripts; they are read before they are kept.
var update = flag.Bool("update", false, "write what was said into testdata")

// TestChatTranscripts plays testdata/*.txt. The first part says what there is, a
// line each:
//
//	terminal, colour     Options of the same names
//	system TEXT          the option of that name
//	file NAME TEXT       a file in the working folder
//	reply STEP; STEP...  what the server does with the next request, see play
//
// After a line "---" comes what stands on the screen at the end. Between « and
// » is what was typed: a line, ^C or ^D. A piece of an answer that ends with ^C
// is one at which ^C is typed. Escapes are shown as \e. After a further line
// "---" come the bodies that were sent, a line each.
func TestChatTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.SplitN(string(data), "---\n", 3)
			if len(parts) != 3 {
				t.Fatal("not three parts")
			}
			t.Chdir(t.TempDir())
			screen, sent := talk(t, parts[0], parts[1])
			got := parts[0] + "---\n" + screen + "---\n" + sent
			if got == string(data) {
				return
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("got\n%s\nwant\n%s", got, data)
		})
	}
}

// talk plays one transcript and returns what was shown and sent.
func talk(t *testing.T, setting, screen string) (shown, sent string) {
	t.Helper()
	term := &terminal{over: make(chan struct{}), interrupts: make(chan os.Signal, 1)}
	term.grown.L = &term.mu
	for _, one := range strings.Split(screen, "«")[1:] {
		typed, _, ok := strings.Cut(one, "»")
		if !ok {
			t.Fatalf("« without »: %q", one)
		}
		term.script = append(term.script, typed)
	}
	server := &fake{t: t}
	o := Options{Members: Members{Names: []string{"messages", "plugins", "seed", "stop", "temperature"}}, In: term,
		Out: term, Notes: term, Errors: term, Interrupts: term.interrupts, now: ticking()}
	for line := range strings.Lines(setting) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch word {
		case "terminal":
			o.Terminal = true
		case "colour":
			o.Colour = true
		case "system":
			o.System = rest
		case "file":
			name, text, _ := strings.Cut(rest, " ")
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		case "reply":
			server.replies = append(server.replies, rest)
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	left := len(server.replies)
	o.Client = server.client(t)
	if err := Talk(t.Context(), o); err != nil {
		t.Error(err)
	}
	close(term.over)
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.sent) != left {
		t.Errorf("%d requests for %d replies", len(server.sent), left)
	}
	return term.shown(), strings.Join(append(server.sent, ""), "\n")
}

// ticking is a clock that a tenth of a second passes on at each look.
func ticking() func() time.Time {
	at := time.Unix(1_700_000_000, 0)
	return func() time.Time {
		at = at.Add(100 * time.Millisecond)
		return at
	}
}

// terminal types a script and keeps what is shown.
type terminal struct {
	script     []string
	interrupts chan os.Signal
	over       chan struct{} // closed when the conversation is

	mu    sync.Mutex
	grown sync.Cond
	text  strings.Builder
}

func (t *terminal) shown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ReplaceAll(t.text.String(), "\x1b", `\e`)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// Write shows p, and presses ^C where p ends with it.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	t.grown.Broadcast()
	if strings.HasSuffix(string(p), "^C") {
		t.interrupts <- os.Interrupt
	}
	return len(p), nil
}

// Read types the next line. It is asked for when the prompt is there.
func (t *terminal) Read(p []byte) (int, error) {
	for len(t.script) > 0 {
		typed := t.script[0]
		t.script = t.script[1:]
		t.mu.Lock()
		t.text.WriteString("«" + typed + "»")
		if !strings.HasPrefix(typed, "^") {
			t.text.WriteString("\n") // as terminals echo it
		}
		before := t.text.Len()
		t.mu.Unlock()
		switch typed {
		case "^C":
			t.interrupts <- os.Interrupt
			if !t.prompted(before) {
				return 0, io.EOF
			}
			continue
		case "^D":
			return 0, io.EOF
		}
		return copy(p, typed+"\n"), nil
	}
	return 0, errors.New("nobody types any more")
}

// prompted waits for a prompt after the given length of text, or the end.
func (t *terminal) prompted(before int) bool {
	stop := context.AfterFunc(contextOf(t.over), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grown.Broadcast()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		text := t.text.String()
		if len(text) > before && strings.HasSuffix(text, "> ") {
			return true
		}
		select {
		case <-t.over:
			return false
		default:
			t.grown.Wait()
		}
	}
}

// contextOf returns a context that ends when c is closed.
func contextOf(c <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-c
		cancel()
	}()
	return ctx
}

// fake is a server that plays replies, one for each request.
type fake struct {
	t       testing.TB
	replies []string

	mu   sync.Mutex
	sent []string // bodies, their members in the order of their names
}

// client returns a client of a new server.
func (f *fake) client(t testing.TB) *Client {
	t.Helper()
	ts := httptest.NewServer(f)
	t.Cleanup(ts.Close)
	c, err := NewClient(ts.URL, "", "parrot", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		f.t.Error(err)
	}
	// The same in all requests.
	if body["stream"] != true || body["model"] != "parrot" ||
		fmt.Sprint(body["stream_options"]) != "map[include_usage:true]" {
		f.t.Errorf("asked with %v", body)
	}
	for _, name := range []string{"stream", "model", "stream_options"} {
		delete(body, name)
	}
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	f.sent = append(f.sent, string(text))
	reply := ""
	if n := len(f.sent); n <= len(f.replies) {
		reply = f.replies[n-1]
	}
	f.mu.Unlock()
	play(w, r, reply)
}

// play does what a reply says, step by step:
//
//	status CODE BODY     answers with an error; header NAME VALUE before it sets one
//	say A|B, think A|B   sends pieces of content or reasoning_content
//	call INDEX ID NAME A|B  sends a call; ID - is none
//	finish REASON        sends the end of the choice
//	usage N              sends the number of tokens
//	data TEXT            sends an event as it is
//	done                 sends [DONE]
//	hang                 waits until the client leaves
//	break                cuts the connection
func play(w http.ResponseWriter, r *http.Request, reply string) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	delta := func(name string, value any) {
		text, _ := json.Marshal(map[string]any{name: value})
		send(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`, text)
	}
	for step := range strings.SplitSeq(reply, "; ") {
		word, rest, _ := strings.Cut(step, " ")
		switch word {
		case "header":
			name, value, _ := strings.Cut(rest, " ")
			w.Header().Set(name, value)
		case "status":
			code := 0
			fmt.Sscan(rest, &code)
			w.WriteHeader(code)
			io.WriteString(w, rest[min(4, len(rest)):])
		case "say":
			for piece := range strings.SplitSeq(rest, "|") {
				delta("content", unquote(piece))
			}
		case "think":
			for piece := range strings.SplitSeq(rest, "|") {
				delta("reasoning_content", unquote(piece))
			}
		case "call":
			playCall(delta, rest)
		case "finish":
			send(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, rest)
		case "usage":
			send(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%s}}`, rest)
		case "data":
			send("%s", rest)
		case "done":
			send("[DONE]")
		case "hang":
			<-r.Context().Done()
		case "break":
			panic(http.ErrAbortHandler)
		default:
			panic("BUG: unknown step " + step)
		}
	}
}

// playCall sends the pieces of a call as OpenAI does: id, type and name with the
// first, which has no arguments yet.
func playCall(delta func(string, any), rest string) {
	words := strings.SplitN(rest, " ", 4)
	index := 0
	fmt.Sscan(words[0], &index)
	first := map[string]any{"index": index, "type": "function", "function": map[string]string{"name": words[2],
		"arguments": ""}}
	if words[1] != "-" {
		first["id"] = words[1]
	}
	delta("tool_calls", []any{first})
	for piece := range strings.SplitSeq(words[3], "|") {
		delta("tool_calls", []any{map[string]any{"index": index, "function": map[string]string{"arguments": piece}}})
	}
}

// unquote puts line ends and escapes where \n and \e stand.
func unquote(s string) string { return strings.NewReplacer(`\n`, "\n", `\e`, "\x1b").Replace(s) }

// TestChatTranscriptsCover: each command is played somewhere.
func TestChatTranscriptsCover(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	var typed []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range strings.Split(string(data), "«")[1:] {
			name, _, _ := strings.Cut(one, "»")
			name, _, _ = strings.Cut(name, " ")
			typed = append(typed, name)
		}
	}
	for _, c := range commands() {
		if !slices.Contains(typed, c.name) {
			t.Errorf("no transcript types %s", c.name)
		}
	}
}
