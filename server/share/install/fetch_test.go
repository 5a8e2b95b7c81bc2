package install

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/signature"

	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/index"
	"tgi/server/share/registry"
)

// serve is a registry with an artefact under the tag 1.
func serve(t *testing.T, a share.Artifact) (at string, stop func()) {
	t.Helper()
	m, err := share.ReadManifest(a.Manifest, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{"/v2/ban/manifests/1": a.Manifest, "/v2/ban/manifests/" + a.Digest(): a.Manifest,
		"/v2/ban/blobs/" + string(m.Config.Digest): a.Config, "/v2/ban/blobs/" + string(m.Module.Digest): a.Module}
	if len(a.Signatures) > 0 {
		text, blobs, err := share.SignatureImage(a.Signatures)
		if err != nil {
			t.Fatal(err)
		}
		content["/v2/ban/manifests/"+share.SignatureTag(a.Digest())] = text
		content["/v2/ban/manifests/"+string(digest.FromBytes(text))] = text
		for _, b := range blobs {
			content["/v2/ban/blobs/"+string(b.Digest)] = b.Content
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := content[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", string(digest.FromBytes(text)))
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(web.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return strings.TrimPrefix(web.URL, "http://") + "/ban", web.Close
}

// signer is a key, and the policy that names it alone.
func signer(t *testing.T) (signature.Signer, share.Policy) {
	t.Helper()
	team := filepath.Join(t.TempDir(), "team")
	if err := share.Generate(team, share.Ed25519, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	key, err := share.ReadSigner(team+".key", func() ([]byte, error) { return []byte("secret"), nil })
	if err != nil {
		t.Fatal(err)
	}
	policy, err := share.NewPolicy([]config.PluginSigner{{Name: "team", PublicKey: team + ".pub"}})
	if err != nil {
		t.Fatal(err)
	}
	return key, policy
}

// fetchOnce is FetchOnce over plain HTTP.
func fetchOnce(t *testing.T, reference string, policy share.Policy, x *index.Index) (share.Artifact, string, error) {
	t.Helper()
	at, err := registry.Parse(reference)
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(at, registry.Options{PlainHTTP: true, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	a, d, kept, err := FetchOnce(t.Context(), r, at, policy, x)
	if err == nil && d.Name != "ban" {
		t.Errorf("%s: %+v", reference, d)
	}
	return a, kept, err
}

// TestFetchOnce: what was pulled is installed by its digest without the registry, held to the policy, and where a tag
// can't be looked up, the error says so.
func TestFetchOnce(t *testing.T) {
	a, x := packed(t, "ban", ""), index.Open(t.TempDir(), 1<<20)
	at, stop := serve(t, a)
	get := func(reference string, policy share.Policy) (string, error) {
		t.Helper()
		b, kept, err := fetchOnce(t, at+reference, policy, x)
		if err == nil && b.Digest() != a.Digest() {
			t.Errorf("%s: %s", reference, b.Digest())
		}
		return kept, err
	}
	byDigest, offline := "@"+a.Digest(), "tgi plugin install "+at+"@"+a.Digest()
	if kept, err := get(":1", nil); err != nil || kept != at+":1"+byDigest {
		t.Fatalf("%s, %v", kept, err)
	}
	if _, err := get(":2", nil); err == nil || strings.Contains(err.Error(), "pulled before") {
		t.Errorf("a tag that is not there: %v", err)
	}
	stop()
	for _, reference := range []string{byDigest, ":1" + byDigest} {
		if kept, err := get(reference, nil); err != nil || kept != at+byDigest {
			t.Errorf("%s: %s, %v", reference, kept, err)
		}
	}
	if _, err := get(":1", nil); err == nil || !strings.Contains(err.Error(), offline) {
		t.Errorf("by its tag: %v", err)
	}
	if _, err := get(":2", nil); err == nil || strings.Contains(err.Error(), "pulled before") {
		t.Errorf("another tag: %v", err)
	}
	if _, err := get("@sha256:"+strings.Repeat("0", 64), nil); err == nil || errors.Is(err, fs.ErrNotExist) ||
		strings.Contains(err.Error(), "pulled before") {
		t.Errorf("another digest: %v", err)
	}
	_, policy := signer(t)
	for _, reference := range []string{byDigest, ":1"} {
		_, err := get(reference, policy)
		if !errors.Is(err, share.ErrUnsigned) || strings.Contains(err.Error(), offline) {
			t.Errorf("%s, which nobody signed: %v", reference, err)
		}
	}
	other := packed(t, "ban", "other")
	if err := x.Put(t.Context(), at+":1@"+other.Digest(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := get(":1", nil); err == nil || !strings.Contains(err.Error(), "name one of them") ||
		!strings.Contains(err.Error(), other.Digest()) || !strings.Contains(err.Error(), a.Digest()) {
		t.Errorf("a tag that was pulled twice: %v", err)
	}
}

// TestFetchOnceAsks: what the policy refuses as the index has it may have been signed since, and the registry is asked.
func TestFetchOnceAsks(t *testing.T) {
	key, policy := signer(t)
	unsigned, x := packed(t, "ban", ""), index.Open(t.TempDir(), 1<<20)
	a := unsigned
	made, err := a.Sign(key, "registry.example/ban")
	if err != nil {
		t.Fatal(err)
	}
	a.Signatures = []share.Signature{made}
	at, stop := serve(t, a)
	if err := x.Put(t.Context(), at+":1@"+a.Digest(), unsigned); err != nil {
		t.Fatal(err)
	}
	for _, reached := range []bool{true, false} {
		b, kept, err := fetchOnce(t, at+"@"+a.Digest(), policy, x)
		if err != nil || kept != at+"@"+a.Digest() || len(policy.Signed(b)) != 1 {
			t.Errorf("the registry answers %t: %s, %v", reached, kept, err)
		}
		stop() // the index has the signature now
	}
}
