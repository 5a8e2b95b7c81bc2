package host

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// chase is a loop of loads from all over the memory, each at an address that
// follows from the one before, so that the processor waits for every one. Local 1
// is the address. Every load stores first: a page that was never written is the
// same for all.
func chase() []byte {
	const mask = 64<<20 - 8
	next := slices.Concat([]byte{0x20, 1}, push32(1664525), []byte{0x6c}, push32(1013904223), []byte{0x6a, 0x22, 1},
		push32(mask), []byte{0x71, 0x22, 2, 0x20, 2, 0x28, 2, 0}, push32(1), []byte{0x6a, 0x36, 2, 0},
		[]byte{0x20, 2, 0x28, 2, 0, 0x20, 1, 0x6a, 0x21, 1})
	return forever(next...)
}

// thefts are what a guest does to take the processors from others: work that takes
// long for its fuel, as far as the prices let it. Each goes on until its fuel or
// its time is used up.
func thefts() map[string]*module {
	f64 := []byte{0x44, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0xfb, 0x3f} // 1.7
	drop := []byte{0x1a}
	list := map[string]*module{
		"dependent loads": whenWith(2, chase()),
		"square roots": whenWith(0, forever(slices.Concat(push32(heapAt), push32(heapAt), []byte{0x2b, 3, 0}, f64,
			[]byte{0xa0}, slices.Repeat([]byte{0x9f}, 200), []byte{0x39, 3, 0})...)),
		"divisions": whenWith(2, forever(slices.Repeat(slices.Concat(push32(0x7abcdef3), []byte{0x20, 1},
			push32(1), []byte{0x72, 0x6e, 0x21, 1}), 50)...)),
		"fill storm 64": whenWith(0, forever(slices.Concat(push32(heapAt), push32(0), push32(64),
			[]byte{0xfc, 11, 0})...)),
		"copy storm": whenWith(0, forever(slices.Concat(push32(heapAt), push32(heapAt+1), push32(1<<19),
			[]byte{0xfc, 10, 0, 0})...)),
		"grow storm": whenWith(0, forever(slices.Concat(push32(0), []byte{0x40, 0}, drop)...)),
	}
	// All of the memory is touched before the first step, which the fuel of a request pays.
	loads := list["dependent loads"]
	loads.bodies["tgi_logits_begin"] = slices.Concat(push32(1024-memPages), []byte{0x40, 0, 0x1a}, push32(heapAt),
		push32(1), push32(60<<20), []byte{0xfc, 11, 0},
		loads.bodies["tgi_logits_begin"])
	host := func(name string, params []byte, results []byte, call []byte) {
		m := whenWith(0, nil)
		m.imports = []importFunc{{"tgi", name, params, results}}
		if strings.HasPrefix(name, "fd_") {
			m.imports[0].module = "wasi_snapshot_preview1"
		}
		call = append(call, opCall, 0)
		if len(results) > 0 {
			call = append(call, drop...)
		}
		m.bodies["tgi_logits_process"] = whenWith(0, forever(call...)).bodies["tgi_logits_process"]
		list["calls of "+name] = m
	}
	host("log", []byte{i32, i32, i32}, nil, slices.Concat(push32(3), push32(heapAt), push32(4096)))
	host("token_bytes", []byte{i32, i32, i32}, []byte{i32}, slices.Concat(push32(300), push32(heapAt), push32(64)))
	host("token_flags", []byte{i32}, []byte{i32}, push32(300))
	host("rand_u64", nil, []byte{i64}, nil)
	host("encode", []byte{i32, i32, i32, i32}, []byte{i32}, slices.Concat(push32(heapAt), push32(8192), push32(heapAt),
		push32(0)))
	list["calls of encode with a long text"] = list["calls of encode"]
	same := list["calls of encode"]
	same.bodies["tgi_logits_begin"] = slices.Concat(push32(heapAt), push32('a'), push32(8192), []byte{0xfc, 11, 0},
		same.bodies["tgi_logits_begin"])
	host("encode", []byte{i32, i32, i32, i32}, []byte{i32}, slices.Concat(push32(textAt), push32(1), push32(heapAt),
		push32(64)))
	host("fd_write", []byte{i32, i32, i32, i32}, []byte{i32}, slices.Concat(push32(1), push32(heapAt), push32(1024),
		push32(900)))
	// Lines of no bytes: what is logged is paid by the line too.
	lines := list["calls of log"]
	lines.bodies["tgi_logits_begin"] = slices.Concat(push32(heapAt), push32('\n'), push32(4096), []byte{0xfc, 11, 0},
		lines.bodies["tgi_logits_begin"])
	return list
}

// whenWith is when with locals of type i32 behind the parameter.
func whenWith(locals byte, body []byte) *module {
	m := when(body)
	if locals > 0 {
		m.locals = map[string][]byte{"tgi_logits_process": {1, locals, i32}}
	}
	return m
}

