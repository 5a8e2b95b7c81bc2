package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// project is a plugin's source folder.
type project struct {
	dir         string
	language    string // as in sdk.Languages
	build, test []string
}

// findProject tells a project's language by its files.
func findProject(dir string) (*project, error) {
	has := func(pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is one of those below
		return len(found) > 0
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	p := &project{dir: dir, build: []string{"make"}, test: []string{"make", "test"}}
	switch {
	case has("go.mod"):
		p.language = "go"
	case has("Cargo.toml"):
		p.language = "rust"
	case has("package.json"):
		p.language, p.build, p.test = "as", []string{"npm", "run", "build"}, []string{"npm", "test"}
	case has("*.c"):
		p.language = "c"
	default:
		return nil, fmt.Errorf("%s holds no plugin's project: there is neither go.mod, Cargo.toml, package.json nor a .c file (tgi plugin new writes a project)", dir)
	}
	if p.build[0] == "make" && !has("[Mm]akefile") {
		return nil, fmt.Errorf("%s has no Makefile (tgi plugin new writes one)", dir)
	}
	return p, nil
}

// missing names every tool that is not there, each with what to install.
func (p *project) missing(ctx context.Context, forTests bool) error {
	var errs []error
	need := func(ok bool, what, install string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s is missing: %s", what, install))
		}
	}
	installed := func(name string) bool { _, err := exec.LookPath(name); return err == nil }
	if p.build[0] == "make" {
		need(installed("make"), "make", "install it, on Debian by `apt install make`")
	}
	switch p.language {
	case "go":
		need(installed("go"), "go", "install Go 1.24 or later, see https://go.dev/dl")
	case "rust":
		rust := installed("cargo") && installed("rustc")
		need(rust, "cargo or rustc", "install Rust 1.63 or later, see https://rustup.rs, or `apt install cargo libstd-rust-dev-wasm32`")
		if rust && !forTests {
			need(p.hasTarget(ctx), "Rust's target wasm32-unknown-unknown", "`rustup target add wasm32-unknown-unknown`, or `apt install libstd-rust-dev-wasm32` for Debian's rustc")
		}
	case "c":
		if forTests {
			need(installed("cc"), "cc", "install a C compiler, on Debian by `apt install gcc`")
			break
		}
		clang := os.Getenv("CLANG")
		if clang == "" {
			clang = "clang"
		}
		need(installed(clang), clang, "install clang and lld, 14 or later, on Debian by `apt install clang lld`")
		need(!installed(clang) || hasLinker(ctx, clang), "wasm-ld", "install lld of clang's version, on Debian by `apt install lld`")
	case "as":
		need(installed("node") && installed("npm"), "node or npm", "install Node.js 20 or later, see https://nodejs.org")
		_, err := os.Stat(filepath.Join(p.dir, "node_modules", ".bin", "asc"))
		need(err == nil, "asc", fmt.Sprintf("run `npm ci` in %s once", p.dir))
	}
	return errors.Join(errs...)
}

// hasTarget reports whether the Rust that is used in the folder can build for wasm32.
func (p *project) hasTarget(ctx context.Context) bool {
	cmd := exec.CommandContext(ctx, "rustc", "--print", "target-libdir", "--target", "wasm32-unknown-unknown")
	cmd.Dir = p.dir
	out, err := cmd.Output()
	if err != nil {
		return false
	}
	found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "libcore-*.rlib"))
	return len(found) > 0
}

// hasLinker reports whether clang finds wasm-ld.
func hasLinker(ctx context.Context, clang string) bool {
	out, err := exec.CommandContext(ctx, clang, "--print-prog-name=wasm-ld").Output()
	if err != nil {
		return false
	}
	_, err = exec.LookPath(strings.TrimSpace(string(out)))
	return err == nil
}

// run runs a command of the project and passes on what it prints.
func (p *project) run(ctx context.Context, command []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s in %s: %w", strings.Join(command, " "), p.dir, err)
	}
	return nil
}

// built finds the module: the one .wasm of the folder, or the one named after it.
func (p *project) built() (string, error) {
	found, err := filepath.Glob(filepath.Join(p.dir, "*.wasm"))
	if err != nil {
		return "", err
	}
	if len(found) == 1 {
		return found[0], nil
	}
	abs, err := filepath.Abs(p.dir)
	if err != nil {
		return "", err
	}
	if named := filepath.Join(p.dir, filepath.Base(abs)+".wasm"); slices.Contains(found, named) {
		return named, nil
	}
	return "", fmt.Errorf("%s holds %d .wasm files after the build, and none has the folder's name: check the right one by `tgi plugin check`", p.dir, len(found))
}

// folder parses a command line that takes one folder, the working one by default.
func folder(rest []string) string {
	if len(rest) == 0 {
		return "."
	}
	return rest[0]
}

// pluginTest runs a project's native tests.
func pluginTest(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	rest, err := parseMixed(newFlags("test", "test [DIR]"), args, 1, stdout)
	if err != nil {
		return err
	}
	p, err := findProject(folder(rest))
	if err != nil {
		return err
	}
	if err := p.missing(ctx, true); err != nil {
		return err
	}
	return p.run(ctx, p.test, stdout, stderr)
}

// pluginBuild builds a project and checks what came out.
func pluginBuild(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fl := newFlags("build", "build [DIR] [flags of check]")
	c := checkFlags(fl)
	rest, err := parseMixed(fl, args, 1, stdout)
	if err != nil {
		return err
	}
	p, err := findProject(folder(rest))
	if err != nil {
		return err
	}
	if err := p.missing(ctx, false); err != nil {
		return err
	}
	c.project = p.language
	// The report alone goes to stdout.
	if err := p.run(ctx, p.build, stderr, stderr); err != nil {
		return err
	}
	file, err := p.built()
	if err != nil {
		return err
	}
	return c.check(ctx, file, stdout)
}
