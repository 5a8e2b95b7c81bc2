package playground

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"tgi/server"
)

//go:embed static
var static embed.FS

// prefix is below where the files are; the part behind it is the hash of all files, so that a browser may keep each of
// them forever and a new version of the server is seen at once.
const prefix = "/playground/"

// policy lets pages run the modules of this server and ask this server, and nothing else. Trusted types forbid
// whatever makes elements of text, so that no text of a model or of another client becomes a part of the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// types are the media types of the files; a file of another is a mistake of the tree.
var types = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// file is one that is served.
type file struct {
	content   []byte
	kind, tag string
}

// Pages serves the playground.
type Pages struct {
	front file
	files map[string]file // by name in static
	hash  string
}

// New returns the pages.
func New() *Pages {
	p, err := load(static)
	if err != nil {
		panic("BUG: " + err.Error()) // what is embedded is tested
	}
	return p
}

// load reads the folder static of files.
func load(files fs.FS) (*Pages, error) {
	p := &Pages{files: map[string]file{}}
	all := sha256.New()
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		kind, ok := types[path.Ext(name)]
		if !ok {
			return fmt.Errorf("%s is a file of a type that is not served", name)
		}
		fmt.Fprintf(all, "%s %d\n%s", name, len(content), content)
		p.files[name[len("static/"):]] = newFile(content, kind)
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.hash = hex.EncodeToString(all.Sum(nil))[:16]
	index, ok := p.files["index.html"]
	if !ok {
		return nil, fmt.Errorf("static/index.html is missing")
	}
	delete(p.files, "index.html")
	p.front = newFile(bytes.ReplaceAll(index.content, []byte("{{files}}"), []byte(prefix[1:]+p.hash)), index.kind)
	return p, nil
}

func newFile(content []byte, kind string) file {
	sum := sha256.Sum256(content)
	return file{content, kind, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// Routes implements server.API: the files of the pages. They say nothing about this server, so that a browser, which
// has no key to show for them, may load them.
func (p *Pages) Routes() []server.Route {
	return []server.Route{{Method: http.MethodGet, Path: prefix + "{hash}/{file:.*}", Scope: server.Open,
		Handle: p.serveFile}}
}

func (p *Pages) serveFile(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	f, ok := p.files[name]
	if !ok || r.PathValue("hash") != p.hash {
		return fmt.Errorf("%w: no such file of the playground: %.100q; reload the page", server.ErrRoute, name)
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	f.serve(w, r)
	return nil
}

// Front replies to GET / with the page if r comes from a browser; else it returns false and has written nothing.
func (p *Pages) Front(w http.ResponseWriter, r *http.Request) bool {
	if !prefersHTML(r.Header.Values("Accept")) {
		return false
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept") // beside Origin, where the settings name some
	p.front.serve(w, r)
	return true
}

// serve writes f, or that r has it already.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
