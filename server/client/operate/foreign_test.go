package operate

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"tgi/server/client/call"
)

// TestForeignServer: what answers everything, and not as tgi does, did nothing of what it was asked.
func TestForeignServer(t *testing.T) {
	for _, says := range []string{"null", "{}", "[]", "true", `{"name":"cat","sha256":"ab","state":"ready",
		"dry_run":true,"plugin":{"name":"cat","sha256":"ab"},"canary":{"sha256":"ab"},
		"plugins":[{}],"versions":[{}]}`} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, says)
		}))
		defer web.Close()
		f, err := NewFleet([]string{web.URL}, "k")
		if err != nil {
			t.Fatal(err)
		}
		live, _ := fleetOf(t, map[string]string{"PUT ?dry_run=true": tried, "PUT ": dog, "GET ": dog,
			"GET /canary":   trial,
			"GET /versions": `{"versions":[{"sha256":"cd"}]}`, "POST /canary/promote": dog,
			"GET /log?after=0": `{"lines":[]}`, "DELETE ": "204 "})
		for _, line := range [][]string{{"upload", "dog", module(t)}, {"upload", "dog", module(t), "--dry-run"},
			{"versions", "dog"}, {"rm", "dog"}, {"rollback", "dog", "--to", "3361"},
			{"canary", "dog"}, {"canary", "dog", "--end"},
			{"canary", "dog", "--promote"}, {"canary", "dog", module(t), "--share", "5"}, {"logs", "dog"}} {
			if line[0] == "logs" && strings.Contains(says, "cat") {
				continue // its lines are not of a name
			}
			text, _, err := command(t, f, line[0], line[1:]...)
			if !strings.Contains(errText(err), call.ErrForeign.Error()) || text != "" {
				t.Errorf("%s of a server that says %s: %q, %v", line, says, text, err)
			}
			if text, _, err = command(t, slices.Concat(f, live), line[0], line[1:]...); err == nil ||
				!strings.Contains(text, call.ErrForeign.Error()) ||
				!strings.Contains(err.Error(), "1 of 2 servers failed") {
				t.Errorf("%s of it and another: %q, %v", line, text, err)
			}
		}
		if list, _, err := f[0].List(t.Context()); !errors.Is(err, call.ErrForeign) || list != nil {
			t.Errorf("list of a server that says %s: %v, %v", says, list, err)
		}
		if _, _, err := f[0].Show(t.Context(), "dog"); !errors.Is(err, call.ErrForeign) {
			t.Errorf("show of a server that says %s: %v", says, err)
		}
		if err := f[0].Delete(t.Context(), "dog"); !errors.Is(err, call.ErrForeign) {
			t.Errorf("delete at a server that says %s: %v", says, err)
		}
	}
}

// errText is the text of an error, "" of none.
func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// silent answers requests of some methods as dog's server does, and others only when they end.
type silent struct{ answers string }

// RoundTrip implements http.RoundTripper.
func (s silent) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method == s.answers {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: q,
			Body: io.NopCloser(strings.NewReader(strings.ReplaceAll(dog, `"cd"`, `"`+wasmSum+`"`)))}, nil
	}
	<-q.Context().Done()
	return nil, q.Context().Err()
}

// TestSilentServer: a server is waited for as long as the question deserves, which is told, and that it is waited for.
func TestSilentServer(t *testing.T) {
	for _, c := range []struct {
		answers, line string
		took          time.Duration
	}{
		{"", "versions dog", questionPatience},
		{"", "logs dog", questionPatience},
		{"", "canary dog", questionPatience},
		{"", "upload dog FILE", patience}, // of one server nothing is asked before
		{"GET", "upload dog FILE", patience},
		{"GET", "rollback dog", patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, err := call.New("http://one", "k", silent{c.answers})
			if err != nil {
				t.Fatal(err)
			}
			notes, began := strings.Builder{}, time.Now()
			f := Fleet{&Server{caller: caller, url: "http://one"}}
			f.Note(&notes)
			words := strings.Fields(c.line)
			verbs := Verbs(func(string) ([]byte, error) { return []byte("wasm"), nil })
			v := verbs[slices.IndexFunc(verbs, func(v Verb) bool { return strings.HasPrefix(v.Use, words[0]) })]
			if v.Flags != nil {
				v.Flags(pflag.NewFlagSet("", pflag.ContinueOnError))
			}
			err = f.Run(t.Context(), v, words[1:], func(any, string) error { return nil })
			want := "http://one: no answer within " + c.took.String()
			if took := time.Since(began); errText(err) != want || took != c.took {
				t.Errorf("%s: %v after %s, want %s", c.line, err, took, want)
			}
			if want := "tgi: waiting for http://one, at most " + c.took.String() + "\n"; notes.String() != want {
				t.Errorf("%s: noted %q, want %q", c.line, &notes, want)
			}
		})
	}
}

// TestSilentReplica: one that is silent keeps nothing of the others from being told, and no module is sent anywhere.
func TestSilentReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Fleet
		for url, answers := range map[string]string{"http://one": http.MethodGet, "http://two": ""} {
			caller, err := call.New(url, "k", silent{answers})
			if err != nil {
				t.Fatal(err)
			}
			f = append(f, &Server{caller: caller, url: url})
		}
		verbs, began := Verbs(os.ReadFile), time.Now()
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		verbs[0].Flags(set)
		said := ""
		err := f.Run(t.Context(), verbs[0], []string{"dog", module(t)}, func(_ any, text string) error {
			said = text
			return nil
		})
		const one, two = "http://one\n  it could be done here; nothing was changed\n",
			"http://two\n  failed: no answer within 15s\n"
		if took := time.Since(began); took != questionPatience || said != one+two && said != two+one || err == nil {
			t.Errorf("%q, %v after %s", said, err, took)
		}
	})
}
