package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
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
	// Models routes are about models. They need a key with config.ScopeModels,
	// once there is any key but an administrator's.
	Models
	// Listing routes say which models there are: clients ask them before they generate. They need a key with
	// config.ScopeGenerate or config.ScopeModels, once there is any key but an administrator's.
	Listing
	// Open routes need no key and work while the server shuts down.
	Open
	// Admin routes need a key with config.ScopeAdmin, and are refused while
	// there is none. Pages of other origins may not call them, unless
	// server.cors_allow_origin names their origin.
	Admin
	// anyKey is /metrics when it is protected: a key of any scope opens it, and
	// it works while the server shuts down.
	anyKey
)

// open reports whether routes of the scope outlive the gate.
func (s Scope) open() bool { return s == Open || s == anyKey }

// forModels reports whether routes of the scope tell of models and compute nothing.
func (s Scope) forModels() bool { return s == Models || s == Listing }

// opened returns the scopes of keys, any of which opens routes of the scope; none for Open ones.
func (s Scope) opened() []string {
	switch s {
	case Generate:
		return []string{config.ScopeGenerate}
	case Models:
		return []string{config.ScopeModels}
	case Listing:
		return []string{config.ScopeGenerate, config.ScopeModels}
	case Admin:
		return []string{config.ScopeAdmin}
	case anyKey:
		return []string{config.ScopeGenerate, config.ScopeModels, config.ScopeAdmin}
	}
	return nil
}

// String returns what the scope is called in the settings, of several each with quotes but for the outer ones.
func (s Scope) String() string { return strings.Join(s.opened(), "` or `") }

// key is the hash of a token and what it opens. Hashes have one length,
// so comparing them tells nothing of a token, its length included.
type key struct {
	name   string
	hash   [sha256.Size]byte
	scopes []string
	models []string // that it may use; nil for all
	// plugins are patterns of those that its requests may name; nil for all
	plugins []string
	share   float64 // of what clients share; 0 is 1
	owner   string  // of its files and batches
}

type keyKey struct{}

// KeyName returns the name of the key of the request of ctx; "" where it has none.
func KeyName(ctx context.Context) string {
	if k, ok := ctx.Value(keyKey{}).(*key); ok {
		return k.name
	}
	return ""
}

// MayUse reports whether the key of the request of ctx, if it has one, may use the
// model of an id.
func MayUse(ctx context.Context, id string) bool {
	k, ok := ctx.Value(keyKey{}).(*key)
	return !ok || k.models == nil || slices.Contains(k.models, id)
}

// MayNamePlugin returns why the request of ctx may not name a plugin, an error that wraps ErrPluginKey; nil where it
// may.
func MayNamePlugin(ctx context.Context, name string) error {
	k, ok := ctx.Value(keyKey{}).(*key)
	if !ok || k.plugins == nil || config.MatchesPlugin(k.plugins, name) {
		return nil
	}
	allowed := "names none"
	if len(k.plugins) > 0 {
		allowed = "may name " + strings.Join(k.plugins, ", ")
	}
	return fmt.Errorf("%w: plugin `%.64s`, key `%s` %s", ErrPluginKey, name, k.name, allowed)
}

// MayAdminister reports whether the request of ctx has a key that opens the routes of administrators.
func MayAdminister(ctx context.Context) bool {
	k, ok := ctx.Value(keyKey{}).(*key)
	return ok && slices.Contains(k.scopes, config.ScopeAdmin)
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
		k.all = append(k.all, key{name: one.Name, hash: sha256.Sum256([]byte(one.Key)), scopes: one.Scopes,
			models: one.Models, plugins: one.Plugins, share: one.Share, owner: ownerOf(one.Key)})
		for _, s := range one.Scopes {
			k.users = k.users || s != config.ScopeAdmin
			k.admins = k.admins || s == config.ScopeAdmin
		}
	}
	return k
}

// Token returns what r shows as its key: the bearer token, or the header x-api-key of Anthropic's clients where there
// is no Authorization. It is empty where r shows none.
func Token(r *http.Request) string {
	authorization := r.Header.Get("Authorization")
	if authorization == "" {
		return r.Header.Get("X-Api-Key")
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// of returns the key that r carries, or nil. Every key is compared, whichever matches.
func (k *keys) of(r *http.Request) *key {
	token := Token(r)
	given := sha256.Sum256([]byte(token))
	match := -1
	for i := range k.all {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], k.all[i].hash[:]), i, match)
	}
	if token == "" || match < 0 {
		return nil
	}
	return &k.all[match]
}

// watches reports whether r may see in /metrics what plugins had to do with texts: a client who may generate could
// find out by it, on an idle server, what a guard of the operator looks for. Where everybody may generate, /metrics is
// kept from clients by server.protect_metrics.
func (k *keys) watches(r *http.Request) bool {
	given := k.of(r)
	return !k.users || given != nil && (!slices.Contains(given.scopes, config.ScopeGenerate) ||
		slices.Contains(given.scopes, config.ScopeAdmin))
}

// admit returns r with its key, or why it may not use routes of the scope.
func (s *Server) admit(r *http.Request, scope Scope) (*http.Request, error) {
	if scope == Open {
		return r, nil
	}
	given := s.keys.of(r)
	if l := lineOf(r.Context()); l != nil {
		given = l.key
	}
	if given != nil {
		noteKey(r.Context(), given.name)
		r = r.WithContext(context.WithValue(r.Context(), keyKey{}, given))
	}
	switch {
	case (scope == Generate || scope.forModels()) && !s.keys.users: // for everybody, an administrator too
		return r, nil
	case scope == Admin && !s.keys.admins:
		return r, ErrAdminOff
	case given == nil && r.Header.Get("Authorization") == "" && r.Header.Get("X-Api-Key") == "":
		return r, ErrNoKey
	case given == nil:
		return r, ErrWrongKey
	case scope == Admin && s.foreign(r):
		return r, ErrOrigin
	case slices.ContainsFunc(scope.opened(), func(one string) bool { return slices.Contains(given.scopes, one) }):
		return r, nil
	}
	return r, fmt.Errorf("%w `%s`, the key given has %s", ErrScope, scope, strings.Join(given.scopes, ", "))
}

// refuseKey replies to a request that admit refused. A 401 of TGI's routes has no body;
// those with a shape of their own, and those of operators, say what is wrong.
func (route *Route) refuseKey(w http.ResponseWriter, r *http.Request, err error) {
	Note(r.Context(), err)
	if Explain(err).Kind == KindUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
		if route.Refuse == nil && route.Scope != Admin {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	}
	route.refuse(w, r, err)
}

// foreign reports whether r comes from a page of another origin than this server's,
// and none that was configured. (A page needs the key all the same; this keeps one
// that got hold of it by a leak from being of use.)
func (s *Server) foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.options.Config.CORSAllowOrigin, origin) {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}
