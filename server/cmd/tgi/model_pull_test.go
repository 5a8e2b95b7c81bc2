package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/models/library"
	"tgi/models/library/fetch/hubtest"
	"tgi/models/library/progress"
	"tgi/server/host/catalog"
)

const hubID library.ID = "org/model"

// modelFolder is an empty models folder, with the flags that name it and a hub. The
// test runs in a folder without settings and with nothing in the environment that
// would be one.
func modelFolder(t *testing.T, h *hubtest.Hub) (lib *library.Library, flags []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HF_TOKEN", "HF_API_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "MODEL_ID",
		"HF_MODEL_ID", "TGI_CONFIG"} {
		t.Setenv(name, "")
	}
	t.Chdir(dir)
	flags = []string{"--models-folder", filepath.Join(dir, "models")}
	if h != nil {
		flags = append(flags, "--hub-url", h.URL)
	}
	return sure(library.Open(library.Options{Dir: filepath.Join(dir, "models")})), flags
}

// tgiModel runs a command of `tgi model`, in a folder that flags name.
func tgiModel(t *testing.T, want int, flags []string, args ...string) (stdout, stderr string) {
	t.Helper()
	return runTgi(t, want, append(append([]string{"model"}, args...), flags...)...)
}

// isWhole fails the test unless the library has the hub's model, with its bytes.
func isWhole(t *testing.T, lib *library.Library, h *hubtest.Hub, id library.ID) {
	t.Helper()
	m, err := lib.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range h.Files {
		got, err := os.ReadFile(filepath.Join(m.Dir, name))
		if name == "README.md" {
			if err == nil {
				t.Error("README.md was fetched")
			}
		} else if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %v, or other bytes", name, err)
		}
	}
	if n := lib.Partial(id); n != 0 {
		t.Errorf("%d bytes of the pull are left", n)
	}
}

