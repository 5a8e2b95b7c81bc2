package generateapi

import (
	"fmt"
	"strings"
	"testing"

	"tgi/server/api/apitest"
)

// TestGenerateAPITranscripts plays testdata/*.txt, each against a server of its
// own. A request is a line "> METHOD PATH" with names and values of headers,
// which have colons for spaces; its body is the lines behind it, and what comes
// back those that begin with "<": status and media type, X-Continued, how the
// texts ended, and the body, quoted if it is text, as it is if it is JSON.
func TestGenerateAPITranscripts(t *testing.T) {
	apitest.Transcripts(t, func(t *testing.T, text string) string { return play(t, newKit(t), text) })
}

// play returns the script with the answers of now.
func play(t *testing.T, k *kit, script string) string {
	var out, body strings.Builder
	head := ""
	ask := func() {
		if head == "" {
			return
		}
		parts := strings.Fields(head)
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], ":", " ")
		}
		a := k.do(t, parts[1], parts[2], body.String(), parts[3:]...)
		out.WriteString(show(a) + "\n")
		head = ""
		body.Reset()
	}
	for line := range strings.Lines(strings.TrimRight(script, "\n") + "\n") {
		switch {
		case strings.HasPrefix(line, "<") || line == "\n":
			ask()
		case strings.HasPrefix(line, "#"):
			ask()
			out.WriteString(line)
		case strings.HasPrefix(line, "> "):
			ask()
			head = strings.TrimSpace(line)
			out.WriteString(line)
		default:
			body.WriteString(line)
			out.WriteString(line)
		}
	}
	ask()
	return out.String()
}

func show(a answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "< %d %s\n", a.StatusCode, a.Header.Get("Content-Type"))
	if v := a.Header.Get(continuedHeader); v == "true" {
		fmt.Fprintf(&b, "< continued\n")
	}
	for where, h := range map[string]map[string][]string{"header": a.Header, "trailer": a.Trailer} {
		if v := h[finishReason]; v != nil {
			fmt.Fprintf(&b, "< %s: %s; %s\n", where, v[0], h[generatedTokens][0])
		}
	}
	if strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		fmt.Fprintf(&b, "< %s\n", a.text)
	} else if a.text != "" {
		fmt.Fprintf(&b, "< %q\n", a.text)
	}
	if a.err != nil {
		fmt.Fprintf(&b, "< %v\n", a.err)
	}
	return b.String()
}
