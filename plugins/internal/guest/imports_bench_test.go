package guest_test

import (
	"strconv"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
)

// manyWords is a vocabulary that is too large for the processor's caches.
type manyWords [][]byte

func (w manyWords) Size() int                  { return len(w) }
func (w manyWords) Bytes(id uint32) []byte     { return w[id] }
func (w manyWords) Flags(uint32) uint32        { return 0 }
func (w manyWords) Encode(string) []uint32     { return nil }
func (w manyWords) EncodeData(string) []uint32 { return nil }

// BenchmarkImports measures the time per unit of fuel in calls of the imports: it should be 0.2 ns, at most 0.8. It
// takes the minimum of several runs, in thread time, so that other load has little effect.
func BenchmarkImports(b *testing.B) {
	const ids = 1 << 17
	var words manyWords
	for i := range ids {
		words = append(words, []byte("token "+strconv.Itoa(i)))
	}
	drop := guesttest.Code{0x1a}
	// Parameter 1 counts the rounds; a number that depends on it is a token's id.
	id := guesttest.Join(guesttest.Arg(1), guesttest.Const(2654435761), guesttest.Code{0x6c}, guesttest.Const(9),
		guesttest.Code{0x76}, guesttest.Const(ids-1), guesttest.Code{0x71})
	for name, args := range map[string]guesttest.Code{
		"rand_u64": nil, "vocab_size": nil, "token_flags": id, "token_bytes": guesttest.Join(id,
			guesttest.Const(guesttest.Free), guesttest.Const(64)),
	} {
		b.Run(name, func(b *testing.B) {
			round := guesttest.Join(args, guesttest.Call(0), drop)
			loop := guesttest.Join(guesttest.Const(100_000), guesttest.Code{0x21, 1, 0x03, 0x40}, round,
				guesttest.Code{0x20, 1, 0x41, 1, 0x6b, 0x22, 1, 0x0d, 0, 0x0b}, guesttest.Long(0))
			fake := guesttest.Fake{Imports: []string{name}, Code: map[string]guesttest.Code{"tgi_validate": loop}}
			m, err := guesttest.Engine(b).Compile(b.Context(), fake.Wasm(), sandbox.ModuleConfig{Name: name,
				Host: guest.Imports(words)})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			in, err := m.New(sandbox.Lease{})
			if err != nil {
				b.Fatal(err)
			}
			defer in.Close()
			least := 0.0
			for b.Loop() {
				use, err := in.Run(in.Func("tgi_validate"), make([]uint64, 2), sandbox.Budget{Fuel: 1 << 40})
				if err != nil {
					b.Fatal(err)
				}
				if unit := float64(use.Ran) / float64(use.Fuel); least == 0 || unit < least {
					least = unit
				}
			}
			b.ReportMetric(least, "ns/unit")
		})
	}
}
