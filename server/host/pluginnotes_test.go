package host

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPluginNotes: what is done to an uploaded plugin, and what is refused, stands in its log.
func TestPluginNotes(t *testing.T) {
	p := openPlugged(t, nil)
	log := func() string {
		t.Helper()
		status, text := p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	put := func(name string, wasm []byte) {
		t.Helper()
		if status, text := p.call(t, http.MethodPut, "/admin/plugins/"+name, wasm); status !=
			http.StatusUnprocessableEntity {
			t.Fatalf("%d %s", status, text)
		}
	}
	first, second := newModule("").wasm(), newModule(`"allow"`).wasm()
	put("mine", []byte("\x00asm"))
	if status, text := p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil); status != http.StatusNotFound {
		t.Errorf("a refused upload made a log: %d %s", status, text)
	}
	p.upload(t, "mine", first)
	p.upload(t, "mine", second)
	if status, text := p.call(t, http.MethodPost, "/admin/plugins/mine/rollback", nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for range 100 {
		put("mine", []byte("\x00asm"))
	}
	text := log()
	for _, want := range []string{"upload of sha256 " + moduleSum(first), "upload of sha256 " + moduleSum(second),
		"rollback to sha256 " + moduleSum(first)} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not there once: %s", want, text)
		}
	}
	if n := strings.Count(text, `"not done: upload of sha256 `+moduleSum([]byte("\x00asm"))); n != 1 {
		t.Errorf("%d lines of a hundred refusals: %s", n, text)
	}
}

// TestRefusalsBounded: of many refusals one is noted in a time, with the number of those before it.
func TestRefusalsBounded(t *testing.T) {
	var r refusals
	now := time.Now()
	for i := range 5 {
		if since, ok := r.allow("a", now); since != 0 || ok != (i == 0) {
			t.Errorf("%d: %d, %v", i, since, ok)
		}
	}
	if _, ok := r.allow("b", now); !ok {
		t.Error("another plugin is held back")
	}
	now = now.Add(refusalEvery)
	if since, ok := r.allow("a", now); since != 4 || !ok {
		t.Errorf("%d, %v", since, ok)
	}
	for i := range 1000 {
		now = now.Add(refusalEvery)
		if _, ok := r.allow(fmt.Sprint(i), now); !ok || len(r.last) > 2 {
			t.Fatalf("%d: %v, %d kept", i, ok, len(r.last))
		}
	}
}
