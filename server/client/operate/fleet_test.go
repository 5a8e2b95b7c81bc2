package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// replica is a made-up server: what it answers for a method and a path, and what was asked of it.
type replica struct {
	mu      sync.Mutex
	answers map[string]string // an answer that begins with digits has that status
	asked   []string
	url     string
}

// wasmSum is the SHA-256 of what module has; fakes and expectations write "cd" for it.
const wasmSum = "336154bf67f765f8f75d16a0accee61b5ee5f6a75b2a2905703df913bd550f3e"

func (r *replica) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := q.Method + " " + strings.TrimPrefix(q.URL.String(), "/admin/plugins/dog")
	r.asked = append(r.asked, what)
	answer, ok := r.answers[what]
	status := 0
	if n, _ := fmt.Sscanf(answer, "%d ", &status); n == 1 {
		w.WriteHeader(status)
		answer = answer[4:]
	} else if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error":"nothing there"}`
	}
	_, _ = io.WriteString(w, strings.ReplaceAll(answer, `"sha256":"cd"`, `"sha256":"`+wasmSum+`"`))
}

// fleetOf starts a server for each of the maps of answers.
func fleetOf(t *testing.T, answers ...map[string]string) (f Fleet, list []*replica) {
	t.Helper()
	var urls []string
	for _, a := range answers {
		r := &replica{answers: a}
		web := httptest.NewServer(r)
		t.Cleanup(web.Close)
		r.url, list, urls = web.URL, append(list, r), append(urls, web.URL)
	}
	f, err := NewFleet(urls, "k")
	if err != nil {
		t.Fatal(err)
	}
	return f, list
}

// command runs a command line at servers. Each %d of its text is the address of one.
func command(t *testing.T, f Fleet, verb string, line ...string) (text string, outcomes []Outcome, err error) {
	t.Helper()
	verbs := Verbs(os.ReadFile)
	v := verbs[slices.IndexFunc(verbs, func(v Verb) bool { return strings.HasPrefix(v.Use, verb+" ") })]
	set := pflag.NewFlagSet(verb, pflag.ContinueOnError)
	if v.Flags != nil {
		v.Flags(set)
	}
	if err := set.Parse(line); err != nil {
		t.Fatal(err)
	}
	err = f.Run(t.Context(), v, set.Args(), func(value any, said string) error {
		text += said
		if all, ok := value.(map[string][]Outcome); ok {
			outcomes = all["servers"]
		}
		_, err := json.Marshal(value)
		return err
	})
	for i, s := range f {
		text = strings.ReplaceAll(text, s.url, fmt.Sprintf("S%d", i))
		text = strings.NewReplacer(wasmSum, "cd", wasmSum[:16], "cd").Replace(text)
		if err != nil {
			err = errors.New(strings.ReplaceAll(err.Error(), s.url, fmt.Sprintf("S%d", i)))
		}
	}
	return text, outcomes, err
}

// says fails unless a command said so much, ended so, and the servers were asked so.
func says(t *testing.T, list []*replica, text, want string, err error, wantErr string, asked ...string) {
	t.Helper()
	said := ""
	if err != nil {
		said = err.Error()
	}
	if text != want || said != wantErr {
		t.Errorf("said\n%s%s\nwant\n%s%s", text, said, want, wantErr)
	}
	for i, r := range list {
		if got := strings.Join(r.asked, ", "); got != asked[i] {
			t.Errorf("server %d was asked %s, want %s", i, got, asked[i])
		}
		r.asked = nil
	}
}

