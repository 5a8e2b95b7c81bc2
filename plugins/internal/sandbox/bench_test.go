package sandbox

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	wasip1 "github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// bare runs a guest in wazero only, without rewriting; with stop, using wazero's own interruption.
func bare(b *testing.B, wasm []byte, stop bool) api.Module {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(stop))
	b.Cleanup(func() { r.Close(ctx) })
	wasip1.MustInstantiate(ctx, r)
	m, err := r.InstantiateWithConfig(ctx, wasm,
		wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err != nil {
		b.Fatal(err)
	}
	return m
}

type variant struct {
	name string
	call func(export string, arg uint64)
}

// variants returns the ways to run one guest that a benchmark compares.
func variants(b *testing.B, wasm []byte) []variant {
	in := instance(b, compile(b, engine(b, Config{}), wasm, ModuleConfig{}))
	if err := start(in); err != nil {
		b.Fatal(err)
	}
	funcs := map[string]*Func{}
	stack := make([]uint64, 1)
	list := []variant{{"fuel", func(export string, arg uint64) {
		if funcs[export] == nil {
			funcs[export] = in.Func(export)
		}
		stack[0] = arg
		if _, err := in.Call(funcs[export], stack, plenty); err != nil {
			b.Fatal(err)
		}
	}}}
	for _, stop := range []bool{false, true} {
		m := bare(b, wasm, stop)
		name, ctx := "plain", context.Background()
		if stop {
			var cancel context.CancelFunc
			name = "close-on-done"
			ctx, cancel = context.WithCancel(ctx)
			b.Cleanup(cancel)
		}
		funcs := map[string]api.Function{}
		stack := make([]uint64, 1)
		list = append(list, variant{name, func(export string, arg uint64) {
			if funcs[export] == nil {
				funcs[export] = m.ExportedFunction(export)
			}
			stack[0] = arg
			if err := funcs[export].CallWithStack(ctx, stack); err != nil {
				b.Fatal(err)
			}
		}})
	}
	return list
}

// compare times the variants of one call alternately, and reports the median of each and its ratio to the plain module.
func compare(b *testing.B, vs []variant, export string, arg uint64) {
	times := make([][]time.Duration, len(vs))
	for range b.N {
		for i, v := range vs {
			t := time.Now()
			v.call(export, arg)
			times[i] = append(times[i], time.Since(t))
		}
	}
	median := make([]float64, len(vs))
	plain := 1.0
	for i, v := range vs {
		slices.Sort(times[i])
		median[i] = float64(times[i][len(times[i])/2])
		b.ReportMetric(median[i]/1000, v.name+"-us")
		if v.name == "plain" {
			plain = median[i]
		}
	}
	b.ReportMetric(median[0]/plain, "fuel/plain")
	b.ReportMetric(median[len(vs)-1]/plain, "close/plain")
}

func BenchmarkFuel(b *testing.B) {
	b.Run("C/mask-walk", func(b *testing.B) {
		vs := variants(b, guestFile(b, "walk.wasm"))
		for _, v := range vs {
			v.call("init", 0)
		}
		b.ResetTimer()
		compare(b, vs, "walk", 0)
	})
	b.Run("C/spin-1M", func(b *testing.B) {
		vs := variants(b, guestFile(b, "walk.wasm"))
		b.ResetTimer()
		compare(b, vs, "spin", 1_000_000)
	})
	b.Run("Go/scan-128k", func(b *testing.B) {
		vs := variants(b, goGuest(b))
		for _, v := range vs {
			v.call("init_table", 128_000)
		}
		b.ResetTimer()
		compare(b, vs, "walk", 3)
	})
	b.Run("Go/spin-1M", func(b *testing.B) {
		vs := variants(b, goGuest(b))
		b.ResetTimer()
		compare(b, vs, "spin", 1_000_000)
	})
	b.Run("Go/digest-300", func(b *testing.B) {
		vs := variants(b, goGuest(b))
		b.ResetTimer()
		compare(b, vs, "digest", 300)
	})
}

// BenchmarkReset times Put with the reset in it, after a call that changed state; the baseline is a new instance.
func BenchmarkReset(b *testing.B) {
	for name, wasm := range map[string][]byte{"C": guestFile(b, "walk.wasm"), "Go": goGuest(b)} {
		for mode, plain := range map[string]bool{"copy-on-write": false, "plain-copy": true} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				m := compile(b, engine(b, Config{PlainCopy: plain}), wasm, ModuleConfig{})
				p := newPool(b, m, PoolConfig{Ready: 1})
				stack := make([]uint64, 1)
				var put, first, again, fresh []time.Duration
				in := take(b, p)
				f := in.Func("remember")
				for range b.N {
					t := time.Now()
					in.Call(f, stack, plenty)
					first = append(first, time.Since(t))
					t = time.Now()
					in.Call(f, stack, plenty)
					again = append(again, time.Since(t))
					t = time.Now()
					p.Put(in)
					next := take(b, p)
					put = append(put, time.Since(t))
					if next != in {
						in, f = next, next.Func("remember")
					}
				}
				p.Put(in)
				for range 20 {
					t := time.Now()
					one, err := p.build(Lease{})
					fresh = append(fresh, time.Since(t))
					if err != nil {
						b.Fatal(err)
					}
					one.Close()
				}
				for unit, ts := range map[string][]time.Duration{"reset-us": put, "first-call-us": first,
					"second-call-us": again, "cold-us": fresh} {
					slices.Sort(ts)
					b.ReportMetric(float64(ts[len(ts)/2])/1000, unit)
				}
			})
		}
	}
}

func BenchmarkEmptyCall(b *testing.B) {
	for name, wasm := range map[string][]byte{"C": guestFile(b, "walk.wasm"), "Go": goGuest(b)} {
		b.Run(name+"/sandbox", func(b *testing.B) {
			in := instance(b, compile(b, engine(b, Config{}), wasm, ModuleConfig{}))
			if err := start(in); err != nil {
				b.Fatal(err)
			}
			f := in.Func("empty")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := in.Call(f, nil, 1000); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/plain", func(b *testing.B) {
			f := bare(b, wasm, false).ExportedFunction("empty")
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if err := f.CallWithStack(ctx, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCollection times runtime.GC while a guest spins. The baselines are an idle machine, Go code that spins, and
// the guest without ticks.
func BenchmarkCollection(b *testing.B) {
	wasm := guestFile(b, "walk.wasm")
	vs := variants(b, wasm)
	const rounds = 40_000_000 // about 30 ms a call
	sink := uint32(1)
	for _, work := range []variant{
		{"idle", func(string, uint64) { time.Sleep(time.Millisecond) }},
		{"go-code", func(_ string, n uint64) {
			for range n {
				sink = sink*1664525 + 1013904223
			}
		}},
		{"guest", vs[0].call},
		{"guest-without-tick", vs[1].call},
	} {
		b.Run(work.name, func(b *testing.B) {
			var stop atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !stop.Load() {
					work.call("spin", rounds)
				}
			}()
			var times []time.Duration
			for range max(b.N, 10) {
				time.Sleep(time.Millisecond)
				t := time.Now()
				runtime.GC()
				times = append(times, time.Since(t))
			}
			stop.Store(true)
			<-done
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/1e6, "gc-p50-ms")
			b.ReportMetric(float64(times[len(times)-1])/1e6, "gc-max-ms")
		})
	}
}
