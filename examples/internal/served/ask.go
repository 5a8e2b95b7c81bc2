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

// Metric returns the value of a metric of which there is one line.
func (s *Server) Metric(t testing.TB, name string) float64 {
	t.Helper()
	res, err := client.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name+"{"); ok {
			if v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64); err == nil {
				return v
			}
		}
	}
	t.Fatalf("/metrics has no %s", name)
	return 0
}

// update has Documented write what the server replies instead of comparing it.
var update = flag.Bool("update", false, "write the server's replies into the README")

// conversation is a request in a README with its reply: two blocks of code.
var conversation = regexp.MustCompile("(?s)```sh\ncurl localhost:3000(/\\S+)[^`]*? -d '([^']*)'\n```\n+```json\n([^`]*)\n```")

// Documented makes the requests that readme shows, with curl, and compares the
// replies with those that it shows.
func (s *Server) Documented(t testing.TB, readme string) {
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
	for _, c := range found {
		path, body, want := c[1], c[2], c[3]
		_, got := s.Post(t, path, body)
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
