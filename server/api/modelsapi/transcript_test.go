package modelsapi

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestTranscripts plays testdata/*.txt, each against a server of its own. A
// request is a line "> METHOD TARGET [NAME=VALUE]" with headers behind it; its
// body, if any, is the next line, and what comes back those that begin with
// "<": the status, headers that matter, and the body as it is. Replies are held
// to Jan's document as well.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	schemas := document(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, schemas, string(text))
			if !strings.Contains(got, "\n< ") {
				t.Error("there is no reply in it")
			}
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
			return fmt.Sprintf("line %d: %s", i+1, strings.Join(g[i:min(len(g), i+4)], "\n"))
		}
	}
	return "fewer lines"
}

// play returns the script with the answers of now.
func play(t *testing.T, all schemas, script string) string {
	s := serve(shelf())
	var out strings.Builder
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(script, "\n"), "\n") {
		if !strings.HasPrefix(line, "<") {
			lines = append(lines, line)
		}
	}
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		if !strings.HasPrefix(line, "> ") {
			continue
		}
		parts, body := strings.Fields(line), ""
		if i+1 < len(lines) && lines[i+1] != "" && !strings.ContainsAny(lines[i+1][:1], ">#") {
			i++
			body = lines[i]
			out.WriteString(body + "\n")
		}
		var header []string
		for _, h := range parts[3:] {
			name, value, _ := strings.Cut(h, "=")
			header = append(header, name, value)
		}
		rec := ask(s, parts[1], parts[2], body, header...)
		show(&out, rec)
		for _, wrong := range all.hold(parts[1], parts[2], rec) {
			t.Errorf("%s: %s", line, wrong)
		}
	}
	return out.String()
}

// show writes a reply; the request's body was written by then.
func show(out *strings.Builder, rec *httptest.ResponseRecorder) {
	fmt.Fprintf(out, "< %d\n", rec.Code)
	for _, name := range []string{"Content-Type", "Retry-After", "Location"} {
		if v := rec.Header().Get(name); v != "" && v != "application/json" {
			fmt.Fprintf(out, "< %s: %s\n", name, v)
		}
	}
	if rec.Body.Len() > 0 {
		fmt.Fprintf(out, "< %s\n", rec.Body)
	}
}
