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
	"time"

	"tgi/models/decoder"
	"tgi/models/hf"
)

// hashesFile caches checksums, so that a restart does not read gigabytes.
const hashesFile = "hashes.json"

// settleTime is how old a file's modification time must be before its checksum is cached: a
// file that changes again within the clock's resolution would keep size and time.
const settleTime = 2 * time.Second

// contentKey returns the checksum, in hex, of everything a build depends on.
func contentKey(ctx context.Context, root string, ck *hf.Checkpoint, fsys fs.FS, dir string, opt Options) (string,
	error) {
	sums := openChecksumCache(filepath.Join(root, hashesFile))
	key := sha256.New()
	fmt.Fprintf(key, "tgi model\n%s", decoder.Key(opt.Device, opt.Weights, opt.Block))
	for _, name := range ck.Files() {
		path := ""
		if dir != "" {
			var err error
			if path, err = filepath.Abs(filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
		sum, err := sums.sum(ctx, fsys, name, path)
		if err != nil {
			return "", fmt.Errorf("checksum of %s: %w", name, err)
		}
		fmt.Fprintf(key, "%s %s\n", sum, name)
	}
	sums.save()
	return hex.EncodeToString(key.Sum(nil)), nil
}

// stamp tells whether a file was changed.
type stamp struct{ size, time, change int64 }

// stampsOf returns those of the files that a build depends on.
func stampsOf(fsys fs.FS, ck *hf.Checkpoint) (map[string]stamp, error) {
	out := map[string]stamp{}
	for _, name := range ck.Files() {
		st, err := fs.Stat(fsys, name)
		if err != nil {
			return nil, err
		}
		out[name] = stamp{st.Size(), st.ModTime().UnixNano(), changeTime(st)}
	}
	return out, nil
}

// checksumCache is hashes.json. Losing it only costs time, so errors of reading and writing it
// are ignored.
type checksumCache struct {
	path    string
	entries map[string]checksumEntry
	changed bool
}

type checksumEntry struct {
	Size int64 `json:"size"`
	Time int64 `json:"time"` // nanoseconds since 1970
	// Change is when the file or its name was last changed, which no program can set back; 0 where that is not known.
	Change int64  `json:"change,omitempty"`
	SHA256 string `json:"sha256"`
}

func openChecksumCache(path string) *checksumCache {
	m := &checksumCache{path: path, entries: map[string]checksumEntry{}}
	if data, err := os.ReadFile(path); err != nil || json.Unmarshal(data, &m.entries) != nil || m.entries == nil {
		m.entries = map[string]checksumEntry{}
	}
	return m
}

// sum returns the checksum of a file; path is its path on disk, "" for an embedded file.
func (m *checksumCache) sum(ctx context.Context, fsys fs.FS, name, path string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	now := checksumEntry{Size: st.Size(), Time: st.ModTime().UnixNano(), Change: changeTime(st)}
	if old, ok := m.entries[path]; ok && path != "" && old.Size == now.Size && old.Time == now.Time &&
		old.Change == now.Change {
		return old.SHA256, nil
	}
	h := sha256.New()
	if _, err := io.Copy(contextWriter(ctx, h), f); err != nil {
		return "", err
	}
	now.SHA256 = hex.EncodeToString(h.Sum(nil))
	if path != "" && time.Since(st.ModTime()) > settleTime {
		m.entries[path], m.changed = now, true
	}
	return now.SHA256, nil
}

// remember adds the checksum of a file that was just written, if path is that file.
func (m *checksumCache) remember(path string, written fs.FileInfo, sum string) {
	if st, err := os.Stat(path); err == nil && os.SameFile(st, written) && st.ModTime().Equal(written.ModTime()) {
		m.entries[path], m.changed = checksumEntry{Size: st.Size(), Time: st.ModTime().UnixNano(),
			Change: changeTime(st),
			SHA256: sum}, true
	}
}

// save writes new checksums and drops those of files that no longer exist.
func (m *checksumCache) save() {
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

// writerFunc is a function as an io.Writer.
type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// contextWriter returns a writer to w that fails once ctx is done.
func contextWriter(ctx context.Context, w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return w.Write(p)
	})
}
