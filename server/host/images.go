package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"tgi/models/hf"
	"tgi/models/vision"
	"tgi/models/vision/tower"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/media"
)

// images are the pictures of a model's requests. It implements generate.Images.
type images struct {
	processor vision.Processor
	encoder   *ort.Encoder
	fetcher   *media.Fetcher
	token     llm.Token // the processor's image token
	most      int       // images of a request
	tokens    int       // of an image, at most
	width     int       // of a vector
	tileRows  int       // vectors of a tile; 0 if pictures are not cut into tiles
	cache     *vectorCache
	count     func(cached bool) // counts images
}

// openImages opens the vision tower of a model that has one.
func (in *instance) openImages(cfg config.Config, d device, say func(string, ...any)) error {
	v := in.source.desc.Config.Vision
	if v != nil && in.built.VisionFile == "" {
		say("images are read on the CPU only: on %s this model reads text", d.setting())
	}
	if in.built.VisionFile == "" {
		return nil
	}
	p, err := vision.Open(in.source.files(), *v)
	if err != nil {
		return err
	}
	if b, ok := p.(vision.Bounded); ok {
		b.Bound(cfg.Images.Tokens)
	}
	token, ok := in.tokenizer.ID(p.ImageToken())
	if !ok {
		return fmt.Errorf("%s: there is no token %s, which stands for an image", hf.TokenizerFile, p.ImageToken())
	}
	if token != v.ImageToken {
		return fmt.Errorf("%s: the image token %s has the id %d, %s names %d", hf.TokenizerFile, p.ImageToken(), token,
			hf.ConfigFile, v.ImageToken)
	}
	threads := cfg.Images.Threads
	if threads == 0 {
		threads = max(ort.Threads()/2, 1)
	}
	encoder, err := ort.OpenEncoder(ort.EncoderOptions{ModelPath: in.built.VisionFile, Output: tower.FeaturesOutput,
		Width: in.built.Width, Threads: threads})
	if err != nil {
		return err
	}
	in.images = &images{
		processor: p, encoder: encoder, token: token, most: cfg.Images.PerRequest, tokens: cfg.Images.Tokens,
		width: in.built.Width, tileRows: in.built.TileRows, cache: newVectorCache(int64(cfg.Images.Cache)),
		fetcher: media.New(media.Options{Hosts: cfg.Images.Hosts, Private: cfg.Images.PrivateAddresses,
			Bytes: int64(cfg.Images.Bytes), Pixels: int64(cfg.Images.Pixels),
			Timeout: time.Duration(cfg.Images.Timeout)}),
	}
	return nil
}

// files returns the folder of the checkpoint.
func (s checkpoint) files() fs.FS {
	if s.fsys != nil {
		return s.fsys
	}
	return os.DirFS(s.name)
}

// imageError says of an error of a picture that it is the client's.
func imageError(err error) error {
	if bad := (*media.Error)(nil); errors.As(err, &bad) {
		return &generate.Invalid{Msg: bad.Msg}
	}
	return err
}

// Placeholder implements generate.Images.
func (i *images) Placeholder() string { return i.processor.Placeholder() }

// Token implements generate.Images.
func (i *images) Token() llm.Token { return i.token }

// Most implements generate.Images.
func (i *images) Most() int { return i.most }

// Open implements generate.Images. The picture is decoded when its turn to be encoded comes, so that requests that wait
// hold its file and not its pixels.
func (i *images) Open(ctx context.Context, url string, take func(int64) error) (generate.Picture, error) {
	data, err := i.fetcher.Fetch(ctx, url, take)
	if err != nil {
		return generate.Picture{}, imageError(err)
	}
	width, height, err := i.fetcher.Size(data)
	if err != nil {
		return generate.Picture{}, imageError(err)
	}
	plan, err := i.processor.Plan(width, height)
	if err != nil {
		return generate.Picture{}, &generate.Invalid{Msg: err.Error()}
	}
	if plan.Tokens > i.tokens {
		return generate.Picture{}, &generate.Invalid{Msg: fmt.Sprintf(
			"an image of %d by %d pixels takes %d tokens, more than %d (images.tokens)", width, height, plan.Tokens,
			i.tokens)}
	}
	sum := sha256.Sum256(data)
	return generate.Picture{Text: plan.Text, Tokens: plan.Tokens, Columns: plan.Columns, Mutual: plan.Mutual,
		Sum: sum,
		Cached: func() []float32 {
			v := i.cache.get(sum)
			if v != nil {
				i.count(true)
			}
			return v
		},
		Encode: func(ctx context.Context, pause func() error) ([]float32, error) {
			return i.encode(ctx, data, sum, plan.Tokens, pause)
		}}, nil
}