func TestModelPull(t *testing.T) {
	h := hubtest.New(t, hubtest.Checkpoint)
	lib, flags := modelFolder(t, h)
	t.Setenv("HF_TOKEN", "hf_secret")
	out, errs := tgiModel(t, 0, flags, "pull", "org/model@refs/pr/1")
	isWhole(t, lib, h, hubID)
	contains(t, out, "org/model: Qwen2ForCausalLM, 103K parameters, context of 160 tokens, ", filepath.Join(lib.Dir(),
		"org", "model")+"\n")
	contains(t, errs, "org/model: 100%  ")
	if !h.Saw("Bearer hf_secret") || strings.Contains(out+errs, "hf_secret") {
		t.Errorf("the token was not sent, or shown\n%s%s", out, errs)
	}

	out, _ = tgiModel(t, 0, flags, "list")
	contains(t, out, "ID         SIZE", "org/model  ",
		"  103K        160      safetensors F32   downloaded           "+h.URL+"/org/model@c0ffee00c0ff\n")
	var list struct {
		Folder string
		Models []catalog.Model
	}
	out, _ = tgiModel(t, 0, flags, "list", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || list.Folder != lib.Dir() || len(list.Models) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	if m := list.Models[0]; m.ID != hubID || m.Revision != hubtest.Commit || m.State != "downloaded" ||
		m.Parameters != 103232 || m.Files == 0 || m.Declared || m.Default {
		t.Errorf("got %+v", m)
	}
	if m := list.Models[1]; m.ID != "tgi-demo" || !m.Declared || !m.Default || m.Dir != "" {
		t.Errorf("got %+v", m)
	}
	out, _ = tgiModel(t, 0, flags, "info", "org/model")
	contains(t, out, "org/model: Qwen2ForCausalLM, 3 layers of 64", "103K parameters", "int8 106.2 KiB",
		"768 B for each token, 120.0 KiB for the whole context of 160",
		"no template: conversations are refused", "no tokenizer.json", h.URL+"/org/model at revision "+hubtest.Commit,
		hubtest.Sum(h.Files[hubtest.Weights])+"  "+hubtest.Weights)

	_, errs = tgiModel(t, 1, flags, "pull", "org/model")
	contains(t, errs,
		"model org/model: model exists already: `tgi model rm org/model` removes it, --id gives the new one another id")
	tgiModel(t, 0, flags, "pull", "org/model", "--id=mine")
	isWhole(t, lib, h, "mine")
	_, errs = tgiModel(t, 1, flags, "pull", "org/model", "--id", "mine/too")
	contains(t, errs, "mine is a model, and no other lies inside it")

	size := folderSize(filepath.Join(lib.Dir(), "org", "model"))
	out, _ = tgiModel(t, 0, flags, "rm", "org/model")
	contains(t, out, "removed org/model, "+progress.Bytes(size)+" freed\n")
	if lib.Has(hubID) || size == 0 {
		t.Errorf("the model is still there, or had no bytes: %d", size)
	}
	_, errs = tgiModel(t, 1, flags, "rm", "org/model")
	contains(t, errs, "model org/model: model not found")
}

func TestModelPullFails(t *testing.T) {
	h := hubtest.New(t, hubtest.Checkpoint)
	h.Promise(hubtest.Weights, strings.Repeat("00", 32))
	lib, flags := modelFolder(t, h)
	_, errs := tgiModel(t, 1, flags, "pull", "org/model")
	contains(t, errs, hubtest.Weights+": checksum mismatch",
		"the same command goes on from there, `tgi model rm org/model` removes them")
	if all := sure(lib.List()); len(all) > 0 {
		t.Errorf("a model came of a wrong checksum: %v", all)
	}
	left := lib.Partial(hubID)
	_, errs = tgiModel(t, 1, flags, "info", "org/model")
	contains(t, errs, "model org/model: model not found: "+progress.Bytes(left)+" of it are here")
	out, _ := tgiModel(t, 0, flags, "rm", "org/model")
	contains(t, out, "removed what was fetched of org/model, "+progress.Bytes(left)+" freed")
	if n := lib.Partial(hubID); n > 0 || left == 0 {
		t.Errorf("%d bytes of %d are left", n, left)
	}
	_, errs = tgiModel(t, 1, flags, "pull", "org/other")
	contains(t, errs, "org/other", "status 404; if it is private, its token is given by HF_TOKEN")
}

func TestModelPullUsage(t *testing.T) {
	lib, flags := modelFolder(t, nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pull"}, "model pull takes one source, got 0"},
		{[]string{"pull", "a", "b"}, "model pull takes one source, got 2"},
		{[]string{"pull", "a/b/c"}, "source \"a/b/c\": want namespace/name"},
		{[]string{"pull", "ftp://h/x"}, "source \"ftp://h/x\": want namespace/name"},
		{[]string{"pull", "a@v", "--revision", "w"}, "the revision is given twice, as v and as w"},
		{[]string{"pull", "https://h/x.tar", "--revision", "w"}, "--revision is for repositories of the hub"},
		{[]string{"pull", "a", "--sha256", "00"}, "--sha256 is for URLs"},
		{[]string{"pull", "a", "--revision", "a..b"}, "bad source: revision \"a..b\": want a branch, tag or commit"},
		{[]string{"pull", "a", "--id", "../b"}, "bad model id \"../b\""},
		{[]string{"pull", "a", "--idd", "b"}, "unknown flag --idd"},
		{[]string{"pull", "a", "--id"}, "--id wants a value"},
		{[]string{"list", "--json=yes"}, "--json yes: must be true or false"},
		{[]string{"list", "x"}, "model list takes no \"x\"; `tgi model info x` describes one model"},
		{[]string{"rm"}, "model rm takes one id, got 0"},
		{[]string{"rm", "/etc"}, "bad model id \"/etc\""},
		{[]string{"info", "a", "b"}, "model info takes one id or folder, got 2"},
		{[]string{"pul"}, "unknown command model pul; did you mean pull?"},
	} {
		out, errs := runTgi(t, 2, append([]string{"model"}, c.args...)...)
		if !strings.HasPrefix(errs, "tgi: "+c.want) || out != "" {
			t.Errorf("%q: got %s%s", c.args, out, errs)
		}
	}
	_, errs := tgiModel(t, 1, flags, "pull", "http://127.0.0.1:1/x.tar")
	contains(t, errs, "host 127.0.0.1:1 is neither that of models.hub nor among models.allow_hosts")
	if _, err := os.Stat(filepath.Join(lib.Dir(), "x")); err == nil {
		t.Error("something is there")
	}
}

// TestModelPullArchive: an archive of a host that is allowed.
func TestModelPullArchive(t *testing.T) {
	archive := tarOf(t, hubtest.Checkpoint)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/small.tar" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(archive)
	}))
	t.Cleanup(server.Close)
	lib, flags := modelFolder(t, nil)
	host := strings.TrimPrefix(server.URL, "http://")
	flags = append(flags, "--models-allow-hosts", "other.example,"+host)
	_, wrong := tgiModel(t, 1, flags, "pull", server.URL+"/small.tar?key=secret", "--sha256", strings.Repeat("00", 32))
	contains(t, wrong, "checksum mismatch: sha256 is "+hubtest.Sum(archive))
	out, errs := tgiModel(t, 0, flags, "pull", server.URL+"/small.tar?key=secret", "--sha256", hubtest.Sum(archive))
	contains(t, out, "small: Qwen2ForCausalLM")
	shown, _ := tgiModel(t, 0, flags, "list")
	contains(t, shown, server.URL+"/small.tar\n")
	_, gone := tgiModel(t, 1, flags, "pull", server.URL+"/gone.zip")
	contains(t, gone, "model gone: archive: status 404: not found at the source\n")
	if strings.Contains(errs+out+shown, "secret") {
		t.Errorf("the URL's query is shown:\n%s%s%s", errs, out, shown)
	}
	if info, err := lib.Describe("small"); err != nil || info.Parameters != 103232 {
		t.Errorf("got %+v, %v", info, err)
	}
}

