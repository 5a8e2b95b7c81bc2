package quant

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
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
		f := Format{Bits: []int{4, 8}[r.IntN(2)], Block: []int{32, 64, 128}[r.IntN(3)]}
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
