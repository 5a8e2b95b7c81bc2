// Package project is the source folder of a plugin: it writes a new one, tells its language, names the tools that
// are missing, and runs its build and its tests.
package project

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

	"tgi/sdk"
)

// Project is a plugin's source folder.
type Project struct {
	// Dir is the folder.
	Dir string
	// Language is one of sdk.Languages.
	Language string

	build, test []string
}

// Create writes the files of a new project below dir, which must be empty or absent.
func Create(dir string, files []sdk.File) error {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty: give another folder by --dir", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	for _, f := range files {
		to := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Open finds out the language of the project in a folder.
func Open(dir string) (*Project, error) {
	has := func(pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is one of those below
		return len(found) > 0
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	p := &Project{Dir: dir, build: []string{"make"}, test: []string{"make", "test"}}
	switch {
	case has("go.mod"):
		p.Language = "go"
	case has("Cargo.toml"):
		p.Language = "rust"
	case has("package.json"):
		p.Language, p.build, p.test = "as", []string{"npm", "run", "build"}, []string{"npm", "test"}
	case has("*.c"):
		p.Language = "c"
	default:
		return nil, fmt.Errorf("%s holds no plugin's project: there is neither go.mod, Cargo.toml, package.json "+
			"nor a .c file (tgi plugin new writes a project)", dir)
	}
	if p.build[0] == "make" && !has("[Mm]akefile") {
		return nil, fmt.Errorf("%s has no Makefile (tgi plugin new writes one)", dir)
	}
	return p, nil
}

// Build builds the module and returns its file. What the build prints goes to log.
func (p *Project) Build(ctx context.Context, log io.Writer) (string, error) {
	if err := p.CheckTools(ctx, false); err != nil {
		return "", err
	}
	if err := p.run(ctx, p.build, log, log); err != nil {
		return "", err
	}
	return p.module()
}

// Test runs the native tests.
func (p *Project) Test(ctx context.Context, stdout, stderr io.Writer) error {
	if err := p.CheckTools(ctx, true); err != nil {
		return err
	}
	return p.run(ctx, p.test, stdout, stderr)
}

// run runs a command of the project and passes on what it prints.
func (p *Project) run(ctx context.Context, command []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s in %s: %w", strings.Join(command, " "), p.Dir, err)
	}
	return nil
}

// module finds what was built: the one .wasm of the folder, or the one named after it.
func (p *Project) module() (string, error) {
	found, err := filepath.Glob(filepath.Join(p.Dir, "*.wasm"))
	if err != nil {
		return "", err
	}
	if len(found) == 1 {
		return found[0], nil
	}
	abs, err := filepath.Abs(p.Dir)
	if err != nil {
		return "", err
	}
	if named := filepath.Join(p.Dir, filepath.Base(abs)+".wasm"); slices.Contains(found, named) {
		return named, nil
	}
	return "", fmt.Errorf("%s holds %d .wasm files after the build, and none has the folder's name: "+
		"check the right one by `tgi plugin check`", p.Dir, len(found))
}
