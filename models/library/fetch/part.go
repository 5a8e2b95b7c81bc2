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

// errDisk marks failures of the disk, which another request does not heal.
var errDisk = errors.New("disk")

// disk marks an error of writing or reading a part.
func disk(err error) error {
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

// note says what a part is a part of. It lies beside it.
type note struct {
	Path         string `json:"path"`
	Identity     string `json:"identity"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	// Size of the whole file; -1 is not known.
	Size int64 `json:"size"`
}

// part is a file that is being fetched. It belongs to one goroutine.
type part struct {
	*File
	path string // without its suffix
	note note
	file partFile
	n    int64 // bytes in the file
	sums *digest
}

// partPath is the place of a file's part, without suffix: one name for each
// path, whatever characters that has.
func partPath(work, path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(work, hex.EncodeToString(sum[:12]))
}

// openPart opens what an earlier attempt left of f, or an empty part when there
// is nothing or it belongs to another version. What is there is read for the
// checksum.
func (c *Client) openPart(work string, f *File) (*part, error) {
	p := &part{File: f, path: partPath(work, f.Path)}
	fresh := note{Path: f.Path, Identity: f.identity(), Size: f.Size}
	data, err := os.ReadFile(p.path + ".json")
	if err != nil || json.Unmarshal(data, &p.note) != nil || p.note.Path != f.Path || p.note.Identity != fresh.Identity || f.Size >= 0 && p.note.Size != f.Size {
		// No note, no part: bytes of unknown origin are not gone on with.
		if err := os.Remove(p.path + ".part"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, disk(err)
		}
		p.note = fresh
	}
	if p.file, err = c.open(p.path + ".part"); err != nil {
		return nil, disk(err)
	}
	p.sums = newDigest(f.gitSHA1 != "", f.Size)
	if p.n, err = io.Copy(p.sums, p.file); err != nil {
		p.file.Close()
		return nil, disk(err)
	}
	if p.note.Size >= 0 && p.n > p.note.Size { // more than the file has
		if err := p.reset(); err != nil {
			p.file.Close()
			return nil, err
		}
	}
	return p, nil
}

// reset throws away what is there, and what was known of the version.
func (p *part) reset() error {
	p.note = note{Path: p.Path, Identity: p.identity(), Size: p.Size}
	if err := p.file.Truncate(0); err != nil {
		return disk(err)
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return disk(err)
	}
	p.n, p.sums = 0, newDigest(p.gitSHA1 != "", p.Size)
	return nil
}

// write appends.
func (p *part) write(b []byte) error {
	n, err := p.file.Write(b)
	p.sums.Write(b[:n])
	p.n += int64(n)
	return disk(err)
}

// save writes the note, whole or not at all.
func (p *part) save() error {
	data, err := json.Marshal(p.note)
	if err != nil {
		return err
	}
	temp := p.path + ".tmp"
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return disk(err)
	}
	return disk(os.Rename(temp, p.path+".json"))
}

// versioned tells whether bytes that come later can be known to be of the same version.
func (p *part) versioned() bool { return p.known() || p.note.ETag != "" || p.note.LastModified != "" }

// whole tells whether all bytes are there, as far as the size is known.
func (p *part) whole() bool { return p.note.Size >= 0 && p.n == p.note.Size }

// close makes the part durable.
func (p *part) close() error { return disk(errors.Join(p.file.Sync(), p.file.Close())) }
