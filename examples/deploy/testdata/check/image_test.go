package check_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestContainerfile: hadolint finds nothing. `make test-deploy` installs it and names it in HADOLINT.
func TestContainerfile(t *testing.T) {
	hadolint := cmp.Or(os.Getenv("HADOLINT"), "hadolint")
	passes(t, hadolint, "--failure-threshold", "style", path(t, "Containerfile"))
	careless := filepath.Join(t.TempDir(), "Containerfile")
	write(t, careless, strings.Replace(read(t, "Containerfile"), "ARG BASE_IMAGE=", "ARG BASE_IMAGE=a\nRUN cd /tmp\nARG B=", 1))
	if out, err := tool(t, hadolint, careless); err == nil {
		t.Errorf("what is wrong passes: %s", out)
	}
}

// TestCompose: Compose's own reader accepts the file, and what is mounted is there.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{path(t, "compose.yaml")}, cli.WithName("tgi"),
		cli.WithWorkingDirectory(path(t)), cli.WithInterpolation(true), cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(project.ServiceNames(), " "); names != "grafana prometheus tgi" {
		t.Errorf("services are %s", names)
	}
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s is open to others at %s:%s", name, p.HostIP, p.Published)
			}
		}
	}
	b := project.Services["tgi"].Build
	if _, err := os.Stat(filepath.Join(b.Context, b.Dockerfile)); err != nil {
		t.Error(err)
	}
}
