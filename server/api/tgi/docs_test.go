package tgi

import (
	"sync"
	"testing"

	"tgi/server/api/openapi"
)

// TestDocuments: a document is written once, and nobody waits while another is written.
func TestDocuments(t *testing.T) {
	var d documents
	slow, other := []openapi.Plugin{{Name: "slow"}}, []openapi.Plugin{{Name: "other"}}
	begun, end := make(chan struct{}), make(chan struct{})
	written := 0
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if got := string(d.of(slow, func(list []openapi.Plugin) []byte {
				written++
				close(begun)
				<-end
				return []byte(list[0].Name)
			})); got != "slow" {
				t.Errorf("got %s", got)
			}
		})
	}
	<-begun
	name := func(list []openapi.Plugin) []byte { return []byte(list[0].Name) }
	for range 2 {
		if got := string(d.of(other, name)); got != "other" {
			t.Errorf("got %s", got)
		}
	}
	close(end)
	all.Wait()
	if written != 1 {
		t.Errorf("written %d times", written)
	}
}
