package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/server/config"
	"tgi/server/sse"
)

// toucher is a plugin that, where it is given parameters, touches mib of its memory when a sequence begins, and perStep
// more at each step.
func toucher(mib, perStep int64) []byte {
	const from = 2 << 20 // what it begins with
	given := func(body ...[]byte) []byte {
		return slices.Concat([]byte{0x20, 1}, push32(2), []byte{0x4b, 0x04, 0x40}, slices.Concat(body...), []byte{0x0b})
	}
	fill := func(at []byte, bytes int64) []byte {
		return slices.Concat(at, push32(1), push32(bytes), []byte{0xfc, 0x0b, 0})
	}
	m := newModule(`"allow"`)
	const nextAt = 904
	m.bodies["tgi_logits_begin"] = slices.Concat(given(
		push32(maxTouched>>16-memPages), []byte{0x40, 0, 0x1a},
		fill(push32(from), mib<<20), store32(nextAt, from+mib<<20),
	), push64(0))
	next := slices.Concat(push32(nextAt), []byte{0x28, 2, 0})
	m.bodies["tgi_logits_process"] = slices.Concat(next, []byte{0x04, 0x40},
		fill(next, perStep<<20), push32(nextAt), next, push32(perStep<<20), []byte{0x6a, 0x36, 2, 0}, []byte{0x0b},
		push32(0))
	return m.wasm()
}

// maxTouched is the memory of a toucher.
const maxTouched = 128 << 20

// gauge reads one figure of /metrics.
func (p *plugged) gauge(t testing.TB, name string) float64 {
	t.Helper()
	_, text := p.call(t, http.MethodGet, "/metrics", nil)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("/metrics has no %s", name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// resident is the memory of this process in bytes, 0 where the system does not say.
func resident() int64 {
	b, _ := os.ReadFile("/proc/self/statm")
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n * int64(os.Getpagesize())
}

// peak watches a figure until stop, which returns the most that it was.
func peak(read func() int64) (stop func() int64) {
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		top := read()
		for {
			select {
			case <-done:
				most <- top
				return
			case <-time.After(5 * time.Millisecond):
				top = max(top, read())
			}
		}
	}()
	return func() int64 {
		close(done)
		return <-most
	}
}

// touchersPath uploads a toucher.
const touchersPath = "/admin/plugins/toucher?limits.memory=160MiB&limits.fuel_per_step=100000000"

// openTouchers opens a server whose plugins may have so much, with a plugin that may touch 128 MiB.
func openTouchers(t *testing.T, memory int64, wait time.Duration, mib, perStep int64) *plugged {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugins.Memory, c.Plugins.MemoryWait = config.Size(memory), config.Duration(wait)
		c.Limits.MaxConcurrentRequests = 200
	})
	status, text := p.call(t, http.MethodPut, touchersPath, toucher(mib, perStep))
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	return p
}

// TestManySequencesTouchMemory: a request for sixty texts with a plugin that touches 64 MiB for each is refused with
// the figures, and the process does not grow beyond what plugins may have.
func TestManySequencesTouchMemory(t *testing.T) {
	const limit = 320 << 20
	p := openTouchers(t, limit, 100*time.Millisecond, 64, 0)
	ask := func(n int) (int, string) {
		return p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil,
			`{"model":"tgi","prompt":"Once","n":%d,"max_tokens":3,"ignore_eos":true,"plugins":[{"name":"toucher","params":{"x":1}}]}`, n))
	}
	if status, text := ask(2); status != http.StatusOK {
		t.Fatalf("two texts: %d %s", status, text)
	}
	p.quiet(t)
	runtime.GC()
	before := resident()
	stop := peak(resident)
	used := peak(func() int64 { return p.models.memory.Stats().Used })
	for range 3 {
		status, text := ask(60)
		if status != http.StatusUnprocessableEntity || !regexp.MustCompile(
			`plugin toucher: out of plugin memory: 59 more instances need 37\d\d MiB, its others have \d+ MiB, \d+ MiB of 320 MiB are in use \(plugins\.memory\): that is more than one request can have`).MatchString(text) {
			t.Errorf("sixty texts: %d %s", status, text)
		}
	}
	if most := used(); most > limit {
		t.Errorf("%d MiB were charged, %d MiB there are", most>>20, limit>>20)
	}
	if grew := stop() - before; before > 0 && grew > limit {
		t.Errorf("the process grew by %d MiB", grew>>20)
	}
	if status, text := ask(2); status != http.StatusOK {
		t.Errorf("two texts afterwards: %d %s", status, text)
	}
	p.quiet(t)
}

