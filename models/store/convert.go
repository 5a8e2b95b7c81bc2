package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/scratch"
)

// tempPrefix begins the names of what is not finished.
const tempPrefix = ".tmp-"

// convert builds the model beside its place and moves it there.
func convert(ctx context.Context, ck *hf.Checkpoint, root, at, key string, opt Options) (models.Built, error) {
	start := time.Now()
	temp, err := os.MkdirTemp(root, tempPrefix)
	if err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	defer os.RemoveAll(temp) // nothing is left of it when it was moved
	defer scratch.Claim(temp)()
	if err := os.Chmod(temp, 0o755); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	result, err := build(ctx, ck, temp, opt)
	if err != nil {
		return models.Built{}, fmt.Errorf("convert %s to %s: %w", ck.Name, opt.Weights, err)
	}
	built := models.Built{Arch: result.Arch, Weights: opt.Weights, WeightBytes: result.DataBytes}
	if err := writeManifest(temp, key, built, result); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	if err := publish(temp, at, key); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	if built, err = load(at, key); err != nil {
		return models.Built{}, fmt.Errorf("model cache: %w", err)
	}
	if opt.Converted != nil {
		opt.Converted(Conversion{Built: built, Error: result.Error, Took: time.Since(start)})
	}
	return built, nil
}

// build writes the data file and the graph, and waits for the disk.
func build(ctx context.Context, ck *hf.Checkpoint, dir string, opt Options) (decoder.Result, error) {
	f, err := os.Create(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		return decoder.Result{}, err
	}
	defer f.Close()
	result, err := decoder.Build(ck, cancelled{ctx, f}, decoder.Options{Weights: opt.Weights, Progress: opt.Progress})
	if err != nil {
		return decoder.Result{}, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return decoder.Result{}, err
	}
	return result, writeFile(filepath.Join(dir, decoder.ModelFile), result.Model)
}

// publish moves a finished entry to its place. An entry that is already there
// stays when it is whole: another process was first. A damaged one is moved
// out of the way.
func publish(temp, at, key string) error {
	syncDir(temp)
	for range 2 {
		err := os.Rename(temp, at)
		if err == nil {
			syncDir(filepath.Dir(at))
			return nil
		}
		if _, broken := load(at, key); broken == nil {
			return nil
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

// sweep removes what builds that were cut off have left.
func sweep(root string) {
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

// syncDir makes names durable where the system can; elsewhere a crash may lose
// the entry, which is then built again.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		f.Sync()
		f.Close()
	}
}
