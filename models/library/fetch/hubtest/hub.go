// Package hubtest serves a repository as the Hugging Face Hub does, for tests of what fetches models.
package hubtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Commit is the commit of every revision.
const Commit = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00"

// Weights is a file of the checkpoint that has some size.
const Weights = "model-00002-of-00004.safetensors"

// Hub serves the repository org/model.
type Hub struct {
	*httptest.Server
	// Files are the repository's, by name. They may be changed before the first request.
	Files map[string][]byte

	mu     sync.Mutex
	sums   map[string]string
	stops  map[string]int
	hits   []string
	tokens map[string]bool
}

// New serves the checkpoint in the folder dir until the test ends.
func New(t testing.TB, dir string) *Hub {
	t.Helper()
	h := &Hub{Files: map[string][]byte{"README.md": []byte("not for serving")}, sums: map[string]string{},
		stops: map[string]int{}, tokens: map[string]bool{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "golden") { // what a test of models expects of it
			continue
		}
		if h.Files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// Checkpoint is the folder of a random model in this module, wherever a test works later;
// "" for a process that began elsewhere.
var Checkpoint = checkpoint()

// checkpoint looks for it from the working directory, which lies in the module when a
// test begins.
func checkpoint() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "models", "testdata", "golden", "qwen2")
		}
	}
	return ""
}

// Promise has the list of files give a wrong checksum of one.
func (h *Hub) Promise(name, sum string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums[name] = sum
}

// StopOnce holds the next reply with a file up: after n bytes of its body it waits until
// the client is gone.
func (h *Hub) StopOnce(name string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stops[name] = n
}

// Saw reports whether a request had this Authorization header.
func (h *Hub) Saw(authorization string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tokens[authorization]
}

// Sum returns a checksum as the hub writes it.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, isFile := strings.CutPrefix(r.URL.Path, "/org/model/resolve/"+Commit+"/")
	data, known := h.Files[name]
	stop := h.note(r, name, isFile)
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/models/org/model/revision/"):
		h.list(w)
		return
	case !known:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", `"`+Sum(data)+`"`)
	if stop > 0 {
		w = &halting{w, stop, r}
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// note keeps what was asked for and returns where the reply is to stop; 0 is nowhere.
func (h *Hub) note(r *http.Request, name string, isFile bool) (stop int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens[r.Header.Get("Authorization")] = true
	if isFile {
		h.hits = append(h.hits, strings.TrimSpace(name+" "+r.Header.Get("Range")))
	}
	stop = h.stops[name]
	delete(h.stops, name)
	return stop
}

func (h *Hub) list(w http.ResponseWriter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	type object map[string]any
	var siblings []object
	for name, data := range h.Files {
		sum, ok := h.sums[name]
		if !ok {
			sum = Sum(data)
		}
		siblings = append(siblings, object{"rfilename": name, "size": len(data), "lfs": object{"size": len(data),
			"sha256": sum, "pointerSize": 134}})
	}
	_ = json.NewEncoder(w).Encode(object{"id": "org/model", "sha": Commit, "siblings": siblings})
}

// Asked returns the requests for files, each "path range", since the last call.
func (h *Hub) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	hits := h.hits
	h.hits = nil
	return hits
}

// halting is a reply that stops after n bytes, until the client is gone.
type halting struct {
	http.ResponseWriter
	n int
	r *http.Request
}

// Write implements io.Writer.
func (w *halting) Write(p []byte) (int, error) {
	if len(p) < w.n {
		w.n -= len(p)
		return w.ResponseWriter.Write(p)
	}
	if _, err := w.ResponseWriter.Write(p[:w.n]); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	<-w.r.Context().Done()
	panic(http.ErrAbortHandler)
}
