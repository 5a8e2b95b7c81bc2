package check_test

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestContainerfile: hadolint finds nothing. `make test-deploy` installs it and names it in HADOLINT.
func TestContainerfile(t *testing.T) {
	hadolint := cmp.Or(os.Getenv("HADOLINT"), "hadolint")
	for _, name := range []string{"Containerfile", "Containerfile.release"} {
		passes(t, hadolint, "--failure-threshold", "style", path(t, name))
	}
	image := func(name string) string {
		_, stage, found := strings.Cut(read(t, name), "\nFROM ${BASE_IMAGE}\n")
		if !found {
			t.Fatalf("%s has no last stage", name)
		}
		return stage
	}
	if image("Containerfile") != image("Containerfile.release") {
		t.Error("the image from the source is not the one from an archive")
	}
	careless := filepath.Join(t.TempDir(), "Containerfile")
	write(t, careless, strings.Replace(read(t, "Containerfile"), "ARG BASE_IMAGE=", "ARG BASE_IMAGE=a\nRUN cd /tmp\nARG B=", 1))
	if out, err := tool(t, hadolint, careless); err == nil {
		t.Errorf("what is wrong passes: %s", out)
	}
}

// containers is a program that runs containers, with the arguments of each of its commands.
type containers []string

// engines returns those that are installed: docker, and podman with its own runtime and with runc, which takes more
// machines. Podman keeps what it makes in a folder of the test.
func engines(t *testing.T) (list []containers) {
	t.Helper()
	folder := t.TempDir()
	podman := containers{"podman", "--root", filepath.Join(folder, "root"), "--runroot", filepath.Join(folder, "run"),
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file"}
	if _, err := exec.LookPath("docker"); err == nil {
		list = append(list, containers{"docker"})
	}
	if _, err := exec.LookPath("podman"); err == nil {
		list = append(list, podman)
		if runc, err := exec.LookPath("runc"); err == nil {
			list = append(list, append(slices.Clone(podman), "--runtime", runc))
		}
	}
	if len(list) == 0 {
		t.Skip("no image is built: neither docker nor podman is installed")
	}
	return list
}

// run are the arguments that run a container.
func (c containers) run(args ...string) []string {
	argv := append(slices.Clone(c), "run")
	if c[0] == "podman" { // its own bounds are higher than a test may set
		argv = append(argv, "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")
	}
	return append(argv, args...)
}

// build are the arguments that build an image. Without layers podman keeps no copy of the tree for each line of the file:
// that would be gigabytes.
func (c containers) build(args ...string) []string {
	argv := append(slices.Clone(c), "build", "-q")
	if c[0] == "podman" {
		argv = append(argv, "--layers=false")
	}
	return append(argv, args...)
}

// works returns why no container runs here: it builds the image base of a folder, which has the program, and runs it.
func (c containers) works(t *testing.T, base, folder string) error {
	t.Helper()
	for _, argv := range [][]string{
		append(slices.Clone(c), "info"),
		c.build("-t", base, folder),
		c.run("--rm", "--network", "host", base, "/tgi", "version"),
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w %s", strings.Join(argv, " "), err, out[max(0, len(out)-300):])
		}
	}
	return nil
}

// do runs a command, which must succeed, and returns what it printed.
func (c containers) do(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(passes(t, append(slices.Clone(c), args...)...))
}

// quietly runs a command whose outcome does not matter, and returns what it printed.
func (c containers) quietly(args ...string) string {
	out, _ := exec.Command(c[0], slices.Concat(c[1:], args)...).CombinedOutput()
	return string(out)
}

// baseFolder makes the folder of an image of the libraries that the program is linked with, as they are on this
// machine. The real base cannot be fetched where a test runs without a network; like it this one has no shell.
func baseFolder(t *testing.T, archive string) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{"tgi": filepath.Join(archive, "tgi")}
	for _, file := range []string{"tgi", "libonnxruntime.so"} {
		for _, lib := range library.FindAllString(passes(t, "ldd", filepath.Join(archive, file)), -1) {
			if !strings.HasPrefix(lib, archive) {
				files[lib] = lib
			}
		}
	}
	for to, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(folder, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(folder, "Containerfile"), "FROM scratch\nCOPY . /\n")
	return folder
}

// library is the file of a library in the output of ldd.
var library = regexp.MustCompile(`/\S+\.so\S*`)

// TestImage: the image of a release archive is built, and serves without rights on a root that cannot be written.
func TestImage(t *testing.T) {
	all := engines(t)
	arch := strings.TrimSpace(passes(t, "go", "env", "GOHOSTARCH"))
	tree := filepath.Join(t.TempDir(), "tree")
	clone(t, tree)
	made, name := release(t, tree, nil, arch), "tgi-v1.2.3-linux-"+arch
	passes(t, "tar", "xzf", filepath.Join(made, name+".tar.gz"), "-C", made)
	archive := filepath.Join(made, name)

	const base, image = "localhost/tgi-test-base:latest", "localhost/tgi-test:latest"
	var c containers
	var why []string
	folder := baseFolder(t, archive)
	for _, one := range all {
		t.Cleanup(func() { one.quietly("rmi", "-f", image, base) }) // the base is in each engine's store
		err := one.works(t, base, folder)
		if err == nil {
			c = one
			break
		}
		why = append(why, err.Error())
	}
	if c == nil {
		t.Skip("no container runs here: " + strings.Join(why, "; "))
	}
	passes(t, c.build("--build-arg", "BASE_IMAGE="+base, "-f", filepath.Join(archive, "examples/deploy/Containerfile"),
		"-t", image, archive)...)
	if v := c.do(t, "inspect", "--format", `{{index .Config.Labels "org.opencontainers.image.version"}}`, image); v != "v1.2.3" {
		t.Errorf("the image says that it is %s", v)
	}

	port := freePort(t)
	id := strings.TrimSpace(passes(t, c.run("-d", "--read-only", "--cap-drop", "ALL", "--security-opt",
		"no-new-privileges", "--network", "host", "-e", "HOSTNAME=127.0.0.1", "-e", "PORT="+port, image)...))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the container's log:\n%s", c.quietly("logs", id))
		}
		c.quietly("rm", "-f", "-v", id)
	})
	url := "http://127.0.0.1:" + port
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		r, err := http.Get(url + "/readyz")
		if err == nil {
			r.Body.Close()
		}
		if err == nil && r.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is not ready: %v", err)
		}
	}
	if status := post(t, url+"/generate", `{"inputs": "Once upon a time", "parameters": {"max_new_tokens": 8}}`); status != 200 {
		t.Errorf("/generate: %d", status)
	}
	if out := c.do(t, "exec", id, "/opt/tgi/tgi", "health"); out != "ready" {
		t.Errorf("its health check says %q", out)
	}
	if out := c.do(t, "inspect", "--format", "{{.HostConfig.ReadonlyRootfs}}", id); out != "true" {
		t.Errorf("its root is read-only: %s", out)
	}
	status, err := os.ReadFile("/proc/" + c.do(t, "inspect", "--format", "{{.State.Pid}}", id) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nUid:\t65532\t65532\t", "\nCapEff:\t0000000000000000\n", "\nCapBnd:\t0000000000000000\n",
		"\nNoNewPrivs:\t1\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the server's process has no %q in\n%s", want, status)
		}
	}
	c.do(t, "stop", "-t", "100", id)
	if code := c.do(t, "inspect", "--format", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("after SIGTERM it ends with %s", code)
	}
}

// freePort returns a port that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
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
