package hotswap

import (
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"tgi/examples/internal/served"
)

const (
	total   = 1000
	workers = 16
)

// whole is a text that begins and ends with marks.
var whole = regexp.MustCompile(`(?s)^<(\d)>.*<(\d)>$`)

// TestSwapUnderLoad: of 1,000 requests, between which the plugin's file is
// replaced twice, none fails and none sees two versions.
func TestSwapUnderLoad(t *testing.T) {
	folder := served.Folder(t, map[string]string{"tgi.toml": "tgi.toml", "plugins/marker.wasm": "marker/marker-1.wasm"})
	s := served.Start(t, folder)
	s.Documented(t, "README.md")

	// Each swap waits for 200 answers of the version that serves, and the load
	// goes on until the last one has given as many and all requests are made.
	const each = 200
	answers := make(chan string, workers)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { ask(t, s, answers, done) })
	}
	count := map[string]int{}
	asked := 0
	for _, step := range []struct{ version, next string }{{"1", "2"}, {"2", "1"}, {"1", ""}} {
		before := count[step.version]
		for count[step.version]-before < each || step.next == "" && asked < total {
			version := <-answers
			count[version]++
			if asked++; asked == 5*total || count[""] == 10 {
				close(done)
				wg.Wait()
				t.Fatalf("waiting for version %s; answers by version: %v", step.version, count)
			}
		}
		if step.next != "" {
			replace(t, folder, "marker/marker-"+step.next+".wasm")
		}
	}
	close(done)
	wg.Wait()
	t.Logf("%d requests, by version: %v", asked, count)
}

// ask makes requests until done is closed and sends the version that each has
// seen, "" for one that failed.
func ask(t *testing.T, s *served.Server, answers chan<- string, done <-chan struct{}) {
	for {
		r := s.Ask(t, "Tell me a story.", `{"max_new_tokens":50,"plugins":[{"name":"marker"}]}`)
		version := ""
		if m := whole.FindStringSubmatch(r.Text); m == nil || m[1] != m[2] {
			t.Errorf("status %d: text %q, error %q", r.Status, r.Text, r.Error)
		} else {
			version = m[1]
		}
		select {
		case answers <- version:
		case <-done:
			return
		}
	}
}

// replace puts another file in the plugin's place: written beside it, then
// renamed, so that no reader ever finds half of it.
func replace(t *testing.T, folder, source string) {
	t.Helper()
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(folder, "plugins", "marker.wasm")
	if err := os.WriteFile(to+".new", b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}
