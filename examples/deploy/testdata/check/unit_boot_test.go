package check_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// booted is a systemd that runs in namespaces of its own.
type booted struct{ pid string }

// does runs a script where systemd is the first process.
func (b booted) does(ctx context.Context, argv ...string) (string, error) {
	enter := []string{"-t", b.pid, "-m", "-u", "-i", "-n", "-C", "-p", "--", "env", "-i",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	out, err := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...).CombinedOutput()
	return string(out), err
}

// boot starts systemd with what is in the folder install of a folder, and ends it with the test.
func boot(t *testing.T, folder string) booted {
	t.Helper()
	probe := `mount --make-rprivate / && mount -t cgroup2 cgroup2 "$1" && mkdir "$1/tgi-probe-$$" &&
		rmdir "$1/tgi-probe-$$"`
	if os.Geteuid() != 0 {
		t.Skip("the unit is not booted: only root makes the namespaces of a systemd of its own")
	}
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--net", "--cgroup", "bash", "-c", probe,
		"probe", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("the unit is not booted: no namespaces or groups of processes for its systemd: %v %s", err, out)
	}
	groups := filepath.Join(folder, "groups")
	cmd := exec.Command("unshare", "--mount", path(t, "testdata", "check", "testdata", "boot"), folder)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // systemd dies with who made its namespaces, and its processes with it
		<-ended
		// Groups are removed from below, once their processes are gone.
		remove := fmt.Sprintf(`mount -t cgroup2 cgroup2 %[1]q && for _ in $(seq 50); do
			find %[1]q/%[2]s-* -depth -type d -exec rmdir {} + && break; sleep 0.1; done`, groups,
			filepath.Base(folder))
		if out, err := exec.Command("unshare", "--mount", "bash", "-c", remove).CombinedOutput(); err != nil {
			t.Logf("groups of processes stay: %v %s", err, out)
		}
	})
	children := fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("systemd does not boot: %s", &said)
		default:
		}
		pid, err := os.ReadFile(children)
		b := booted{strings.TrimSpace(string(pid))}
		if err != nil || b.pid == "" {
			continue
		}
		if name, _ := os.ReadFile("/proc/" + b.pid + "/comm"); string(name) != "systemd\n" {
			continue
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		state, _ := b.does(ctx, "systemctl", "is-system-running", "--wait")
		stop()
		if s := strings.TrimSpace(state); s == "running" || s == "degraded" {
			return b
		}
	}
	t.Fatal("systemd has not booted after a minute")
	return booted{}
}

// TestUnitRuns: a real systemd starts the unit as it is installed by docs/deploy.md; confined as it says the server
// answers, compiles plugins, reads settings again, keeps uploads over a restart, and drains before it stops.
func TestUnitRuns(t *testing.T) {
	folder := t.TempDir()
	install := filepath.Join(folder, "install")
	in := func(name ...string) string { return filepath.Join(append([]string{install}, name...)...) }
	copies := map[string]string{
		in("opt", "tgi", "tgi"):                       program(t),
		in("etc", "systemd", "system", "tgi.service"): path(t, "tgi.service"),
		in("etc", "tgi", "tgi.toml"):                  path(t, "tgi.toml"),
		in("opt", "unit"):                             path(t, "testdata", "check", "testdata", "unit"),
	}
	for _, n := range []string{"1", "2"} {
		copies[in("opt", "marker-"+n+".wasm")] = path(t, "..", "hot-swap", "marker",
			"marker-"+n+".wasm")
	}
	for to, from := range copies {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		passes(t, "cp", from, to)
	}
	environment := in("etc", "tgi", "environment")
	if err := os.WriteFile(environment, []byte("API_KEY=client\nADMIN_KEY=boss\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arch := strings.TrimSpace(passes(t, "go", "env", "GOHOSTARCH"))
	passes(t, "go", "-C", root, "run", "./runtime/ort/fetch/cmd", "--platform", "linux-"+arch, "--into",
		in("opt", "tgi"))

	b := boot(t, folder)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	out, err := b.does(ctx, "/opt/unit")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"confined: CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2\n",
		"a user of its own, 700\n", "3 plus 4 is 7\n", "reloaded\n", "interpreted: 0\n", "* 827f02dac71dae4b",
		"stream: 8 texts, data: [DONE]\n", "Result=success\nExecMainStatus=0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
