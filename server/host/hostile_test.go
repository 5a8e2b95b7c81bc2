package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/conformance/long"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/sse"
)

// These tests load plugins that mean harm into a server that serves others
// meanwhile.

const adminKey = "operator"

// plugged is a running server that takes uploads.
type plugged struct {
	*Server
	url string
}

func openPlugged(t testing.TB, change func(*config.Config)) *plugged {
	t.Helper()
	c := testConfig()
	c.Server.AdminKeys = []string{adminKey}
	c.Plugins.BreakerFaults = 0
	c.Plugins.Folder = t.TempDir()
	if change != nil {
		change(&c)
	}
	return plug(t, openServer(t, c))
}

// openChat is openPlugged with conversations.
func openChat(t testing.TB, change func(*config.Config)) *plugged {
	t.Helper()
	return openPlugged(t, func(c *config.Config) {
		c.Model.Template = config.Auto
		if change != nil {
			change(c)
		}
	})
}

// openPluggedLogged is openPlugged with a log.
func openPluggedLogged(t testing.TB, log *slog.Logger) *plugged {
	t.Helper()
	c := chatConfig()
	c.Server.AdminKeys = []string{adminKey}
	c.Plugins.Folder = t.TempDir()
	return plug(t, openServerLogged(t, c, log))
}

func plug(t testing.TB, h *Server) *plugged {
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return &plugged{h, ts.URL}
}

// call does a request, with names and values of further headers, and returns the status and the body.
func (p *plugged) call(t testing.TB, method, path string, body []byte, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(path, server.AdminPath) {
		req.Header.Set("Authorization", "Bearer "+adminKey)
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for h := range slices.Chunk(headers, 2) {
		req.Header.Set(h[0], h[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(text)
}

// generate asks for tokens with one plugin.
func (p *plugged) generate(t testing.TB, tokens int, plugin, params string) (int, string) {
	t.Helper()
	return p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
		`{"inputs":"Once upon a time","parameters":{"max_new_tokens":%d,"details":true,"ignore_eos":true,"plugins":[{"name":%q,"params":%s}]}}`,
		tokens, plugin, params))
}

// upload installs a module.
func (p *plugged) upload(t testing.TB, name string, wasm []byte) {
	t.Helper()
	if status, text := p.call(t, http.MethodPut, "/admin/plugins/"+name, wasm); status != http.StatusCreated &&
		status != http.StatusOK {
		t.Fatalf("upload of %s: %d %s", name, status, text)
	}
}

// when wraps a body so that it runs only where the request gave parameters: the
// self-test, which gives none, does not meet it.
func when(body []byte) *module {
	m := newModule(`"allow","deny","sparse","bitmask","stop","force","temperature"`)
	m.bodies["tgi_logits_begin"] = slices.Concat(push32(900), []byte{0x20, 1, 0x36, 2, 0}, push64(0))
	m.bodies["tgi_logits_process"] = slices.Concat(push32(900), []byte{0x28, 2, 0}, push32(2), []byte{0x4b, 0x04, 0x40},
		body, []byte{0x0b}, push32(0))
	return m
}

// forever repeats a body.
func forever(body ...byte) []byte {
	return slices.Concat([]byte{0x03, 0x40}, body, []byte{0x0c, 0, 0x0b})
}

// reply is answer without the status, as a body for when.
func reply(mode, out, count int64) []byte {
	a := answer(mode, out, count)
	return a[:len(a)-len(push32(0))]
}

// offences are what a guest does in the token loop, with what the error must say.
func offences() map[string]struct {
	m    *module
	says string
} {
	type offence = struct {
		m    *module
		says string
	}
	list := map[string]offence{
		"endless loop": {when(forever()), "out of fuel"},
		"memory bomb":  {when(forever(slices.Concat(push32(1), []byte{0x40, 0, 0x1a})...)), "out of fuel"},
		"more than its memory": {when(slices.Concat(push32(2000), []byte{0x40, 0, 0x1a, unreached})),
			"trap: out of memory: it asked for 133169152 bytes, its limit is 67108864 (limits.memory): unreachable"},
		"fill storm": {when(forever(slices.Concat(push32(1<<20), push32(0), push32(1<<20),
			[]byte{0xfc, 0x0b, 0})...)), "out of fuel"},
		"trap":            {when([]byte{unreached}), "unreachable"},
		"pointer outside": {when(reply(1, -16, 8)), "8 entries of 4 bytes at 0xfffffff0"},
		"4 GiB of ids":    {when(reply(2, outAt, -1)), "4294967295"},
		"NaN bias": {when(slices.Concat(store32(outAt, 5),
			store32(outAt+4, int64(int32(math.Float32bits(float32(math.NaN()))))), reply(3, outAt, 1))), "NaN"},
		"infinite bias":         {when(slices.Concat(store32(outAt+4, 0x7f800000), reply(3, outAt, 1))), "Inf"},
		"nothing allowed":       {when(reply(1, outAt, 0)), "token"},
		"id outside":            {when(slices.Concat(store32(outAt, 1<<30), reply(1, outAt, 1))), "1073741824"},
		"undeclared mode":       {when(reply(6, outAt, 1)), "row"},
		"unknown mode":          {when(reply(77, outAt, 1)), "77"},
		"infinite temperature":  {when(store32(stepAt+52, 0x7f800000)), "temperature"},
		"forces outside memory": {when(slices.Concat(store32(stepAt+56, -4), store32(stepAt+60, 200))), "0xfffffffc"},
		"forces too many":       {when(store32(stepAt+60, -1)), "4294967295"},
	}
	deep := when(nil)
	deep.bodies["tgi_logits_process"] = when([]byte{opCall, byte(deep.function(30))}).bodies["tgi_logits_process"]
	deep.extra = append(deep.extra, extraFunc{})
	for i := 1; i <= 30; i++ {
		below := byte(deep.function(i - 1))
		deep.extra = append(deep.extra, extraFunc{body: []byte{opCall, below, opCall, below}})
	}
	list["recursion of 2^30 calls"] = offence{deep, "out of fuel"}
	endless := when([]byte{opCall, byte(newModule("").function(0))})
	endless.extra = []extraFunc{{body: []byte{opCall, byte(endless.function(0)), opCall, byte(endless.function(0))}}}
	list["stack overflow"] = offence{endless, "stack overflow"}
	status := when(nil)
	// bytes of the parameters less those of {}
	status.bodies["tgi_logits_process"] = slices.Concat(push32(900), []byte{0x28, 2, 0}, push32(-2), []byte{0x6a})
	list["unknown status"] = offence{status, "status 8"}
	huge := newModule("")
	huge.bodies["tgi_logits_begin"] = slices.Concat([]byte{0x20, 1}, push32(2), []byte{0x4b, 0x04, i64},
		push64(16<<32|math.MaxUint32), []byte{0x05}, push64(0), []byte{0x0b})
	list["4 GiB of error text"] = offence{huge, "4294967295 bytes"}
	return list
}

// neighbours stream tokens until stop is called, which returns the longest and
// the 99th percentile of the gaps between them.
type neighbours struct {
	wg   sync.WaitGroup
	stop context.CancelFunc
	mu   sync.Mutex
	gaps []time.Duration
	ends int
}

// watchNeighbours starts n streams whose text must be want, again and again.
func (p *plugged) watchNeighbours(t testing.TB, n int) *neighbours {
	t.Helper()
	body := `{"inputs":"<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n","parameters":{"max_new_tokens":150,"ignore_eos":true}}`
	status, first := p.call(t, http.MethodPost, "/generate", []byte(body))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, first)
	}
	var want struct {
		Text string `json:"generated_text"`
	}
	if err := json.Unmarshal([]byte(first), &want); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	nb := &neighbours{stop: stop}
	for range n {
		nb.wg.Go(func() {
			for ctx.Err() == nil {
				nb.stream(t, p.url, body, want.Text)
			}
		})
	}
	return nb
}

