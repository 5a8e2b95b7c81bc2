package generate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"tgi/runtime/llm"
)

// Image is a picture that a request brings.
type Image struct {
	// URL is where it is: a data: URI, or an address.
	URL string
	// Place is where the request names it, such as messages[0].content[1].
	Place string
}

// Images makes of pictures what a model reads. It is safe for concurrent use.
type Images interface {
	// Placeholder stands in a prompt for an image.
	Placeholder() string
	// Token is the token of a prompt that a vector takes the place of.
	Token() llm.Token
	// Most is how many images a request may have.
	Most() int
	// Open fetches an image and says what it becomes. take asks for room for bytes that are held until the request has
	// been submitted. Errors that are the client's to mend are *Invalid, without a field.
	Open(ctx context.Context, url string, take func(bytes int64) error) (Picture, error)
}

// Picture is an image that was fetched, but not yet turned into vectors.
type Picture struct {
	// Text takes the place of the placeholder. It has Tokens tokens that are Images.Token.
	Text   string
	Tokens int
	// Columns is how many of the tokens make a line of the image, if the model wants to know; else 0.
	Columns int
	// Mutual says that the tokens see each other, also those behind them.
	Mutual bool
	// Sum identifies the vectors: equal sums, equal vectors.
	Sum [sha256.Size]byte
	// Cached returns the vectors if they were computed before; nil if not.
	Cached func() []float32
	// Encode computes the vectors, one for each token. Between parts of the work it calls pause, whose error ends it.
	// Errors are as those of Open.
	Encode func(ctx context.Context, pause func() error) ([]float32, error)
}

// maxFetches bounds the images that are fetched at once; a client may have a quarter of them, so that one whose hosts
// are slow does not hold up others.
const maxFetches = 16

// WithImages lets requests have images. It is called before the first request.
func (s *Service) WithImages(i Images) *Service {
	s.images, s.encoders = i, &workers{free: 1}
	s.fetchers = &workers{free: maxFetches, each: maxFetches / 4}
	return s
}

// WithoutImages says which models could read the images that a request brings: seeing lists them.
func (s *Service) WithoutImages(seeing func() []string) *Service {
	s.seeing = seeing
	return s
}

// pictures are the images of a request.
type pictures struct {
	list   []Picture
	images []Image
}

// tokens counts the vectors of all.
func (p pictures) tokens() (n int) {
	for _, one := range p.list {
		n += one.Tokens
	}
	return n
}

// openImages fetches the images of d, and puts what they become in the place of what stands for them in its text.
func (s *Service) openImages(ctx context.Context, d *Draft) (p pictures, err error) {
	placeholder := ""
	if s.images != nil {
		placeholder = s.images.Placeholder()
	}
	if p.images = d.Conversation.images(); d.Conversation == nil && s.images != nil && d.Rules == TGI &&
		d.Tokens == nil {
		d.Inputs, p.images = markdownImages(d.Inputs, placeholder)
	}
	if err := s.allowImages(d, p.images); err != nil || len(p.images) == 0 {
		return p, err
	}
	take := room(ctx)
	texts := make([]string, len(p.images))
	for i, image := range p.images {
		picture, err := s.open(ctx, image.URL, take)
		if err != nil {
			return p, image.blame(err)
		}
		if picture.Mutual && d.PromptLogprobs {
			return p, invalid(d.echoField(),
				"log-probabilities of the prompt and images exclude each other for this model, which computes an image whole")
		}
		p.list, texts[i] = append(p.list, picture), picture.Text
	}
	places := 0
	d.Inputs, d.Data, places = replacePlaces(d.Inputs, d.Data, placeholder, texts)
	switch {
	case places == len(texts):
	case d.Conversation == nil:
		return p, invalid("inputs", "`inputs` must not hold `%s` beside images", placeholder)
	default:
		return p, invalid("messages", "the prompt that the template made has places for %d images. Given: %d", places,
			len(texts))
	}
	return p, nil
}

// open opens one image. Those that are fetched wait for their turn.
func (s *Service) open(ctx context.Context, url string, take func(int64) error) (Picture, error) {
	if scheme, _, _ := strings.Cut(url, ":"); strings.EqualFold(scheme, "data") {
		return s.images.Open(ctx, url, take)
	}
	client := s.client(ctx)
	if err := s.fetchers.enter(ctx, client); err != nil {
		return Picture{}, err
	}
	defer s.fetchers.leave(client)
	return s.images.Open(ctx, url, take)
}

// images returns those of all messages.
func (c *Conversation) images() (list []Image) {
	if c == nil {
		return nil
	}
	for _, m := range c.Messages {
		list = append(list, m.Images...)
	}
	return list
}

// allowImages refuses images where the model reads none, and more than it may have.
func (s *Service) allowImages(d *Draft, list []Image) error {
	if len(list) == 0 {
		return nil
	}
	at := list[0].Place
	switch {
	case s.images == nil && s.seeing != nil && len(s.seeing()) > 0:
		return invalid("messages", "`%s`: this model reads text only. These read images, too: %s", at,
			strings.Join(s.seeing(), ", "))
	case s.images == nil:
		return invalid("messages", "`%s`: this model reads text only, and so do all others here; SmolVLM, LLaVA, Qwen2.5-VL and Gemma 3 read images", at)
	case len(list) > s.images.Most():
		return invalid("messages", "a request may have %d images (images.per_request). Given: %d", s.images.Most(),
			len(list))
	case d.Truncate != nil:
		return invalid("truncate", "`truncate` and images exclude each other: it would cut them")
	}
	return nil
}

