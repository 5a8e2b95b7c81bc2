package operate

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestList: what a server has, as a table and one by one; nothing that a module says of itself steers the terminal.
func TestList(t *testing.T) {
	const dog = `{"name":"dog","version":"2\u001b[2J","doc":"barks\nloud","sha256":"ab","source":"upload",
		"kinds":["logits","guard"],"languages":[],"state":"off","error":"too many faults\u001b","apply":"always",
		"on_error":"fail","keys":["school"],"limits":{"share":"0.5","memory":"32MiB"},"params":{"type":"object"},"loaded":"2026-01-02T03:04:05Z","calls":7,
		"seconds":0.5,"fuel":9,"faults":{"trap":2,"fuel":1,"time":0},"instances_out":1,"instances_waiting":2,"instance_bytes":64,
		"guard":{"verdicts":{"stop":3},"held":5,"rewound":4},
		"canary":{"state":"aborted","sha256":"cd","version":"3","percent":10,"bound":1}}`
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		switch r.URL.Path {
		case "/admin/plugins":
			_, _ = w.Write([]byte(`{"plugins":[` + dog + `,{"name":"dry","version":"","source":"builtin:dry","kinds":["logits"],
				"state":"ready","apply":"request","on_error":"fail","faults":{},"canary":{"state":"running\u001b","shadow":true,
				"sha256":"0123456789abcdef","version":"2","percent":5,"bound":7,"faulty":1,"calls":30,"seconds":0.25,"faults":2,
				"answers":20,"different_answers":4,"different":3}}]}`))
		case "/admin/plugins/dog":
			_, _ = w.Write([]byte(dog))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"no such plugin"}`))
		}
	}))
	defer web.Close()
	s, err := New(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	list, text, err := s.List(t.Context())
	if want := `NAME  VERSION   KINDS          STATE  APPLY             CALLS  SOURCE
dog   2\x1b[2J  logits, guard  off    always of school  7      upload
dry   -         logits         ready  request           0      builtin:dry
plugin dog: too many faults\x1b
plugin dog: canary of 10%, version "3", sha256 cd, aborted: 1 request, 0 faulty; 0 calls, 0.000 s, 0 faults
plugin dry: shadow of 5%, version "2", sha256 0123456789ab, running\x1b: 7 requests, 1 faulty; 30 calls, 0.250 s, 2 faults; 4 of 20 answers differ, in 3 requests
`; err != nil || len(list) != 2 || text != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	p, text, err := s.Show(t.Context(), "dog")
	if err != nil || p.Name != "dog" || strings.Contains(text, "\x1b") {
		t.Errorf("%+v, %v", p, err)
	}
	for _, want := range []string{`plugin     dog 2\x1b[2J` + "\n", `about      barks\nloud`, "kinds      logits, guard\n",
		`params     {"type":"object"}`, "from       upload\n", "sha256     ab\n", `state      off: too many faults\x1b`,
		"apply      always of school\n", "used       7 calls, 0.500 s, 9 fuel, 3 faults (fuel 1, trap 2)\n",
		"instances  1 in use, 2 ready, 64 bytes\n", "guard      3 verdicts, 5 tokens held, 4 taken back\n",
		"beside it  canary of 10%, version \"3\", sha256 cd, aborted: 1 request, ",
		"limits     memory=32MiB,share=0.5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, _, err := s.Show(t.Context(), "a/b"); err == nil || !strings.Contains(err.Error(), "404 no such plugin") {
		t.Error(err)
	}
	if got := strings.Join(asked, ", "); got != "GET /admin/plugins, GET /admin/plugins/dog, GET /admin/plugins/a%2Fb" {
		t.Error(got)
	}
}