// encode returns the vectors of a picture, from the cache if another request computed them meanwhile.
func (i *images) encode(ctx context.Context, data []byte, sum [sha256.Size]byte, tokens int,
	pause func() error) ([]float32, error) {
	v := i.cache.get(sum)
	i.count(v != nil)
	if v != nil {
		return v, nil
	}
	picture, err := i.fetcher.Decode(ctx, data)
	if err != nil {
		return nil, imageError(err)
	}
	inputs, err := i.processor.Inputs(vision.Image(picture))
	if err != nil {
		return nil, &generate.Invalid{Msg: err.Error()}
	}
	if v, err = i.features(ctx, inputs, tokens, pause); err == nil && len(v) != tokens*i.width {
		err = fmt.Errorf("%w: BUG: a picture has %d numbers, want %d vectors of %d", llm.ErrBackend, len(v), tokens,
			i.width)
	}
	if err != nil {
		return nil, err
	}
	i.cache.put(sum, v)
	return v, nil
}

// features computes the vectors of a picture. Between parts of the work it calls pause.
func (i *images) features(ctx context.Context, inputs []vision.Input, tokens int,
	pause func() error) ([]float32, error) {
	if i.tileRows > 0 {
		return i.tiled(ctx, inputs, pause)
	}
	tensors := make([]ort.Tensor, len(inputs))
	for n, in := range inputs {
		tensors[n] = ort.Tensor(in)
	}
	out, err := i.encoder.Run(ctx, tensors, tokens)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
	}
	return out, pause()
}

// tiled runs the tower tile by tile, which bounds its memory and lets others in between, and picks the rows that make
// the picture.
func (i *images) tiled(ctx context.Context, inputs []vision.Input, pause func() error) ([]float32, error) {
	find := func(name string) int {
		return slices.IndexFunc(inputs, func(in vision.Input) bool { return in.Name == name })
	}
	at, rowsAt := find(tower.TilesInput), find(tower.RowsInput)
	if at < 0 || rowsAt < 0 || len(inputs[at].Shape) < 2 {
		return nil, fmt.Errorf("%w: BUG: a picture has the inputs %v", llm.ErrBackend, inputs)
	}
	tiles, rows := inputs[at], inputs[rowsAt].Ints
	count := int(tiles.Shape[0])
	size := len(tiles.Floats) / count
	shape := slices.Concat([]int64{1}, tiles.Shape[1:])
	var all []float32
	for t := range count {
		wanted := make([]int64, i.tileRows, i.tileRows+1)
		for r := range wanted {
			wanted[r] = int64(r)
		}
		if t == count-1 && slices.Max(rows) == int64(count*i.tileRows) {
			wanted = append(wanted, int64(i.tileRows)) // the row that ends each line of a picture
		}
		part, err := i.encoder.Run(ctx, []ort.Tensor{
			{Name: tower.TilesInput, Shape: shape, Floats: tiles.Floats[t*size:][:size]},
			{Name: tower.RowsInput, Shape: []int64{int64(len(wanted))}, Ints: wanted},
		}, len(wanted))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", llm.ErrBackend, err)
		}
		all = append(all, part...)
		if err := pause(); err != nil {
			return nil, err
		}
	}
	out := make([]float32, 0, len(rows)*i.width)
	for _, r := range rows {
		out = append(out, all[int(r)*i.width:][:i.width]...)
	}
	return out, nil
}

// Close frees the tower.
func (i *images) Close() {
	if i != nil {
		i.encoder.Close()
	}
}

// modelsWithImages lists the models that read images, as far as they were loaded once.
func (f *manager) modelsWithImages() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.seeing {
		list = append(list, string(id))
	}
	slices.Sort(list)
	return list
}
