package host

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestOffPluginIsSkipped: a plugin with on_error = "skip" that keeps failing for a client is skipped before and after
// it is switched off for it, on every route, whole and streamed, and the reply names it; so it is in the runs of a
// program. A guard with another on_error is never left out: the requests fail, then they are refused.
func TestOffPluginIsSkipped(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugins.BreakerFaults = 2
		tattle(c, "logits", "sampler", "guard")
		stops := c.Plugin[len(c.Plugin)-1]
		stops.Name, stops.OnError = "guard-true-stop", config.OnErrorStop
		c.Plugin = append(c.Plugin, stops, config.Plugin{Name: "vote", Source: config.Builtin + "vote",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	skips := func(name, path, list, body, why string) {
		t.Helper()
		got := p.raw(t, path, fmt.Sprintf(body, list))
		if !strings.HasPrefix(got, "200 ") || strings.Count(got, "X-Plugin-Skipped: "+name+"\r\n") != 1 ||
			!strings.Contains(got, `"plugins":[{"name":"`+name+`","error":"`+why) ||
			strings.Count(got, `{"name":"`+name+`","error":`) != 1 {
			t.Errorf("%s, %s, want it skipped with %q:\n%s", name, path, why, got)
		}
	}
	routes := tattleRoutes()
	for _, kind := range []string{"logits", "sampler", "guard"} {
		name := kind + "-true-skip"
		list := `[{"name":"` + name + `"}]`
		for range 2 {
			skips(name, routes[0][0], list, routes[0][1], "tgi_"+kind+"_")
		}
		for _, r := range routes {
			if r[0] == "/" || r[0] == "/invocations" {
				continue // nothing of plugins in the reply
			}
			skips(name, r[0], list, r[1], "switched off for this client at ")
		}
		if kind != "guard" {
			skips(name, "/generate", `[{"name":"vote","params":{"n":2}},{"name":"`+name+`"}]`, routes[0][1],
				"switched off for this client at ")
		}
	}
	for name, first := range map[string]int{"guard-true-fail": http.StatusFailedDependency,
		"guard-true-stop": http.StatusOK, "logits-true-fail": http.StatusFailedDependency} {
		for i := range 4 {
			got := p.raw(t, routes[0][0], fmt.Sprintf(routes[0][1], `[{"name":"`+name+`"}]`))
			want, off := first, i >= 2
			if off {
				want = http.StatusFailedDependency
			}
			if !strings.HasPrefix(got, fmt.Sprint(want, " ")) || strings.Contains(got, "switched off") != off {
				t.Errorf("%s, request %d, want %d: %s", name, i, want, got)
			}
		}
	}
}
