package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"

	"tgi/server/share"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a registry in memory, of which a test may change any answer.
type fake struct {
	*httptest.Server
	mu        sync.Mutex
	blobs     map[string][]byte
	manifests map[string][]byte // by tag and digest
	// twist, if any, answers instead of the registry where it returns true.
	twist func(w http.ResponseWriter, r *http.Request) bool
	// authorized are the values of Authorization that were seen.
	authorized []string
}

var paths = regexp.MustCompile(`^/v2/plugins/ban/(manifests|blobs)/(.*)$`)

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{blobs: map[string][]byte{}, manifests: map[string][]byte{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	t.Setenv(EnvUsername, "")
	t.Setenv(EnvPassword, "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return f
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := r.Header.Get("Authorization"); a != "" {
		f.authorized = append(f.authorized, a)
	}
	if f.twist != nil && f.twist(w, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	sum := func(b []byte) string { s := sha256.Sum256(b); return "sha256:" + hex.EncodeToString(s[:]) }
	if r.Method == http.MethodPost {
		w.Header().Set("Location", "/v2/plugins/ban/blobs/uploads/1")
		w.WriteHeader(http.StatusAccepted)
		return
	}
	m := paths.FindStringSubmatch(r.URL.Path)
	if m == nil {
		http.NotFound(w, r)
		return
	}
	store := f.blobs
	if m[1] == "manifests" {
		store = f.manifests
	}
	if r.Method == http.MethodPut {
		if name := r.URL.Query().Get("digest"); name != "" {
			f.blobs[name] = body
		} else {
			f.manifests[m[2]], f.manifests[sum(body)] = body, body
		}
		w.Header().Set("Docker-Content-Digest", sum(body))
		w.WriteHeader(http.StatusCreated)
		return
	}
	text, ok := store[m[2]]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Docker-Content-Digest", sum(text))
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.Header().Set("Content-Type", "application/octet-stream")
	if m[1] == "manifests" {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(text)
	}
}

// reference names a tag of the fake.
func (f *fake) reference(t *testing.T, rest string) Reference {
	t.Helper()
	at, err := Parse(strings.TrimPrefix(f.URL, "http://") + "/plugins/ban" + rest)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// open returns the fake's repository.
func (f *fake) open(t *testing.T) *Repository {
	t.Helper()
	r, err := Open(f.reference(t, ""), Options{PlainHTTP: true, Limit: 1 << 20, Stall: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// plugin is an artefact with a signature that nobody made.
func plugin(t *testing.T, tail string) share.Artifact {
	t.Helper()
	a, err := share.Pack([]byte("\x00asm\x01\x00\x00\x00"+tail), share.Description{Name: "ban", Version: "1.0.0",
		Kinds: []string{"logits"}, ABI: 1})
	if err != nil {
		t.Fatal(err)
	}
	a.Signatures = []share.Signature{{Payload: []byte(`{"critical":{}}`), Signature: []byte("made up")}}
	return a
}

// pushed is a fake with an artefact under 1.0.0.
func pushed(t *testing.T) (*fake, share.Artifact) {
	t.Helper()
	f, a := newFake(t), plugin(t, "")
	if err := f.open(t).Push(t.Context(), a, "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	return f, a
}

// pull pulls with a bound on time that no sound test reaches.
func (f *fake) pull(t *testing.T, rest string) (share.Artifact, error) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	return f.open(t).Pull(ctx, f.reference(t, rest))
}

func blobPath(sum digest.Digest) string { return "/v2/plugins/ban/blobs/" + string(sum) }
