package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// keys are the hashes of the keys that let a request in.
// Hashes have one length, so comparing them tells nothing of a key, its length
// included.
type keys [][sha256.Size]byte

func hashKeys(plain []string) keys {
	k := make(keys, len(plain))
	for i, p := range plain {
		k[i] = sha256.Sum256([]byte(p))
	}
	return k
}

// match says whether r carries one of the keys as its bearer token. Every key
// is compared, whichever matches.
func (k keys) match(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(token))
	match := 0
	for i := range k {
		match |= subtle.ConstantTimeCompare(given[:], k[i][:])
	}
	return strings.EqualFold(scheme, "Bearer") && match == 1
}
