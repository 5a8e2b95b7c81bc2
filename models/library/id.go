package library

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Bounds of an id. A hub's ids have two parts of at most 96 characters.
const (
	maxID      = 200
	maxIDPart  = 96
	maxIDParts = 4
)

// ID names a model: one to four parts, joined by slashes, of letters, digits, dots, dashes
// and underscores. A part neither begins with a dot or a dash nor ends with a dot. So an ID
// is a relative path that leads downwards, on every system. Only ParseID creates one.
type ID string

// ParseID checks an id. Its errors wrap ErrID.
func ParseID(s string) (ID, error) {
	fail := func(format string, a ...any) (ID, error) {
		return "", fmt.Errorf("%w %s: %s", ErrID, quote(s), fmt.Sprintf(format, a...))
	}
	if s == "" {
		return fail("is empty, want 1 to %d characters", maxID)
	}
	if len(s) > maxID {
		return fail("has %d bytes, at most %d are allowed", len(s), maxID)
	}
	parts := strings.Split(s, "/")
	if len(parts) > maxIDParts {
		return fail("has %d parts, at most %d are allowed", len(parts), maxIDParts)
	}
	for i, part := range parts {
		if part == "" {
			return fail("part %d is empty: slashes stand between parts only", i+1)
		}
		if len(part) > maxIDPart {
			return fail("part %d has %d bytes, at most %d are allowed", i+1, len(part), maxIDPart)
		}
		for _, r := range part {
			if !idRune(r) {
				return fail("part %d holds %q, want letters, digits, \".\", \"-\" and \"_\"", i+1, r)
			}
		}
		if part[0] == '.' || part[0] == '-' || part[len(part)-1] == '.' {
			return fail("part %d is %q: a part begins with a letter, a digit or \"_\" and does not end with a dot", i+1,
				part)
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(s)) { // names that the system keeps for devices
		return fail("is no file name on this system")
	}
	return ID(s), nil
}

func idRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
}

// fileName is the id as one file name. No id contains "+", so names are unique.
func (id ID) fileName() string { return strings.ReplaceAll(string(id), "/", "+") }

// path is the id as a relative path of the system.
func (id ID) path() string { return filepath.FromSlash(string(id)) }

// quote quotes the beginning of a text that may be long or hostile.
func quote(s string) string {
	const most = 64
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", s[:cut])
}
