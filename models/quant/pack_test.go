package quant

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"tgi/models/tensors"
)

// unpacked reads a packed matrix by its description: the codes of [n][k], with their offset, and the scales' bits.
func unpacked(f Format, packed []byte, n, k int) (codes [][]int, scales [][]uint16) {
	blocks := (k + f.Block - 1) / f.Block
	for row := range n {
		var c []int
		var s []uint16
		for b := range blocks {
			block := packed[(row/16*blocks+b)*16*(2+f.Block*f.Bits/8):]
			s = append(s, binary.LittleEndian.Uint16(block[row%16*2:]))
			for col := range f.Block {
				at := 32 + row%16*4 + col%4
				if f.Bits == 8 {
					c = append(c, int(int8(block[at+col/4*64]))+128)
				} else {
					c = append(c, int(block[at+col/8*64]>>(col%8/4*4)&15))
				}
			}
		}
		codes, scales = append(codes, c), append(scales, s)
	}
	return codes, scales
}

// TestPacker packs rows in pieces of all sizes.
func TestPacker(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := Format{Form: tensors.Form{Bits: []int{4, 8}[r.IntN(2)]}, Block: []int{32, 64, 128}[r.IntN(3)]}
		n, k := 1+r.IntN(70), 1+r.IntN(300)
		codes, scales := make([]byte, n*f.RowBytes(k)), make([]byte, 2*n*f.Blocks(k))
		for _, b := range [][]byte{codes, scales} {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		}
		var out bytes.Buffer
		p := f.Packer(&out, k)
		for at := 0; at < n; {
			rows := min(1+r.IntN(40), n-at)
			if err := p.Add(codes[at*f.RowBytes(k):(at+rows)*f.RowBytes(k)],
				scales[2*at*f.Blocks(k):2*(at+rows)*f.Blocks(k)]); err != nil {
				t.Fatal(err)
			}
			at += rows
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if int64(out.Len()) != f.PackedBytes(n, k) {
			t.Fatalf("%+v %dx%d: %d bytes, want %d", f, n, k, out.Len(), f.PackedBytes(n, k))
		}
		all := (n + 15) / 16 * 16
		gotCodes, gotScales := unpacked(f, out.Bytes(), all, k)
		for row := range all {
			for col, got := range gotCodes[row] {
				want := 1 << (f.Bits - 1)
				if row < n {
					want = int(codes[row*f.RowBytes(k)+col*f.Bits/8])
					if f.Bits == 4 {
						want = want >> (col % 2 * 4) & 15
					}
				}
				if got != want {
					t.Fatalf("%+v %dx%d: code %d of row %d is %d, want %d", f, n, k, col, row, got, want)
				}
			}
			for b, got := range gotScales[row] {
				want := uint16(0)
				if row < n {
					want = binary.LittleEndian.Uint16(scales[2*(row*f.Blocks(k)+b):])
				}
				if got != want {
					t.Fatalf("%+v %dx%d: scale %d of row %d is %#x, want %#x", f, n, k, b, row, got, want)
				}
			}
		}
	}
}

// TestTakeNearWeights: what the numbers of a table are rounded by is an error, where the weights themselves are given.
func TestTakeNearWeights(t *testing.T) {
	const k, scale = 64, 0.5
	numbers := []float32{-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0, 0.0796, 0.1609, 0.2461, 0.3379,
		0.4407, 0.5626, 0.7230, 1}
	f := Format{Form: tensors.Form{Bits: 4, Table: tensors.TableNF4}, Block: 32, RoundScale: tensors.RoundHalf}
	exact := make([]float32, 2*k)
	for i := range exact {
		exact[i] = numbers[i*7%16] * scale
	}
	codes, scales := make([]byte, 2*f.RowBytes(k)), make([]float32, 2*f.Blocks(k))
	take := func(exact []float32) float64 {
		e := f.Take(codes, scales, exact, 2, k, func(codes []int8, row, b int) (float32, float32) {
			for i := range codes {
				codes[i] = int8((row*k + b*f.Block + i) * 7 % 16)
			}
			return scale / 127., 0
		})
		return e.Relative()
	}
	got := take(exact)
	var noise, signal float64
	for i, w := range exact {
		d := float64(f.Table.Number(byte(i*7%16)))*float64(scales[0]) - float64(w)
		noise, signal = noise+d*d, signal+float64(w)*float64(w)
	}
	if want := math.Sqrt(noise / signal); want < 0.003 || math.Abs(got-want) > 1e-3*want {
		t.Errorf("the weights err by %g, want %g", got, want)
	}
	if got := take(nil); got > 1e-3 {
		t.Errorf("the scale alone errs by %g", got)
	}
}
