// Package vision prepares pictures for the vision towers of models, as the image processors of Python's transformers
// do.
package vision

// Image is a decoded picture.
type Image struct {
	Width, Height int
	// Pix is RGB, 8 bits each, row by row without padding: 3*Width*Height bytes.
	Pix []byte
}

// Plan is what an image of some size becomes.
type Plan struct {
	// Text replaces the image's placeholder in the prompt.
	Text string
	// Tokens counts the image tokens in Text: one for each embedding, in order.
	Tokens int
	// Columns is how many of the tokens make a line of the picture, for models to which a token's place in the picture
	// is its position; 0 for others.
	Columns int
	// Mutual says that the tokens of the picture see each other, also those behind them.
	Mutual bool
}

// Input is one input of a vision tower. One of Floats and Ints is set.
type Input struct {
	Name   string
	Shape  []int64
	Floats []float32
	Ints   []int64
}

// Bounded is a Processor of a family that makes pictures of any size, so that one may have very many tokens.
type Bounded interface {
	// Bound makes larger pictures smaller, so that none has more tokens, but for those that are enlarged because they
	// are small or narrow. It is called before the first Plan.
	Bound(tokens int)
}

// Processor prepares images for a family's tower as transformers' processor does. It is safe for concurrent use.
type Processor interface {
	// Placeholder is what stands in a rendered prompt for each image, ImageToken the token that embeddings replace.
	Placeholder() string
	ImageToken() string
	// Plan returns what an image of a size becomes; an error that says why not (text for the client).
	Plan(width, height int) (Plan, error)
	// Inputs returns the tower's inputs for one image.
	Inputs(Image) ([]Input, error)
}
