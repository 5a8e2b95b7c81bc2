package fetch

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// digest computes the checksums of a file as its bytes go by: SHA-256 always,
// and git's object id where that is what the list gives.
type digest struct {
	sha256 hash.Hash
	git    hash.Hash // nil when it is not needed
}

// newDigest begins a file. git needs its size beforehand.
func newDigest(git bool, size int64) *digest {
	d := &digest{sha256: sha256.New()}
	if git {
		// SHA-1 is git's choice. It finds damage; who could forge it could as
		// well give another list.
		d.git = sha1.New()
		fmt.Fprintf(d.git, "blob %d\x00", size)
	}
	return d
}

// Write implements io.Writer; it never fails.
func (d *digest) Write(p []byte) (int, error) {
	if d.git != nil {
		d.git.Write(p)
	}
	return d.sha256.Write(p)
}

// sum returns the SHA-256 in hex.
func (d *digest) sum() string { return hex.EncodeToString(d.sha256.Sum(nil)) }

// check holds the sums against what the list promised of f.
func (d *digest) check(f *File) error {
	if got := d.sum(); f.SHA256 != "" && got != f.SHA256 {
		return fmt.Errorf("%w: sha256 is %s, want %s", ErrChecksum, got, f.SHA256)
	}
	if f.gitSHA1 == "" {
		return nil
	}
	if got := hex.EncodeToString(d.git.Sum(nil)); got != f.gitSHA1 {
		return fmt.Errorf("%w: git object is %s, want %s", ErrChecksum, got, f.gitSHA1)
	}
	return nil
}
