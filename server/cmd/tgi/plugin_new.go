package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tgi/sdk"
	"tgi/sdk/abi"
)

// pluginNew writes a new project.
func pluginNew(_ context.Context, args []string, stdout, _ io.Writer) error {
	fl := newFlags("new", "new --lang go|rust|c|as [--kind logits|sampler|template|tools|grammar|steps] NAME [--dir DIR]")
	lang := fl.String("lang", "", "language: "+strings.Join(sdk.Languages, ", "))
	kind := fl.String("kind", abi.KindLogits, "kind: "+strings.Join(sdk.Kinds, ", ")+"; or "+sdk.Stepping+", a grammar that says itself at each step which tokens may come")
	dir := fl.String("dir", "", "folder to write, empty or absent; default: NAME")
	rest, err := parseMixed(fl, args, 1, stdout)
	if err != nil {
		return err
	}
	if len(rest) == 0 || *lang == "" {
		return misused("plugin new needs --lang (%s) and a name", strings.Join(sdk.Languages, ", "))
	}
	name := rest[0]
	files, err := sdk.Project(*lang, *kind, name)
	if err != nil {
		return err
	}
	if *dir == "" {
		*dir = name
	}
	if err := writeProject(*dir, files); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %d files to %s\n\nnext:\n  cd %s\n", len(files), *dir, *dir)
	if *lang == "as" {
		fmt.Fprintln(stdout, "  npm ci                   # once: asc, the compiler")
	}
	fmt.Fprintf(stdout, "  tgi plugin test          # its native tests\n  tgi plugin build         # %s.wasm, checked\n", name)
	if *kind == sdk.Stepping {
		*kind = abi.KindGrammar
	}
	try := strings.Replace(tryParams[*kind], "NAME", name, 1)
	fmt.Fprintf(stdout, "  tgi plugin check %s.wasm%s\n", name, try)
	if *kind != abi.KindTemplate { // bench offers tools, which a new template refuses
		fmt.Fprintf(stdout, "  tgi plugin bench %s.wasm%s\n", name, try)
	}
	return nil
}

// tryParams are what new plugins take, by kind, as flags; NAME is the plugin.
var tryParams = map[string]string{
	abi.KindLogits: ` --params '{"ban": [17, 99]}'`, abi.KindSampler: ` --params '{"epsilon": 0.5}'`, abi.KindGrammar: " --language NAME --source 'AB-##'",
}

// writeProject writes files below dir, which must be empty or absent.
func writeProject(dir string, files []sdk.File) error {
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