func module(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dog.wasm")
	if err := os.WriteFile(file, []byte("wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What servers answer: a plugin, a dry run, a canary.
const (
	dog   = `{"name":"dog","sha256":"cd","version":"2","state":"ready","apply":"request","on_error":"fail"}`
	tried = `{"dry_run":true,"plugin":` + dog + `}`
	trial = `{"name":"dog","state":"running","percent":5,"canary":{"sha256":"cd"}}`
)

// TestFleetUpload: where one server refuses the module nobody has it; where one fails later the others have it, and the
// error names it. Again is safe.
func TestFleetUpload(t *testing.T) {
	good := map[string]string{"PUT ?dry_run=true": tried, "PUT ": dog,
		"GET /versions": `{"versions":[{"sha256":"cd"},{"sha256":"ab"}]}`}
	late := map[string]string{"PUT ?dry_run=true": tried,
		"PUT ": `507 {"error":"the disk is full\u001b[2J"}`}
	refuses := map[string]string{"PUT ?dry_run=true": `403 {"error":"the module is not signed as the settings demand"}`}
	file := module(t)

	f, list := fleetOf(t, good, refuses)
	text, _, err := command(t, f, "upload", "dog", file)
	says(t, list, text, "S0\n  it could be done here; nothing was changed\n"+
		"S1\n  failed: 403 the module is not signed as the settings demand\n", err,
		"1 of 2 servers failed; nothing was changed at any of them",
		"GET , PUT ?dry_run=true", "GET , PUT ?dry_run=true")

	f, list = fleetOf(t, good, late, good)
	serves := func(at string) string {
		return at + "\n  dog: version \"2\", sha256 cd, serves\n    1 earlier version kept: tgi plugin rollback dog --url " +
			at + " --to ab has the latest of before serve again\n    apply request, on_error fail\n"
	}
	const both = "GET , PUT ?dry_run=true, PUT , GET /versions"
	for range 2 {
		text, outcomes, err := command(t, f, "upload", "dog", file)
		says(t, list, text, serves("S0")+"S1\n  failed: 507 the disk is full\\x1b[2J\n"+serves("S2"), err,
			"1 of 3 servers failed; for these alone: --url S1", both, strings.TrimSuffix(both, ", GET /versions"), both)
		if len(outcomes) != 3 || outcomes[0].Result == nil || outcomes[1].Error == "" ||
			outcomes[2].URL != list[2].url {
			t.Errorf("%+v", outcomes)
		}
	}
	text, _, err = command(t, f, "upload", "dog", file, "--dry-run")
	if err != nil || strings.Count(text, "nothing was changed") != 3 || len(list[0].asked) != 1 {
		t.Errorf("%s, %v, %v", text, err, list[0].asked)
	}
	if _, _, err := command(t, f, "upload", "dog"); err == nil || !strings.Contains(err.Error(), "the file of its") {
		t.Error(err)
	}
}

// TestFleetRollback: several servers go back to one version by name, so that a second try undoes nothing.
func TestFleetRollback(t *testing.T) {
	versions := func(serving string, sums ...string) map[string]string {
		var list []string
		for _, s := range sums {
			list = append(list, fmt.Sprintf(`{"sha256":%q,"serving":%t}`, s, s == serving))
		}
		return map[string]string{"GET /versions": `{"versions":[` + strings.Join(list, ",") + `]}`,
			"POST /rollback?to=abcd": `{"name":"dog","sha256":"abcd","version":"1"}`}
	}
	f, list := fleetOf(t, versions("ef01", "ef01", "abcd"), versions("abcd", "abcd", "ef01"))
	if _, _, err := command(t, f, "rollback", "dog"); err == nil || !strings.Contains(err.Error(), "--to is missing") {
		t.Error(err)
	}
	text, _, err := command(t, f, "rollback", "dog", "--to", "AB")
	says(t, list, text, "S0\n  dog: version \"1\", sha256 abcd, serves again at S0\nS1\n"+
		"  dog: sha256 abcd serves already\n", err,
		"", "GET /versions, POST /rollback?to=abcd", "GET /versions")

	f, list = fleetOf(t, versions("ef01", "ef01", "abcd"), versions("ef01", "ef01"), versions("ef01", "ef01", "ab99"))
	text, _, err = command(t, f, "rollback", "dog", "--to", "ab")
	says(t, list, text, "S0\n  it could be done here; nothing was changed\n"+
		"S1\n  failed: no version of dog has a sha256 that begins with \"ab\"; it has ef01\n"+
		"S2\n  failed: --to ab is sha256 ab99 here and abcd at S0: give more of it\n", err,
		"2 of 3 servers failed; nothing was changed at any of them", "GET /versions", "GET /versions", "GET /versions")

	broken := map[string]string{
		"GET /versions": `{"versions":[{"sha256":"abcd","error":"it traps"},{"sha256":"ef01"}]}`}
	f, list = fleetOf(t, versions("ef01", "ef01", "abcd", "abcd"), broken, versions("ab99", "ab99", "abcd"))
	text, _, err = command(t, f, "rollback", "dog", "--to", "ab")
	says(t, list, text, "S0\n  it could be done here; nothing was changed\n"+
		"S1\n  failed: it does not serve: it traps\n"+
		"S2\n  failed: several versions of dog have a sha256 that begins with \"ab\"; it has ab99, abcd\n", err,
		"2 of 3 servers failed; nothing was changed at any of them", "GET /versions", "GET /versions", "GET /versions")
}

// TestFleetRollbackSettings: of versions of one module several servers go back to one by its settings.
func TestFleetRollbackSettings(t *testing.T) {
	const now, before = `{"sha256":"ab12","settings_id":"c1d2","settings":{"apply":"always","config":"{\u001b}"}%s}`,
		`{"sha256":"ab12","settings_id":"e3f4","settings":{"apply":"request"}%s}`
	has := func(first, second, to string) map[string]string {
		return map[string]string{
			"GET /versions": fmt.Sprintf(`{"versions":[`+first+`,`+second+`]}`, `,"serving":true`, ""),
			"POST /rollback?to=" + to: `{"name":"dog","sha256":"ab12","version":"1","apply":"request","on_error":"fail",
				"limits":{"memory":"32MiB"}}`}
	}
	const full = "ab12.e3f4"
	f, list := fleetOf(t, has(now, before, full), has(now, before, full))
	text, _, err := command(t, f, "rollback", "dog", "--to", "ab")
	const fails = `  failed: --to ab is several versions of dog, with other settings; it has ab12.c1d2 (apply always, ` +
		`config {\x1b}), ab12.e3f4 (apply request, config default)` + "\n"
	says(t, list, text, "S0\n"+fails+"S1\n"+fails, err, "2 of 2 servers failed; nothing was changed at any of them",
		"GET /versions", "GET /versions")
	text, _, err = command(t, f, "versions", "dog")
	if err != nil || strings.Count(text, "\n      ab12.e3f4: apply request, config default\n") != 2 ||
		!strings.Contains(text, `ab12.c1d2: apply always, config {\x1b}`) {
		t.Errorf("%s, %v", text, err)
	}

	f, list = fleetOf(t, has(now, before, full), has(before, now, full)) // the second is done already
	text, _, err = command(t, f, "rollback", "dog", "--to", "AB.e3")
	says(t, list, text, "S0\n  dog: version \"1\", sha256 ab12, serves again at S0\n"+
		"    apply request, on_error fail, limits memory=32MiB\nS1\n  dog: sha256 ab12.e3f4 serves already\n", err, "",
		"GET /versions, POST /rollback?to="+full, "GET /versions")
}

// TestFleetPromote: what serves already the canary that the others have was promoted before.
func TestFleetPromote(t *testing.T) {
	trial := map[string]string{"GET /canary": trial,
		"POST /canary/promote": dog, "DELETE /canary": "204 "}
	done, other := map[string]string{"GET ": dog}, map[string]string{"GET ": `{"name":"dog","sha256":"ab"}`}
	promoted := map[string]string{"GET ": dog,
		"GET /canary": `{"name":"dog","state":"promoted","canary":{"sha256":"cd"}}`}
	const serves, already = "  dog: version \"2\", sha256 cd, serves\n", "  dog: sha256 cd serves already\n"

	f, list := fleetOf(t, done, trial, promoted)
	text, _, err := command(t, f, "canary", "dog", "--promote")
	says(t, list, text, "S0\n"+already+"S1\n"+serves+"S2\n"+already, err, "", "GET /canary, GET ",
		"GET /canary, POST /canary/promote", "GET /canary, GET ")
	text, _, err = command(t, f, "canary", "dog", "--end")
	says(t, list, text, "S0\n  dog: there is no canary\nS1\n  dog: the canary is ended\n"+
		"S2\n  failed: 404 nothing there\n", err, "1 of 3 servers failed; for these alone: --url S2",
		"GET /canary", "GET /canary, DELETE /canary", "GET /canary, DELETE /canary")

	f, list = fleetOf(t, trial, other, map[string]string{
		"GET /canary": `{"name":"dog","state":"running","canary":{"sha256":"ef"}}`})
	text, _, err = command(t, f, "canary", "dog", "--promote")
	says(t, list, text, "S0\n  it could be done here; nothing was changed\n"+
		"S1\n  failed: there is no canary, and another version serves\n"+
		"S2\n  failed: the canary is sha256 ef here and cd at S0\n", err,
		"2 of 3 servers failed; nothing was changed at any of them", "GET /canary", "GET /canary, GET ", "GET /canary")

	f, list = fleetOf(t, trial, map[string]string{
		"GET /canary": `{"name":"dog","state":"aborted","why":"it had 3 faults","canary":{"sha256":"cd"}}`})
	text, _, err = command(t, f, "canary", "dog", "--promote")
	says(t, list, text, "S0\n  it could be done here; nothing was changed\n"+
		"S1\n  failed: its canary was aborted: it had 3 faults\n", err,
		"1 of 2 servers failed; nothing was changed at any of them", "GET /canary", "GET /canary")

	f, list = fleetOf(t, done, other)
	text, _, err = command(t, f, "canary", "dog", "--promote")
	says(t, list, text, "", err, "none of the servers has a canary of dog", "GET /canary, GET ", "GET /canary, GET ")
}

// TestFleetCanary: it begins nowhere where one of the servers has no such plugin.
func TestFleetCanary(t *testing.T) {
	has := map[string]string{"GET ": dog, "PUT ?canary=5": trial}
	f, list := fleetOf(t, has, map[string]string{})
	text, _, err := command(t, f, "canary", "dog", module(t), "--share", "5")
	says(t, list, text, "S0\n  it could be done here; nothing was changed\nS1\n  failed: 404 nothing there\n", err,
		"1 of 2 servers failed; nothing was changed at any of them", "GET ", "GET ")
	f, list = fleetOf(t, has, has)
	text, _, err = command(t, f, "canary", "dog", module(t), "--share", "5")
	if err != nil || strings.Count(text, "for 5% of the requests") != 2 {
		t.Errorf("%s, %v", text, err)
	}
	says(t, list, "", "", nil, "", "GET , PUT ?canary=5", "GET , PUT ?canary=5")
	for _, line := range [][]string{{"dog", "--share", "5"}, {"dog", "--promote", "--end"}, {"dog", "x", "--end"}} {
		if _, _, err := command(t, f, "canary", line...); err == nil || len(list[0].asked) > 0 {
			t.Errorf("%s: %v, asked %v", line, err, list[0].asked)
		}
	}
}

// TestFleetLogs: lines of all servers come with their server.
func TestFleetLogs(t *testing.T) {
	lines := map[string]string{"GET /log?after=0": `{"lines":[{"seq":1,"of":"guest","text":"hi"}]}`}
	f, _ := fleetOf(t, lines, lines)
	text, _, err := command(t, f, "logs", "dog")
	if err != nil || strings.Count(text, "guest hi\n") != 2 || !strings.Contains(text, "S0 ") ||
		!strings.Contains(text, "S1 ") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFleetLogsFail: a server that is down is told of while the lines of others are followed, and one that hangs is
// waited for only as long as for other commands where nothing is followed.
func TestFleetLogsFail(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	f, list := fleetOf(t, map[string]string{"GET /log?after=0": `{"lines":[]}`})
	away, err := NewFleet([]string{gone.URL}, "k")
	if err != nil {
		t.Fatal(err)
	}
	f = append(f, away...)
	verbs := Verbs(os.ReadFile)
	logs := verbs[slices.IndexFunc(verbs, func(v Verb) bool { return v.Lines })]
	set := pflag.NewFlagSet("logs", pflag.ContinueOnError)
	logs.Flags(set)
	if err := set.Parse([]string{"--follow"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second) // where nothing is told
	defer stop()
	var told []Outcome
	err = f.Run(ctx, logs, []string{"dog"}, func(v any, text string) error {
		if !strings.HasPrefix(text, gone.URL+" failed: ") || !strings.HasSuffix(text, "connection refused\n") {
			t.Errorf("%q", text)
		}
		told = append(told, v.(Outcome))
		stop()
		return nil
	})
	if err == nil || err.Error() != "1 of 2 servers failed; for these alone: --url "+gone.URL || len(told) != 1 ||
		told[0].URL != gone.URL || !strings.HasSuffix(told[0].Error, "connection refused") {
		t.Errorf("%v, %+v, asked %v", err, told, list[0].asked)
	}
	for _, follow := range []bool{false, true} {
		v := Verb{Lines: true, Follows: func() bool { return follow }}
		v.Run = func(ctx context.Context, _ *Server, _ []string, say func(any, string) error) error {
			if _, limited := ctx.Deadline(); limited == follow {
				t.Errorf("follow %t: limited %t", follow, limited)
			}
			return say(nil, "hi\n")
		}
		full, n := errors.New("the disk is full"), 0
		err := f.Run(t.Context(), v, []string{"dog"}, func(any, string) error { n++; return full })
		if !errors.Is(err, full) || n != 2 {
			t.Errorf("%v, said %d times", err, n)
		}
	}
}

// TestFleetWords: what runs at all servers at the same time writes nothing behind the words of the command line.
func TestFleetWords(t *testing.T) {
	f, _ := fleetOf(t, map[string]string{"GET ": dog}, map[string]string{"GET ": dog})
	words := []string{"dog", "mine"}
	for _, v := range Verbs(os.ReadFile) {
		if v.Flags != nil {
			v.Flags(pflag.NewFlagSet("", pflag.ContinueOnError))
		}
		if v.Words < 2 {
			continue
		}
		_ = f.Run(t.Context(), v, words[:1], func(any, string) error { return nil })
		if words[1] != "mine" {
			t.Errorf("%s: wrote %q", v.Use, words)
		}
	}
}

// TestFleetReadsOnce: what one server checked is what another has, whatever becomes of the file meanwhile.
func TestFleetReadsOnce(t *testing.T) {
	has := map[string]string{"PUT ?dry_run=true": tried, "PUT ": dog, "GET ": dog,
		"PUT ?canary=5": trial}
	for _, line := range [][]string{{"upload"}, {"upload", "--dry-run"}, {"canary", "--share=5"}} {
		f, _ := fleetOf(t, has, has)
		reads, file := atomic.Int32{}, module(t)
		verbs := Verbs(func(file string) ([]byte, error) {
			reads.Add(1)
			return os.ReadFile(file)
		})
		v := verbs[slices.IndexFunc(verbs, func(v Verb) bool { return strings.HasPrefix(v.Use, line[0]+" ") })]
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		v.Flags(set)
		if err := set.Parse(line[1:]); err != nil {
			t.Fatal(err)
		}
		err := f.Run(t.Context(), v, []string{"dog", file}, func(any, string) error { return nil })
		if n := reads.Load(); err != nil || n != 1 {
			t.Errorf("%s: %v, read %d times", line, err, n)
		}
	}
}

// TestFleetUnreachable: a server where nobody listens is told as that, and the end of the command ends the question.
func TestFleetUnreachable(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	f, _ := fleetOf(t, map[string]string{"GET /versions": `{"versions":[]}`})
	away, err := NewFleet([]string{gone.URL}, "k")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := command(t, append(f, away...), "versions", "dog")
	if err == nil || !strings.Contains(text, "connection refused\n") || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("%q, %v", text, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	verbs := Verbs(os.ReadFile)
	err = append(f, away...).Run(ctx, verbs[1], []string{"dog"}, func(_ any, said string) error {
		text = said
		return nil
	})
	if err == nil || strings.Count(text, "failed: enough\n") != 2 {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFleetList: what is not the same at all servers is listed first, a line for each version and use.
func TestFleetList(t *testing.T) {
	const same = `{"name":"cat","sha256":"0123456789abcdef","version":"1","kinds":["logits"],"state":"ready",
		"apply":"request","on_error":"fail","calls":3}`
	list := func(plugins ...string) map[string]string {
		return map[string]string{"GET /admin/plugins": `{"plugins":[` + strings.Join(plugins, ",") + `]}`, "GET ": dog}
	}
	other := strings.NewReplacer("cat", `dog\u001b[2J`, `"ready"`, `"off"`).Replace(same)
	f, _ := fleetOf(t, list(same, other), list(same), map[string]string{"GET /admin/plugins": `401 {"error":"no key"}`})
	ask := func(name string, urls ...string) (string, any, error) {
		var said string
		var value any
		flags := Flags{urls: urls, key: "k"}
		asked, err := flags.Ask(t.Context(), name, "", func(string) (string, bool) { return "", false },
			func(v any, text string) error { said, value = text, v; return nil })
		if !asked {
			t.Errorf("%s: nobody was asked: %v", urls, err)
		}
		for i, s := range f {
			said = strings.ReplaceAll(said, s.url, fmt.Sprintf("S%d", i))
		}
		return said, value, err
	}
	want := `NAME          VERSION  SHA256        KINDS   STATE  APPLY    ON_ERROR  CALLS  AT
dog\x1b[2J    1        0123456789ab  logits  off    request  fail      3      S0
cat           1        0123456789ab  logits  ready  request  fail      6      all that answer
1 plugin not the same at all servers
S2 failed: 401 no key; --key wants one of server.admin_keys
`
	got, value, err := ask("", f[0].url, f[1].url, f[2].url)
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") || err == nil ||
		!strings.HasPrefix(err.Error(), "1 of 3 servers failed") {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	if all := value.(map[string][]Outcome)["servers"]; len(all) != 3 || all[2].Result != nil || all[0].Error != "" {
		t.Errorf("%+v", value)
	}
	if got, _, err := ask("", f[1].url); err != nil || !strings.HasPrefix(got, "NAME") || strings.Contains(got, "  AT") {
		t.Errorf("%s, %v", got, err)
	}
	withCanary := strings.TrimSuffix(same, "}") + `,"canary":{"state":"running","sha256":"ef","percent":5}}`
	f, _ = fleetOf(t, list(withCanary), list(same), list(same))
	if got, _, err := ask("", f[0].url, f[1].url); err != nil || strings.Count(got, "cat  ") != 2 ||
		!strings.Contains(got, "plugin cat at S0: canary of 5%, version \"\", sha256 ef, running: 0 requests") ||
		!strings.HasSuffix(got, "1 plugin not the same at all servers\n") {
		t.Errorf("%s, %v", got, err)
	}
	if got, _, err := ask("", f[1].url, f[2].url); err != nil || !strings.HasSuffix(got, "all\n") {
		t.Errorf("%s, %v", got, err)
	}
	if got, _, err := ask("dog", f[0].url, f[1].url); err != nil || strings.Count(got, "  plugin     dog 2\n") != 2 {
		t.Errorf("%s, %v", got, err)
	}
	f, _ = fleetOf(t, map[string]string{})
	if _, _, err := ask("", f[0].url); err == nil {
		t.Error("a refusal of the only server is no error")
	}
}

// TestSecretsOfAddressesAreNotTold: whatever comes of a command, what is told of the server has no user and no password
// of its address.
func TestSecretsOfAddressesAreNotTold(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = io.WriteString(w, `{"name":"dog","sha256":"ab12"}`)
		}
	}))
	f, err := NewFleet([]string{strings.Replace(s.URL, "://", "://USER:PASS@", 1), "http://USER:PASS@127.0.0.1:1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, at := range f {
		_, _, err := at.Versions(t.Context(), "dog")
		fmt.Fprintln(&told, err)
		_, text, err := at.Rollback(t.Context(), "dog", "")
		fmt.Fprintln(&told, text, err)
	}
	s.Close()
	_, _, err = f[0].Versions(t.Context(), "dog")
	fmt.Fprintln(&told, err)
	if text := told.String(); strings.Contains(text, "USER") || strings.Contains(text, "PASS") ||
		!strings.Contains(text, "again at http://***@127.0.0.1") {
		t.Error(text)
	}
}
