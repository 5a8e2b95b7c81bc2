package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"tgi/models/library"
)

// errDisk marks disk errors, which another request would not fix.
var errDisk = errors.New("disk")

// wrapDisk wraps an error of writing or reading a part in errDisk or library.ErrSpace.
func wrapDisk(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", library.ErrSpace, err)
	}
	return fmt.Errorf("%w: %w", errDisk, err)
}

// partFile is what a part needs of a file.
type partFile interface {
	io.ReadWriteSeeker
	io.Closer
	Truncate(size int64) error
	Sync() error
}

func openPart(path string) (partFile, error) { return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) }

// partInfo describes the file that a part belongs to. It is stored beside the part.
type partInfo struct {
	Path         string `json:"path"`
	Identity     string `json:"identity"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	// Size of the whole file; -1 if not known.
	Size int64 `json:"size"`
}

// part is a file that is being fetched. Only one goroutine may use it.
type part struct {
	*File
	path string // without its suffix
	info partInfo
	file partFile
	n    int64 // bytes in the file
	sums *digest
}

// partPath is the path of a file's part, without suffix: a hash, so that any file name works.
func partPath(work, path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(work, hex.EncodeToString(sum[:12]))
}

// openPart opens the part that an earlier attempt left of f, or an empty one if there is none
// or it belongs to another version. It reads the part for the checksum.
func (c *Client) openPart(work string, f *File) (*part, error) {
	p := &part{File: f, path: partPath(work, f.Path)}
	fresh := partInfo{Path: f.Path, Identity: f.identity(), Size: f.Size}
	data, err := os.ReadFile(p.path + ".json")
	if err != nil || json.Unmarshal(data, &p.info) != nil || p.info.Path != f.Path ||
		p.info.Identity != fresh.Identity || f.Size >= 0 && p.info.Size != f.Size {
		// Without matching info the bytes are of unknown origin and are discarded.
		if err := os.Remove(p.path + ".part"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, wrapDisk(err)
		}
		p.info = fresh
	}
	if p.file, err = c.open(p.path + ".part"); err != nil {
		return nil, wrapDisk(err)
	}
	p.sums = newDigest(f.gitSHA1 != "", f.Size)
	if p.n, err = io.Copy(p.sums, p.file); err != nil {
		p.file.Close()
		return nil, wrapDisk(err)
	}
	if p.info.Size >= 0 && p.n > p.info.Size { // more than the file has
		if err := p.reset(); err != nil {
			p.file.Close()
			return nil, err
		}
	}
	return p, nil
}

// reset discards the part's bytes and what is known of the file's version.
func (p *part) reset() error {
	p.info = partInfo{Path: p.Path, Identity: p.identity(), Size: p.Size}
	if err := p.file.Truncate(0); err != nil {
		return wrapDisk(err)
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return wrapDisk(err)
	}
	p.n, p.sums = 0, newDigest(p.gitSHA1 != "", p.Size)
	return nil
}

// write appends.
func (p *part) write(b []byte) error {
	n, err := p.file.Write(b)
	p.sums.Write(b[:n])
	p.n += int64(n)
	return wrapDisk(err)
}

// save writes the info atomically.
func (p *part) save() error {
	data, err := json.Marshal(p.info)
	if err != nil {
		return err
	}
	temp := p.path + ".tmp"
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return wrapDisk(err)
	}
	return wrapDisk(os.Rename(temp, p.path+".json"))
}

// versioned reports whether later bytes can be verified to be of the same version.
func (p *part) versioned() bool { return p.known() || p.info.ETag != "" || p.info.LastModified != "" }

// complete reports whether the size is known and all bytes have arrived.
func (p *part) complete() bool { return p.info.Size >= 0 && p.n == p.info.Size }

// close flushes the part to the disk and closes it.
func (p *part) close() error { return wrapDisk(errors.Join(p.file.Sync(), p.file.Close())) }
