package host

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/cpu"

	"tgi/models/vision"
	"tgi/runtime/engine"
	"tgi/runtime/kvdisk"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
)

// openKVDisk opens the folder of prompts that the settings name. A server does without it rather than not start: then
// the result is nil, and the log says why. That a server has the folder is no mistake of a brief command.
func openKVDisk(cfg config.Runtime, brief bool, log *slog.Logger) *kvdisk.Folder {
	if cfg.KVDisk == "" {
		return nil
	}
	f, err := kvdisk.Open(kvdisk.Options{Path: cfg.KVDisk, Limit: int64(cfg.KVDiskSize),
		Log: func(text string) { log.Warn(text) }})
	if brief && errors.Is(err, kvdisk.ErrInUse) {
		log.Info("another server uses runtime.kv_disk: no prompts of this command are kept", "folder", cfg.KVDisk)
		return nil
	}
	if err != nil {
		log.Error("runtime.kv_disk cannot be used; prompts are not kept across restarts", "error", err)
		return nil
	}
	st := f.Stats()
	log.Info("prompts are kept on disk", "folder", f.Path(), "bytes", st.Bytes, "limit", st.Limit)
	return f
}

// pagedBlocks are a backend whose cache blocks have the same bits whenever the same tokens are computed.
type pagedBlocks interface {
	engine.BlockIO
	BlockBytes() int
}

// kept returns where the model's prompts are kept in a folder; nowhere if that is nil.
func (in *instance) kept(folder *kvdisk.Folder, cfg config.Config, d device, say func(string, ...any)) engine.Disk {
	if folder == nil {
		return engine.Disk{}
	}
	blocks, ok := in.backend.(pagedBlocks)
	if !ok {
		say("runtime.kv_disk is not for this model: only what a CPU computes, from weights that this server converts, has " +
			"the same bits again")
		return engine.Disk{}
	}
	id, err := in.bits(cfg, d)
	if err != nil {
		say("runtime.kv_disk cannot be used for this model: %v", err)
		return engine.Disk{}
	}
	return engine.Disk{Space: folder.Space(id, blocks.BlockBytes()), Blocks: blocks}
}

// bits sums all that the bits of the model's cache depend on: this program, ONNX Runtime, the processor, the graphs,
// the weights, the tokenizer, the form of the cache, and how pictures are prepared. Adapters and the files of pictures
// are part of the blocks' keys.
func (in *instance) bits(cfg config.Config, d device) (id kvdisk.ID, err error) {
	h := sha256.New()
	b := in.built
	fmt.Fprintf(h, "kv 2\n%s %s %s\n%+v %+v\n%d threads, %s, %s\n%+v\n%s %d %d\n%x\n", runtime.GOOS, runtime.GOARCH,
		ort.Version(), cpu.X86, cpu.ARM64, in.backend.ThreadCount(), ort.Attention(), ort.Product(), b.Arch, b.Weights,
		in.backend.BlockSize(), in.backend.(pagedBlocks).BlockBytes(), sha256.Sum256(in.source.desc.TokenizerJSON))
	fmt.Fprintf(h, "%+v\n%s\n%d adaptable\n", b.Layout, b.DataSHA256, in.adaptable(cfg, d.Device))
	if b.VisionFile != "" {
		if err := in.addPictures(h, cfg.Images); err != nil {
			return id, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return id, err
	}
	graphs, err := filepath.Glob(filepath.Join(b.Dir, "*.onnx"))
	if err != nil {
		return id, err
	}
	slices.Sort(graphs)
	for _, path := range append([]string{program, d.Library}, graphs...) {
		if err := addFile(h, path); err != nil {
			return id, err
		}
	}
	return kvdisk.ID(h.Sum(nil)), nil
}

// addPictures writes the sums of what decides which vectors the file of a picture becomes.
func (in *instance) addPictures(w io.Writer, c config.Images) error {
	if _, err := fmt.Fprintf(w, "images: %d threads, %d tokens\n", c.Threads, c.Tokens); err != nil {
		return err
	}
	for _, name := range []string{vision.ProcessorFile, vision.PreprocessorFile} {
		data, err := fs.ReadFile(in.source.files(), name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s %x\n", name, sha256.Sum256(data)); err != nil {
			return err
		}
	}
	return nil
}

// addFile writes the sum of a file to w.
func addFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err == nil {
		_, err = fmt.Fprintf(w, "%x\n", h.Sum(nil))
	}
	return err
}

// kvDiskState is the state of prompts on disk, where they are kept.
func (f *manager) kvDiskState() server.KVDisk {
	s := f.kvDisk.Stats()
	return server.KVDisk{Bytes: s.Bytes, Limit: s.Limit, Blocks: s.Blocks, Read: s.Read, Written: s.Written,
		Evicted: s.Evicted, Dropped: s.Dropped, Damaged: s.Damaged, Errors: s.Errors}
}
