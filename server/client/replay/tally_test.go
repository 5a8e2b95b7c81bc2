package replay

import (
	"fmt"
	"strings"
	"testing"
)

// TestRefused: what was refused for the moment, when it was kept or now, is no difference between texts.
func TestRefused(t *testing.T) {
	const good, busy = `{"generated_text":"b"}`, `{"error":"Model is overloaded","error_type":"overloaded"}`
	kept := func(status int, reply string) Exchange {
		return Exchange{Label: fmt.Sprint(status), Method: "POST", Path: "/generate", Status: status,
			Body: fmt.Appendf(nil, `{"inputs":"%d"}`, status), Reply: []byte(reply)}
	}
	var said strings.Builder
	report := func(r Report) error { _, err := said.WriteString(r.String()); return err }
	c, asked := answering(t, 200, good)
	unread := kept(529, `{}`) // as a server records what it refuses before it reads the body
	unread.Body, unread.Flaw = nil, "it has no body"
	tally, err := RunAll(t.Context(), c, []Exchange{kept(200, good), kept(429, busy), kept(503, `{}`), unread},
		Options{}, report)
	if err != nil || !tally.Same() || tally.String() != "1 of 1 are the same; 3 refused when kept, not sent again" {
		t.Errorf("%v, %v:\n%s", tally, err, &said)
	}
	if !strings.Contains(said.String(), "429: not compared: it was refused: 429 Too Many Requests: Model is overloaded\n") {
		t.Errorf("%s", &said)
	}
	if !strings.Contains(*asked, `{"inputs":"200"}`) || tally.Refused != 3 { // the first; none came behind it
		t.Errorf("asked last %q, %+v", *asked, tally)
	}
	*asked = ""
	tally, err = RunAll(t.Context(), c, []Exchange{kept(429, busy)}, Options{}, report)
	if err != nil || tally.Same() || *asked != "" {
		t.Errorf("where nothing was compared: %v, %v, asked %q", tally, err, *asked)
	}
	c, _ = answering(t, 429, busy)
	said.Reset()
	tally, err = RunAll(t.Context(), c, []Exchange{kept(200, good)}, Options{}, report)
	if err != nil || tally.Same() || !strings.Contains(said.String(), "not compared: the server refuses it now: 429") {
		t.Errorf("%v, %v:\n%s", tally, err, &said)
	}
	c, _ = answering(t, 422, `{"error":"no"}`)
	tally, err = RunAll(t.Context(), c, []Exchange{kept(200, good), kept(429, busy)}, Options{}, report)
	if err != nil || tally.Same() {
		t.Errorf("a difference: %v, %v", tally, err)
	}
}

// TestVectors: what embeds or ranks is told of once and spoils nothing, but is not called the same.
func TestVectors(t *testing.T) {
	c, asked := answering(t, 200, `{"generated_text":"b"}`)
	kept := func(path, reply string) Exchange {
		return Exchange{Label: path, Method: "POST", Path: path, Status: 200, Body: []byte(`{"inputs":"a"}`),
			Reply: []byte(reply)}
	}
	vectors := []Exchange{kept("/v1/embeddings?a=b", `{"data":[]}`), kept("/rerank", `[]`),
		kept("/v1/embeddings", `{}`)}
	var said strings.Builder
	report := func(r Report) error { _, err := said.WriteString(r.String()); return err }
	text := kept("/generate", `{"generated_text":"b"}`)
	tally, err := RunAll(t.Context(), c, append(vectors, text), Options{}, report)
	const note = "3 requests of /rerank, /v1/embeddings: not sent: what they answer is no text\n"
	if err != nil || !tally.Same() || tally.Unknown() || said.String() != "/generate: the same text\n"+note ||
		tally.String() != "1 of 1 are the same; 3 of no text, not sent" || !strings.HasPrefix(*asked, "/generate ") {
		t.Errorf("%v, %v, asked %s:\n%s", err, tally, *asked, &said)
	}
	said.Reset()
	tally, err = RunAll(t.Context(), c, vectors, Options{}, report)
	if err != nil || tally.Same() || !tally.Unknown() || said.String() != note {
		t.Errorf("alone: %v, %v:\n%s", err, tally, &said)
	}
	vectors[0].Method = "DELETE"
	if tally, err = RunAll(t.Context(), c, vectors[:1], Options{}, report); err != nil || tally.Incomparable != 1 {
		t.Errorf("another method: %v, %v", err, tally)
	}
}
