package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tgi/examples/internal/served"
)

func TestServed(t *testing.T) {
	folder := served.Folder(t, map[string]string{"tgi.toml": "tgi.toml"})
	served.GoPlugin(t, filepath.Join(folder, "plugins", "equal-runs.wasm"), ".")
	s := served.Start(t, folder)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			most := 1 + i%6
			beams := 1 + i/12*3 // the second half searches: beams are copies of the guest
			r := s.Ask(t, "What pet does Tomas have?", fmt.Sprintf(
				`{"do_sample":true,"temperature":5.0,"seed":%d,"num_beams":%d,"max_new_tokens":60,"grammar":{"type":"grammar","language":"equal-runs","value":"abc","params":{"most":%d}}}`, i+1, beams, most))
			n := len(r.Text) / 3
			if n < 1 || n > most || r.Text != strings.Repeat("a", n)+strings.Repeat("b", n)+strings.Repeat("c", n) {
				t.Errorf("most %d: %+v", most, r)
			}
		})
	}
	wg.Wait()
	s.Documented(t, "README.md")
}
