package host

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDeafPrograms: programs that make the host work, and listen to no refusal, pay for it: each is ended after a few
// seconds of the process's processor time, for the reason that it is told.
func TestDeafPrograms(t *testing.T) {
	p := programming(t, nil)
	const deaf = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"plugins":[{"name":"hostile",` +
		`"params":{"do":%q,"deaf":"yes"}}]}}`
	for what, want := range map[string]string{
		"render": "out of fuel", "fork": "goes on to fork and render", "render and drop": "goes on to fork and render",
		"nothing": "out of fuel", "grammar": "out of fuel",
		"wait": "out of fuel", "stay": "out of fuel", "top": "out of fuel", "row": "out of fuel", "one": "out of fuel",
		"append": "out of fuel", "emit": "more and more", "two": "out of fuel", "prefix": "out of fuel",
		"prefix known": "out of fuel", "prefix deep": "out of fuel",
	} {
		before := processTime(t)
		_, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, deaf, what))
		took := processTime(t) - before
		t.Log(what, took)
		if !strings.Contains(got, want) || took > 8*time.Second {
			t.Errorf("%s: %v, %s, want %s", what, took, got, want)
		}
	}
	p.settled(t)
}

// processTime is the processor time of this process.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
