package top

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/server/client/call"
)

// replica answers for a server of several.
func replica(t *testing.T, url, live, usage string) Source {
	t.Helper()
	return Source{url, serving(t, live, usage, 200)}
}

// several are three servers of which one hangs.
func several(t *testing.T) []Source {
	t.Helper()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	silent, err := call.New(hangs.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	return []Source{
		replica(t, "http://one:3000", `{"version":"1.2","requests":3,"memory":{"resident_bytes":1000000},"models":[{"id":"m",
			"state":"loaded","waiting":4,"running":5,"cache":{"used":10,"total":10,"bytes":300},
			"rates":{"prefill_tokens_per_second":10,"generated_tokens_per_second":12.25}},{"id":"only-one"}],
			"plugins":[{"name":"same","sha256":"aa","version":"1","calls":2,"seconds":9},{"name":"dog",
			"sha256":"0123456789abcdef","version":"1.0.0","calls":4,"seconds":0.001,"faults":2,"canary":{"shadow":true,
			"percent":5,"sha256":"ef","version":"3","calls":2,"seconds":0.001,"answers":9,"different_answers":4}}]}`,
			`{"keys":[{"key":"team","requests":7,"generated_tokens":99},{"key":null,"requests":1}]}`),
		{"http://two:3000", silent},
		replica(t, "http://three:3000/", `{"version":"1.3","requests":4,"draining":true,"memory":{"resident_bytes":500000},
			"models":[{"id":"m","state":"loaded","waiting":1,"running":2,"cache":{"used":0,"total":10,"bytes":100},
			"rates":{"generated_tokens_per_second":0.5}}],
			"plugins":[{"name":"same","sha256":"aa","version":"1","calls":3},
			{"name":"dog","sha256":"fedc","version":"2.0.0"}]}`,
			`{"keys":[{"key":"team","requests":3,"generated_tokens":1}]}`),
	}
}

// TestServers: each server has a line, and so has their sum; a version of a plugin that some alone have is told.
func TestServers(t *testing.T) {
	answers := AskAll(t.Context(), several(t), 200*time.Millisecond)
	want := `2 of 3 servers answer; they differ: tgi 1.2, 1.3

SERVER                       STATE    WAITING RUNNING PARKED CACHE            PROMPT/S  TOKENS/S  REQUESTS    MEMORY
one:3000                     serving        4       5      0 ██████████ 100%      10.0      12.2         3    1.0 MB
two:3000                     no answer within 200ms
three:3000                   draining       1       2      0 ░░░░░░░░░░   0%       0.0       0.5         4  500.0 kB
all that answer                             5       7      0 ████████░░  75%      10.0      12.8         7    1.5 MB

MODEL                        WAITING RUNNING PARKED CACHE            PROMPT/S  TOKENS/S  ON
m                                  5       7      0 ████████░░  75%      10.0      12.8  all that answer
only-one                           0       0      0 -                     0.0       0.0  one:3000

PLUGIN                       VERSION      SHA256            CALLS    µs/CALL   FAULTS  ON
dog                          1.0.0        0123456789ab          4      250.0        2  one:3000
dog                          2.0.0        fedc                  0        0.0        0  three:3000
  shadow 5%                  3            ef                    2      500.0        0  one:3000; 4 of 9 answers differ
same                         1            aa                    5  1800000.0        0  all that answer

KEY                          REQUESTS  RUNNING  PROMPT TOKENS         TOKENS         UNSEEN
team                               10        0              0            100              0
(none)                              1        0              0              0              0`
	if got := strings.Join(Servers(answers, 200, 100), "\n"); got != want {
		t.Errorf("shown:\n%s\nwant:\n%s", got, want)
	}
	if err := Failed(answers); err == nil || err.Error() != "1 of 3 servers did not answer" {
		t.Error(err)
	}
	if err := Failed(answers[1:2]); err == nil || err.Error() != "no answer within 200ms" {
		t.Error(err)
	}
	if err := Failed(answers[2:]); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(answers)
	var read []struct {
		URL, Error string
		Live       struct{ Requests int }
	}
	if err := json.Unmarshal(text, &read); err != nil || len(read) != 3 {
		t.Fatalf("%s: %v", text, err)
	}
	if err != nil || read[2].Live.Requests != 4 || read[1].Error != "no answer within 200ms" || read[1].URL !=
		"http://two:3000" || strings.Count(string(text), `"live"`) != 2 {
		t.Errorf("%s: %v", text, err)
	}
}

// TestHostileServers: whatever they say moves no cursor and takes no more room than there is.
func TestHostileServers(t *testing.T) {
	r := hostileReading()
	answers := []Answer{{name: "a", Reading: &r}, {name: "b", Reading: &r}}
	for _, size := range [][2]int{{80, 24}, {1, 1}, {300, 50}, {80, 0}} {
		holds(t, Servers(answers, size[0], size[1]), size[0], size[1])
	}
}