// tarOf returns an archive of a folder's files.
func tarOf(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// modelProcess is the command line, as JSON, that the test's own program is to run.
const modelProcess = "TGI_TEST_MODEL_PROCESS"

// TestModelProcess runs it.
func TestModelProcess(t *testing.T) {
	text := os.Getenv(modelProcess)
	if text == "" {
		t.Skip("runs what other tests ask for")
	}
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	os.Exit(run(args, os.Stdout, os.Stderr))
}

// startPull starts a pull in another process, which is killed at the test's end.
func startPull(t *testing.T, flags []string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	args := append([]string{"model", "pull", string(hubID)}, flags...)
	cmd = exec.Command(sure(os.Executable()), "-test.run=^TestModelProcess$")
	cmd.Env = append(os.Environ(), modelProcess+"="+string(sure(json.Marshal(args))))
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, stderr
}

// TestModelPullGoesOn: a pull whose process is killed, and one that Ctrl-C ends, are
// gone on with by the next process, byte for byte.
func TestModelPullGoesOn(t *testing.T) {
	h := hubtest.New(t, hubtest.Checkpoint)
	lib, flags := modelFolder(t, h)
	const first, second = 20_000, 30_000
	size := len(h.Files[hubtest.Weights])
	if first+second >= size {
		t.Fatalf("%s has %d bytes", hubtest.Weights, size)
	}
	// arrived waits for what another process writes: its disk is all that tells.
	arrived := func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for weightsHere(t, lib) < n {
			select {
			case <-ctx.Done():
				t.Fatalf("%d bytes arrived, want %d", weightsHere(t, lib), n)
			case <-tick.C:
			}
		}
	}

	h.StopOnce(hubtest.Weights, first)
	cmd, _ := startPull(t, flags)
	arrived(first)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	h.Asked()
	if lib.Has(hubID) {
		t.Fatal("half a model is one")
	}

	h.StopOnce(hubtest.Weights, second)
	cmd, stderr := startPull(t, flags)
	arrived(first + second)
	// A pull of the same id meanwhile, in this process, is refused.
	_, errs := tgiModel(t, 1, flags, "pull", "org/model")
	contains(t, errs, "model org/model: model is in use: it is being fetched already")
	_, errs = tgiModel(t, 1, flags, "rm", "org/model")
	contains(t, errs, "model is in use")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	contains(t, stderr.String(), " of org/model are here already, going on from there\n", "interrupted; ",
		" are here: the same command goes on from there")
	if hits := h.Asked(); !slices.Contains(hits, hubtest.Weights+" bytes=20000-") ||
		slices.Contains(hits, "config.json") {
		t.Errorf("the second process asked for %q", hits)
	}
	out, _ := tgiModel(t, 0, flags, "pull", "org/model")
	contains(t, out, "org/model: Qwen2ForCausalLM")
	if hits := h.Asked(); !slices.Contains(hits, hubtest.Weights+" bytes=50000-") {
		t.Errorf("the last process asked for %q", hits)
	}
	isWhole(t, lib, h, hubID)
}

// weightsHere returns the size of the part of hubtest.Weights in a pull that is under way.
func weightsHere(t *testing.T, lib *library.Library) (n int) {
	t.Helper()
	for _, name := range sure(filepath.Glob(filepath.Join(lib.Dir(), ".tgi", "partial", "*", "*", "*.json"))) {
		var note struct{ Path string }
		data, err := os.ReadFile(name)
		if err != nil || json.Unmarshal(data, &note) != nil || note.Path != hubtest.Weights {
			continue // it is being written
		}
		if st, err := os.Stat(strings.TrimSuffix(name, ".json") + ".part"); err == nil {
			n = int(st.Size())
		}
	}
	return n
}

// TestModelPullInterrupted: a pull that ends before anything arrived leaves nothing to
// tell of.
func TestModelPullInterrupted(t *testing.T) {
	h := hubtest.New(t, hubtest.Checkpoint)
	_, flags := modelFolder(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := console{out: &out, errors: &errs}.execute(ctx, append([]string{"model", "pull", "org/model"}, flags...))
	if code != exitInterrupted || errs.String() != "interrupted\n" || out.Len() > 0 {
		t.Errorf("exit status %d\n%s\n%s", code, &out, &errs)
	}
	if len(h.Asked()) > 0 || h.Saw("") {
		t.Error("the hub was asked")
	}
}

func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
