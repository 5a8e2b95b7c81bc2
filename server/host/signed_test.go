package host

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgi/runtime/filestamp"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
	"tgi/server/share"
)

// signer makes keys in a folder and returns what signs a module with them: the file beside it.
func signer(t *testing.T, dir, name string) func(wasm []byte) []byte {
	t.Helper()
	if err := share.Generate(filepath.Join(dir, name), share.ECDSA, nil); err != nil {
		t.Fatal(err)
	}
	key, err := share.ReadSigner(filepath.Join(dir, name+".key"), func() ([]byte, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return func(wasm []byte) []byte {
		t.Helper()
		a, err := share.Pack(wasm, share.Description{Name: "mine", Kinds: []string{"logits"}, ABI: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Sign(key, "mine")
		if err != nil {
			t.Fatal(err)
		}
		a.Signatures = []share.Signature{s}
		text, err := a.EncodeRest()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// form uploads a module with what stands beside its file.
func (p *plugged) form(t *testing.T, path string, wasm, artifact []byte) (int, string) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for name, content := range map[string][]byte{"module": wasm, "artifact": artifact} {
		w, err := form.CreateFormFile(name, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPut, p.url+"/admin/plugins/"+path, &b)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", form.FormDataContentType())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestRequireSigned: with plugins.require_signed a module that is not built in is loaded only if a signer of the
// settings signed it: of the folder, of a [[plugin]], uploaded, on trial, kept over a restart, or rolled back to.
func TestRequireSigned(t *testing.T) {
	keys, dir, folder := t.TempDir(), filepath.Join(t.TempDir(), "uploads"), t.TempDir()
	team, other := signer(t, keys, "team"), signer(t, keys, "other")
	one, two := newModule("").wasm(), when([]byte{unreached}).wasm()
	signers := func(names ...string) func(*config.Config) {
		return func(c *config.Config) {
			c.Plugins.RequireSigned, c.Plugins.Uploads, c.Plugins.Folder = true, dir, folder
			c.Plugins.Watch = config.Duration(20 * time.Millisecond)
			c.Plugin = append(c.Plugin, config.Plugin{Name: "dry", Source: "builtin:dry"})
			for _, name := range names {
				c.PluginSigner = append(c.PluginSigner, config.PluginSigner{Name: name,
					PublicKey: filepath.Join(keys, name+".pub")})
			}
		}
	}
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("file.wasm", one)
	p := openPlugged(t, signers("team"))
	want := func(status int, text string, wanted int, says string) {
		t.Helper()
		if status != wanted || !strings.Contains(text, says) {
			t.Errorf("%d %s, want %d %s", status, text, wanted, says)
		}
	}
	get := func(name string) (int, string) { return p.call(t, "GET", "/admin/plugins/"+name, nil) }
	put := func(path string, wasm []byte) (int, string) { return p.call(t, "PUT", "/admin/plugins/"+path, wasm) }
	is := func(name, state, says string) {
		t.Helper()
		status, text := get(name)
		want(status, text, 200, `"state":"`+state+`"`)
		want(status, text, 200, says)
	}
	is("dry", "ready", "")
	is("file", "failed", "not signed by a [[plugin_signer]]")
	write("file.wasm.artifact.json", other(one))
	if _, err := p.models.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	is("file", "failed", "none is of this digest by one of team")
	write("file.wasm.artifact.json", team(one))
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the file beside it is watched, too
		if _, text := get("file"); strings.Contains(text, `"state":"ready"`) {
			break
		} else if time.Now().After(end) {
			t.Fatal(text)
		}
	}

	status, text := put("mine", one)
	want(status, text, 403, "no signatures came with the module")
	status, text = put("mine?dry_run", one)
	want(status, text, 403, "no signatures came with the module")
	status, text = p.form(t, "mine", one, other(one))
	want(status, text, 403, "none is of this digest by one of team")
	status, text = p.form(t, "mine", two, team(one))
	want(status, text, 422, "does not belong to the module")
	status, text = p.form(t, "mine?apply=always", one, team(one))
	want(status, text, 201, `"state":"ready"`)
	status, text = put("mine?canary=5", two)
	want(status, text, 403, "no signatures came with the module")
	status, text = p.form(t, "mine", two, team(two))
	want(status, text, 200, `"apply":"always"`)

	p = openPlugged(t, signers("team"))
	is("mine", "ready", moduleSum(two))
	status, text = p.call(t, "POST", "/admin/plugins/mine/rollback", nil)
	want(status, text, 200, moduleSum(one))
	p = openPlugged(t, signers("other"))
	is("mine", "failed", "none is of this digest by one of other")
	is("file", "failed", "none is of this digest by one of other")
	status, text = p.call(t, "GET", "/admin/plugins/mine/versions", nil)
	if want(status, text, 200, `"serving":false,"error":"`); strings.Contains(text, `"serving":true`) ||
		strings.Count(text, "none is of this digest by one of other") != 1 {
		t.Errorf("versions of what was refused: %s", text)
	}
	status, text = p.call(t, "POST", "/admin/plugins/mine/rollback", nil)
	want(status, text, 403, "none is of this digest by one of other")
	status, text = p.call(t, "POST", "/admin/plugins/mine/rollback?to="+moduleSum(one), nil)
	want(status, text, 422, "the latest version of mine does not serve: ")
	want(status, text, 422, "none is of this digest by one of other")
	kept := filepath.Join(dir, "mine.json")
	before, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(before, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "signed")
	without, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, without, 0o600); err != nil {
		t.Fatal(err)
	}
	p = openPlugged(t, signers("team"))
	is("mine", "failed", "no signatures came with the module")

	for _, c := range []struct {
		p    config.Plugin
		d    demands
		must bool
	}{
		{config.Plugin{Source: "builtin:dry"}, demands{all: true}, false},
		{config.Plugin{Source: "a.wasm"}, demands{all: true}, true},
		{config.Plugin{Source: "a.wasm"}, demands{policy: share.Policy{{}}}, false},
		{config.Plugin{Source: "a.wasm", Reference: "r"}, demands{policy: share.Policy{{}}}, true},
		{config.Plugin{Source: "a.wasm", Reference: "r"}, demands{}, false},
	} {
		if c.d.of(c.p) != c.must {
			t.Errorf("%+v %+v", c.p, c.d)
		}
	}
	if err := (demands{all: true}).file("a.wasm", one); err == nil {
		t.Error("without a signer everything is accepted")
	}
}

// TestSignerGone: a reload that takes the signer of an upload away says so, in its reply and in the log, and goes
// through; the upload serves on. A reload that brings the signer back says nothing.
func TestSignerGone(t *testing.T) {
	keys := t.TempDir()
	team := signer(t, keys, "team")
	signer(t, keys, "other")
	one := newModule("").wasm()
	signers := func(c config.Config, names ...string) config.Config {
		c.PluginSigner = nil
		for _, name := range names {
			c.PluginSigner = append(c.PluginSigner, config.PluginSigner{Name: name,
				PublicKey: filepath.Join(keys, name+".pub")})
		}
		return c
	}
	p := openPlugged(t, func(c *config.Config) {
		*c = signers(*c, "team")
		c.Plugins.RequireSigned = true
	})
	var log bytes.Buffer
	p.models.log = slog.New(slog.NewJSONHandler(&log, nil))
	for name, apply := range map[string]string{"guard": "always", "plain": "request", "waits": "request"} {
		if status, text := p.form(t, name+"?apply="+apply, one, team(one)); status != http.StatusCreated {
			t.Fatal(status, text)
		}
	}
	next := signers(p.models.cfg, "other")
	next.Plugin = append(next.Plugin, config.Plugin{Name: "waits", Source: "builtin:dry"})
	p.models.reload = func(config.Config, *filestamp.Stamp) (config.Config, []string, error) { return next, nil, nil }
	for range 2 {
		status, text := p.call(t, http.MethodPost, "/admin/reload", nil)
		var got struct{ Failed []admin.Failure }
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusUnprocessableEntity ||
			len(got.Failed) != 2 || got.Failed[0].Name != "guard" || got.Failed[1].Name != "plain" ||
			!strings.Contains(got.Failed[0].Error, `requests that it applies to (apply = "always")`) ||
			!strings.Contains(got.Failed[0].Error, "none is of this digest by one of other") {
			t.Errorf("%v: %d %s", err, status, text)
		}
		said := log.String()
		if log.Reset(); strings.Count(said, `"msg":"an uploaded plugin serves until a restart`) != 2 ||
			!strings.Contains(said, `"level":"WARN"`) || !strings.Contains(said, `"plugin":"guard","apply":"always"`) {
			t.Errorf("the log has %s", said)
		}
		if now, _ := p.models.Get("guard"); now.State != server.PluginReady {
			t.Errorf("%+v", now)
		}
	}
	if status, text := p.form(t, "late", one, team(one)); status != http.StatusForbidden {
		t.Errorf("%d %s", status, text)
	}
	next = signers(next, "other", "team")
	if status, text := p.call(t, http.MethodPost, "/admin/reload", nil); status != http.StatusOK ||
		strings.Contains(log.String(), "until a restart") {
		t.Errorf("%d %s, the log has %s", status, text, log.String())
	}
}

// TestCanaryOfSigned: beside a plugin that must be signed, a canary must be, too.
func TestCanaryOfSigned(t *testing.T) {
	keys := t.TempDir()
	team := signer(t, keys, "team")
	one, two := newModule("").wasm(), when([]byte{unreached}).wasm()
	source := filepath.Join(keys, "mine.wasm")
	for name, content := range map[string][]byte{source: one, share.Beside(source): team(one)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := openPlugged(t, func(c *config.Config) {
		c.PluginSigner = []config.PluginSigner{{Name: "team", PublicKey: filepath.Join(keys, "team.pub")}}
		c.Plugin = append(c.Plugin, config.Plugin{Name: "mine", Source: source, SHA256: moduleSum(one),
			Reference: "registry.example/mine:1"})
	})
	if status, text := p.call(t, "PUT", "/admin/plugins/mine?canary=5", two); status != 403 ||
		!strings.Contains(text, "no signatures came") {
		t.Error(status, text)
	}
	if status, text := p.form(t, "mine?canary=5", two, team(two)); status != 201 {
		t.Error(status, text)
	}
	if status, text := p.call(t, "PUT", "/admin/plugins/free", two); status != 201 {
		t.Error(status, text)
	}
}
