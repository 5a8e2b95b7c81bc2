package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"sigs.k8s.io/yaml"
)

// maxExposure bounds what systemd-analyze security says of the unit, in tenths: 0 is the safest, 100 the least safe.
const maxExposure = "14"

// TestUnit: systemd accepts the unit, and finds it well confined.
func TestUnit(t *testing.T) {
	unit := read(t, "tgi.service")
	folder := t.TempDir()
	installed := filepath.Join(folder, "tgi.service")
	write(t, installed, strings.Replace(unit, "/opt/tgi/tgi serve", program(t)+" serve", 1))
	if out := strings.TrimSpace(passes(t, "systemd-analyze", "verify", "--man=no", installed)); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	passes(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+maxExposure, installed)

	misspelt := filepath.Join(folder, "misspelt.service")
	write(t, misspelt, strings.Replace(unit, "ProtectSystem=", "ProtectSytem=", 1))
	if out, _ := tool(t, "systemd-analyze", "verify", "--man=no", misspelt); !strings.Contains(out, "ProtectSytem") {
		t.Errorf("a misspelt key is not noticed: %s", out)
	}
}

// TestTimesToStop: whoever stops the server waits longer than it lets its requests run.
func TestTimesToStop(t *testing.T) {
	graceful := func(text string) time.Duration {
		t.Helper()
		var c struct {
			Server struct {
				Timeout string `toml:"graceful_termination_timeout"`
			}
		}
		if _, err := toml.Decode(text, &c); err != nil {
			t.Fatal(err)
		}
		return duration(t, c.Server.Timeout)
	}
	unit := regexp.MustCompile(`(?m)^TimeoutStopSec=(.*)$`).FindStringSubmatch(read(t, "tgi.service"))
	if unit == nil || duration(t, unit[1]) <= graceful(read(t, "tgi.toml")) {
		t.Errorf("the unit waits %v", unit)
	}
	var chart struct {
		Config                                      string
		TerminationGracePeriodSeconds, DrainSeconds int
	}
	decode(t, read(t, "chart", "values.yaml"), &chart)
	if g := time.Duration(chart.TerminationGracePeriodSeconds-chart.DrainSeconds) * time.Second; g <= graceful(chart.Config) {
		t.Errorf("the chart leaves %s", g)
	}
	var compose struct {
		Services map[string]struct {
			Grace string `json:"stop_grace_period"`
		}
	}
	decode(t, read(t, "compose.yaml"), &compose)
	defaults, err := os.ReadFile(filepath.Join(root, "tgi.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if g := duration(t, compose.Services["tgi"].Grace); g <= graceful(string(defaults)) {
		t.Errorf("Compose waits %s", g)
	}
}

// TestSettings: the server accepts the settings that the unit names.
func TestSettings(t *testing.T) {
	out, err := tool(t, program(t), "check", "--config", path(t, "tgi.toml"))
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// decode reads YAML.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// duration reads a time, which must be there.
func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
