package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tgi/server/config"
)

// Scope says whom a route serves.
type Scope uint8

// Scopes of routes.
const (
	// Generate routes compute. They need a key with config.ScopeGenerate, once
	// there is any key but an administrator's.
	Generate Scope = iota
	// Models routes tell of models. They need a key with config.ScopeModels,
	// once there is any key but an administrator's.
	Models
	// Open routes need no key and work while the server shuts down.
	Open
	// Admin routes need a key with config.ScopeAdmin, and are refused while
	// there is none. Their paths begin with AdminPath.
	Admin
	// anyKey is /metrics when it is protected: a key of any scope opens it, and
	// it works while the server shuts down.
	anyKey
)

// open says whether routes of the scope outlive the gate.
func (s Scope) open() bool { return s == Open || s == anyKey }

// String returns what the scope is called in the settings.
func (s Scope) String() string {
	return [...]string{config.ScopeGenerate, config.ScopeModels, "", config.ScopeAdmin, ""}[s]
}

// key is the hash of a bearer token and what it opens. Hashes have one length,
// so comparing them tells nothing of a token, its length included.
type key struct {
	name   string
	hash   [sha256.Size]byte
	scopes []string
}

// keys are all that are known.
type keys struct {
	all []key
	// users and admins say whether there are keys for the routes of users and
	// of administrators.
	users, admins bool
}

func newKeys(list []config.Key) keys {
	var k keys
	for _, one := range list {
		k.all = append(k.all, key{one.Name, sha256.Sum256([]byte(one.Key)), one.Scopes})
		for _, s := range one.Scopes {
			k.users = k.users || s != config.ScopeAdmin
			k.admins = k.admins || s == config.ScopeAdmin
		}
	}
	return k
}

// of returns the key that r carries as its bearer token, or nil. Every key is
// compared, whichever matches.
func (k *keys) of(r *http.Request) *key {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(token))
	match := -1
	for i := range k.all {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], k.all[i].hash[:]), i, match)
	}
	if !strings.EqualFold(scheme, "Bearer") || match < 0 {
		return nil
	}
	return &k.all[match]
}

// admit says whether r may use routes of the scope, and replies when it may not.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, scope Scope) bool {
	if scope == Open || (scope == Generate || scope == Models) && !s.keys.users {
		return true
	}
	refused := error(nil)
	given := s.keys.of(r)
	if given != nil {
		name(r.Context(), given.name)
	}
	switch {
	case scope == Admin && !s.keys.admins:
		refused = ErrAdminOff
	case given == nil:
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return false
	case scope == anyKey || slices.Contains(given.scopes, scope.String()):
		return true
	default:
		refused = fmt.Errorf("%w `%s`, the key given has %s", ErrScope, scope, strings.Join(given.scopes, ", "))
	}
	Note(r.Context(), refused)
	WriteError(w, refused)
	return false
}
