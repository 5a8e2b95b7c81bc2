package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlerts: promtool reads the rules and runs their tests, which fail when a rule is changed.
func TestAlerts(t *testing.T) {
	passes(t, "promtool", "check", "rules", path(t, "prometheus", "alerts.yml"))
	passes(t, "promtool", "test", "rules", path(t, "prometheus", "alerts_test.yml"))

	rules := read(t, "prometheus", "alerts.yml")
	for name := range alerts(t) {
		folder := t.TempDir()
		// Each rule in turn never fires: its test has to notice.
		at := strings.Index(rules, "alert: "+name+"\n")
		broken := rules[:at] + strings.Replace(rules[at:], "labels: {", "labels: {broken: \"yes\", ", 1)
		write(t, filepath.Join(folder, "alerts.yml"), broken)
		write(t, filepath.Join(folder, "alerts_test.yml"), read(t, "prometheus", "alerts_test.yml"))
		if out, err := tool(t, "promtool", "test", "rules", filepath.Join(folder, "alerts_test.yml")); err == nil {
			t.Errorf("%s has no test: it may be anything\n%s", name, out)
		}
	}
}

// TestPrometheus: promtool reads the settings of Prometheus.
func TestPrometheus(t *testing.T) {
	passes(t, "promtool", "check", "config", path(t, "prometheus", "prometheus.yml"))
}

// write writes a file of a test.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
