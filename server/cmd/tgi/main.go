// Command tgi is the text-generation server and its tools. It reads the command
// line, prints and exits; one file holds one verb.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"tgi/server/client/terminal"
)

// version is set by the linker.
var version = "dev"

// console is what the program is attached to.
type console struct {
	in          io.Reader
	out, errors io.Writer
	// typed and shown say that in and out are terminals.
	typed, shown bool
	colour       bool
	// said are the arguments and the variables: an error may repeat them, but for what is secret in them.
	said []string
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	c := console{in: os.Stdin, out: stdout, errors: stderr, typed: terminal.Is(os.Stdin), shown: terminal.Is(stdout)}
	c.colour = c.shown && colours(os.LookupEnv)
	return c.execute(context.Background(), args)
}

// execute runs a command line until ctx ends and returns the exit code.
func (c console) execute(ctx context.Context, args []string) int {
	c.said = slices.Concat(args, os.Environ())
	root := newRoot(c)
	root.SetContext(ctx)
	args, err := normalise(root, args)
	if err != nil {
		return c.exit(err)
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if misuse, ok := err.(usageError); ok {
		err = misuse.in(cmd)
	}
	return c.exit(err)
}

// newRoot returns the command tgi with all its verbs.
func newRoot(c console) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:               "tgi",
		Short:             "Serve text generation over the API of text-generation-inference and of OpenAI",
		Version:           versionText(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.errors)
	root.SetVersionTemplate("tgi {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(cmd.OutOrStdout(), cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error { writeHelp(cmd.ErrOrStderr(), cmd); return nil })
	root.SetHelpCommand(newHelp())
	root.AddCommand(newServe(), newRun(c), newExplain(c), newReplay(c), newCheck(), newHealth(), newTop(c), newDoctor(),
		newBench(), newEval(), newModel(), newPlugin(c), newConformance(), newVersion())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	describeCompletion(root)
	return root
}

// verbGroup makes a command whose subcommands do the work.
func verbGroup(use, short string, verbs ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short}
	g.AddCommand(verbs...)
	return g
}

func versionText() string {
	return fmt.Sprintf("%s %s %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
