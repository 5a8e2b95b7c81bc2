package operate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tgi/server/api/admin"
	"tgi/server/share"
)

// TestUpload: only what was given is sent, and a dry run shows what would change.
func TestUpload(t *testing.T) {
	var asked []string
	earlier := 2
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		if r.URL.Query().Has("dry_run") {
			_, _ = w.Write([]byte(`{"dry_run":true,"plugin":{"name":"dog","version":"2\u001b[2J",
				"sha256":"` + wasmSum + `","kinds":
				["logits"]},"models":["demo"],"replaces":{"sha256":"ab","version":"1"},"refuses":"n is missing\u001b",
				"settings":[{"name":"apply","before":"always","after":"always"},{"name":"config","before":"","after":
				"{}\u001b"},{"name":"keys","after":"school"}]}`))
			return
		}
		if len(asked) == 1 {
			w.WriteHeader(http.StatusCreated)
		}
		if strings.HasSuffix(r.URL.Path, "/versions") {
			_, _ = w.Write([]byte(`{"versions":[{"sha256":"cd"}` + strings.Repeat(`,{"sha256":"ab"}`, earlier) + `]}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"dog","sha256":"` + wasmSum + `","version":"2",
			"apply":"always","on_error":"fail"}`))
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
	run := func(flags ...string) (string, error) {
		verbs := Verbs(os.ReadFile)
		v := verbs[slices.IndexFunc(verbs, func(v Verb) bool { return strings.HasPrefix(v.Use, "upload ") })]
		set, text := pflag.NewFlagSet("upload", pflag.ContinueOnError), ""
		v.Flags(set)
		if err := set.Parse(flags); err != nil {
			t.Fatal(err)
		}
		err := v.Run(t.Context(), at, append([]string{"dog"}, set.Args()...), func(_ any, said string) error {
			text = said
			return nil
		})
		return text, err
	}
	if text, err := run(file); err != nil || text != "dog: version \"2\", sha256 "+wasmSum+", serves\n  apply always, "+
		"on_error fail\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := run(file, "--apply=always", "--keys=", "--on-error=fail", "--on-full=stop",
		"--on-exhausted=release", "--config={}", "--limits=memory=1MiB,share=2"); err != nil ||
		!strings.Contains(text, "  2 earlier versions kept: tgi plugin rollback dog --url "+web.URL+" ") {
		t.Errorf("%q, %v", text, err)
	}
	earlier = 0 // as after an upload of what serves: nothing was replaced
	if text, err := run(file); err != nil || strings.Contains(text, "kept") {
		t.Errorf("%q, %v", text, err)
	}
	text, err := run(file, "--dry-run", "--keys", "school", "--change-kinds")
	want := `dog: the module is good; nothing was changed
  version                 "2\x1b[2J", sha256 ` + wasmSum[:16] + `, logits
  replaces                "1", sha256 ab
  models                  demo
  apply                   always, as now
  config                  default -> {}\x1b
  keys                    school
  refuses                 a request without parameters: n is missing\x1b
`
	if err != nil || text != want {
		t.Errorf("%s, %v\nwant %s", text, err, want)
	}
	if _, err := run(); !errors.As(err, new(Misuse)) {
		t.Error(err)
	}
	const path = "PUT /admin/plugins/dog"
	if got, want := strings.Join(asked, "\n"), path+" wasm\n"+path+"?apply=always&config=%7B%7D&keys=&limits.memory=1MiB"+
		"&limits.share=2&on_error=fail&on_exhausted=release&on_full=stop wasm\nGET /admin/plugins/dog/versions\n"+path+
		" wasm\nGET /admin/plugins/dog/versions\n"+path+"?change_kinds=true&dry_run=true&keys=school wasm"; got != want {
		t.Errorf("asked %s\nwant %s", got, want)
	}
}

// TestUploadSigned: what stands beside the file of a module goes with it, unless it is of another build.
func TestUploadSigned(t *testing.T) {
	var got [2]string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = [2]string{r.FormValue("artifact"), r.FormValue("module")}
		for i, name := range []string{"artifact", "module"} {
			if f, _, err := r.FormFile(name); err == nil {
				text, _ := io.ReadAll(f)
				got[i] = string(text)
			}
		}
		_, _ = fmt.Fprintf(w, `{"name":"dog","sha256":"%x"}`, sha256.Sum256([]byte(got[1])))
	}))
	defer web.Close()
	at, err := New(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	file, wasm := filepath.Join(t.TempDir(), "dog.wasm"), []byte("\x00asm\x01\x00\x00\x00")
	a, err := share.Pack(wasm, share.Description{Name: "dog", Kinds: []string{"logits"}, ABI: 1})
	if err == nil {
		err = errors.Join(os.WriteFile(file, wasm, 0o600), a.WriteBeside(file))
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := readModule(os.ReadFile, file)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := at.Upload(t.Context(), "dog", m, nil); err != nil {
		t.Fatal(err)
	}
	if b, err := share.DecodeRest([]byte(got[0]), []byte(got[1])); err != nil || b.Digest() != a.Digest() {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(file, append(wasm, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readModule(os.ReadFile, file); !errors.Is(err, share.ErrOther) ||
		!strings.Contains(err.Error(), "sign it with") {
		t.Error(err)
	}
}

// TestBack: the version before is named by its module, or by its settings where these alone are others.
func TestBack(t *testing.T) {
	at, now := &Server{url: "http://a"}, admin.Version{SHA256: "ab12", SettingsID: "c1"}
	for _, c := range []struct {
		before admin.Version
		want   string
	}{
		{now, "dog --url http://a"},
		{admin.Version{SHA256: "ab12", SettingsID: "d2"}, "dog --url http://a --to ab12.d2"},
		{admin.Version{SHA256: "ef34", SettingsID: "c1"}, "dog --url http://a --to ef34"},
		{admin.Version{SHA256: "ef34", SettingsID: "d2"}, "dog --url http://a --to ef34"},
	} {
		if got := back(at, "dog", []admin.Version{now, c.before}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.before, got, c.want)
		}
	}
}
