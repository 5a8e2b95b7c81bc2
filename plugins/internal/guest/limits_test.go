package guest_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// TestKinds checks that the kinds follow from the exports, also for the readable part of a truncated module.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		f    guesttest.Fake
		want []string
	}{
		{guesttest.Fake{}, []string{abi.KindLogits}},
		{guesttest.Fake{Description: guesttest.Both}, []string{abi.KindLogits, abi.KindSampler}},
		{guesttest.Fake{Description: guesttest.Template}, []string{abi.KindTemplate}},
		{guesttest.Fake{Description: guesttest.Tools}, []string{abi.KindTools}},
		{guesttest.Fake{Description: `{"name":"all","kinds":["logits","tools","template"]}`}, []string{abi.KindLogits,
			abi.KindTemplate, abi.KindTools}},
	} {
		wasm := c.f.Wasm()
		if got := guest.Kinds(wasm); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.f.Description, got, c.want)
		}
		for n := range wasm {
			if got := guest.Kinds(wasm[:n]); len(got) > len(c.want) {
				t.Errorf("%d bytes of it: %q", n, got)
			}
		}
	}
	for _, wasm := range []string{"", "\x00asm", "\x00asm\x01\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\x00asm\x01\x00\x00\x00\x07\x06\xff\xff\xff\xff\x0f\x01"} {
		if got := guest.Kinds([]byte(wasm)); got != nil {
			t.Errorf("%q: %q", wasm, got)
		}
	}
}

// TestLimitsByKind checks that defaults of limits follow from the plugin's kinds, and that configured limits take
// precedence.
func TestLimitsByKind(t *testing.T) {
	for _, c := range []struct {
		kinds           []string
		memory, request int64
	}{
		{nil, 64 << 20, 50_000_000},
		{[]string{abi.KindLogits, abi.KindSampler}, 64 << 20, 50_000_000},
		{[]string{abi.KindTools}, 256 << 20, 500_000_000},
		{[]string{abi.KindTemplate}, 256 << 20, 5_000_000_000},
		{[]string{abi.KindLogits, abi.KindTemplate, abi.KindTools}, 256 << 20, 5_000_000_000},
	} {
		l, err := guest.Limits{}.WithDefaults(c.kinds)
		if want := (guest.Limits{Memory: c.memory, FuelPerStep: 2_000_000, FuelPerRequest: c.request,
			FuelLoad:    10_000_000_000,
			TimePerStep: time.Second, TimePerRequest: 10 * time.Second, TimeLoad: time.Minute,
			Share: sandbox.DefaultShare}); err != nil || l != want {
			t.Errorf("%q: %+v, %v, want %+v", c.kinds, l, err, want)
		}
		given := guest.Limits{Memory: 1 << 20, FuelPerStep: 1, FuelPerRequest: 2, FuelLoad: 3,
			TimePerStep: 4, TimePerRequest: 5, TimeLoad: 6, Share: 7}
		if l, err := given.WithDefaults(c.kinds); err != nil || l != given {
			t.Errorf("%q: given %+v, got %+v, %v", c.kinds, given, l, err)
		}
	}
	for want, l := range map[string]guest.Limits{
		"fuel per step: -1 is not from 1 to ": {FuelPerStep: -1}, "time_per_step: -1ns is negative": {TimePerStep: -1},
		"time_load: -1s is negative": {TimeLoad: -time.Second}, "share: 0.001 is not from 0.01 to 1024": {Share: 0.001},
		"share: NaN is not": {Share: math.NaN()},
	} {
		if _, err := l.WithDefaults(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	g, err := load(t, guesttest.Fake{Description: guesttest.Template})
	if err != nil {
		t.Fatal(err)
	}
	if g.Limits().Memory != 256<<20 || g.Limits().FuelPerRequest != 5_000_000_000 {
		t.Errorf("%+v", g.Limits())
	}
}
