package host

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/filestamp"
	"tgi/server/config"
)

// TestUploadWaitsForSettings: no file that is found to have changed takes the name of an upload that applies always.
// Where somebody asks for it, the log says that the upload waits, and it serves again when its name is free.
func TestUploadWaitsForSettings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tgi.toml")
	args := []string{"--config", file}
	unset := func(string) (string, bool) { return "", false }
	head := fmt.Sprintf("[server]\nadmin_keys = [%q]\n[plugins]\nwatch = \"20ms\"\n", adminKey)
	const block = "[[plugin]]\nname = \"rules\"\nsource = \"builtin:banned-words\"\n"
	const always = "apply = \"always\"\n[plugin.config]\nwords = [\"called\"]\n"
	const other = "[[plugin]]\nname = \"other\"\nsource = \"builtin:vote\"\n"
	write(t, file, head)
	log := &logLines{}
	serve := func() *plugged {
		t.Helper()
		l, err := config.Read(settingFlags(t, args...), unset)
		if err != nil {
			t.Fatal(err)
		}
		p := plug(t, openServerLogged(t, l.Config, slog.New(slog.NewTextHandler(log, nil))))
		p.models.reload = func(running config.Config, seen *filestamp.Stamp) (config.Config, []string, error) {
			return config.Reload(running, settingFlags(t, args...), unset, seen)
		}
		return p
	}
	p := serve()
	wasm, err := os.ReadFile("../../plugins/std/wasm/banned-words.wasm")
	if err != nil {
		t.Fatal(err)
	}
	if status, text := p.call(t, "PUT", "/admin/plugins/rules?apply=always&config="+
		url.QueryEscape(`{"words":["happy"]}`), wasm); status != http.StatusCreated {
		t.Fatal(status, text)
	}
	absent := func(word string) bool {
		status, text := p.call(t, http.MethodPost, "/generate",
			[]byte(`{"inputs":"Once upon a time","parameters":{"max_new_tokens":30}}`))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return !strings.Contains(text, word)
	}
	if !absent("happy") {
		t.Fatal("the upload does not serve")
	}

	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { p.models.watch(ctx, nil) })
	for _, text := range []string{head + block, head + block + always, "# new\n" + head + block, head + other + block +
		"apply = \"request\"\n"} {
		from := len(log.String())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		const says = `name \"rules\" is that of an uploaded plugin with apply = \"always\"`
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String()[from:], says); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: nothing in the log", text)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if !absent("happy") {
			t.Errorf("the upload is gone by %s", text)
		}
	}
	write(t, file, head+other) // which the watch takes, beside the upload
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if status, _ := p.call(t, "GET", "/admin/plugins/other", nil); status == http.StatusOK {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the watch takes nothing")
		}
	}
	cancel()
	watching.Wait()

	reload := func(text, says string) {
		t.Helper()
		write(t, file, text)
		status, report := p.call(t, http.MethodPost, "/admin/reload", nil)
		if status != http.StatusOK || !strings.Contains(report, says) {
			t.Errorf("%d %s, want %s", status, report, says)
		}
	}
	const waits = "level=WARN msg=\"an uploaded plugin does not serve: a [[plugin]] has its name; it serves again when " +
		"that is removed\" plugin=rules source=builtin:banned-words apply="
	for _, more := range []string{"", always} {
		from := len(log.String())
		reload(head+block+more, `"loaded":["rules"]`)
		if !strings.Contains(log.String()[from:], waits) || absent("happy") || absent("called") != (more != "") {
			t.Errorf("with the block %q; log %s", more, log.String()[from:])
		}
		if status, text := p.call(t, "DELETE", "/admin/plugins/rules", nil); status != http.StatusConflict ||
			!strings.Contains(text, "the upload of this name waits: take the [[plugin]] away, reload") {
			t.Errorf("%d %s", status, text)
		}
		reload(head, `{"loaded":["rules"],"removed":[]`)
		if !absent("happy") || absent("called") {
			t.Errorf("after the block %q the upload does not serve", more)
		}
	}

	// The same where the settings had the name at the start.
	write(t, file, head+block)
	from := len(log.String())
	p = serve()
	if text := log.String()[from:]; !strings.Contains(text, waits) || strings.Contains(text, "level=ERROR") ||
		absent("happy") {
		t.Errorf("at the start: %s", text)
	}
	reload(head, `{"loaded":["rules"],"removed":[]`)
	if !absent("happy") {
		t.Error("the upload does not serve")
	}

	// A stray file in the folder does not go before it.
	write(t, filepath.Join(dir, "plugins", "rules.wasm"), string(newModule("").wasm()))
	p = serve()
	if !absent("happy") {
		t.Error("a file of the folder has the name")
	}
	if status, text := p.call(t, "DELETE", "/admin/plugins/rules", nil); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
}
