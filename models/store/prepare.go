package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/quant"
)

// Options of Prepare.
type Options struct {
	// Device is where the model will run; empty is the CPU.
	Device models.Device
	// Weights is the format to build.
	Weights models.Weights
	// Block is that of decoder.Options: 0 for the usual one.
	Block int
	// Dir is the cache folder; "" means that of Dir().
	Dir string
	// Progress, if set, receives the progress of a conversion: the parameters done and in
	// total.
	Progress func(done, total int64)
	// Converted, if set, is called once after a conversion, and not if the cache had the
	// model.
	Converted func(Conversion)
	// Damaged, if set, receives the error of a damaged cache entry before the model is
	// converted again.
	Damaged func(error)
}

// Conversion describes what a conversion did.
type Conversion struct {
	Built models.Built
	// Error is that of the quantised weights; its Count is 0 if they are not quantised.
	Error quant.WeightError
	Took  time.Duration
}

// Dir returns the default cache: $TGI_CACHE/models, or tgi/models in the
// user's cache folder.
func Dir() (string, error) {
	if dir := os.Getenv("TGI_CACHE"); dir != "" {
		return filepath.Join(dir, "models"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set TGI_CACHE", err)
	}
	return filepath.Join(dir, "tgi", "models"), nil
}

// Prepare returns the built model of a Hugging Face folder or of a file in the GGUF format. It converts the model if
// the cache has no complete entry. Errors about the checkpoint name file, key or tensor, and reason. A conversion
// ends when ctx is done.
func Prepare(ctx context.Context, at string, opt Options) (models.Built, error) {
	ck, err := hf.Open(at)
	if err != nil {
		return models.Built{}, err
	}
	defer ck.Close()
	dir := at
	if st, err := os.Stat(at); err == nil && !st.IsDir() {
		dir = filepath.Dir(at)
	}
	return prepare(ctx, ck, hf.FS(at), dir, opt)
}

// PrepareFS is Prepare for a file system, e.g. an embedded folder; name is the
// model's.
func PrepareFS(ctx context.Context, fsys fs.FS, name string, opt Options) (models.Built, error) {
	ck, err := hf.OpenFS(fsys, name)
	if err != nil {
		return models.Built{}, err
	}
	defer ck.Close()
	return prepare(ctx, ck, fsys, "", opt)
}

// prepare finds or builds. dir is where fsys lies on disk, "" when it does not.
func prepare(ctx context.Context, ck *hf.Checkpoint, fsys fs.FS, dir string, opt Options) (models.Built, error) {
	opt.Device = cmp.Or(opt.Device, models.CPU)
	if err := opt.Device.Check(opt.Weights); err != nil {
		return models.Built{}, err
	}
	root := opt.Dir
	if root == "" {
		var err error
		if root, err = Dir(); err != nil {
			return models.Built{}, err
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return models.Built{}, err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	removeAbandoned(root)
	before, err := stampsOf(fsys, ck)
	if err != nil {
		return models.Built{}, err
	}
	key, err := contentKey(ctx, root, ck, fsys, dir, opt)
	if err != nil {
		return models.Built{}, err
	}
	at := filepath.Join(root, entryName(ck.Name, opt, key))
	built, err := load(ctx, at, key, openChecksumCache(filepath.Join(root, hashesFile)))
	if err == nil {
		built.Name = ck.Name // folders with equal contents share an entry
		built.Layout = models.LayoutOf(opt.Device, opt.Weights, built.HeadDim)
		return built, nil
	}
	if !mustBuild(err) {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	if opt.Damaged != nil && errors.Is(err, errDamaged) {
		opt.Damaged(err)
	}
	// What is built belongs to the key only if the files stay what they are until it is.
	unchanged := func() error {
		after, err := stampsOf(fsys, ck)
		if err == nil && !maps.Equal(before, after) {
			err = fmt.Errorf("its files were changed meanwhile")
		}
		return err
	}
	return convert(ctx, ck, root, at, key, unchanged, opt)
}

// entryName is the folder of a model in the cache. The key's first 16 digits
// tell models apart; the manifest holds all of it.
func entryName(name string, opt Options, key string) string {
	plain := []byte(name)
	for i, c := range plain {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			plain[i] = '_'
		}
	}
	format := string(opt.Weights)
	if opt.Block != 0 {
		format = fmt.Sprintf("%s-%d", format, opt.Block)
	}
	if opt.Device != models.CPU {
		format = fmt.Sprintf("%s-%s", opt.Device, format)
	}
	return fmt.Sprintf("m-%.64s-%s-%s", plain, format, key[:16])
}
