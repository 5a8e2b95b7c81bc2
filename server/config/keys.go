package config

import (
	"fmt"
	"slices"
	"strings"
)

// Scopes of a key: what it opens.
const (
	// ScopeGenerate is everything that computes, and listing models.
	ScopeGenerate = "generate"
	// ScopeModels is listing models and asking about them.
	ScopeModels = "models"
	// ScopeAdmin is the routes below /admin.
	ScopeAdmin = "admin"
)

// Key is one [[key]]: a bearer token and what it opens.
type Key struct {
	// Name is what the log calls it; no two have the same.
	Name string `toml:"name"`
	// Key is the token.
	Key string `toml:"key"`
	// Scopes are one or more of ScopeGenerate, ScopeModels and ScopeAdmin.
	Scopes []string `toml:"scopes"`
	// Models are the ids of those that it may use; nil is all.
	Models []string `toml:"models"`
	// Plugins are names, or patterns with *, of the plugins that its requests may name; nil is all, an empty list none.
	Plugins []string `toml:"plugins"`
	// MCP are the servers whose tools each request of the key is offered, whether it asks for them or not.
	MCP []string `toml:"mcp"`
	// RequestsPerMinute, TokensPerMinute and TokensPerDay bound what it may use, ConcurrentRequests how many of its
	// requests may be in the server; 0 is no bound.
	RequestsPerMinute  int `toml:"requests_per_minute"`
	TokensPerMinute    int `toml:"tokens_per_minute"`
	TokensPerDay       int `toml:"tokens_per_day"`
	ConcurrentRequests int `toml:"concurrent_requests"`
	// Share is its share of the engine while others want more than there is, relative to theirs; 0 is 1, as others have
	// it.
	Share float64 `toml:"share"`
}

// Bounds of a key's share, and of the tokens that it may use: beyond them a limit is none.
const (
	leastShare, mostShare = 0.01, 100
	mostTokens            = 1_000_000_000_000
	mostTokensMinute      = 1_000_000_000
)

// AllKeys returns every key with its scopes: those of [[key]] and, under the
// names of their settings, server.api_keys and server.admin_keys.
func (c *Config) AllKeys() []Key {
	keys := slices.Clone(c.Key)
	for i, k := range c.Server.APIKeys {
		keys = append(keys, Key{Name: fmt.Sprintf("api_keys[%d]", i), Key: k, Scopes: []string{ScopeGenerate,
			ScopeModels}})
	}
	for i, k := range c.Server.AdminKeys {
		keys = append(keys, Key{Name: fmt.Sprintf("admin_keys[%d]", i), Key: k, Scopes: []string{ScopeAdmin}})
	}
	return keys
}

// Keyed reports whether there is any key.
func (c *Config) Keyed() bool {
	return len(c.Server.APIKeys)+len(c.Server.AdminKeys)+len(c.Key) > 0
}

// administered reports whether some key is let in to the routes below /admin.
func (c *Config) administered() bool {
	return slices.ContainsFunc(c.AllKeys(), func(k Key) bool { return slices.Contains(k.Scopes, ScopeAdmin) })
}

// Open reports whether a client without a key may generate: keys that open the admin routes alone do not close
// the others.
func (c *Config) Open() bool {
	return !slices.ContainsFunc(c.AllKeys(), func(k Key) bool {
		return slices.ContainsFunc(k.Scopes, func(s string) bool { return s != ScopeAdmin })
	})
}

// MatchesPlugin reports whether a name is one of plugins, in which * stands for any characters.
func MatchesPlugin(plugins []string, name string) bool {
	return slices.ContainsFunc(plugins, func(pattern string) bool {
		parts := strings.Split(pattern, "*")
		rest, ok := strings.CutPrefix(name, parts[0])
		last := len(parts) - 1
		if !ok || last == 0 {
			return ok && rest == ""
		}
		for _, part := range parts[1:last] {
			if _, rest, ok = strings.Cut(rest, part); !ok {
				return false
			}
		}
		return strings.HasSuffix(rest, parts[last])
	})
}

// minReceiptKey is the length of the shortest server.receipt_key, in bytes: 128 bits, if they are random.
const minReceiptKey = 16

// validateKeys adds what is wrong with keys. No error repeats a key.
func (c *Config) validateKeys(v *verdict) {
	usable := func(at, k string) {
		v.check(k != "" && !strings.ContainsAny(k, " \t\r\n"), "%s must be neither empty nor hold white space", at)
	}
	v.check(c.Server.ReceiptKey == "" || len(c.Server.ReceiptKey) >= minReceiptKey,
		"server.receipt_key must have %d bytes or more, or be empty; given %d", minReceiptKey, len(c.Server.ReceiptKey))
	for i, k := range c.Server.APIKeys {
		usable(fmt.Sprintf("server.api_keys[%d]", i), k)
	}
	for i, k := range c.Server.AdminKeys {
		at := fmt.Sprintf("server.admin_keys[%d]", i)
		usable(at, k)
		v.check(!slices.Contains(c.Server.APIKeys, k), "%s must not be one of server.api_keys", at)
	}
	for i, k := range c.Key {
		at := fmt.Sprintf("key[%d].", i)
		if err := CheckName(k.Name); err != nil {
			v.check(false, "%sname %w", at, err)
		}
		usable(at+"key", k.Key)
		v.check(len(k.Scopes) > 0, "%sscopes must name at least one of %s, %s, %s", at, ScopeGenerate, ScopeModels,
			ScopeAdmin)
		for j, s := range k.Scopes {
			v.oneOf(fmt.Sprintf("%sscopes[%d]", at, j), s, ScopeGenerate, ScopeModels, ScopeAdmin)
		}
		v.check(k.Models == nil || len(k.Models) > 0,
			"%smodels must name at least one model; without it the key may use all", at)
		v.between(at+"requests_per_minute", k.RequestsPerMinute, 0, maxCount)
		v.between(at+"tokens_per_minute", k.TokensPerMinute, 0, mostTokensMinute)
		v.between(at+"tokens_per_day", k.TokensPerDay, 0, mostTokens)
		v.between(at+"concurrent_requests", k.ConcurrentRequests, 0, maxCount)
		v.check(k.Share == 0 || k.Share >= leastShare && k.Share <= mostShare,
			"%sshare must be >= %v and <= %v, given %v", at, leastShare, mostShare, k.Share)
		for j, name := range k.Plugins {
			// With its stars taken for letters a pattern is a name.
			v.check(CheckName(strings.ReplaceAll(name, "*", "x")) == nil,
				"%splugins[%d] must be the name of a plugin, in which * stands for any characters, given %q", at, j,
				trim(name))
		}
		for j, id := range k.Models {
			if err := CheckModelID(id); err != nil {
				v.check(false, "%smodels[%d] %w", at, j, err)
			}
		}
		// The same key twice would have two sets of scopes.
		v.check(!slices.Contains(c.Server.APIKeys, k.Key) && !slices.Contains(c.Server.AdminKeys, k.Key),
			"%skey must be neither one of server.api_keys nor of server.admin_keys", at)
		for j, other := range c.Key[:i] {
			v.check(other.Key != k.Key, "%skey must differ from key[%d].key", at, j)
			v.check(other.Name != k.Name, "%sname must differ from key[%d].name, given %q twice", at, j, k.Name)
		}
	}
}
