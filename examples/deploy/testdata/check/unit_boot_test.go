package check_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// systemd is where distributions have it, in the root that boot makes too.
const systemd = "/lib/systemd/systemd"

// namespaces is a running testdata/boot.
type namespaces struct {
	folder string
	ended  chan struct{} // closed when it has ended, after which err is set
	err    error
	input  io.Closer
	said   *os.File
}

// enter starts testdata/boot, with what is in the folder install of a folder. It is ended with the test, or by the end
// of the test's process; then the folder is gone.
func enter(t *testing.T, folder string, argv ...string) *namespaces {
	t.Helper()
	for _, name := range []string{"setsid", "unshare", "nsenter", "setpriv", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%v: install it (.ci/toolchains does)", err)
		}
	}
	// A file, not a pipe: boot still writes after the test's process was killed. Nobody finds it by name.
	said, err := os.CreateTemp("", "boot")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(said.Name()); err != nil {
		t.Fatal(err)
	}
	// In a session of its own, as what ends the test at a terminal must not end who clears up.
	cmd := exec.Command("setsid", append([]string{"unshare", "--mount",
		path(t, "testdata", "check", "testdata", "boot"), folder}, argv...)...)
	cmd.Stdout, cmd.Stderr = said, said
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &namespaces{folder: folder, ended: make(chan struct{}), input: input, said: said}
	go func() { n.err = cmd.Wait(); close(n.ended) }()
	t.Cleanup(func() {
		_ = n.input.Close()
		select {
		case <-n.ended:
		case <-time.After(time.Minute):
			t.Errorf("what was booted has not ended after a minute: %s", n)
			return
		}
		if n.err != nil && (!t.Skipped() || n.err.Error() == "exit status 99") { // 99: the group of processes stays
			t.Errorf("boot: %v %s", n.err, n)
		}
	})
	return n
}

// String returns what boot and its program have printed.
func (n *namespaces) String() string {
	text, err := io.ReadAll(io.NewSectionReader(n.said, 0, 1<<16))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// over returns whether boot has ended.
func (n *namespaces) over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// pid returns systemd's number, or nothing while it does not run.
func (n *namespaces) pid() string {
	text, _ := os.ReadFile(filepath.Join(n.folder, "pid"))
	pid := strings.TrimSpace(string(text))
	if name, _ := os.ReadFile("/proc/" + pid + "/comm"); pid == "" || string(name) != "systemd\n" {
		return ""
	}
	return pid
}

// does runs a program where systemd is the first process. What it started may outlive the context, not systemd.
func (n *namespaces) does(ctx context.Context, argv ...string) (string, error) {
	enter := []string{"-t", n.pid(), "-m", "-u", "-i", "-n", "-C", "-p", "--", "env", "-i",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "setpriv", "--pdeathsig", "KILL", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
	cmd.WaitDelay = time.Second // other processes have its output too
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mayBoot skips the test where namespaces, groups of processes or mounts that a systemd needs are refused: all that
// boot does is done once, with another program for systemd.
func mayBoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the unit is not booted: only root makes the namespaces of a systemd of its own")
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "install"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := enter(t, folder, "ls", systemd)
	select {
	case <-n.ended:
	case <-time.After(time.Minute):
		t.Fatalf("the namespaces for a systemd are not made after a minute: %s", n)
	}
	if n.err != nil {
		t.Skipf("the unit is not booted: no namespaces for its systemd, or no systemd: %v %s", n.err, n)
	}
}

// boot starts systemd with what is in the folder install of a folder. A systemd that never comes to its first unit is
// one that the kernel refuses something, and skips the test.
func boot(t *testing.T, folder string) *namespaces {
	t.Helper()
	n := enter(t, folder, systemd, "--show-status=no")
	state, ran, why := "", false, "after a minute"
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !n.over(); time.Sleep(100 * time.Millisecond) {
		if n.pid() == "" {
			continue
		}
		ran = true
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		out, _ := n.does(ctx, "systemctl", "is-system-running")
		stop()
		switch s := strings.TrimSpace(out); s {
		case "running", "degraded":
			return n
		case "initializing", "starting", "maintenance", "stopping": // it answers, so it has units
			state = s
		}
	}
	if n.over() {
		ran = !strings.Contains(n.String(), "boot: line") // what fails before systemd says so
		why = fmt.Sprintf("ended by %v", n.err)
	}
	if ran && state == "" {
		t.Skipf("the unit is not booted: systemd has started no unit, %s: %s", why, n)
	}
	t.Fatalf("systemd does not boot, and is %q, %s: %s", state, why, n)
	return nil
}

// TestUnitRuns: a real systemd starts the unit as it is installed by docs/deploy.md; confined as it says the server
// answers, compiles plugins, reads settings again, keeps uploads over a restart, and drains before it stops.
func TestUnitRuns(t *testing.T) {
	mayBoot(t)
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

	n := boot(t, folder)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	out, err := n.does(ctx, "/opt/unit")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"confined: CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2\n",
		"a user of its own, 700\n", "3 plus 4 is 7\n", "reloaded\n", "serving: 1\n", "interpreted: 0\n",
		"* 827f02dac71dae4b", "stream: 8 texts, data: [DONE]\n", "Result=success\nExecMainStatus=0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
