package jinja

import (
	"fmt"
	"sync"
	"testing"
)

func TestCache(t *testing.T) {
	var c Cache
	first, err := c.Parse("a", "{{ 1 }}")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Parse("a", "{{ 1 }}"); again != first {
		t.Error("the same source was parsed twice")
	}
	if other, _ := c.Parse("a", "{{ 2 }}"); other == first {
		t.Error("an edited source gave the old template")
	}
	if _, err := c.Parse("a", "{{"); err == nil {
		t.Error("a broken source parsed")
	}
	for i := range 2 * cacheSize {
		if _, err := c.Parse("a", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.items) != cacheSize || len(c.order) != cacheSize {
		t.Errorf("%d templates kept, want %d", len(c.items), cacheSize)
	}
	if again, _ := c.Parse("a", "{{ 1 }}"); again == first {
		t.Error("the oldest template was kept")
	}
}

// TestConcurrentRenderings: a template is shared by many renderings.
func TestConcurrentRenderings(t *testing.T) {
	tmpl := mustParse(t, "{% set ns = namespace(n=0) %}{% for i in range(k) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}")
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for range 50 {
				segs, err := tmpl.Render(Input{JSON: fmt.Appendf(nil, `{"k": %d}`, k)}, Limits{})
				if want := fmt.Sprint(k * (k - 1) / 2); err != nil || Text(segs) != want {
					t.Errorf("k=%d: %q, %v, want %s", k, Text(segs), err, want)
				}
			}
		})
	}
	wg.Wait()
}
