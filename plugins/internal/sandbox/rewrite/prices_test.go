package rewrite_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"tgi/plugins/internal/sandbox/rewrite"
)

// The locals of a priced loop: parameter 0 counts the rounds, then come a changing and a constant value of each type.
var chained = map[rune][2]byte{'i': {1, 2}, 'I': {3, 4}, 'f': {5, 6}, 'F': {7, 8}, 'v': {9, 10}}

// back leads from a result of one type to an operand of another, by the cheapest instructions.
var back = map[string][]byte{
	"ii": nil, "II": nil, "ff": nil, "FF": nil, "vv": nil,
	"iI": {0xad}, "Ii": {0xa7}, "if": {0xbe}, "fi": {0xbc}, "IF": {0xbf}, "FI": {0xbd}, "fF": {0xbb}, "Ff": {0xb6},
	"iF": {0xad, 0xbf}, "Fi": {0xbd, 0xa7}, "If": {0xa7, 0xbe}, "fI": {0xbc, 0xad},
	"iv": {0xfd, 0x11}, "Iv": {0xfd, 0x12}, "fv": {0xfd, 0x13}, "Fv": {0xfd, 0x14},
	"vi": {0xfd, 0x1b, 0}, "vI": {0xfd, 0x1d, 0}, "vf": {0xfd, 0x1f, 0}, "vF": {0xfd, 0x21, 0},
}

const repeated = 32 // of the priced code in each round

// looped is a module whose f(n) runs code repeated times in each of n rounds, after code that sets up the locals.
func looped(setup, code []byte) []byte {
	body := cat(setup, []byte{0x03, 0x40}, slices.Repeat(code, repeated), []byte{0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d,
		0, 0x0b, 0x0b})
	locals := []byte{5, 2, 0x7f, 2, 0x7e, 2, 0x7d, 2, 0x7c, 2, 0x7b}
	functions := func(n int) (list [][]byte) {
		for i := range n {
			list = append(list, leb(min(i, 2)))
		}
		return list
	}
	return wasm(
		section(1, vec(functype("i", ""), functype("i", "i"), functype("", ""))),
		section(3, vec(functions(3)...)),
		section(4, vec([]byte{0x70, 0, 8}, []byte{0x6f, 1, 8, 8})),
		section(5, vec([]byte{1, 64, 64})),
		section(6, vec(cat([]byte{0x7f, 1, 0x41, 0, 0x0b}))),
		section(7, vec(cat(name("f"), []byte{0, 0}))),
		section(9, vec(cat([]byte{0, 0x41, 0, 0x0b}, vec(leb(1), leb(2), leb(1), leb(1), leb(1), leb(1))),
			cat([]byte{1, 0}, vec(leb(1), leb(1))))),
		section(12, leb(1)),
		section(10, vec(sized(cat(locals, body)), fn(0x20, 0), fn())),
		section(11, vec(cat([]byte{1}, sized(make([]byte, 64))))),
	)
}

// values sets up the locals: numbers with many bits, that neither vanish nor become easy in a chain.
var values = func() []byte {
	f64 := func(v float64) []byte { return le(math.Float64bits(v), 8) }
	f32 := func(v float32) []byte { return le(uint64(math.Float32bits(v)), 4) }
	i64 := func(v int64) []byte { return sleb(v) }
	return cat(
		[]byte{0x41}, i64(0x12345), []byte{0x21, 1, 0x41}, i64(0x7abcdef3), []byte{0x21, 2},
		[]byte{0x42}, i64(0x123456789), []byte{0x21, 3, 0x42}, i64(0x7abcdef312345671), []byte{0x21, 4},
		[]byte{0x43}, f32(1.7), []byte{0x21, 5, 0x43}, f32(1.0000002), []byte{0x21, 6},
		[]byte{0x44}, f64(1.7), []byte{0x21, 7, 0x44}, f64(1.00000000000003), []byte{0x21, 8},
		[]byte{0x44}, f64(1.7), []byte{0xfd, 0x14, 0x21, 9, 0x44}, f64(1.00000000000003), []byte{0xfd, 0x14, 0x21, 10},
	)
}()

