package main

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

// fakeHub serves the repository org/model as the Hugging Face Hub does. Its
// files stay as they are.
type fakeHub struct {
	*httptest.Server
	files map[string][]byte

	mu sync.Mutex
	// sums are the checksums that the list promises; those that are not there are right.
	sums map[string]string
	// stop holds replies up, once for each name: after so many bytes of the file's
	// body they wait until the client is gone.
	stop   map[string]int
	hits   []string // "path range" of requests for files
	tokens map[string]bool
}

// hubCheckpoint is a checkpoint of a random model, wherever a test works.
var hubCheckpoint = sure(filepath.Abs(filepath.Join("..", "..", "..", "models", "testdata", "golden", "qwen2")))

// hubCommit is the commit of every revision.
var hubCommit = strings.Repeat("c0ffee00", 5)

// hubWeights is a file of it that has some size.
const hubWeights = "model-00002-of-00004.safetensors"

// newFakeHub serves hubCheckpoint.
func newFakeHub(t *testing.T) *fakeHub {
	t.Helper()
	h := &fakeHub{files: map[string][]byte{"README.md": []byte("not for serving")}, sums: map[string]string{}, stop: map[string]int{}, tokens: map[string]bool{}}
	for _, e := range sure(os.ReadDir(hubCheckpoint)) {
		if !strings.HasPrefix(e.Name(), "golden") { // what a test of models expects of it
			h.files[e.Name()] = sure(os.ReadFile(filepath.Join(hubCheckpoint, e.Name())))
		}
	}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ServeHTTP implements http.Handler.
func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, isFile := strings.CutPrefix(r.URL.Path, "/org/model/resolve/"+hubCommit+"/")
	data, known := h.files[name]
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
	w.Header().Set("ETag", `"`+sumOf(data)+`"`)
	if stop > 0 {
		w = &halting{w, stop, r}
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// note keeps what was asked for and returns where the reply is to stop; 0 is nowhere.
func (h *fakeHub) note(r *http.Request, name string, isFile bool) (stop int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens[r.Header.Get("Authorization")] = true
	if isFile {
		h.hits = append(h.hits, strings.TrimSpace(name+" "+r.Header.Get("Range")))
	}
	stop = h.stop[name]
	delete(h.stop, name)
	return stop
}

// set changes what the hub does from now on.
func (h *fakeHub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *fakeHub) list(w http.ResponseWriter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	type object map[string]any
	var siblings []object
	for name, data := range h.files {
		sum, ok := h.sums[name]
		if !ok {
			sum = sumOf(data)
		}
		siblings = append(siblings, object{"rfilename": name, "size": len(data), "lfs": object{"size": len(data), "sha256": sum, "pointerSize": 134}})
	}
	_ = json.NewEncoder(w).Encode(object{"id": "org/model", "sha": hubCommit, "siblings": siblings})
}

// asked returns the requests for files since the last call.
func (h *fakeHub) asked() []string {
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
