package operate

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestCanary: what is asked of the server by each form of the command, what is refused before, and what is printed.
func TestCanary(t *testing.T) {
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/promote") {
			_, _ = w.Write([]byte(`{"name":"dog","sha256":"cd","version":"2"}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"dog","state":"running","shadow":true,"percent":5,"abort_after":3,
			"bound":7,"finished":5,"faulty":1,"promote_after":100,"serving":{"calls":9},"canary":{"version":"2\u001b[2J",
			"sha256":"` + wasmSum + `","faults":{"trap":1}},
			"compared":{"answers":20,"different_answers":4,"different":2,"dropped":1,
			"samples":[{"request":"r\u001b[1m","kind":"logits","step":3,"what":"forces another token"}]}}`))
	}))
	defer web.Close()
	at, err := New(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dog.wasm")
	if err := os.WriteFile(file, []byte("wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(file string, flags ...string) (string, error) {
		c := Canary{Read: os.ReadFile}
		set := pflag.NewFlagSet("canary", pflag.ContinueOnError)
		c.Flags(set)
		if err := set.Parse(flags); err != nil {
			t.Fatal(err)
		}
		_, text, err := c.Run(t.Context(), at, "dog", file)
		return text, err
	}
	for _, c := range []struct {
		file, flags, says string
	}{
		{"", "", "dog: shadow of version \"2\\x1b[2J\""},
		{file, "--share 5% --shadow --promote-after 100 --promote-time 1m --faults 2 --differences 1 --texts",
			"  compared   20 answers, 4 different, in 2 requests; 1 request dropped\n"},
		{file, "--share 10 --apply always --on-error skip --config {\"a\":1} --limits memory=1MiB --keys school", " at token 3: forces another token"},
		{"", "--promote", "dog: version \"2\", sha256 cd, serves\n"},
		{"", "--end", "dog: the canary is ended\n"},
	} {
		text, err := run(c.file, strings.Fields(c.flags)...)
		if err != nil || !strings.Contains(text, c.says) ||
			strings.Contains(text, "\x1b") {
			t.Errorf("%s: %q, %v, want %q", c.flags, text, err, c.says)
		}
	}
	want := "GET /admin/plugins/dog/canary\n" +
		"PUT /admin/plugins/dog?canary=5&canary_differences=1&canary_faults=2&canary_shadow=true&canary_texts=true&" +
		"promote_after=100&promote_time=1m0s wasm\n" +
		"PUT /admin/plugins/dog?apply=always&canary=10&config=%7B%22a%22%3A1%7D&keys=school&limits.memory=1MiB&" +
		"on_error=skip wasm\n" +
		"POST /admin/plugins/dog/canary/promote\nDELETE /admin/plugins/dog/canary"
	if got := strings.Join(asked, "\n"); got != want {
		t.Errorf("asked %s\nwant %s", got, want)
	}
	for flags, says := range map[string]string{
		"--share 0%": "1% to 100%", "--share x": "1% to 100%", "": "1% to 100%",
		"--promote --share 5": "do not go together",
	} {
		if _, err := run(file, strings.Fields(flags)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", flags, err)
		}
	}
	for _, flags := range []string{"--share 5", "--promote --shadow", "--promote-after 9", "--end --share 5",
		"--end --faults 0", "--promote-time 1m", "--differences 1", "--texts", "--apply always", "--on-error skip",
		"--promote --config {}", "--keys a", "--limits memory=1MiB", "--end --on-full stop"} {
		_, err := run("", strings.Fields(flags)...)
		if !errors.As(err, new(Misuse)) || !strings.Contains(err.Error(), "its module is missing") {
			t.Errorf("%s: %v", flags, err)
		}
	}
	if _, err := run("", "--promote", "--end"); err == nil || len(asked) != 5 {
		t.Error(err, asked)
	}
}

// TestWithoutCanary: who promotes or looks at a canary that is not there is told what to do next.
func TestWithoutCanary(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/admin/plugins":
			_, _ = w.Write([]byte(`{"plugins":[{"name":"dog","sha256":"cd","state":"loaded"},{"name":"cat","sha256":"ab","state":"loaded"}]}`))
		case "/admin/plugins/dog":
			_, _ = w.Write([]byte(`{"name":"dog","sha256":"cd"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"plugin has no canary"}`))
		}
	}))
	defer web.Close()
	at, err := New(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--promote"}, nil} {
		for name, want := range map[string]string{
			"dog": "plugin has no canary; `tgi plugin canary dog FILE --share 5%` begins one",
			"dgo": "plugin has no canary, and the server no plugin of that name; did you mean dog?",
			"owl": "plugin has no canary, and the server no plugin of that name",
		} {
			c := Canary{}
			set := pflag.NewFlagSet("canary", pflag.ContinueOnError)
			c.Flags(set)
			if err := set.Parse(flags); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Run(t.Context(), at, name, ""); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s %q: %v, want %s", name, flags, err, want)
			}
		}
	}
}