// stream reads one stream to its end.
func (nb *neighbours) stream(t testing.TB, url, body, want string) {
	res, err := http.Post(url+"/generate_stream", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	var gaps []time.Duration
	text, last := "", time.Time{}
	for d := sse.New(res.Body); ; {
		data, err := d.Next()
		if err != nil {
			break
		}
		now := time.Now()
		if !last.IsZero() {
			gaps = append(gaps, now.Sub(last))
		}
		last = now
		var e struct {
			Text  *string `json:"generated_text"`
			Error string
		}
		if err := json.Unmarshal(data, &e); err != nil || e.Error != "" {
			t.Errorf("a neighbour got %s", data)
			return
		}
		if e.Text != nil {
			text = *e.Text
		}
	}
	nb.mu.Lock()
	defer nb.mu.Unlock()
	nb.gaps = append(nb.gaps, gaps...)
	nb.ends++
	if text != want {
		t.Errorf("a neighbour got %q, alone it is %q", text, want)
	}
}

// end waits for the streams and returns quantiles of the gaps.
func (nb *neighbours) end() (p50, p99 time.Duration, ends int) {
	nb.stop()
	nb.wg.Wait()
	slices.Sort(nb.gaps)
	return nb.gaps[len(nb.gaps)/2], nb.gaps[len(nb.gaps)*99/100], nb.ends
}

// TestHostileInTheLoop has guests do harm at a step while others stream: each
// request ends with an error that names plugin, export and cause, and nobody
// else notices.
func TestHostileInTheLoop(t *testing.T) {
	p := openPlugged(t, nil)
	offences := offences()
	for name, o := range offences {
		p.upload(t, slug(name), o.m.wasm())
	}
	nb := p.watchNeighbours(t, 3)
	for _, name := range slices.Sorted(maps.Keys(offences)) {
		says := offences[name].says
		for range 5 {
			status, text := p.generate(t, 20, slug(name), `{"harm":1}`)
			var e struct{ Error, Error_type string }
			if err := json.Unmarshal([]byte(text), &e); err != nil || status != http.StatusFailedDependency ||
				e.Error_type != "plugin" {
				t.Fatalf("%s: %d %s", name, status, text)
			}
			if !strings.Contains(e.Error, slug(name)) || !strings.Contains(e.Error, "tgi_logits_") ||
				!strings.Contains(e.Error, says) {
				t.Errorf("%s: %q does not name plugin, export and %q", name, e.Error, says)
			}
		}
		if status, text := p.generate(t, 5, slug(name), `{}`); status != http.StatusOK {
			t.Errorf("%s does no harm without parameters: %d %s", name, status, text)
		}
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	p.quiet(t)
}

// quiet checks that nothing of the requests is left.
func (p *plugged) quiet(t testing.TB) {
	t.Helper()
	// instances go back on goroutines of their own
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		out := 0
		for _, s := range p.defaultModel().control.List() {
			out += s.InstancesOut
		}
		st := p.defaultModel().engine.Stats()
		if out == 0 && st.Running == 0 && st.Waiting == 0 && st.KVUsed == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left over: %d instances, %+v", out, st)
		}
	}
}

