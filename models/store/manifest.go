package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/vision/tower"
)

const manifestFile = "manifest.json"

// errDamaged is wrapped if an entry does not match its manifest.
var errDamaged = errors.New("cache entry is damaged")

// manifest describes the files of an entry.
type manifest struct {
	Key   string       `json:"key"`
	Model models.Built `json:"model"`
	// ModelSHA256 and DataSHA256 are the checksums of the graph and of the data file, AdaptedSHA256 and VisionSHA256
	// those of the graphs for adapters and for pictures; empty where there is none.
	ModelSHA256   string `json:"model_sha256"`
	AdaptedSHA256 string `json:"adapted_sha256,omitempty"`
	VisionSHA256  string `json:"vision_sha256,omitempty"`
	// StagesSHA256 is that of the graph behind a pooled vector; empty where there is none.
	StagesSHA256 string `json:"stages_sha256,omitempty"`
	DataSHA256   string `json:"data_sha256"`
	DataBytes    int64  `json:"data_bytes"`
}

func writeManifest(dir, key string, built models.Built, r decoder.Result, dataSHA256 string) error {
	m := manifest{Key: key, Model: built, ModelSHA256: checksum(r.Model), DataSHA256: dataSHA256,
		DataBytes: r.DataBytes}
	if r.Adapted != nil {
		m.AdaptedSHA256 = checksum(r.Adapted)
	}
	if r.Vision != nil {
		m.VisionSHA256 = checksum(r.Vision)
	}
	if r.Stages != nil {
		m.StagesSHA256 = checksum(r.Stages)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, manifestFile), data)
}

// mustBuild reports whether load's error says that there is no such entry or that it is damaged. All others, e.g. that
// the load was cancelled or that too many files are open, say nothing about the entry.
func mustBuild(err error) bool { return errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) }

// load reads an entry and checks that it is complete and has this key. The data file, which
// has gigabytes, is only read if its size or time has changed since it was last read, as sums
// knows; without sums only its size is checked.
func load(ctx context.Context, dir, key string, sums *checksumCache) (models.Built, error) {
	built, err := loadFiles(ctx, dir, key, sums)
	if errors.Is(err, fs.ErrNotExist) {
		if _, none := os.Stat(dir); none == nil {
			return models.Built{}, fmt.Errorf("%s: %w: %w", dir, errDamaged, err)
		}
	}
	return built, err
}

func loadFiles(ctx context.Context, dir, key string, sums *checksumCache) (models.Built, error) {
	at := filepath.Join(dir, manifestFile)
	if st, err := os.Stat(at); err == nil && !st.Mode().IsRegular() { // a pipe would be waited for
		return models.Built{}, fmt.Errorf("%s: %w: %s is not a regular file", dir, errDamaged, manifestFile)
	}
	data, err := os.ReadFile(at)
	if err != nil {
		return models.Built{}, err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return models.Built{}, fmt.Errorf("%s: %w: %s: %v", dir, errDamaged, manifestFile, err)
	}
	if m.Key != key {
		return models.Built{}, fmt.Errorf("%s: %w: holds another model", dir, errDamaged)
	}
	for _, graph := range []struct{ file, sum string }{{decoder.ModelFile, m.ModelSHA256}, {decoder.AdaptedFile,
		m.AdaptedSHA256}, {tower.File, m.VisionSHA256}, {decoder.StagesFile, m.StagesSHA256}} {
		if graph.sum == "" {
			continue
		}
		model, err := os.ReadFile(filepath.Join(dir, graph.file))
		if err != nil {
			return models.Built{}, err
		}
		if checksum(model) != graph.sum {
			return models.Built{}, fmt.Errorf("%s: %w: checksum of %s differs", dir, errDamaged, graph.file)
		}
	}
	st, err := os.Stat(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		return models.Built{}, err
	}
	if st.Size() != m.DataBytes {
		return models.Built{}, fmt.Errorf("%s: %w: %s has %d bytes, want %d", dir, errDamaged, decoder.DataFile,
			st.Size(), m.DataBytes)
	}
	if sums != nil {
		sum, err := sums.sum(ctx, os.DirFS(dir), decoder.DataFile, filepath.Join(dir, decoder.DataFile))
		if err != nil {
			return models.Built{}, err
		}
		sums.save()
		if sum != m.DataSHA256 {
			return models.Built{}, fmt.Errorf("%s: %w: checksum of %s differs", dir, errDamaged, decoder.DataFile)
		}
	}
	built := m.Model
	built.DataSHA256 = m.DataSHA256
	built.Dir, built.ModelFile = dir, filepath.Join(dir, decoder.ModelFile)
	if m.AdaptedSHA256 != "" {
		built.AdaptedFile = filepath.Join(dir, decoder.AdaptedFile)
	}
	if m.VisionSHA256 != "" {
		built.VisionFile = filepath.Join(dir, tower.File)
	}
	if m.StagesSHA256 != "" {
		built.StagesFile = filepath.Join(dir, decoder.StagesFile)
	}
	return built, nil
}

// checksum returns the SHA-256 of data, in hex.
func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
