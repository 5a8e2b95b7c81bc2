package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CheckTools names every tool that is missing for the build, or for the tests, each with what to install.
func (p *Project) CheckTools(ctx context.Context, forTests bool) error {
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
	switch p.Language {
	case "go":
		need(installed("go"), "go", "install Go 1.24 or later, see https://go.dev/dl")
	case "rust":
		rust := installed("cargo") && installed("rustc")
		need(rust, "cargo or rustc",
			"install Rust 1.63 or later, see https://rustup.rs, or `apt install cargo libstd-rust-dev-wasm32`")
		if rust && !forTests {
			need(p.hasTarget(ctx), "Rust's target wasm32-unknown-unknown",
				"`rustup target add wasm32-unknown-unknown`, or `apt install libstd-rust-dev-wasm32` for Debian's rustc")
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
		need(!installed(clang) || hasLinker(ctx, clang), "wasm-ld",
			"install lld of clang's version, on Debian by `apt install lld`")
	case "as":
		need(installed("node") && installed("npm"), "node or npm",
			"install Node.js 20 or later, see https://nodejs.org")
		_, err := os.Stat(filepath.Join(p.Dir, "node_modules", ".bin", "asc"))
		need(err == nil, "asc", fmt.Sprintf("run `npm ci` in %s once", p.Dir))
	}
	return errors.Join(errs...)
}

// hasTarget reports whether the Rust that is used in the folder can build for wasm32.
func (p *Project) hasTarget(ctx context.Context) bool {
	cmd := exec.CommandContext(ctx, "rustc", "--print", "target-libdir", "--target", "wasm32-unknown-unknown")
	cmd.Dir = p.Dir
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
