package media

import (
	"encoding/binary"
	"image"
	"image/color"
)

// onScreen puts the first frame of a GIF on its screen. The rest is filled as Pillow fills it: with the transparent
// colour, or the first one, whatever the file names as its background.
func onScreen(frame *image.Paletted, data []byte) image.Image {
	palette, fill := firstPalette(data)
	screen := image.Rect(0, 0, int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:])))
	out := image.NewPaletted(screen, palette)
	for i := range out.Pix {
		out.Pix[i] = fill
	}
	for y := frame.Rect.Min.Y; y < frame.Rect.Max.Y; y++ {
		line := frame.Pix[frame.PixOffset(frame.Rect.Min.X, y):][:frame.Rect.Dx()]
		copy(out.Pix[out.PixOffset(frame.Rect.Min.X, y):], line)
	}
	return out
}

// firstPalette returns the colours of the first frame of a GIF that the decoder has accepted, and the index of its
// transparent one, or 0. The decoder makes that colour black.
func firstPalette(data []byte) (palette color.Palette, transparent byte) {
	const header, extension, control, descriptor = 13, 0x21, 0xF9, 0x2C
	palette, data = colourTable(data[header:], data[10])
	for len(data) >= 10 {
		if data[0] == descriptor {
			if local, _ := colourTable(data[10:], data[9]); local != nil {
				palette = local
			}
			break
		}
		if data[0] != extension {
			break
		}
		if data[1] == control && data[3]&1 != 0 {
			transparent = data[6]
		}
		for data = data[2:]; len(data) > 0 && data[0] != 0; {
			data = data[min(1+int(data[0]), len(data)):]
		}
		data = data[min(1, len(data)):]
	}
	return palette, transparent
}

// colourTable cuts a table of colours off, if the field of flags says that there is one.
func colourTable(data []byte, flags byte) (table color.Palette, rest []byte) {
	n := 3 << (1 + flags&7)
	if flags&0x80 == 0 || len(data) < n {
		return nil, data
	}
	for c := range n / 3 {
		table = append(table, color.RGBA{data[3*c], data[3*c+1], data[3*c+2], 255})
	}
	return table, data[n:]
}
