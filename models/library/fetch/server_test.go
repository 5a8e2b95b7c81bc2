package fetch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/models/library"
)

const goldenDir = "../../testdata/golden"

// hub is a small repository server. Its fields may be changed under mu.
type hub struct {
	*httptest.Server
	mu     sync.Mutex
	files  map[string][]byte
	lfs    map[string]bool
	sha    string
	token  string // wanted when set
	noETag bool
	// hook sees every request first; true is that it answered.
	hook func(w http.ResponseWriter, r *http.Request) bool
	// cut is how many bytes of a file's body pass before the connection breaks; 0 is all.
	cut func(name string) int
	// broken counts the connections that were broken.
	broken atomic.Int32
	// hits are the requests as "path range".
	hits []string
}

// checkpoint reads the golden files that make a model.
func checkpoint(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	dir := filepath.Join(goldenDir, "qwen2")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "golden") {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{files: checkpoint(t), lfs: map[string]bool{}, sha: strings.Repeat("a1", 20)}
	for name := range h.files {
		h.lfs[name] = strings.HasSuffix(name, ".safetensors")
	}
	h.files["README.md"] = []byte("not for serving")
	h.files["pytorch_model.bin"] = make([]byte, 1<<20)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.hits = append(h.hits, strings.TrimSpace(r.URL.EscapedPath()+" "+r.Header.Get("Range")))
	hook, token, cut := h.hook, h.token, h.cut
	h.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		w.Header().Set("X-Error-Message", "Repository not found")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.EscapedPath() == "/api/models/org/model/revision/refs%2Fpr%2F1" ||
		r.URL.Path == "/api/models/org/model/revision/main" {
		h.list(w, r)
		return
	}
	h.mu.Lock()
	name := strings.TrimPrefix(r.URL.Path, "/org/model/resolve/"+h.sha+"/")
	name = strings.TrimPrefix(name, "/files/")
	data, ok := h.files[name]
	noETag := h.noETag
	h.mu.Unlock()
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		http.Error(w, "Entry not found", http.StatusNotFound)
		return
	}
	if !noETag {
		sum := sha256.Sum256(data)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	}
	if cut != nil {
		if n := cut(name); n > 0 {
			w = &breaking{w, n, &h.broken}
		}
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// breaking ends the connection after n bytes of the body.
type breaking struct {
	http.ResponseWriter
	n      int
	broken *atomic.Int32
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) < b.n {
		b.n -= len(p)
		return b.ResponseWriter.Write(p)
	}
	b.broken.Add(1)
	b.ResponseWriter.Write(p[:b.n])
	b.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func (h *hub) list(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Query().Get("blobs") != "true" {
		http.Error(w, "blobs", http.StatusBadRequest)
		return
	}
	type object map[string]any
	var siblings []object
	for name, data := range h.files {
		sum := sha256.Sum256(data)
		git := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
		s := object{"rfilename": name, "size": len(data), "blobId": hex.EncodeToString(git[:])}
		if h.lfs[name] {
			s["lfs"] = object{"size": len(data), "sha256": hex.EncodeToString(sum[:]), "pointerSize": 134}
		}
		siblings = append(siblings, s)
	}
	json.NewEncoder(w).Encode(object{"id": "org/model", "sha": h.sha, "siblings": siblings})
}

func (h *hub) source() Source { return Source{URL: h.URL, Repo: "org/model"} }

func (h *hub) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// quick is a client that does not wait long.
func quick(opt Options) *Client {
	opt.Backoff, opt.MaxBackoff = time.Microsecond, time.Millisecond
	return New(opt)
}

func newLibrary(t *testing.T, limits library.Limits) *library.Library {
	t.Helper()
	l, err := library.Open(library.Options{Dir: filepath.Join(t.TempDir(), "models"), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const id library.ID = "org/model"

// complete fails unless the library has the model with exactly the checkpoint's bytes and
// nothing is left of the download.
func complete(t *testing.T, l *library.Library) {
	t.Helper()
	m, err := l.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint(t)
	entries, err := os.ReadDir(m.Dir)
	if err != nil || len(entries) != len(want)+1 {
		t.Errorf("%v, %v; want %d files and the origin", entries, err, len(want))
	}
	for name, data := range want {
		if got, err := os.ReadFile(filepath.Join(m.Dir, name)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %v or other bytes", name, err)
		}
	}
	if n := l.Partial(id); n != 0 {
		t.Errorf("%d bytes of the download are left", n)
	}
}

// absent fails when the model, or anything that looks like one, is in the library.
func absent(t *testing.T, l *library.Library) {
	t.Helper()
	if all, err := l.List(); err != nil || len(all) > 0 {
		t.Errorf("models %v, %v; want none", all, err)
	}
}

func fetch(l *library.Library, c *Client, src Source, p *Progress) error {
	_, err := c.Fetch(context.Background(), l, id, src, p)
	return err
}

func wantError(t *testing.T, err error, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}
