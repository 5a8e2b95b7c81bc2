package rewrite

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// sources are those of this package.
//
//go:embed *.go
var sources embed.FS

// Fingerprint is part of the key of cached compilations: it changes with the sources of this package, since any change
// of these may give the same module another output, or refuse it.
var Fingerprint = sync.OnceValue(func() string { return fingerprint(sources) })

func fingerprint(sources fs.FS) string {
	h := sha256.New()
	files, err := fs.Glob(sources, "*.go")
	for _, name := range files {
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		var text []byte
		text, err = fs.ReadFile(sources, name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	if err != nil {
		panic("BUG: the rewriter's sources: " + err.Error()) // they are part of the program
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
