// Package apitest plays transcripts: files of testdata that hold requests and the replies that are wanted.
package apitest

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// Transcripts runs a subtest for each file testdata/*.txt. play gets its text and returns it as it should be: the
// requests with the replies of now. With -update the files are rewritten.
func Transcripts(t *testing.T, play func(t *testing.T, text string) string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("got\n%s", difference(got, string(text)))
			}
		})
	}
}

// difference returns the lines of got from the first that is not want's.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d: %s\nwant: %s", i+1, strings.Join(g[i:min(len(g), i+5)], "\n"),
				strings.Join(w[min(len(w), i):min(len(w), i+5)], "\n"))
		}
	}
	return "fewer lines"
}

// Request reads a request: a line "METHOD TARGET", headers, a blank line, and a line with the body. Its media type is
// application/json unless a header says otherwise.
func Request(lines *bufio.Scanner) *http.Request {
	lines.Scan()
	method, target, _ := strings.Cut(lines.Text(), " ")
	header := http.Header{"Content-Type": {"application/json"}}
	for lines.Scan() && lines.Text() != "" {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		header.Set(name, value)
	}
	lines.Scan()
	r := httptest.NewRequest(method, target, strings.NewReader(lines.Text()))
	r.Header = header
	return r
}

var wholeNumber, fraction = regexp.MustCompile(`^[0-9]+$`), regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// Reply writes a reply as want has one: the status, the headers that want names, a blank line and the body. A header's
// value in want may be * for any, # for digits, #.# for digits with a point, and none for no such header.
func Reply(rec *httptest.ResponseRecorder, want string) string {
	var b strings.Builder
	fmt.Fprintln(&b, rec.Code)
	head, _, _ := strings.Cut(want, "\n\n")
	for _, line := range strings.Split(head, "\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		got := strings.Join(rec.Header().Values(name), ", ")
		switch {
		case value == "*" && got != "":
			got = "*"
		case value == "#" && wholeNumber.MatchString(got), value == "#.#" && fraction.MatchString(got):
			got = value
		case value == "none" && got == "":
			got = "none"
		}
		fmt.Fprintf(&b, "%s: %s\n", name, got)
	}
	return b.String() + "\n" + rec.Body.String()
}
