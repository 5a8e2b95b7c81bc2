package served

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Reply is what the server answered to a question.
type Reply struct {
	Status int
	// Text is the answer; where there is none, Error says why and ErrorType
	// what sort of fault it is.
	Text      string `json:"generated_text"`
	Error     string `json:"error"`
	ErrorType string `json:"error_type"`
	// Details are there where the parameters ask for them.
	Details struct {
		Tokens []struct {
			ID uint32 `json:"id"`
		} `json:"tokens"`
		// Plugins are those that failed and were passed over.
		Plugins []struct{ Name, Error string } `json:"plugins"`
	} `json:"details"`
}

// client holds as many connections as a test has workers.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Post sends a body and returns status and reply. Faults of the connection
// fail the test; it may be called from any of the test's goroutines.
func (s *Server) Post(t testing.TB, path, body string) (int, []byte) {
	res, err := client.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, b
}

// Ask puts a question to the model; parameters is the JSON object of that name.
// As Post, it may be called from any goroutine.
func (s *Server) Ask(t testing.TB, question, parameters string) Reply {
	inputs, _ := json.Marshal("<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n")
	status, b := s.Post(t, "/generate", `{"inputs":`+string(inputs)+`,"parameters":`+parameters+`}`)
	var r Reply
	if err := json.Unmarshal(b, &r); err != nil {
		t.Errorf("reply %s: %v", b, err)
	}
	r.Status = status
	return r
}

// ChatReply is what the server answered in a conversation.
type ChatReply struct {
	Status  int
	Choices []struct {
		Message struct {
			// Content is nil beside tool calls that stand alone.
			Content   *string
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Error struct{ Message, Type string }
}

// Text is the content of the one choice, empty where there is none.
func (r ChatReply) Text() string {
	if len(r.Choices) != 1 || r.Choices[0].Message.Content == nil {
		return ""
	}
	return *r.Choices[0].Message.Content
}

// Chat goes on with a conversation, without chance; members are those of the request's JSON
// object, without the braces.
func (s *Server) Chat(t testing.TB, members string) (r ChatReply) {
	t.Helper()
	status, b := s.Post(t, "/v1/chat/completions", `{"model":"tgi","temperature":0,`+members+`}`)
	if err := json.Unmarshal(b, &r); err != nil {
		t.Errorf("reply %s: %v", b, err)
	}
	r.Status = status
	return r
}

// Prompt is the text that the model would read of a conversation, given as to Chat.
func (s *Server) Prompt(t testing.TB, members string) string {
	t.Helper()
	status, b := s.Post(t, "/chat_tokenize", `{"model":"tgi","temperature":0,`+members+`}`)
	var r struct {
		Text string `json:"templated_text"`
	}
	if err := json.Unmarshal(b, &r); err != nil || status != http.StatusOK {
		t.Errorf("status %d, reply %s: %v", status, b, err)
	}
	return r.Text
}

// PluginMetric returns the value of a metric of a plugin of which there is one line.
func (s *Server) PluginMetric(t testing.TB, name, plugin string) float64 {
	t.Helper()
	res, err := client.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, `plugin="`+plugin+`"`) {
			if v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
				return v
			}
		}
	}
	t.Fatalf("/metrics has no %s of %s", name, plugin)
	return 0
}

// update has Documented write what the server replies instead of comparing it.
var update = flag.Bool("update", false, "write the server's replies into the README")

// conversation is a request in a README with its reply: two blocks of code.
var conversation = regexp.MustCompile("(?s)```sh\ncurl localhost:3000(/\\S+)[^`]*? -d '([^']*)'\n```\n+```json\n([^`]*)\n```")

// changing are members of a reply in a conversation that no two have alike;
// READMEs show dots.
var changing = regexp.MustCompile(`"(id|created|system_fingerprint|cached_tokens)":("[^"]*"|\d+)`)

// Documented makes the requests that readme shows, with curl, and compares the
// replies with those that it shows. edits are what the README says to do
// between them: the first before the second request, and so on.
func (s *Server) Documented(t testing.TB, readme string, edits ...func()) {
	t.Helper()
	b, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	found := conversation.FindAllStringSubmatch(text, -1)
	if n := strings.Count(text, "\ncurl "); len(found) == 0 || len(found) != n {
		t.Errorf("%s: %d requests with curl, of which %d are followed by their reply", readme, n, len(found))
	}
	for i, c := range found {
		if i > 0 && i <= len(edits) {
			edits[i-1]()
		}
		path, body, want := c[1], c[2], c[3]
		_, got := s.Post(t, path, body)
		got = changing.ReplaceAll(got, []byte(`"$1":"..."`))
		if *update {
			text = strings.Replace(text, c[0], strings.TrimSuffix(c[0], want+"\n```")+string(got)+"\n```", 1)
		} else if string(got) != want {
			t.Errorf("%s: to %s\nthe server replies   %s\nand not, as written, %s", readme, body, got, want)
		}
	}
	if *update && text != string(b) {
		if err := os.WriteFile(readme, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}
