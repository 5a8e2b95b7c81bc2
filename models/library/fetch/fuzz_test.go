package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/library"
)

// FuzzListing: whatever a hub lists, nothing is requested from elsewhere, nothing is
// written outside the models folder and no model appears of files that are not there.
func FuzzListing(f *testing.F) {
	for _, s := range []string{
		`{"sha": "0123456789012345678901234567890123456789", "siblings": [{"rfilename": "config.json", "size": 2, "blobId": "9e26dfeeb6e641a33dae4961196235bdb965b21b"}, {"rfilename": "model.safetensors", "lfs": {"size": 2, "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}]}`,
		`{"siblings": [{"rfilename": "../config.json"}, {"rfilename": "additional_chat_templates/../x.jinja"}]}`,
		`{"siblings": [{"rfilename": "config.json"}, {"rfilename": "model.safetensors.index.json"}]}`,
		`{"sha": "../../..", "siblings": null}`, `[]`, `null`, `{"siblings": [{}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		dir := t.TempDir()
		lib, err := library.Open(library.Options{Dir: filepath.Join(dir, "models")})
		if err != nil {
			t.Fatal(err)
		}
		c := quick(Options{Attempts: 1, Transport: round(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "hub" || !strings.HasPrefix(r.URL.Path, "/org/model/resolve/") &&
				!strings.HasPrefix(r.URL.Path, "/api/models/org/model/revision/main") {
				t.Errorf("asked for %s", r.URL)
			}
			if strings.HasPrefix(r.URL.Path, "/api/") {
				return reply(r, 200, strings.NewReader(string(data))), nil
			}
			return reply(r, 200, strings.NewReader("{}")), nil
		})})
		_, err = c.Fetch(context.Background(), lib, id, Source{URL: "http://hub", Repo: "org/model"}, nil)
		if err == nil {
			t.Error("a model of files that are not there")
		}
		for _, kind := range []error{ErrSource, ErrChecksum, ErrUnavailable, library.ErrUnusable, library.ErrPath,
			library.ErrLimit, library.ErrSpace} {
			if errors.Is(err, kind) {
				err = nil
			}
		}
		if err != nil {
			t.Errorf("error of no kind: %v", err)
		}
		onlyPrivate(t, dir)
	})
}

// onlyPrivate fails when there is anything in dir but the models folder's private part.
func onlyPrivate(t *testing.T, dir string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, filepath.Join(dir, "models", ".tgi")+
			string(filepath.Separator)) {
			t.Errorf("%s was written", name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
