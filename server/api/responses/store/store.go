// Package store keeps responses for a while, each under the key of its client: nobody
// reads another's. Memory is bounded, and forgets what lies there longest of whoever has
// most; Redis keeps them where every replica finds them.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Errors of stores.
var (
	// ErrNotFound: nothing is kept under the id.
	ErrNotFound = errors.New("no such response")
	// ErrUnavailable: the store does not answer, or not sensibly.
	ErrUnavailable = errors.New("the store of responses does not answer")
	// ErrDeleted: what was kept under the id was deleted a moment ago.
	ErrDeleted = errors.New("the response was deleted")
	// ErrChanged: what is kept under the id is not what was to be replaced.
	ErrChanged = errors.New("the record was changed meanwhile")
	// ErrTooLarge: the record is larger than the store takes.
	ErrTooLarge = errors.New("the response is too large to be kept")
)

// Owner is whose a record is. It tells nothing of the key that it was made from.
type Owner [sha256.Size]byte

// OwnerOf returns the owner that a key stands for; requests without one share theirs.
func OwnerOf(key string) Owner { return sha256.Sum256([]byte("tgi responses\x00" + key)) }

// String returns the owner in hexadecimal digits.
func (o Owner) String() string { return hex.EncodeToString(o[:]) }

// deletedFor is how long a deleted id cannot be put again: long enough for whoever runs the response to notice.
const deletedFor = 5 * time.Minute

// Limits bound a store.
type Limits struct {
	// TTL is how long a record is kept after it was put.
	TTL time.Duration
	// MaxRecord bounds one record in bytes.
	MaxRecord int
	// MaxOwnerRecords and MaxOwnerBytes bound those of one owner; the oldest are forgotten first.
	MaxOwnerRecords int
	MaxOwnerBytes   int64
	// MaxRecords and MaxBytes bound those of a Memory together.
	MaxRecords int
	MaxBytes   int64
}

// Store keeps records. It is safe for concurrent use. Its methods end with their context and not much later; errors of
// the context are ErrUnavailable.
type Store interface {
	// Put keeps a copy of record, which has bytes, under id, in the place of what was kept there. It fails with
	// ErrDeleted where that was deleted in the last minutes: whoever still works on it does not bring it back.
	Put(ctx context.Context, o Owner, id string, record []byte) error
	// Replace is Put where old is kept under id, and otherwise fails with ErrChanged, or with ErrNotFound where nothing
	// is.
	Replace(ctx context.Context, o Owner, id string, old, record []byte) error
	// Get returns what is kept under id, which must not be changed, or ErrNotFound.
	Get(ctx context.Context, o Owner, id string) ([]byte, error)
	// Delete forgets it, or fails with ErrNotFound.
	Delete(ctx context.Context, o Owner, id string) error
	// Close frees what the store holds.
	Close() error
}