// blame says which image an error is about.
func (i Image) blame(err error) error {
	if bad, ok := err.(*Invalid); ok {
		return invalid("messages", "`%s`: %s", i.Place, bad.Msg)
	}
	return err
}

// replacePlaces puts texts in the place of the placeholders outside data, which it moves along, and counts the
// placeholders.
func replacePlaces(text string, data []Span, placeholder string, texts []string) (out string, moved []Span,
	places int) {
	var b strings.Builder
	at := 0
	// part copies text up to end, in which nothing is replaced, or placeholders are.
	part := func(end int, replace bool) {
		for replace {
			i := strings.Index(text[at:end], placeholder)
			if i < 0 {
				break
			}
			b.WriteString(text[at : at+i])
			if places < len(texts) {
				b.WriteString(texts[places])
			}
			places, at = places+1, at+i+len(placeholder)
		}
		b.WriteString(text[at:end])
		at = end
	}
	for _, span := range data {
		part(span.Start, true)
		start := b.Len()
		part(span.End, false)
		moved = append(moved, Span{Start: start, End: b.Len()})
	}
	part(len(text), true)
	return b.String(), moved, places
}

// Marks of an image in TGI's inputs: ![](url).
const (
	imageBegin = "![]("
	imageEnd   = ")"
)

// markdownImages puts the placeholder in the place of the images of a text, which it returns.
func markdownImages(text, placeholder string) (string, []Image) {
	var b strings.Builder
	var list []Image
	for rest := text; ; {
		before, after, found := strings.Cut(rest, imageBegin)
		url, next, closed := strings.Cut(after, imageEnd)
		if !found || !closed {
			b.WriteString(rest)
			break
		}
		b.WriteString(before)
		b.WriteString(placeholder)
		list, rest = append(list, Image{URL: url, Place: "inputs"}), next
	}
	if list == nil {
		return text, nil
	}
	return b.String(), list
}

// embed returns the vectors of the images, which take the place of the image tokens of the prompt.
func (s *Service) embed(ctx context.Context, p pictures, prompt []llm.Token) ([]llm.Embedding, error) {
	if len(p.list) == 0 {
		return nil, nil
	}
	runs, err := s.runs(p.list, prompt)
	if err != nil {
		return nil, err
	}
	all, err := s.vectors(ctx, p)
	if err != nil {
		return nil, err
	}
	var out []llm.Embedding
	for i, picture := range p.list {
		width, first := len(all[i])/picture.Tokens, 0
		for _, run := range runs[i] {
			last := first + run.N
			run.Vectors = all[i][first*width : last*width : last*width]
			run.Sum = sha256.Sum256(binary.LittleEndian.AppendUint64(picture.Sum[:len(picture.Sum):len(picture.Sum)],
				uint64(first)))
			run.Columns, run.Mutual = picture.Columns, picture.Mutual
			out, first = append(out, run), last
		}
	}
	return out, nil
}

// vectors returns those of each image. Clients whose images are to be computed take turns; others do not wait.
func (s *Service) vectors(ctx context.Context, p pictures) ([][]float32, error) {
	out, left := make([][]float32, len(p.list)), false
	for i, picture := range p.list {
		out[i] = picture.Cached()
		left = left || out[i] == nil
	}
	if !left {
		return out, nil
	}
	client := s.client(ctx)
	if err := s.encoders.enter(ctx, client); err != nil {
		return nil, err
	}
	entered := true
	defer func() {
		if entered {
			s.encoders.leave(client)
		}
	}()
	pause := func() error {
		err := s.encoders.pause(ctx, client)
		entered = err == nil
		return err
	}
	for i, picture := range p.list {
		if out[i] != nil {
			continue
		}
		var err error
		if out[i], err = picture.Encode(ctx, pause); err != nil {
			return nil, p.images[i].blame(err)
		}
	}
	return out, nil
}

// runs finds the image tokens of each picture in a prompt, which may be several runs for one.
func (s *Service) runs(list []Picture, prompt []llm.Token) ([][]llm.Embedding, error) {
	out := make([][]llm.Embedding, len(list))
	token, picture, left, found := s.images.Token(), -1, 0, 0
	for at, t := range prompt {
		if t != token {
			continue
		}
		found++
		if left == 0 && picture < len(list) {
			if picture++; picture < len(list) {
				left = list[picture].Tokens
			}
		}
		if picture == len(list) {
			continue // counted for the error
		}
		left--
		runs := out[picture]
		if n := len(runs); n > 0 && runs[n-1].End() == at {
			runs[n-1].N++
			continue
		}
		out[picture] = append(runs, llm.Embedding{At: at, N: 1})
	}
	for i, picture := range list {
		if n := len(out[i]); picture.Columns > 0 && n > 1 {
			return nil, fmt.Errorf("BUG: generate: image %d of %d lies in %d pieces in the prompt", i+1, len(list), n)
		}
	}
	if want := (pictures{list: list}).tokens(); found != want {
		return nil, invalid("messages", "the prompt has %d image tokens, its images have %d: text must not hold `%s`",
			found, want, s.images.Placeholder())
	}
	return out, nil
}
