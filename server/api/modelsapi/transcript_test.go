package modelsapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server/api/apitest"
)

// TestTranscripts plays testdata/*.txt, each against a server of its own. A
// request is a line "> METHOD TARGET [NAME=VALUE]" with headers behind it; its
// body, if any, is the next line, and what comes back those that begin with
// "<": the status, headers that matter, and the body as it is. Replies are held
// to Jan's document as well.
func TestTranscripts(t *testing.T) {
	schemas := document(t)
	apitest.Transcripts(t, func(t *testing.T, text string) string {
		got := play(t, schemas, text)
		if !strings.Contains(got, "\n< ") {
			t.Error("there is no reply in it")
		}
		return got
	})
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
