package vision

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tgi/models/hf"
)

// llava is transformers' CLIPImageProcessor with LlavaProcessor, or LlavaNextImageProcessor with LlavaNextProcessor. A
// picture of the first becomes the square in its middle. One of the second becomes a square as a whole, and tiles of
// the resolution that fits best.
type llava struct {
	scaling
	filter    filter
	side      int // of a tile
	patches   int // in each direction of a tile
	rows      int // of a tile
	crop      bool
	pinpoints [][2]int // height and width; nil for the first kind
}

func newLLaVA(s settings, v hf.Vision) (*llava, error) {
	p := &llava{side: v.Side, patches: v.Patches(), rows: v.TileRows(), crop: s.Crop == nil || *s.Crop}
	var err error
	if p.scaling, err = s.scaling(clipMean, clipStd); err != nil {
		return nil, err
	}
	if p.filter, err = s.filter(bicubic); err != nil {
		return nil, err
	}
	if err := errors.Join(s.Size.edge("size", v.Side), s.CropSize.edge("crop_size", v.Side)); err != nil {
		return nil, err
	}
	if v.Kind == hf.LLaVA {
		if square := s.Size != nil && s.Size.Height > 0; !p.crop && !square {
			return nil, errors.New("do_center_crop: false needs a size with height and width")
		}
		p.crop = s.Size == nil || s.Size.Height == 0
		return p, nil
	}
	published := [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}
	theirs := v.Pinpoints // of the model, which takes pictures apart by them
	if p.pinpoints = s.Pinpoints; p.pinpoints == nil {
		p.pinpoints = published
	}
	if theirs == nil {
		theirs = published
	}
	if !slices.Equal(p.pinpoints, theirs) {
		return nil, fmt.Errorf("image_grid_pinpoints: %v, but %s has %v", p.pinpoints, hf.ConfigFile, theirs)
	}
	if len(p.pinpoints) == 0 || len(p.pinpoints) > maxPinpoints {
		return nil, fmt.Errorf("image_grid_pinpoints: want 1 to %d of them, got %d", maxPinpoints, len(p.pinpoints))
	}
	for _, size := range p.pinpoints {
		for _, n := range size {
			if n < p.side || n > maxEdge || n%p.side != 0 {
				return nil, fmt.Errorf("image_grid_pinpoints: %v are not multiples of image_size %d up to %d", size,
					p.side,
					maxEdge)
			}
		}
	}
	return p, nil
}

// Placeholder implements Processor.
func (*llava) Placeholder() string { return imageToken }

// ImageToken implements Processor.
func (*llava) ImageToken() string { return imageToken }

// Plan implements Processor.
func (p *llava) Plan(width, height int) (Plan, error) {
	n := p.rows
	if p.pinpoints != nil {
		grid := p.unpadded(width, height)
		n += grid.height * (grid.width + 1) // each line ends with a row of its own
	}
	var b strings.Builder
	repeat(&b, n)
	return Plan{Text: b.String(), Tokens: n}, nil
}

// best returns the resolution that keeps most of a picture, and of equals the one that wastes least.
func (p *llava) best(width, height int) (bestWidth, bestHeight int) {
	kept, wasted := 0, math.MaxInt
	for _, size := range p.pinpoints {
		h, w := size[0], size[1]
		scale := min(float64(w)/float64(width), float64(h)/float64(height))
		keeps := min(int(float64(width)*scale)*int(float64(height)*scale), width*height)
		wastes := w*h - keeps
		if keeps > kept || keeps == kept && wastes < wasted {
			kept, wasted, bestWidth, bestHeight = keeps, wastes, w, h
		}
	}
	return bestWidth, bestHeight
}

// unpadded returns the patches of the grid of tiles that the picture covers: the rest is padding.
func (p *llava) unpadded(width, height int) window {
	w, h := p.best(width, height)
	columns, lines := w/p.side*p.patches, h/p.side*p.patches
	round := func(x float64) int { return int(math.RoundToEven(x*1e7) / 1e7) }
	if float64(width)/float64(height) > float64(columns)/float64(lines) {
		cut := (lines - round(float64(height)*(float64(columns)/float64(width)))) / 2
		return window{0, cut, columns, lines - 2*cut}
	}
	cut := (columns - round(float64(width)*(float64(lines)/float64(height)))) / 2
	return window{cut, 0, columns - 2*cut, lines}
}

// Inputs implements Processor.
func (p *llava) Inputs(picture Image) ([]Input, error) {
	if err := picture.check(); err != nil {
		return nil, err
	}
	if p.pinpoints == nil {
		return p.inputs([]Image{p.square(picture)}, countUp(p.rows)), nil
	}
	tiles := append([]Image{picture.resize(p.filter, p.side, p.side, whole(p.side, p.side))}, p.tiles(picture)...)
	return p.inputs(tiles, p.order(picture)), nil
}

// square returns the middle of a picture whose shortest edge is a tile's, or all of it as a square.
func (p *llava) square(picture Image) Image {
	w, h := p.side, p.side
	if !p.crop {
		return picture.resize(p.filter, w, h, whole(w, h))
	}
	if picture.Width <= picture.Height {
		h = int(float64(p.side*picture.Height) / float64(picture.Width))
	} else {
		w = int(float64(p.side*picture.Width) / float64(picture.Height))
	}
	return picture.resize(p.filter, w, h, window{(w - p.side) / 2, (h - p.side) / 2, p.side, p.side})
}

// tiles resizes a picture to the resolution that fits best, pads it and cuts it.
func (p *llava) tiles(picture Image) (list []Image) {
	width, height := p.best(picture.Width, picture.Height)
	across, down := float64(width)/float64(picture.Width), float64(height)/float64(picture.Height)
	w, h := width, height
	if across < down {
		h = min(int(math.Ceil(float64(picture.Height)*across)), height)
	} else {
		w = min(int(math.Ceil(float64(picture.Width)*down)), width)
	}
	picture = picture.resize(p.filter, w, h, whole(w, h))
	left, top := (width-w)/2, (height-h)/2
	for y := 0; y < height; y += p.side {
		for x := 0; x < width; x += p.side {
			list = append(list, picture.crop(window{x - left, y - top, p.side, p.side}))
		}
	}
	return list
}

// order lists the rows of the tower's output that make a picture: those of the whole, then line by line those of the
// tiles that are no padding, each line with the row behind all tiles at its end.
func (p *llava) order(picture Image) []int64 {
	width, height := p.best(picture.Width, picture.Height)
	columns, grid := width/p.side, p.unpadded(picture.Width, picture.Height)
	newline := int64((1 + columns*height/p.side) * p.rows)
	list := slices.Grow(countUp(p.rows), grid.height*(grid.width+1))
	for y := grid.y; y < grid.y+grid.height; y++ {
		for x := grid.x; x < grid.x+grid.width; x++ {
			tile := 1 + y/p.patches*columns + x/p.patches
			list = append(list, int64(tile*p.rows+y%p.patches*p.patches+x%p.patches))
		}
		list = append(list, newline)
	}
	return list
}