// TestManyRequestsTouchMemory: requests whose plugins do not fit beside each other take turns. Who waits too long gets
// 429 with the reason and when to come back; nobody hangs, is ended, or gets another text.
func TestManyRequestsTouchMemory(t *testing.T) {
	const limit = 320 << 20
	p := openTouchers(t, limit, 3*time.Second, 64, 0)
	// from now on it is known what it needs
	if status, text := p.generate(t, 2, "toucher", `{"x":1}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	used := peak(func() int64 { return p.models.memory.Stats().Used })
	nb := p.watchNeighbours(t, 1)
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			req := `{"inputs":"Once upon a time","parameters":{"max_new_tokens":60,"ignore_eos":true,"plugins":[{"name":"toucher","params":{"x":1}}]}}`
			res, err := http.Post(p.url+"/generate", "application/json", strings.NewReader(req))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			var body struct{ Error, Error_type string }
			if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			if res.StatusCode == http.StatusTooManyRequests && (res.Header.Get("Retry-After") == "" ||
				body.Error_type != "overloaded" ||
				!strings.Contains(body.Error,
					"Model is overloaded: plugin toucher: out of plugin memory: another instance needs")) {
				t.Errorf("429 with %v and %+v", res.Header, body)
			}
			mu.Lock()
			defer mu.Unlock()
			got[res.StatusCode]++
		})
	}
	all.Wait()
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("the neighbour came to no end")
	}
	if got[http.StatusOK]+got[http.StatusTooManyRequests] != 12 || got[http.StatusOK] < 3 {
		t.Errorf("statuses %v", got)
	}
	if most := used(); most > limit {
		t.Errorf("%d MiB were charged, %d MiB there are", most>>20, limit>>20)
	}
	if p.gauge(t, "tgi_plugin_memory_waits_total") == 0 || p.gauge(t, "tgi_plugin_memory_limit_bytes") != limit {
		t.Error("the metrics know of no waits, or of another limit")
	}
	p.quiet(t)
	if n := p.gauge(t, `tgi_plugin_memory_bytes{of="instances"}`); n > 16<<20 {
		t.Errorf("%g bytes are charged for instances that nobody has", n)
	}
}

// putToucher replaces the toucher. Its trial needs memory, which an instance that was just ended may still hold.
func (p *plugged) putToucher(t *testing.T, module []byte) {
	t.Helper()
	status, text := p.call(t, http.MethodPut, touchersPath, module)
	full := func() bool {
		return status == http.StatusUnprocessableEntity && strings.Contains(text, "out of plugin memory")
	}
	for begun := time.Now(); full() && time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) {
		status, text = p.call(t, http.MethodPut, touchersPath, module)
	}
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
}

// TestGrowthInTheLoop checks that a plugin that touches more memory at each step is ended when none is left, with the
// sizes in the error, and that requests whose plugin uses little are not.
func TestGrowthInTheLoop(t *testing.T) {
	const limit = 96 << 20 // less than one toucher comes to
	p := openTouchers(t, limit, 0, 1, 1)
	status, text := p.call(t, http.MethodPut, "/admin/plugins/small?limits.memory=160MiB", toucher(4, 0))
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	var small, touchers sync.WaitGroup
	var served atomic.Int64
	for range 4 {
		small.Go(func() {
			switch status, text := p.generate(t, 300, "small", `{"x":1}`); status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusTooManyRequests: // it came when the others had all
			default:
				t.Errorf("a small neighbour: %d %s", status, text)
			}
		})
	}
	text424 := regexp.MustCompile(`toucher: tgi_logits_process: out of plugin memory: this instance has \d+ MiB, ` +
		`all of the plugin \d+ MiB, all plugins together \d+ MiB of 96 MiB \(plugins\.memory\)`)
	used := peak(func() int64 { return p.models.memory.Stats().Used })
	ended := int64(0)
	for round := range int64(3) { // one at a time: each comes to more than there is
		// What its module's earlier instances came to is asked for at once, so each has a module of its own.
		p.putToucher(t, toucher(2+round, 1))
		status, text := p.generate(t, 120, "toucher", `{"x":1}`)
		switch {
		case status == http.StatusFailedDependency && text424.MatchString(text):
			ended++
		case status == http.StatusTooManyRequests: // small ones came to have it
		default:
			t.Errorf("%d %s", status, text)
		}
	}
	// Whose turn it is to end has its memory until its next step, while the others go on.
	if most, above := used(), int64(limit+limit/2+32<<20); most > above {
		t.Errorf("%d MiB were charged, %d MiB there are", most>>20, limit>>20)
	}
	var together atomic.Int64
	for range 4 {
		touchers.Go(func() {
			switch status, text := p.generate(t, 120, "toucher", `{"x":1}`); {
			case status == http.StatusFailedDependency && text424.MatchString(text):
				together.Add(1)
			case status == http.StatusTooManyRequests:
			default:
				t.Errorf("%d %s", status, text)
			}
		})
	}
	touchers.Wait()
	small.Wait()
	if ended == 0 || served.Load() == 0 {
		t.Errorf("%d were ended, %d small ones served", ended, served.Load())
	}
	ended += together.Load()
	if n := p.gauge(t, `tgi_plugin_faults_total{kind="memory",plugin="toucher"}`); n != float64(ended) {
		t.Errorf("%g faults are counted, %d were ended", n, ended)
	}
	p.quiet(t)
}

// TestForcedForEver checks that a text with a token forced at every step ends like any other, also when its client
// disconnects, without an effect on others.
func TestForcedForEver(t *testing.T) {
	p := openPlugged(t, nil)
	p.upload(t, "forever", when(slices.Concat(store32(outAt, 70), store32(stepAt+56, outAt),
		store32(stepAt+60, 1))).wasm())
	nb := p.watchNeighbours(t, 1)
	status, text := p.generate(t, 200, "forever", `{"harm":1}`)
	var reply struct {
		Details struct {
			Finish string `json:"finish_reason"`
			Tokens int    `json:"generated_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != http.StatusOK ||
		reply.Details.Finish != "length" || reply.Details.Tokens != 200 {
		t.Errorf("%d %.200s", status, text)
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/generate_stream", strings.NewReader(
		`{"inputs":"Once","parameters":{"max_new_tokens":1000,"ignore_eos":true,"plugins":[{"name":"forever","params":{"harm":1}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sse.New(res.Body).Next(); err != nil {
		t.Error(err)
	}
	leave()
	res.Body.Close()
	nb.end()
	p.quiet(t)
}
