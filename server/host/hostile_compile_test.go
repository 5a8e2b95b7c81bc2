package host

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/config"
)

// These tests bring modules that keep the compiler busy, or that it does not
// know.

// chain is a plugin with one function of params i32 parameters: a chain of n
// branches to a place where all of them are read.
func chain(params, n int) []byte {
	m := newModule("")
	each := func(before []byte, op byte, after ...byte) (b []byte) {
		for i := range params {
			b = slices.Concat(b, before, []byte{op}, uleb(uint64(i)), after)
		}
		return b
	}
	m.extra = []extraFunc{{params: bytes.Repeat([]byte{i32}, params), body: slices.Concat(
		[]byte{0x02, 0x40, 0x20, 0, 0x0d, 0}, each(push32(1), 0x21), bytes.Repeat([]byte{0x20, 0, 0x0d, 0}, n),
		[]byte{0x0b}, each(nil, 0x20, 0x1a))}}
	return m.wasm()
}

// withCode is a plugin whose process has further code before its end.
func withCode(code ...byte) []byte {
	m := newModule("")
	m.bodies["tgi_logits_process"] = slices.Concat(code, push32(0))
	return m.wasm()
}

// TestCompileBombs uploads modules that keep the compiler busy for minutes:
// each is refused with the limit.
func TestCompileBombs(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Plugins.CompileTime = config.Duration(time.Second) })
	before := len(p.defaultModel().control.List())
	for name, wasm := range map[string][]byte{
		"sixty": chain(60, 20_000),
		"labels": withCode(slices.Concat([]byte{0x02, 0x40, 0x20, 0, 0x0e}, uleb(900_000), make([]byte, 900_001),
			[]byte{0x0b})...),
	} {
		status, text := p.call(t, http.MethodPut, "/admin/plugins/"+name, wasm)
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, name) ||
			!strings.Contains(text, "compile_time = 1s") {
			t.Errorf("%s: %d %.300s", name, status, text)
		}
	}
	if list := p.defaultModel().control.List(); len(list) != before {
		t.Errorf("%d plugins were let in", len(list)-before)
	}
}

// TestCompileBesideBomb: while a bomb is being compiled, everything else goes
// on; when its client leaves, it is ended and not installed.
func TestCompileBesideBomb(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugins.CompileTime, c.Plugins.CompileTimeout = config.Duration(time.Hour), config.Duration(time.Hour)
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 2)
	for _, name := range []string{"bomb-a", "bomb-b"} {
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.url+server.AdminPath+"plugins/"+name,
				bytes.NewReader(chain(1, 100_000)))
			if err != nil {
				gone <- err
				return
			}
			req.Header.Set("Authorization", "Bearer "+adminKey)
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				res.Body.Close()
			}
			gone <- err
		}()
	}
	p.upload(t, "honest", newModule("").wasm())
	if status, text := p.generate(t, 5, "honest", `{}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text := p.call(t, http.MethodPost, "/admin/reload", nil); status != http.StatusOK {
		t.Errorf("reload: %d %s", status, text)
	}
	if status, text := p.call(t, http.MethodDelete, "/admin/plugins/honest", nil); status != http.StatusNoContent {
		t.Errorf("delete: %d %s", status, text)
	}
	select {
	case err := <-gone:
		t.Errorf("a bomb was through: %v", err)
	default:
	}
	leave()
	for range 2 {
		if err := <-gone; err == nil {
			t.Error("a bomb was answered")
		}
	}
	p.upload(t, "after", newModule(`"allow"`).wasm()) // behind whatever is left of them
	for _, s := range p.defaultModel().control.List() {
		if strings.HasPrefix(s.Name, "bomb") {
			t.Errorf("%s was installed", s.Name)
		}
	}
}

// TestModulesOfLaterVersions: what is not WebAssembly core 2.0 is refused with
// the feature's name.
func TestModulesOfLaterVersions(t *testing.T) {
	p := openPlugged(t, nil)
	features := map[string][]byte{
		"exceptions":                withCode(0x06, 0x40, 0x0b),
		"tail calls":                withCode(0x12, 0),
		"threads":                   withCode(0xfe, 3, 0),
		"GC":                        withCode(0xfb, 0, 0),
		"typed function references": withCode(0x14, 0),
		"relaxed SIMD":              withCode(0xfd, 0x80, 2),
		"memory64":                  []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x04\x01"),
		"multi-memory":              []byte("\x00asm\x01\x00\x00\x00\x05\x05\x02\x00\x01\x00\x01"),
		"component; a plugin is a core module: build for the target wasm32-wasip1": []byte("\x00asm\x0d\x00\x01\x00"),
	}
	for _, feature := range slices.Sorted(maps.Keys(features)) {
		status, text := p.call(t, http.MethodPut, "/admin/plugins/later", features[feature])
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, feature) {
			t.Errorf("%s: %d %s", feature, status, text)
		}
	}
}

// TestHiddenInit checks that a module with state outside the snapshot is initialised for each sequence, and refused if
// that takes long.
func TestHiddenInit(t *testing.T) {
	p := openPlugged(t, nil)
	m := newModule("")
	m.dataCount = true
	m.bodies["tgi_init"] = slices.Concat(forever(), []byte{unreached})
	m.bodies["tgi_validate"] = slices.Concat([]byte{0xfc, 9, 0}, push64(0)) // data.drop
	began := time.Now()
	status, text := p.call(t, http.MethodPut, "/admin/plugins/hidden", m.wasm())
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "data.drop") ||
		!strings.Contains(text, "no snapshot can hold") {
		t.Errorf("%d %s after %v", status, text, time.Since(began))
	}
}
