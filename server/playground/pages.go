package playground

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"sync"
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
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
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
	kind  string
	plain content
	// packed returns the file as gzip has it, or nothing where that is not smaller. The first call packs it.
	packed func() content
}

// content is what a file has in one coding, which no other content has the tag of.
type content struct {
	bytes []byte
	tag   string
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
	p.front = newFile(bytes.ReplaceAll(index.plain.bytes, []byte("{{files}}"), []byte(prefix[1:]+p.hash)), index.kind)
	return p, nil
}

func newFile(b []byte, kind string) file {
	return file{kind, newContent(b), sync.OnceValue(func() content {
		if small := pack(b); len(small) < len(b) {
			return newContent(small)
		}
		return content{}
	})}
}

func newContent(b []byte) content {
	sum := sha256.Sum256(b)
	return content{b, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// pack compresses a file as much as gzip can: it is done once.
func pack(b []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("BUG: " + err.Error()) // a level that there is, and memory
	}
	return out.Bytes()
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

// serve writes f in a coding that r accepts, or that r has it already.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Encoding")
	c := f.plain
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		if packed := f.packed(); packed.bytes != nil {
			c = packed
			h.Set("Content-Encoding", "gzip")
		}
	}
	if r.Header.Get("Range") == "" { // else it depends on that
		h.Set("Content-Length", strconv.Itoa(len(c.bytes)))
	}
	h.Set("ETag", c.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.bytes))
}