func le(v uint64, n int) (b []byte) {
	for ; n > 0; n-- {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

func sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// priced returns the codes whose prices are measured, by name: each instruction in a chain in which every one waits for
// the one before, and some mixes that an attacker would choose.
func priced() map[string][]byte {
	list := map[string][]byte{}
	for _, op := range rewrite.Opcodes() {
		if bodies[op.Name] != nil || strings.HasSuffix(op.Name, "const") || op.Bytes[0] == 0x1c {
			continue
		}
		params, results, imm := signature(op.Name)
		code := cat(op.Bytes, imm)
		if results == "" { // stores
			list[op.Name] = cat([]byte{0x41, 8}, get(rune(params[1]), 0), code)
			continue
		}
		if strings.Contains(op.Name, ".load") {
			mask := []byte{0x41, 0xf8, 0}
			chain := cat(back[results+"i"], mask, []byte{0x71})
			if params == "iv" {
				list[op.Name] = cat(get('v', 0), back["vi"], mask, []byte{0x71}, get('v', 0), code, set('v'))
			} else {
				list[op.Name] = cat(get('i', 0), code, chain, set('i'))
			}
			continue
		}
		last := rune(results[0])
		var operands []byte
		for i, p := range params {
			which := 1
			if i == 0 {
				which = 0
			}
			operands = cat(operands, get(p, which))
		}
		first := rune(params[0])
		list[op.Name] = cat(operands, code, back[string(last)+string(first)], set(first))
		// the chain through the second operand: quotients stay large
		if len(params) == 2 && params[0] == params[1] && !strings.Contains(op.Name, ".rem_") {
			list[op.Name+" (second)"] = cat(get(first, 1), get(first, 0), code, back[string(last)+string(first)],
				set(first))
		}
	}
	for name, code := range map[string][]byte{
		"loop alone":        {0x01},
		"f64.sqrt chain":    {0x20, 7, 0x9f, 0x9f, 0x9f, 0x9f, 0x21, 7},
		"f64.sqrt of sums":  {0x20, 7, 0x20, 8, 0xa0, 0x9f, 0x21, 7},
		"f32.sqrt of sums":  {0x20, 5, 0x20, 6, 0x92, 0x91, 0x21, 5},
		"f64.ceil chain":    {0x20, 7, 0x9b, 0x9b, 0x9b, 0x9b, 0x21, 7},
		"f64.neg chain":     {0x20, 7, 0x9a, 0x9a, 0x9a, 0x9a, 0x21, 7},
		"i64.popcnt chain":  {0x20, 3, 0x7b, 0x7b, 0x7b, 0x7b, 0x21, 3},
		"i64.extend chain":  {0x20, 3, 0xc2, 0xc2, 0xc2, 0xc2, 0x21, 3},
		"f64.add chain":     {0x20, 7, 0x20, 8, 0xa0, 0x20, 8, 0xa0, 0x20, 8, 0xa0, 0x21, 7},
		"f64.mul denormal":  cat([]byte{0x44}, le(1, 8), []byte{0x20, 8, 0xa2, 0x21, 7}),
		"convert and trunc": {0x20, 1, 0xb7, 0xaa, 0xb7, 0xaa, 0x21, 1},
		"store then load":   {0x41, 8, 0x20, 1, 0x36, 2, 0, 0x41, 8, 0x28, 2, 0, 0x21, 1},
		"stall of stores": {0x41, 8, 0x20, 1, 0x3a, 0, 0, 0x41, 9, 0x20, 1, 0x3a, 0, 0, 0x41, 8, 0x2f, 0, 0, 0x21,
			1},
		"select":            {0x20, 1, 0x20, 2, 0x20, 1, 0x1b, 0x21, 1},
		"global.get":        {0x23, 0, 0x21, 1},
		"global.set":        {0x20, 1, 0x24, 0},
		"memory.size":       {0x3f, 0, 0x21, 1},
		"memory.grow 0":     {0x41, 0, 0x40, 0, 0x21, 1},
		"memory.grow fails": {0x41, 1, 0x40, 0, 0x21, 1},
		"memory.grow -1":    {0x41, 0x7f, 0x40, 0, 0x21, 1},
		"memory.fill 0":     {0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 0},
		"memory.fill 1":     {0x41, 0, 0x41, 0, 0x41, 1, 0xfc, 11, 0},
		"memory.fill 64":    cat([]byte{0x41, 0, 0x41, 0, 0x41}, sleb(64), []byte{0xfc, 11, 0}),
		"memory.fill 64K":   cat([]byte{0x41, 0, 0x41, 0, 0x41}, sleb(65536), []byte{0xfc, 11, 0}),
		"memory.fill 1M":    cat([]byte{0x41, 0, 0x41, 0, 0x41}, sleb(1<<20), []byte{0xfc, 11, 0}),
		"memory.copy 0":     {0x41, 0, 0x41, 1, 0x41, 0, 0xfc, 10, 0, 0},
		"memory.copy 64":    cat([]byte{0x41, 0, 0x41, 1, 0x41}, sleb(64), []byte{0xfc, 10, 0, 0}),
		"memory.copy 64K":   cat([]byte{0x41, 0, 0x41, 1, 0x41}, sleb(65536), []byte{0xfc, 10, 0, 0}),
		"memory.copy 1M": cat([]byte{0x41, 0, 0x41}, sleb(2<<20), []byte{0x41}, sleb(1<<20),
			[]byte{0xfc, 10, 0, 0}),
		"memory.copy down": cat([]byte{0x41}, sleb(2<<20), []byte{0x41}, sleb(2<<20-1), []byte{0x41}, sleb(1<<20),
			[]byte{0xfc, 10, 0, 0}),
		"memory.init 0":    {0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 0},
		"memory.init 64":   cat([]byte{0x41, 0, 0x41, 0, 0x41}, sleb(64), []byte{0xfc, 8, 0, 0}),
		"table.init 2":     {0x41, 0, 0x41, 0, 0x41, 2, 0xfc, 12, 1, 0},
		"table.copy 0":     {0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 0, 0},
		"table.copy 4":     {0x41, 0, 0x41, 1, 0x41, 4, 0xfc, 14, 0, 0},
		"table.fill 0":     {0x41, 0, 0xd2, 1, 0x41, 0, 0xfc, 17, 0},
		"table.fill 8":     {0x41, 0, 0xd2, 1, 0x41, 8, 0xfc, 17, 0},
		"table.grow 0":     {0xd0, 0x6f, 0x41, 0, 0xfc, 15, 1, 0x21, 1},
		"table.grow fails": {0xd0, 0x6f, 0x41, 1, 0xfc, 15, 1, 0x21, 1},
		"table.size":       {0xfc, 16, 0, 0x21, 1},
		"table.get":        {0x41, 1, 0x25, 0, 0xd1, 0x21, 1},
		"table.set":        {0x41, 0, 0xd2, 1, 0x26, 0},
		"ref.func":         {0xd2, 1, 0x1a},
		"data.drop":        {0xfc, 9, 0},
		"elem.drop":        {0xfc, 13, 1},
		"call":             {0x20, 1, 0x10, 1, 0x21, 1},
		"call of nothing":  {0x10, 2},
		"call_indirect":    {0x20, 1, 0x41, 0, 0x11, 1, 0, 0x21, 1},
		"block and br_if":  {0x02, 0x40, 0x20, 1, 0x0d, 0, 0x0b},
		"br_if at random": cat(random, []byte{0x02, 0x40, 0x20, 3, 0xa7, 0x41, 1, 0x71, 0x0d, 0, 0x20, 2, 0x21, 1,
			0x0b}),
		"br_table at random": cat(random, []byte{0x02, 0x40, 0x02, 0x40, 0x02, 0x40, 0x20, 3, 0xa7, 0x41, 3, 0x71, 0x0e,
			2, 0, 1, 2, 0x0b, 0x0b, 0x0b}),
		"random alone": random,
		"load at random": cat(random, []byte{0x20, 3, 0xa7, 0x41}, sleb(0x3fffff), []byte{0x71, 0x28, 0, 0, 0x21,
			1}),
	} {
		list[name] = code
	}
	return list
}

// random changes local 3 by a multiplication and a shift.
var random = cat([]byte{0x20, 3, 0x20, 4, 0x7e, 0x22, 3, 0x42, 29, 0x88, 0x20, 3, 0x85, 0x21, 3})

func get(t rune, which int) []byte { return []byte{0x20, chained[t][which]} }
func set(t rune) []byte            { return []byte{0x21, chained[t][0]} }

// BenchmarkPrices measures the time per unit of fuel of each kind of code, relative to a plain loop of additions in the
// same run, and prints the most expensive. TGI_PRICES=all prints all.
func BenchmarkPrices(b *testing.B) {
	w := newWorld(b, true)
	w.slice = 1 << 40
	type price struct {
		name       string
		unit, each float64 // nanoseconds
	}
	measure := func(name string, code []byte) (p price) {
		m, err := w.load("", looped(values, code))
		if err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		defer m.Close(b.Context())
		fuel, f := m.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal), m.ExportedFunction("f")
		p = price{name, math.Inf(1), math.Inf(1)}
		rounds := uint64(4)
		for range 60 {
			fuel.Set(1 << 50)
			began := time.Now()
			if _, err := f.Call(b.Context(), rounds); err != nil {
				b.Fatalf("%s: %v", name, err)
			}
			took := float64(time.Since(began))
			if took < 40_000 && rounds < 1<<20 {
				rounds *= 2
				continue
			}
			p.unit = min(p.unit, took/float64(1<<50-int64(fuel.Get())))
			p.each = min(p.each, took/float64(rounds*repeated))
		}
		return p
	}
	plain := measure("i32.add", cat(get('i', 0), get('i', 1), []byte{0x6a}, set('i')))
	var prices []price
	codes := priced()
	for b.Loop() {
		prices = prices[:0]
		for name, code := range codes {
			prices = append(prices, measure(name, code))
		}
		again := measure("", cat(get('i', 0), get('i', 1), []byte{0x6a}, set('i')))
		plain.unit = min(plain.unit, again.unit)
	}
	slices.SortFunc(prices, func(a, b price) int { return cmp.Compare(b.unit, a.unit) })
	fmt.Printf("plain loop: %.3f ns a unit\n", plain.unit)
	for i, p := range prices {
		if i < 30 || os.Getenv("TGI_PRICES") == "all" {
			fmt.Printf("%6.2f times  %8.2f ns each  %s\n", p.unit/plain.unit, p.each, p.name)
		}
	}
	b.ReportMetric(prices[0].unit/plain.unit, "dearest/plain")
}