// TestThefts has guests take what time they can while others stream: each ends
// with an error that names plugin, export and limit, the others get their text,
// and the plugin's figures say what it took.
func TestThefts(t *testing.T) {
	p := openPlugged(t, nil)
	nb := p.watchNeighbours(t, 2)
	for _, name := range slices.Sorted(maps.Keys(thefts())) {
		if status, text := p.call(t, http.MethodPut, "/admin/plugins/"+slug(name)+
			"?limits.time_per_step=20ms&limits.fuel_per_step=20000000",
			thefts()[name].wasm()); status != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, status, text)
		}
		status, text := p.generate(t, 20, slug(name), `{"harm":1}`)
		var e struct{ Error, Error_type string }
		if err := json.Unmarshal([]byte(text), &e); err != nil || status != http.StatusFailedDependency ||
			e.Error_type != "plugin" {
			t.Fatalf("%s: %d %s", name, status, text)
		}
		fuel, late := strings.Contains(e.Error, "out of fuel: budget 40000000"), strings.Contains(e.Error,
			"out of time: it ran for ") && strings.Contains(e.Error, "time_per_step is 20ms")
		if !strings.Contains(e.Error, slug(name)) || !strings.Contains(e.Error, "tgi_logits_process") || !fuel &&
			!late {
			t.Errorf("%s: %q does not name plugin, export and limit", name, e.Error)
		}
		s, _ := p.defaultModel().control.Get(slug(name))
		if s.Faults["fuel"]+s.Faults["time"] != 1 || s.Seconds <= 0 || s.Slices < 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	p.quiet(t)
}

// TestPausedPlugin: a plugin that computes all the time beside others' tokens is
// paused, which its figures and the log say.
func TestPausedPlugin(t *testing.T) {
	p := openPlugged(t, nil)
	if status, text := p.call(t, http.MethodPut,
		"/admin/plugins/greedy?limits.share=0.05&limits.fuel_per_step=1000000000",
		whenWith(0, forever()).wasm()); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	nb := p.watchNeighbours(t, 2)
	for deadline := time.Now().Add(time.Minute); ; {
		if status, text := p.generate(t, 20, "greedy", `{"harm":1}`); status != http.StatusFailedDependency {
			t.Fatalf("%d %s", status, text)
		}
		if s, _ := p.defaultModel().control.Get("greedy"); s.Paused > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it was not paused")
		}
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	p.quiet(t)
}

// BenchmarkThefts reports what a unit of fuel takes in each of the thefts, in
// nanoseconds; it should be 0.2. Each has a server to itself.
func BenchmarkThefts(b *testing.B) {
	p := openPlugged(b, nil)
	thefts := thefts()
	for _, name := range slices.Sorted(maps.Keys(thefts)) {
		p.upload(b, slug(name), thefts[name].wasm())
		b.Run(slug(name), func(b *testing.B) {
			before, _ := p.defaultModel().control.Get(slug(name))
			for b.Loop() {
				p.generate(b, 20, slug(name), `{"harm":1}`)
			}
			after, _ := p.defaultModel().control.Get(slug(name))
			b.ReportMetric((after.Seconds-before.Seconds)*1e9/float64(after.Fuel-before.Fuel), "ns/fuel")
			b.ReportMetric((after.Seconds-before.Seconds)*1e3/float64(b.N), "guest-ms/fault")
		})
	}
}

// BenchmarkThieves reports the gaps between the tokens of four streams, in turn
// alone and beside four clients whose plugin takes all the time that it can get.
// ratio is the 99th percentile beside them over that alone in the same round, and
// ratio-p50 that of the medians; cores is what the plugin's calls took.
func BenchmarkThieves(b *testing.B) {
	const streams, thieves, lasts = 4, 4, 3 * time.Second
	p := openPlugged(b, nil)
	thefts := thefts()
	measure := func(b *testing.B, plugin string) (p50, p99 float64) {
		nb := p.watchNeighbours(b, streams)
		until := time.Now().Add(lasts)
		if plugin == "" {
			time.Sleep(lasts)
		}
		var wg sync.WaitGroup
		for range thieves {
			wg.Go(func() {
				for plugin != "" && time.Now().Before(until) {
					p.generate(b, 20, plugin, `{"harm":1}`)
				}
			})
		}
		wg.Wait()
		near, far, _ := nb.end()
		return near.Seconds() * 1e3, far.Seconds() * 1e3
	}
	for _, name := range slices.Sorted(maps.Keys(thefts)) {
		p.upload(b, slug(name), thefts[name].wasm())
		b.Run(slug(name), func(b *testing.B) {
			var alone50, alone99, beside50, beside99, ratios, middles, cores []float64
			for b.Loop() {
				near, far := measure(b, "")
				alone50, alone99 = append(alone50, near), append(alone99, far)
				before, _ := p.defaultModel().control.Get(slug(name))
				began := time.Now()
				middle, with := measure(b, slug(name))
				took := time.Since(began).Seconds()
				after, _ := p.defaultModel().control.Get(slug(name))
				beside50, beside99 = append(beside50, middle), append(beside99, with)
				ratios, middles = append(ratios, with/far), append(middles, middle/near)
				cores = append(cores, (after.Seconds-before.Seconds)/took)
			}
			b.ReportMetric(median(alone50), "ms-alone-p50")
			b.ReportMetric(median(alone99), "ms-alone-p99")
			b.ReportMetric(median(beside50), "ms-beside-p50")
			b.ReportMetric(median(beside99), "ms-beside-p99")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(middles), "ratio-p50")
			b.ReportMetric(median(cores), "cores")
			b.ReportMetric(0, "ns/op")
		})
	}
}
