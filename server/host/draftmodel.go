package host

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"

	"tgi/models"
	"tgi/models/library"
	"tgi/runtime/draft"
	"tgi/runtime/engine"
	"tgi/runtime/ort"
	"tgi/runtime/token"
	"tgi/server/config"
)

// draftCache is for how many tokens a draft model has a cache at most, beside four sequences of the greatest length:
// sequences that find no room there get no guesses.
const draftCache = 32 << 10

// draftModel is a model that guesses for another.
type draftModel struct {
	paged *ort.Paged
	model *draft.Model
	free  func() // lets others delete its files
}

// draftSource is where a draft model is and how it is opened.
type draftSource struct {
	cfg  config.Config // its own
	id   library.ID
	hold func() (free func(), err error)
}

// draftSource returns what model.speculation.model of cfg names, nil for nothing.
func (f *manager) draftSource(cfg config.Config) (*draftSource, error) {
	id := library.ID(cfg.Model.Speculation.Model)
	if id == "" || cfg.Model.Speculation.Tokens == 0 {
		return nil, nil
	}
	if f.device.onGPU() {
		return nil, guesserError(cfg, config.Wrong(fmt.Errorf("there are no guesses on GPUs, given %q", id)))
	}
	own, err := f.settingsFor(id)
	if err != nil {
		return nil, guesserError(cfg, err)
	}
	return &draftSource{own, id, func() (func(), error) { return f.library.Hold(id) }}, nil
}

// guesserError says of an error of the second model which setting names that.
func guesserError(cfg config.Config, err error) error {
	if place := cfg.Place("speculation.model"); place != "" {
		return fmt.Errorf("%s: model.speculation.model: %w", place, err)
	}
	return fmt.Errorf("model.speculation.model: %w", err)
}

// planDraft returns the memory of the draft model of cfg, 0 without one.
func (f *manager) planDraft(cfg config.Config) (int64, error) {
	src, err := f.draftSource(cfg)
	if src == nil || err != nil {
		return 0, err
	}
	info, err := f.library.Describe(src.id)
	if err != nil {
		return 0, guesserError(cfg, err)
	}
	if info.Task != library.Generate || info.Format == library.ONNX {
		return 0, guesserError(cfg, fmt.Errorf("%s cannot guess: it has to be a model that generates, no ready graph",
			src.id))
	}
	w, err := weightsFor(src.cfg, f.device.Processor, float64(info.Parameters), info.DTypes)
	if err != nil {
		return 0, err
	}
	bytes := info.Bytes
	if c, ok := info.Choice(f.device.Device, w); ok {
		bytes = c.Bytes
	}
	layout := models.LayoutOf(f.device.Device, w, info.HeadDim)
	blocks := draftBlocks(cfg.Limits, info.Context, layout.BlockSize)
	return bytes + int64(blocks)*int64(layout.BlockSize)*info.CacheBytes(layout), nil
}

// draftBlocks is how many blocks the cache of a draft model has.
func draftBlocks(l config.Limits, positions, blockSize int) int {
	rows, longest := shapeOfCache(l, positions, blockSize)
	return min(rows*longest, max(blocksFor(draftCache, blockSize), 4*longest))
}

// openDraft opens the model that guesses for in. Its errors are for guesserError.
func (in *instance) openDraft(ctx context.Context, src *draftSource, limits config.Limits, d device,
	say func(string, ...any)) (_ *draftModel, err error) {
	free, err := src.hold()
	if err != nil {
		return nil, err
	}
	m := &draftModel{free: free}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	files, err := describe(src.cfg.Model.Path)
	if err != nil {
		return nil, err
	}
	own := &instance{source: files}
	if err := own.loadTokenizer(files.desc); err != nil {
		return nil, err
	}
	if err := sameTokens(in.tokenizer, own.tokenizer, string(src.id)); err != nil {
		return nil, err
	}
	w, err := weightsFor(src.cfg, d.Processor, EstimateParams(files.desc.Config), files.desc.Coded)
	if err != nil {
		return nil, err
	}
	built, err := files.build(ctx, d, w, own.tokenizer, say)
	if err != nil {
		return nil, err
	}
	opt := backendOptions(built)
	opt.Blocks, opt.Threads = draftBlocks(limits, built.MaxPositions, opt.BlockSize()), src.cfg.Runtime.Threads
	opt.Spin = spinOf(src.cfg.Runtime.Spin)
	if m.paged, err = openPaged(opt); err != nil {
		return nil, err
	}
	longest := m.paged.MaxLen()
	if n := m.paged.OriginalLen(); n > 0 { // beyond it all keys are others
		longest = min(longest, n)
	}
	m.model, err = draft.NewModel(m.paged, draft.Shape{Vocab: m.paged.Vocab(), BlockSize: m.paged.BlockSize(),
		Blocks: m.paged.Blocks(), MaxLen: longest})
	if err == nil {
		say("%s in %s guesses tokens, with a cache for %d", src.id, w, cacheTokens(m.paged))
	}
	return m, err
}

// draftWatch logs why a draft model is given up.
type draftWatch struct {
	engine.Observer
	log *slog.Logger
}

// Step implements engine.Observer.
func (w draftWatch) Step(r engine.Report) {
	if r.DraftErr != nil {
		w.log.Error("the draft model guesses no more until the model is loaded again", "error", r.DraftErr)
	}
	if w.Observer != nil {
		w.Observer.Step(r)
	}
}

// guesser returns what the engine asks; nil without a model.
func (m *draftModel) guesser() *draft.Model {
	if m == nil {
		return nil
	}
	return m.model
}

// Close frees the model.
func (m *draftModel) Close() {
	if m == nil {
		return
	}
	if m.paged != nil {
		m.paged.Close()
	}
	m.free()
}

// sameTokens refuses a tokenizer whose tokens are not those of own.
func sameTokens(own, other *token.Tokenizer, name string) error {
	if tokensHash(own) == tokensHash(other) {
		return nil
	}
	if a, b := own.VocabSize(), other.VocabSize(); a != b {
		return config.Wrong(fmt.Errorf("the tokenizer of %s is another: it has %d tokens, this model's has %d", name, b,
			a))
	}
	for id := range uint32(own.VocabSize()) {
		if a, b := tokenText(own, id), tokenText(other, id); a != b {
			return config.Wrong(fmt.Errorf("the tokenizer of %s is another: token %d is %q there, and %q in this model",
				name, id, b, a))
		}
	}
	return fmt.Errorf("BUG: host: equal tokens of %s have unequal hashes", name)
}

// tokensHash identifies the tokens of a vocabulary and which of them are special.
func tokensHash(t *token.Tokenizer) [sha256.Size]byte {
	h := sha256.New()
	var n [4]byte
	for id := range uint32(t.VocabSize()) {
		text := tokenText(t, id)
		binary.LittleEndian.PutUint32(n[:], uint32(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// tokenText is what a token stands for, with a mark if it is special.
func tokenText(t *token.Tokenizer, id uint32) string {
	b, _ := t.Bytes(id)
	if t.Special(id) {
		text, _ := t.Token(id)
		return "special " + text
	}
	return string(b)
}