func slug(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r == ' ':
			return '-'
		}
		return -1
	}, "x "+name), "-")
}

// TestHostileAtLoad uploads modules that must be refused, with what the refusal
// says.
func TestHostileAtLoad(t *testing.T) {
	p := openPlugged(t, nil)
	before := len(p.defaultModel().control.List())
	nb := p.watchNeighbours(t, 2)
	body := func(export string, code ...byte) []byte {
		m := newModule("")
		m.bodies[export] = code
		return m.wasm()
	}
	foreign := newModule("")
	foreign.imports = []importFunc{{"env", "system", []byte{i32}, []byte{i32}}, {"tgi", "launch", nil, nil},
		{"tgi", "log", []byte{i64}, nil}}
	functions := newModule("")
	functions.extra = make([]extraFunc, 1_000_000)
	liar := newModule("")
	liar.bodies["tgi_describe"] = push64(textAt<<32 | math.MaxUint32)
	cases := map[string]struct {
		wasm   []byte
		status int
		says   []string
	}{
		"imports":   {foreign.wasm(), 422, []string{`"env" "system"`, `"tgi" "launch"`, `"tgi" "log"`}},
		"functions": {functions.wasm(), 422, []string{"functions, the limit is 20000"}},
		"large":     {make([]byte, 100<<20), 413, []string{"16777216"}},
		"not wasm":  {[]byte("#!/bin/sh\nreboot\n"), 422, []string{"module"}},
		"empty":     {nil, 422, []string{"module"}},
		"no exports": {[]byte("\x00asm\x01\x00\x00\x00"), 422, []string{`"tgi_describe"`, `"tgi_alloc"`,
			"(i32) -> (i32)"}},
		"4 GiB of text": {liar.wasm(), 422, []string{"tgi_describe", "4294967295"}},
	}
	for _, x := range exports[1:] {
		cases["trap in "+x.name] = struct {
			wasm   []byte
			status int
			says   []string
		}{body(x.name, unreached), 422, []string{x.name, "unreachable"}}
		cases["no end in "+x.name] = struct {
			wasm   []byte
			status int
			says   []string
		}{body(x.name, append(forever(), unreached)...), 422, []string{x.name, "out of fuel"}}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		status, text := p.call(t, http.MethodPut, "/admin/plugins/"+strings.ReplaceAll(slug(name), "_", "-")+
			"?limits.fuel_load=500000000", c.wasm)
		if status != c.status {
			t.Errorf("%s: %d %.300s", name, status, text)
		}
		for _, s := range c.says {
			if !strings.Contains(text, strings.ReplaceAll(s, `"`, `\"`)) {
				t.Errorf("%s: %.600s does not say %s", name, text, s)
			}
		}
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	if list := p.defaultModel().control.List(); len(list) != before {
		t.Errorf("%d plugins were let in", len(list)-before)
	}
}

// TestMutatedModules uploads good modules with bytes changed. Whatever they are,
// the server answers and serves on.
func TestMutatedModules(t *testing.T) {
	p := openPlugged(t, nil)
	rng := rand.New(rand.NewPCG(3, 9))
	good := [][]byte{newModule("").wasm(), offences()["endless loop"].m.wasm()}
	if wasm, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "guests", "c",
		"banned-and-boost.wasm")); err == nil {
		good = append(good, wasm)
	}
	let := 0
	for i := range 300 {
		wasm := slices.Clone(good[i%len(good)])
		for range 1 + rng.IntN(4) {
			wasm[8+rng.IntN(len(wasm)-8)] = byte(rng.Uint32())
		}
		if rng.IntN(5) == 0 {
			wasm = wasm[:rng.IntN(len(wasm))]
		}
		status, text := p.call(t, http.MethodPut, "/admin/plugins/mutant", wasm)
		switch status {
		case http.StatusUnprocessableEntity:
		case http.StatusCreated, http.StatusOK:
			let++
			if status, text := p.generate(t, 3, "mutant", `{"harm":1}`); status != 200 && status != 422 &&
				status != 424 {
				t.Errorf("a mutant that was let in: %d %s", status, text)
			}
		default:
			t.Fatalf("%d %s", status, text)
		}
	}
	t.Logf("%d of 300 were let in", let)
	p.quiet(t)
}

