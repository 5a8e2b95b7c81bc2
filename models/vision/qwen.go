package vision

import (
	"fmt"
	"math"
	"strings"

	"tgi/models/hf"
)

// Names of the inputs of Qwen2.5-VL's tower beside pixel_values, which has a patch in each row, [n, 3*patch*patch]. The
// rows are in blocks of merge by merge patches, each of which makes one embedding, and the blocks line by line.
const (
	// PlacesInput [n, 2] is the line and the column of each patch.
	PlacesInput = "places"
	// WindowsInput [windows, size] lists the patches of each window, filled up with any; WindowMaskInput, of the same
	// shape, is 1 for those that are its own.
	WindowsInput    = "windows"
	WindowMaskInput = "window_mask"
	// WindowRowsInput [n] is where each patch is in the list of all windows.
	WindowRowsInput = "window_rows"
)

// Qwen's image token, and what stands for an image in a rendered prompt.
const (
	qwenBegin = "<|vision_start|>"
	qwenToken = "<|image_pad|>"
	qwenEnd   = "<|vision_end|>"
)

// maxPixels bounds the pixels that a picture may be resized to, and qwenAspect how much longer than its shortest edge a
// picture's longest may be, as transformers does.
const (
	maxPixels  = 1 << 24
	qwenAspect = 200
)

// qwen is transformers' Qwen2VLImageProcessor with Qwen2_5_VLProcessor: pictures keep their shape, and have a number of
// pixels between two bounds. The second frame that transformers gives a picture is the tower's concern.
type qwen struct {
	scaling
	filter      filter
	patch       int // pixels
	merge       int // patches of a block in each direction
	window      int // blocks of a window in each direction
	least, most int // pixels of a picture
}

func newQwen(s settings, v hf.Vision) (*qwen, error) {
	p := &qwen{patch: v.Patch, merge: v.Shuffle, window: v.Window, least: 56 * 56, most: 28 * 28 * 1280}
	var err error
	if p.scaling, err = s.scaling(clipMean, clipStd); err != nil {
		return nil, err
	}
	if p.filter, err = s.filter(bicubic); err != nil {
		return nil, err
	}
	if s.Size != nil {
		p.least, p.most = s.Size.Shortest, s.Size.Longest
	}
	if s.MinPixels != nil {
		p.least = *s.MinPixels
	}
	if s.MaxPixels != nil {
		p.most = *s.MaxPixels
	}
	if p.least < 1 || p.most < p.least || p.most > maxPixels {
		return nil, fmt.Errorf("size: want pixels from 1 to %d, shortest_edge (min_pixels) not above longest_edge "+
			"(max_pixels). Given: %d and %d", maxPixels, p.least, p.most)
	}
	if side := p.patch * p.merge; side*side > maxPixels {
		return nil, fmt.Errorf("patch_size: blocks of %d by %d pixels are larger than a picture may be", side, side)
	}
	return p, nil
}

// Bound implements Bounded.
func (p *qwen) Bound(tokens int) {
	side := p.patch * p.merge
	p.most = min(p.most, tokens*side*side)
	p.least = min(p.least, p.most)
}

// Placeholder implements Processor.
func (*qwen) Placeholder() string { return qwenBegin + qwenToken + qwenEnd }

// ImageToken implements Processor.
func (*qwen) ImageToken() string { return qwenToken }

// blocks returns how many blocks a picture has in each direction.
func (p *qwen) blocks(width, height int) (columns, lines int, err error) {
	if long, short := max(width, height), min(width, height); long > qwenAspect*short {
		return 0, 0, fmt.Errorf("an image of %d by %d pixels is too narrow: one edge may be %d times as long as the other",
			width, height, qwenAspect)
	}
	side := p.patch * p.merge
	w, h, edge := float64(width), float64(height), float64(side)
	columns, lines = int(math.RoundToEven(w/edge)), int(math.RoundToEven(h/edge))
	switch pixels := columns * lines * side * side; {
	case pixels > p.most:
		beta := math.Sqrt(h * w / float64(p.most))
		columns, lines = max(1, int(math.Floor(w/beta/edge))), max(1, int(math.Floor(h/beta/edge)))
	case pixels < p.least:
		beta := math.Sqrt(float64(p.least) / (h * w))
		columns, lines = int(math.Ceil(w*beta/edge)), int(math.Ceil(h*beta/edge))
	}
	return columns, lines, nil
}

// Plan implements Processor.
func (p *qwen) Plan(width, height int) (Plan, error) {
	columns, lines, err := p.blocks(width, height)
	if err != nil {
		return Plan{}, err
	}
	n := columns * lines
	return Plan{Text: qwenBegin + strings.Repeat(qwenToken, n) + qwenEnd, Tokens: n, Columns: columns}, nil
}

// Inputs implements Processor.
func (p *qwen) Inputs(picture Image) ([]Input, error) {
	if err := picture.check(); err != nil {
		return nil, err
	}
	columns, lines, err := p.blocks(picture.Width, picture.Height)
	if err != nil {
		return nil, err
	}
	side := p.patch * p.merge
	picture = picture.resize(p.filter, columns*side, lines*side, whole(columns*side, lines*side))
	n := int64(columns * lines * p.merge * p.merge)
	size := 3 * p.patch * p.patch
	floats, places := make([]float32, 0, int(n)*size), make([]int64, 0, 2*n)
	for block := range columns * lines {
		for i := range p.merge * p.merge {
			y := block/columns*p.merge + i/p.merge
			x := block%columns*p.merge + i%p.merge
			floats = p.appendTile(floats, picture.crop(window{x * p.patch, y * p.patch, p.patch, p.patch}))
			places = append(places, int64(y), int64(x))
		}
	}
	return append([]Input{
		{Name: "pixel_values", Shape: []int64{n, int64(size)}, Floats: floats},
		{Name: PlacesInput, Shape: []int64{n, 2}, Ints: places},
	}, p.windows(columns, lines)...), nil
}

// windows returns the inputs that group the patches of a picture into windows.
func (p *qwen) windows(columns, lines int) []Input {
	unit := p.merge * p.merge
	size := p.window * p.window * unit
	var list, mask []int64
	rows := make([]int64, columns*lines*unit)
	for top := 0; top < lines; top += p.window {
		for left := 0; left < columns; left += p.window {
			end := len(list) + size
			for y := top; y < min(top+p.window, lines); y++ {
				for x := left; x < min(left+p.window, columns); x++ {
					for i := range unit {
						patch := (y*columns+x)*unit + i
						rows[patch] = int64(len(list))
						list, mask = append(list, int64(patch)), append(mask, 1)
					}
				}
			}
			fill := make([]int64, end-len(list))
			list, mask = append(list, fill...), append(mask, fill...)
		}
	}
	shape := []int64{int64(len(list) / size), int64(size)}
	return []Input{
		{Name: WindowsInput, Shape: shape, Ints: list},
		{Name: WindowMaskInput, Shape: shape, Ints: mask},
		{Name: WindowRowsInput, Shape: []int64{int64(len(rows))}, Ints: rows},
	}
}
