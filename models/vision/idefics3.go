package vision

import (
	"fmt"
	"math"
	"strings"

	"tgi/models/hf"
)

// idefics3 is transformers' Idefics3ImageProcessor with Idefics3Processor, and SmolVLM's, which are the same: the
// longest edge becomes longest, both edges multiples of a tile's, and the tiles are followed by the whole picture.
type idefics3 struct {
	scaling
	filter  filter
	side    int // of a tile
	longest int
	split   bool
	rows    int // of a tile
}

func newIdefics3(s settings, v hf.Vision) (*idefics3, error) {
	p := &idefics3{side: v.Side, longest: 4 * 364, split: s.Split == nil || *s.Split, rows: v.TileRows()}
	var err error
	if p.scaling, err = s.scaling(siglipMean, siglipMean); err != nil {
		return nil, err
	}
	if p.filter, err = s.filter(lanczos); err != nil {
		return nil, err
	}
	if s.Size != nil {
		p.longest = s.Size.Longest
	}
	if p.longest < 1 || p.longest > maxEdge {
		return nil, fmt.Errorf("size: want a longest_edge from 1 to %d", maxEdge)
	}
	return p, s.TileSize.edge("max_image_size", v.Side)
}

// Placeholder implements Processor.
func (*idefics3) Placeholder() string { return imageToken }

// ImageToken implements Processor.
func (*idefics3) ImageToken() string { return imageToken }

// first returns the size after the first resize: the longest edge is longest, the other one is even.
func (p *idefics3) first(width, height int) (int, int) {
	ratio := float64(width) / float64(height)
	even := func(n int) int { return max(n+n%2, 1) }
	if width >= height {
		return p.longest, even(int(float64(p.longest) / ratio))
	}
	return even(int(float64(p.longest) * ratio)), p.longest
}

// second returns the size after the second resize: multiples of a tile's side.
func (p *idefics3) second(width, height int) (int, int) {
	ratio := float64(width) / float64(height)
	up := func(n int) int { return int(math.Ceil(float64(n)/float64(p.side))) * p.side }
	if width >= height {
		width = up(width)
		return width, up(int(float64(width) / ratio))
	}
	height = up(height)
	return up(int(float64(height) * ratio)), height
}

// grid returns the tiles of a picture, 0 if it is one tile as a whole.
func (p *idefics3) grid(width, height int) (columns, rows int, err error) {
	if !p.split {
		return 0, 0, nil
	}
	w, h := p.second(p.first(width, height))
	columns, rows = w/p.side, h/p.side
	if columns == 0 || rows == 0 {
		return 0, 0,
			fmt.Errorf("an image of %d by %d pixels is too narrow: less than one pixel is left when its longest "+
				"edge is resized", width, height)
	}
	if columns == 1 && rows == 1 {
		return 0, 0, nil
	}
	return columns, rows, nil
}

// Plan implements Processor.
func (p *idefics3) Plan(width, height int) (Plan, error) {
	columns, rows, err := p.grid(width, height)
	if err != nil {
		return Plan{}, err
	}
	var b strings.Builder
	const fake = "<fake_token_around_image>"
	for r := range rows {
		for c := range columns {
			fmt.Fprintf(&b, "%s<row_%d_col_%d>", fake, r+1, c+1)
			repeat(&b, p.rows)
		}
		b.WriteString("\n")
	}
	if rows > 0 {
		b.WriteString("\n")
	}
	b.WriteString(fake + "<global-img>")
	repeat(&b, p.rows)
	b.WriteString(fake)
	return Plan{Text: b.String(), Tokens: (rows*columns + 1) * p.rows}, nil
}

// Inputs implements Processor.
func (p *idefics3) Inputs(picture Image) ([]Input, error) {
	if err := picture.check(); err != nil {
		return nil, err
	}
	columns, rows, err := p.grid(picture.Width, picture.Height)
	if err != nil {
		return nil, err
	}
	w, h := p.first(picture.Width, picture.Height)
	picture = picture.resize(p.filter, w, h, whole(w, h))
	var tiles []Image
	if p.split {
		w, h = p.second(w, h)
		picture = picture.resize(p.filter, w, h, whole(w, h))
		for r := range rows {
			for c := range columns {
				tiles = append(tiles, picture.crop(window{c * p.side, r * p.side, p.side, p.side}))
			}
		}
	}
	tiles = append(tiles, picture.resize(p.filter, p.side, p.side, whole(p.side, p.side)))
	return p.inputs(tiles, countUp(len(tiles)*p.rows)), nil
}
