package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/safetensors"
)

// hashesFile remembers checksums, so that a restart does not read gigabytes.
const hashesFile = "hashes.json"

// settled is how old a file's time must be for its checksum to be remembered:
// a file that changes again within the clock's grain would keep size and time.
const settled = 2 * time.Second

// contentKey returns the checksum, in hex, of everything a build depends on.
func contentKey(ctx context.Context, root string, ck *hf.Checkpoint, fsys fs.FS, dir string, w models.Weights) (string, error) {
	files := append([]string{hf.ConfigFile}, ck.Tensors.Files()...)
	if !slices.Equal(ck.Tensors.Files(), []string{safetensors.SingleFile}) {
		files = append(files, safetensors.IndexFile)
	}
	memo := openMemo(filepath.Join(root, hashesFile))
	key := sha256.New()
	fmt.Fprintf(key, "tgi model\nbuilder %d\nweights %s\n", decoder.Version, w)
	for _, name := range files {
		path := ""
		if dir != "" {
			var err error
			if path, err = filepath.Abs(filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
		sum, err := memo.sum(ctx, fsys, name, path)
		if err != nil {
			return "", fmt.Errorf("checksum of %s: %w", name, err)
		}
		fmt.Fprintf(key, "%s %s\n", sum, name)
	}
	memo.save()
	return hex.EncodeToString(key.Sum(nil)), nil
}

// memo is hashes.json. Losing it costs time only, so neither reading nor
// writing it can fail.
type memo struct {
	path    string
	entries map[string]memoEntry
	changed bool
}

type memoEntry struct {
	Size   int64  `json:"size"`
	Time   int64  `json:"time"` // nanoseconds since 1970
	SHA256 string `json:"sha256"`
}

func openMemo(path string) *memo {
	m := &memo{path: path, entries: map[string]memoEntry{}}
	if data, err := os.ReadFile(path); err != nil || json.Unmarshal(data, &m.entries) != nil || m.entries == nil {
		m.entries = map[string]memoEntry{}
	}
	return m
}

// sum returns the checksum of a file; path is its place on disk, "" for none.
func (m *memo) sum(ctx context.Context, fsys fs.FS, name, path string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	now := memoEntry{Size: st.Size(), Time: st.ModTime().UnixNano()}
	if old, ok := m.entries[path]; ok && path != "" && old.Size == now.Size && old.Time == now.Time {
		return old.SHA256, nil
	}
	h := sha256.New()
	if _, err := io.Copy(cancelled{ctx, h}, f); err != nil {
		return "", err
	}
	now.SHA256 = hex.EncodeToString(h.Sum(nil))
	if path != "" && time.Since(st.ModTime()) > settled {
		m.entries[path], m.changed = now, true
	}
	return now.SHA256, nil
}

// save writes what was learnt, and forgets files that are gone.
func (m *memo) save() {
	if !m.changed {
		return
	}
	for path := range m.entries {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			delete(m.entries, path)
		}
	}
	data, err := json.MarshalIndent(m.entries, "", " ")
	if err != nil {
		return
	}
	temp, err := os.CreateTemp(filepath.Dir(m.path), tempPrefix)
	if err != nil {
		return
	}
	_, err = temp.Write(data)
	if errors.Join(err, temp.Close()) != nil || os.Rename(temp.Name(), m.path) != nil {
		os.Remove(temp.Name())
	}
}

// cancelled is a writer that fails once its context is done.
type cancelled struct {
	ctx context.Context
	w   io.Writer
}

func (c cancelled) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
