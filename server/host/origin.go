package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"tgi/models"
	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/generate"
)

// origin is what receipts say of the model.
func (s *loadedModel) origin(f *manager, guesses config.Speculation) generate.Origin {
	sum := sha256.Sum256(s.source.desc.TokenizerJSON)
	o := generate.Origin{Server: f.boot.version, Model: string(s.id), Weights: s.built.DataSHA256,
		Tokenizer: hex.EncodeToString(sum[:]), Format: string(s.built.Weights), Kernels: string(s.built.Device),
		Cache: string(s.built.Cache)}
	if guesses.Jump == config.JumpForce {
		o.Jump = config.JumpForce
	}
	if s.built.Device == models.CPU {
		o.Kernels = ort.Attention() + "/" + ort.Product()
	}
	if o.Weights == "" { // a graph that others made: its files are known where they were fetched
		if info, err := f.library.Describe(s.id); err == nil && info.Origin != nil && len(info.Origin.SHA256) > 0 {
			o.Weights = sumOfFiles(info.Origin.SHA256)
		}
	}
	return o
}

// sumOfFiles is one checksum of several files, by their names.
func sumOfFiles(sums map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(h, "%s  %s\n", sums[name], name)
	}
	return hex.EncodeToString(h.Sum(nil))
}