// TestNoFilesNoSockets calls what would reach outside: each call gives ENOSYS, 52.
func TestNoFilesNoSockets(t *testing.T) {
	p := openPlugged(t, nil)
	eight := []byte{i32, i32, i32, i32, i32, i64, i64, i32, i32}
	for name, im := range map[string]importFunc{
		"open":   {"wasi_snapshot_preview1", "path_open", eight, []byte{i32}},
		"accept": {"wasi_snapshot_preview1", "sock_accept", []byte{i32, i32, i32}, []byte{i32}},
		"send":   {"wasi_snapshot_preview1", "sock_send", []byte{i32, i32, i32, i32, i32}, []byte{i32}},
		"unlink": {"wasi_snapshot_preview1", "path_unlink_file", []byte{i32, i32, i32}, []byte{i32}},
	} {
		m := newModule(`"allow"`)
		m.imports = []importFunc{im}
		call := push32(outAt)
		for _, v := range im.params {
			if v == i64 {
				call = append(call, push64(0)...)
			} else {
				call = append(call, push32(3)...)
			}
		}
		call = append(call, opCall, 0, 0x36, 2, 0) // the result becomes the only token allowed
		m.bodies["tgi_logits_process"] = slices.Concat(call, answer(1, outAt, 1))
		p.upload(t, name, m.wasm())
		status, text := p.generate(t, 4, name, `{}`)
		if status != 200 || strings.Count(text, `{"id":52,`) != 4 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// TestManyFaults lets requests fail and holds what is left against what there
// was.
func TestManyFaults(t *testing.T) {
	n := long.Count(400, 2000)
	if long.Soak() {
		n = 10_000
	}
	p := openPlugged(t, nil)
	names := []string{"trap", "endless loop", "memory bomb", "pointer outside"}
	for _, name := range names {
		p.upload(t, slug(name), offences()[name].m.wasm())
	}
	run := func(n int) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for range n / 4 {
					if status, text := p.generate(t, 5, slug(names[w]),
						`{"harm":1}`); status != http.StatusFailedDependency {
						t.Errorf("%d %s", status, text)
					}
				}
			})
		}
		wg.Wait()
		p.quiet(t)
		http.DefaultClient.CloseIdleConnections()
		runtime.GC()
	}
	run(400)
	before := footprint()
	run(n)
	after := footprint()
	t.Logf("%d faults: %+v, then %+v", n, before, after)
	if after.goroutines > before.goroutines+20 || after.maps > before.maps+40 || after.heap > before.heap+16<<20 {
		t.Errorf("%d faults left something over: %+v, then %+v", n, before, after)
	}
	if status, text := p.generate(t, 5, slug(names[0]), `{}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// used is what a process holds.
type used struct {
	goroutines, maps int
	heap             uint64
}

func footprint() used {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	maps, _ := os.ReadFile("/proc/self/maps")
	return used{runtime.NumGoroutine(), bytes.Count(maps, []byte("\n")), m.HeapAlloc}
}

// BenchmarkFault reports what one fault of each kind costs: the time and the fuel
// of the guest's calls until its request has ended.
func BenchmarkFault(b *testing.B) {
	p := openPlugged(b, nil)
	offences := offences()
	for _, name := range slices.Sorted(maps.Keys(offences)) {
		p.upload(b, slug(name), offences[name].m.wasm())
		b.Run(slug(name), func(b *testing.B) {
			before, _ := p.defaultModel().control.Get(slug(name))
			n := 0
			for b.Loop() {
				p.generate(b, 20, slug(name), `{"harm":1}`)
				n++
			}
			after, _ := p.defaultModel().control.Get(slug(name))
			b.ReportMetric((after.Seconds-before.Seconds)*1e6/float64(n), "guest-us/fault")
			b.ReportMetric(float64(after.Fuel-before.Fuel)/float64(n), "fuel/fault")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
