package quant

import (
	"fmt"
	"io"

	"tgi/models/tensors"
)

// GroupRows is the number of rows that lie together in a packed matrix.
const GroupRows = 16

// PackedBytes returns the bytes of a packed matrix of n rows of k weights.
func (f Format) PackedBytes(n, k int) int64 {
	groups := (n + GroupRows - 1) / GroupRows
	return int64(groups) * int64(f.groupBytes(k))
}

// groupBytes is the bytes of a group.
func (f Format) groupBytes(k int) int {
	switch {
	case f.Bits == tensors.SixBits:
		return k / factored * sixBytes
	case f.Factors:
		return k/factored*factoredNumbers + k/f.Block*GroupRows*(2+f.Block*f.Bits/8)
	}
	return f.Blocks(k) * f.packedBlock()
}

// packedBlock is the bytes of one block of all rows of a group.
func (f Format) packedBlock() int { return GroupRows * (f.numbers() + f.Block*f.Bits/8) }

// numbers is the bytes of a block's scale and offset, without Factors.
func (f Format) numbers() int {
	if f.Offsets {
		return 4
	}
	return 2
}

// A Packer writes a matrix in the form that the operators tgi:MatMulQ and tgi:GatherQ read, which
// runtime/ort/product.h describes: GroupRows rows at a time, block by block, their scales as 16-bit
// floats and then their codes, of four columns of each row after the other. A last group that is
// not full is filled with zeros.
type Packer struct {
	w                      io.Writer
	f                      Format
	k                      int
	codes, scales, factors []byte // of rows that wait for the others of their group
	out                    []byte
}

// Packer returns one that writes to w rows of k weights.
func (f Format) Packer(w io.Writer, k int) *Packer { return &Packer{w: w, f: f, k: k} }

// Add writes rows: their codes as Rows made them, and for each block its scale as a 16-bit float, followed by its
// offset if there are offsets. Both are copied.
func (p *Packer) Add(codes, scales []byte) error { return p.AddFactored(codes, scales, nil) }

// AddFactored is Add for rows with tensors.SixBits or Factors: what TakeFactors or TakeFactored made of them.
func (p *Packer) AddFactored(codes, scales, factors []byte) error {
	perRow, perScales := p.f.RowBytes(p.k), p.f.scaleBytes(p.k)
	if rows := len(codes) / perRow; len(codes) != rows*perRow || len(scales) != rows*perScales {
		panic(fmt.Sprintf("BUG: quant: %d bytes of codes, %d of scales for rows of %d", len(codes), len(scales), p.k))
	}
	p.codes, p.scales = append(p.codes, codes...), append(p.scales, scales...)
	p.factors = append(p.factors, factors...)
	rows := len(p.codes) / perRow
	return p.write(rows - rows%GroupRows)
}

// Close writes the last group, if it is not full.
func (p *Packer) Close() error {
	rows := len(p.codes) / p.f.RowBytes(p.k)
	if rows == 0 {
		return nil
	}
	zero := map[int]byte{4: 0x88, tensors.SixBits: 32, 8: 0x80}[p.f.Bits]
	for len(p.codes) < GroupRows*p.f.RowBytes(p.k) {
		p.codes = append(p.codes, zero)
	}
	p.scales = append(p.scales, make([]byte, p.f.scaleBytes(p.k)*(GroupRows-rows))...)
	p.factors = append(p.factors, make([]byte, p.f.factorBytes(p.k)*(GroupRows-rows))...)
	return p.write(GroupRows)
}

// write packs and removes the first rows, which are whole groups.
func (p *Packer) write(rows int) error {
	groups, size := rows/GroupRows, p.f.groupBytes(p.k)
	if cap(p.out) < groups*size {
		p.out = make([]byte, groups*size)
	}
	p.out = p.out[:groups*size]
	perRow, perScales, perFactors := p.f.RowBytes(p.k), p.f.scaleBytes(p.k), p.f.factorBytes(p.k)
	parallel(groups, func(g int) {
		out, at := p.out[g*size:(g+1)*size], g*GroupRows
		codes, scales, factors := p.codes[at*perRow:], p.scales[at*perScales:], p.factors[at*perFactors:]
		switch {
		case p.f.Bits == tensors.SixBits:
			packSixes(out, codes, scales, factors, p.k)
		case p.f.Factors:
			p.f.packFactored(out, codes, scales, factors, p.k)
		default:
			p.f.packGroup(out, codes, scales, p.k)
		}
	})
	p.codes = append(p.codes[:0], p.codes[rows*perRow:]...)
	p.scales = append(p.scales[:0], p.scales[rows*perScales:]...)
	p.factors = append(p.factors[:0], p.factors[rows*perFactors:]...)
	_, err := p.w.Write(p.out)
	return err
}

// packGroup packs one group, whose rows begin codes and scales.
func (f Format) packGroup(out, codes, scales []byte, k int) {
	perRow, blocks, perBlock := f.RowBytes(k), f.Blocks(k), f.Block*f.Bits/8
	for b := range blocks {
		block := out[b*f.packedBlock() : (b+1)*f.packedBlock()]
		for row := range GroupRows {
			n := f.numbers()
			own := scales[n*(row*blocks+b):][:n]
			for i := 0; i < n; i += 2 { // scales first, then offsets
				copy(block[GroupRows*i+2*row:][:2], own[i:])
			}
			f.packCodes(block[n*GroupRows+4*row:], codes[row*perRow+b*perBlock:row*perRow+(b+1)*perBlock])
		}
	}
}

// packCodes puts the codes of one row and block where they are among those of the group's other rows.
func (f Format) packCodes(packed, in []byte) {
	for at := 0; at < len(in); at += 4 {
		c, to := in[at:at+4], packed[at/4*4*GroupRows:]
		if f.Bits == 8 {
			to[0], to[1], to[2], to[3] = c[0]^0x80, c[1]^0x80, c[2]^0x80, c[3]^0x80
			continue
		}
		to[0], to[1] = c[0]&15|c[2]<<4, c[0]>>4|c[2]&0xf0
		to[2], to[3] = c[1]&15|c[3]<<4, c[1]>>4|c[3]&0xf0
	}
}
