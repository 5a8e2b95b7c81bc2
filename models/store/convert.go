package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/scratch"
	"tgi/models/vision/tower"
)

// tempPrefix begins the names of unfinished entries.
const tempPrefix = ".tmp-"

// convert builds the model in a temporary folder and renames it to at, if the files are unchanged.
func convert(ctx context.Context, ck *hf.Checkpoint, root, at, key string, unchanged func() error,
	opt Options) (models.Built, error) {
	start := time.Now()
	temp, err := os.MkdirTemp(root, tempPrefix)
	if err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	defer os.RemoveAll(temp) // gone already if it was renamed
	defer scratch.Claim(temp)()
	if err := os.Chmod(temp, 0o755); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	result, dataSHA256, err := build(ctx, ck, temp, opt)
	if err == nil {
		err = unchanged()
	}
	if err != nil {
		return models.Built{}, fmt.Errorf("convert %s to %s: %w", ck.Name, opt.Weights, err)
	}
	built := models.Built{Arch: result.Arch, Weights: opt.Weights, WeightBytes: result.DataBytes}
	if err := writeManifest(temp, key, built, result, dataSHA256); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	written, err := os.Stat(filepath.Join(temp, decoder.DataFile))
	if err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	sums := openChecksumCache(filepath.Join(root, hashesFile))
	if err := publish(ctx, temp, at, key, sums); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	sums.remember(filepath.Join(at, decoder.DataFile), written, dataSHA256)
	sums.save()
	if built, err = load(ctx, at, key, nil); err != nil { // it was read or written just now
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	built.Layout = result.Layout
	if opt.Converted != nil {
		opt.Converted(Conversion{Built: built, Error: result.Error, Took: time.Since(start)})
	}
	return built, nil
}

// build writes the data file, whose checksum it returns, and the graphs, and flushes them to
// the disk.
func build(ctx context.Context, ck *hf.Checkpoint, dir string, opt Options) (r decoder.Result, dataSHA256 string,
	err error) {
	f, err := os.Create(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		return decoder.Result{}, "", err
	}
	defer f.Close()
	sum := sha256.New()
	result, err := decoder.Build(ck, contextWriter(ctx, io.MultiWriter(f, sum)), decoder.Options{Device: opt.Device,
		Weights: opt.Weights, Block: opt.Block, Progress: opt.Progress})
	if err != nil {
		return decoder.Result{}, "", err
	}
	// The file's time is set back, so that every later change shows in it and the checksum can be remembered now.
	old := time.Now().Add(-2 * settleTime)
	if err := errors.Join(f.Sync(), f.Close(), os.Chtimes(f.Name(), old, old)); err != nil {
		return decoder.Result{}, "", err
	}
	err = writeFile(filepath.Join(dir, decoder.ModelFile), result.Model)
	if err == nil && result.Adapted != nil {
		err = writeFile(filepath.Join(dir, decoder.AdaptedFile), result.Adapted)
	}
	if err == nil && result.Vision != nil {
		err = writeFile(filepath.Join(dir, tower.File), result.Vision)
	}
	if err == nil && result.Stages != nil {
		err = writeFile(filepath.Join(dir, decoder.StagesFile), result.Stages)
	}
	return result, hex.EncodeToString(sum.Sum(nil)), err
}

// publish renames a finished entry to its place. A complete entry that is already there, from
// another process, is kept; a damaged one is moved away. An entry that could not be checked stays where it is.
func publish(ctx context.Context, temp, at, key string, sums *checksumCache) error {
	syncDir(temp)
	for range 2 {
		err := os.Rename(temp, at)
		if err == nil {
			syncDir(filepath.Dir(at))
			return nil
		}
		_, broken := load(ctx, at, key, sums)
		if broken == nil {
			return nil
		}
		if !mustBuild(broken) {
			return broken
		}
		aside, mkErr := os.MkdirTemp(filepath.Dir(at), tempPrefix)
		if mkErr != nil {
			return mkErr
		}
		defer os.RemoveAll(aside)
		if moveErr := os.Rename(at, filepath.Join(aside, "damaged")); moveErr != nil {
			return errors.Join(err, moveErr)
		}
	}
	return os.Rename(temp, at)
}

// removeAbandoned removes the remains of interrupted builds.
func removeAbandoned(root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if strings.HasPrefix(e.Name(), tempPrefix) && scratch.Abandoned(path) {
			os.RemoveAll(path)
		}
	}
}

func writeFile(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir flushes a folder's names to the disk, if the system can. Otherwise a crash may lose
// the entry, which is then built again.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		f.Sync()
		f.Close()
	}
}
