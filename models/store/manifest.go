package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tgi/models"
	"tgi/models/decoder"
)

const manifestFile = "manifest.json"

// errDamaged is wrapped when an entry is not what its manifest says.
var errDamaged = errors.New("cache entry is damaged")

// manifest says what an entry must hold.
type manifest struct {
	Key   string       `json:"key"`
	Model models.Built `json:"model"`
	// ModelSHA256 is the checksum of the graph. The data file, of gigabytes,
	// is held to its size.
	ModelSHA256 string `json:"model_sha256"`
	DataBytes   int64  `json:"data_bytes"`
}

func writeManifest(dir, key string, built models.Built, r decoder.Result) error {
	sum := sha256.Sum256(r.Model)
	data, err := json.MarshalIndent(manifest{Key: key, Model: built, ModelSHA256: hex.EncodeToString(sum[:]), DataBytes: r.DataBytes}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, manifestFile), data)
}

// load reads an entry and checks that it is whole and of this key.
func load(dir, key string) (models.Built, error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
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
	model, err := os.ReadFile(filepath.Join(dir, decoder.ModelFile))
	if err != nil {
		return models.Built{}, err
	}
	if sum := sha256.Sum256(model); hex.EncodeToString(sum[:]) != m.ModelSHA256 {
		return models.Built{}, fmt.Errorf("%s: %w: checksum of %s differs", dir, errDamaged, decoder.ModelFile)
	}
	st, err := os.Stat(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		return models.Built{}, err
	}
	if st.Size() != m.DataBytes {
		return models.Built{}, fmt.Errorf("%s: %w: %s has %d bytes, want %d", dir, errDamaged, decoder.DataFile, st.Size(), m.DataBytes)
	}
	built := m.Model
	built.Dir, built.ModelFile = dir, filepath.Join(dir, decoder.ModelFile)
	return built, nil
}
