// Package fetch installs the ONNX Runtime library into the user's cache folder: a pinned
// version, verified by a pinned checksum. It asks pip for the Python wheel and, if that fails,
// npm for the Node package, so a machine needs only one of them. It also accepts a package that
// was downloaded elsewhere. The build for NVIDIA GPUs, with the libraries of CUDA, is fetched
// only by those who ask for it (GPU). It is pure Go, so that it runs before anything that needs a C
// compiler is built.
//
// Callers: the command of `make ort`, and Locate of runtime/ort for the paths. A download starts one
// goroutine that reports progress and awaits it.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options of Library.
type Options struct {
	// Archive is the path of a downloaded wheel (.whl) or npm package (.tgz); empty asks pip
	// and npm.
	Archive string
	// Log receives progress messages; nil for none.
	Log io.Writer
	// Terminal says that Log is a terminal, where progress rewrites its line.
	Terminal bool
}

// Library ensures that the library of this platform is in the cache and returns its path. If it
// is there and intact, nothing is fetched. The file gets its name only when it is complete, so
// several programs may do this at once.
func Library(ctx context.Context, o Options) (string, error) {
	dest, err := LibraryPath()
	if err != nil {
		return "", err
	}
	p, ok := platforms[thisPlatform()]
	if !ok {
		return "", fmt.Errorf("there is no ONNX Runtime %s for %s: build it and set TGI_ORT_LIB to its path", Version,
			thisPlatform())
	}
	f := fetcher{platform: p, dest: dest, log: newProgress(o.Log, o.Terminal), run: runClient}
	if err := f.library(ctx, o.Archive); err != nil {
		return "", err
	}
	return dest, nil
}

// Bundle puts the library of a platform, such as linux-arm64, and its licences into folder dir, for those who pass it
// on. Node's package does not hold the licences, so it asks pip alone. What is there and intact is not fetched.
func Bundle(ctx context.Context, name, dir string, o Options) error {
	p, ok := platforms[name]
	if !ok {
		return fmt.Errorf("there is no ONNX Runtime %s for %q, only for %s", Version, name,
			strings.Join(slices.Sorted(maps.Keys(platforms)), ", "))
	}
	goos, _, _ := strings.Cut(name, "-")
	f := fetcher{platform: p, dest: filepath.Join(dir, libraryName(goos)), licences: licences,
		log: newProgress(o.Log, o.Terminal), run: runClient}
	return f.library(ctx, o.Archive)
}

// fetcher is one fetch.
type fetcher struct {
	platform
	dest     string
	licences []pin // those of the library, which are put beside it; without any only the library is wanted
	log      *progress
	// run runs a package client in folder dir; its error is exec.ErrNotFound if there is no
	// such program.
	run func(ctx context.Context, dir string, argv ...string) error
}

func (f *fetcher) library(ctx context.Context, archive string) error {
	if f.intact() {
		return nil
	}
	folder := filepath.Dir(f.dest)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	if archive != "" {
		return f.install(archive)
	}
	temp, err := os.MkdirTemp(folder, "fetch-")
	if err != nil {
		return fmt.Errorf("making a folder for the download: %w", err)
	}
	defer os.RemoveAll(temp)
	var failed []any
	clients := f.clients()
	if len(f.licences) > 0 {
		clients = clients[:1]
	}
	for _, client := range clients {
		err := f.download(ctx, filepath.Join(temp, client.name), client)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.log.line("%s: %v", client.name, err)
		failed = append(failed, client.name, err)
	}
	reasons := fmt.Errorf(strings.Repeat("; %s: %w", len(clients))[len("; "):], failed...)
	return fmt.Errorf("could not get ONNX Runtime %s (%w): install Python's pip or npm, or download the wheel onnxruntime "+
		"for %s elsewhere and set TGI_ORT_ARCHIVE to its path", Version, reasons, f.tag)
}

// client is a package manager that can download the library.
type client struct {
	name  string
	argv  [][]string // alternative commands, tried in order
	bytes int64      // size of the package, for progress
}

func (f *fetcher) clients() []client {
	pip := []string{"download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:",
		"--implementation", "cp", "--python-version", "3.12", "--abi", "cp312", "--platform", f.tag, "--dest", ".",
		"onnxruntime==" + Version}
	return []client{
		{"pip", pips(pip), 24e6},
		{"npm", [][]string{{"npm", "pack", "--silent", "onnxruntime-node@" + Version}}, 114e6},
	}
}

// pips are the commands that run pip with these arguments, to be tried in order.
func pips(args []string) [][]string {
	return [][]string{
		append([]string{"python3", "-m", "pip"}, args...),
		append([]string{"pip3"}, args...),
		append([]string{"pip"}, args...),
		append([]string{"python", "-m", "pip"}, args...),
	}
}

// download runs a client, which leaves its package in dir, and installs the library.
func (f *fetcher) download(ctx context.Context, dir string, c client) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	done := f.log.watch(fmt.Sprintf("downloading ONNX Runtime %s with %s", Version, c.name), dir, c.bytes)
	err := runFirst(ctx, f.run, dir, c)
	done()
	if err != nil {
		return err
	}
	for _, pattern := range []string{"*.whl", "*.tgz"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return f.install(found[0])
		}
	}
	return errors.New("it succeeded but left no package")
}

// runFirst runs a client's commands in folder dir until one succeeds.
func runFirst(ctx context.Context, run func(context.Context, string, ...string) error, dir string, c client) error {
	none := errors.New("not installed")
	err := none
	for _, argv := range c.argv {
		failed := run(ctx, dir, argv...)
		switch {
		case failed == nil || ctx.Err() != nil || fullDisk(failed): // which the next one would find too
			return failed
		case errors.Is(failed, exec.ErrNotFound):
		case err == none || strings.Contains(err.Error(), "No module named pip"):
			err = failed
		}
	}
	return err
}

// fullDisk reports whether there was no room for what a client or this program wrote.
func fullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "No space left on device")
}

// runClient runs a command with its temporary files in dir, so that watch sees the progress. The
// error has the end of the command's output.
func runClient(ctx context.Context, dir string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if out = bytes.TrimSpace(out); err != nil && len(out) > 0 {
		const most = 600
		return fmt.Errorf("%w: %s", err, out[max(0, len(out)-most):])
	}
	return err
}
