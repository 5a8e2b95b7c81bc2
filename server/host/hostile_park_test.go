package host

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"tgi/server/config"
)

// figure reads a figure without labels from the metrics.
func (p *plugged) figure(t *testing.T, name string) float64 {
	t.Helper()
	_, text := p.call(t, http.MethodGet, "/metrics", nil)
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no figure %s in\n%s", name, text)
	return 0
}

// TestSlowPluginSitsOut checks that while a guest computes up to its limit, the others continue step by step and get
// their text.
func TestSlowPluginSitsOut(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Runtime.Verify = true })
	status, text := p.call(t, http.MethodPut, "/admin/plugins/slow?limits.fuel_per_step=3000000000",
		when(forever()).wasm())
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	harm := func() {
		if status, text := p.generate(t, 5, "slow", `{"harm":1}`); status != http.StatusFailedDependency ||
			!strings.Contains(text, "out of ") {
			t.Errorf("%d %s", status, text)
		}
	}
	harm()
	if n := p.figure(t, "tgi_plugin_sat_out_steps"); n != 0 {
		t.Errorf("it sat out %v steps although it was alone", n)
	}
	nb := p.watchNeighbours(t, 2)
	harm()
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	late, steps := p.figure(t, "tgi_plugin_late_count"), p.figure(t, "tgi_plugin_sat_out_steps")
	if late == 0 || steps < 10 {
		t.Errorf("late %v times, the others made %v steps meanwhile", late, steps)
	}
	p.quiet(t)
	if n := p.figure(t, "tgi_batch_parked_size"); n != 0 {
		t.Errorf("%v sequences are parked at the end", n)
	}
}
