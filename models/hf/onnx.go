package hf

import (
	"io/fs"

	"tgi/models/ready"
	"tgi/models/safetensors"
)

// describeReady reads the folder's graphs, if it has such and no weights. Architectures are those of the graphs: they
// need not be among those that this package knows.
func (c *Checkpoint) describeReady(fsys fs.FS) error {
	for _, name := range []string{safetensors.SingleFile, safetensors.IndexFile} {
		if _, err := fs.Stat(fsys, name); err == nil {
			return nil
		}
	}
	f, err := ready.Open(fsys)
	if err != nil || f == nil {
		return err
	}
	g, err := f.Read(f.Variants[0])
	if err != nil {
		return err
	}
	c.Ready, c.Graph = f, g
	c.Config = Config{Architecture: f.Architecture, Layers: g.Layers(), Heads: max(f.Heads, g.KVHeads),
		KVHeads: g.KVHeads, HeadDim: g.HeadDim, Hidden: f.Hidden, Vocab: g.Vocab,
		MaxPositions: g.MaxPositions, EOS: f.EOS}
	return nil
}
