package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Bounds of a model's id: those of the models folder.
const (
	maxModelID      = 200
	maxModelIDPart  = 96
	maxModelIDParts = 4
)

// CheckModelID refuses ids that a model cannot have. They are paths in the
// models folder: one to four parts, joined by slashes, of letters, digits,
// dots, dashes and underscores, which neither begin with a dot or a dash nor
// end with a dot.
func CheckModelID(id string) error {
	parts := strings.Split(id, "/")
	ok := len(id) <= maxModelID && len(parts) <= maxModelIDParts
	for _, part := range parts {
		ok = ok && part != "" && len(part) <= maxModelIDPart && strings.IndexFunc(part, notInID) < 0 &&
			part[0] != '.' && part[0] != '-' && part[len(part)-1] != '.'
	}
	if !ok {
		return fmt.Errorf("must be 1 to %d parts of at most %d letters, digits, \".\", \"-\" and \"_\", joined by slashes, at most %d in all, none beginning with \".\" or \"-\" or ending with \".\", given %q",
			maxModelIDParts, maxModelIDPart, maxModelID, trim(id))
	}
	if !filepath.IsLocal(filepath.FromSlash(id)) { // names that the system keeps for devices
		return fmt.Errorf("must be a file name on this system, given %q", trim(id))
	}
	return nil
}

func notInID(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
}

// ggufPart is the end of the names of files in the GGUF format, and of the first of several.
var ggufPart = regexp.MustCompile(`(?i)(-00001-of-\d{5})?\.gguf$`)

// idOf makes an id of the last part of a path.
func idOf(path string) string {
	path = ggufPart.ReplaceAllString(path, "")
	if abs, err := filepath.Abs(path); err == nil { // "." has a name too
		path = abs
	}
	id := strings.Map(func(r rune) rune {
		if notInID(r) {
			return '-'
		}
		return r
	}, filepath.Base(path))
	id = strings.TrimLeft(id, ".-")
	id = strings.TrimRight(id[:min(len(id), maxModelIDPart)], ".")
	if CheckModelID(id) != nil {
		return "model"
	}
	return id
}
