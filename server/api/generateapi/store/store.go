package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// Errors of stores.
var (
	// ErrBusy: another claim holds the key.
	ErrBusy = errors.New("the key is claimed")
	// ErrUnavailable: the store does not answer, or not sensibly.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrLost: the claim ended before it was given back, because its holder was
	// cut off from the store for longer than a claim lasts.
	ErrLost = errors.New("the claim ended early")
	// ErrTooLarge: the state is larger than the store takes.
	ErrTooLarge = errors.New("the state is too large")
)

// Key names a state. It tells nothing of what it was made from, as far as that
// cannot be guessed.
type Key [sha256.Size]byte

// KeyOf returns the key of the requests ids, in that order, of the owner scope:
// other owners, other ids and another order give another key.
func KeyOf(scope string, ids []string) Key {
	var b []byte
	for _, part := range append([]string{"tgi generate api", scope}, ids...) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// String returns the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Store keeps states for a while. It is safe for concurrent use. Its methods, and
// those of claims, end with their context and not much later than that; errors of
// the context are ErrUnavailable.
type Store interface {
	// Claim takes key, and fails with ErrBusy while another claim has it. The
	// claim must be given back by exactly one of its methods Save, Drop and
	// Release. Where the process dies first, it ends by itself after a while.
	Claim(ctx context.Context, key Key) (Claim, error)
	// Close frees what the store holds; no claim may be left.
	Close() error
}

// Claim is a key that no one else may use. It belongs to one goroutine.
type Claim interface {
	// State returns what is kept under the key, nil for nothing. It must not be
	// changed, and may be truncated when it is larger than the store takes.
	State() []byte
	// Save keeps state, of which it makes a copy, in the place of what was kept,
	// and gives the claim back. After an error, the claim is given back and what
	// is kept is as before, or, where the store stopped answering, either.
	Save(ctx context.Context, state []byte) error
	// Drop forgets what is kept, and gives the claim back.
	Drop(ctx context.Context) error
	// Release gives the claim back and leaves what is kept as it is. Where the
	// store does not answer, the claim ends by itself.
	Release()
}
