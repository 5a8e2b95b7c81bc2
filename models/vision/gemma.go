package vision

import (
	"errors"
	"fmt"
	"strings"

	"tgi/models/hf"
)

// Tokens of Gemma 3: what stands around an image, and for it. The first is the placeholder of a prompt.
const (
	gemmaBegin = "<start_of_image>"
	gemmaToken = "<image_soft_token>"
	gemmaEnd   = "<end_of_image>"
)

// gemma3 is transformers' Gemma3ImageProcessor with Gemma3Processor: a picture becomes one square, whatever its shape.
// The processor never cuts it into crops ("pan and scan") unless its caller asks for them.
type gemma3 struct {
	scaling
	filter filter
	side   int
	rows   int
}

// newGemma3 checks the settings. The image processor's own size is 224.
func newGemma3(s settings, v hf.Vision) (*gemma3, error) {
	const defaultSide = 224
	p := &gemma3{side: v.Side, rows: v.TileRows()}
	var err error
	if p.scaling, err = s.scaling(siglipMean, siglipMean); err != nil {
		return nil, err
	}
	if p.filter, err = s.filter(bilinear); err != nil {
		return nil, err
	}
	if s.PanAndScan != nil && *s.PanAndScan {
		return nil, errors.New("do_pan_and_scan: true is not supported: pictures are not cut into crops")
	}
	if s.Size == nil {
		s.Size = &imageSize{Height: defaultSide, Width: defaultSide}
	}
	if s.Size.Height == 0 || s.Size.Width == 0 {
		return nil, fmt.Errorf("size: want height and width, both %d", v.Side)
	}
	return p, s.Size.edge("size", v.Side)
}

// Placeholder implements Processor.
func (*gemma3) Placeholder() string { return gemmaBegin }

// ImageToken implements Processor.
func (*gemma3) ImageToken() string { return gemmaToken }

// Plan implements Processor.
func (p *gemma3) Plan(int, int) (Plan, error) {
	text := "\n\n" + gemmaBegin + strings.Repeat(gemmaToken, p.rows) + gemmaEnd + "\n\n"
	return Plan{Text: text, Tokens: p.rows, Mutual: true}, nil
}

// Inputs implements Processor.
func (p *gemma3) Inputs(picture Image) ([]Input, error) {
	if err := picture.check(); err != nil {
		return nil, err
	}
	tile := picture.resize(p.filter, p.side, p.side, whole(p.side, p.side))
	return p.inputs([]Image{tile}, countUp(p.rows)), nil
}
