package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tgi/plugins/project"
	"tgi/sdk"
	"tgi/sdk/abi"
)

// newPluginNew writes a new project.
func newPluginNew() *cobra.Command {
	var language, kind, dir string
	cmd := &cobra.Command{
		Use: "new --lang LANGUAGE NAME", Short: "Write a project that builds as it stands, SDK included",
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 0 || language == "" {
				return misused("plugin new needs --lang (%s) and a name", strings.Join(sdk.Languages, ", "))
			}
			return writeProject(cmd.OutOrStdout(), language, kind, words[0], dir)
		},
	}
	kinds := sdk.KindsOf("go") // the language that has all
	set := cmd.Flags()
	set.StringVar(&language, "lang", "", "`language`: "+strings.Join(sdk.Languages, ", "))
	set.StringVar(&kind, "kind", abi.KindLogits, "`kind`: "+strings.Join(kinds, ", ")+
		"; "+sdk.Stepping+" is a grammar that decides at each step which tokens may follow")
	set.StringVar(&dir, "dir", "", "`folder` to write, empty or absent; default: NAME")
	complete(cmd, "lang", sdk.Languages...)
	complete(cmd, "kind", kinds...)
	must(cmd.MarkFlagDirname("dir"))
	return cmd
}

// writeProject writes a project and prints how to go on.
func writeProject(stdout io.Writer, language, kind, name, dir string) error {
	files, err := sdk.Project(language, kind, name)
	if err != nil {
		return usageError(err.Error())
	}
	if dir == "" {
		dir = name
	}
	if err := project.Create(dir, files); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %d files to %s\n\nnext:\n  cd %s\n", len(files), dir, dir)
	if language == "as" {
		fmt.Fprintln(stdout, "  npm ci                   # once: asc, the compiler")
	}
	tgi := project.CalledFrom(os.Args[0], dir)
	fmt.Fprintf(stdout, "  %s plugin test          # its native tests\n  %s plugin build         # %s.wasm, checked\n",
		tgi, tgi, name)
	if kind == sdk.Stepping {
		kind = abi.KindGrammar
	}
	try := strings.Replace(tryParams[kind], "NAME", name, 1)
	if strings.Contains(try, "--params") {
		fmt.Fprintln(stdout, "  # with the parameter that it was written with:")
	}
	fmt.Fprintf(stdout, "  %s plugin check %s.wasm%s\n", tgi, name, try)
	if kind != abi.KindTemplate { // bench offers tools, which a new template refuses
		fmt.Fprintf(stdout, "  %s plugin bench %s.wasm%s\n", tgi, name, try)
	}
	return nil
}

// tryParams are what new plugins take, by kind, as flags; NAME is the plugin.
var tryParams = map[string]string{
	abi.KindLogits: ` --params '{"ban": [17, 99]}'`, abi.KindSampler: ` --params '{"epsilon": 0.5}'`,
	abi.KindGrammar: " --language NAME --source 'AB-##'", abi.KindProgram: ` --params '{"n": 2}'`,
	abi.KindDraft: ` --params '{"phrase": "Once upon"}'`,
	abi.KindGuard: ` --params '{"ban": "delve"}'`,
}
