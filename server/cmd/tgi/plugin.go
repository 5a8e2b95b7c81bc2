package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"tgi/server/config"
)

const pluginUsage = `usage:
  tgi plugin new --lang go|rust|c|as [--kind logits|sampler|template|tools|grammar] NAME
                               write a project that builds as it stands, SDK included
  tgi plugin build [DIR]       build it with its toolchain and check the result
  tgi plugin test [DIR]        run its native tests
  tgi plugin check FILE.wasm   hold a module to every rule of the contract, as the server would run it
  tgi plugin bench FILE.wasm   measure time and fuel, call by call
tgi plugin COMMAND --help lists the flags
`

// runPlugin works on plugins without a server.
func runPlugin(args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
		"new": pluginNew, "build": pluginBuild, "test": pluginTest, "check": pluginCheck, "bench": pluginBench,
	}
	if len(args) == 0 {
		fmt.Fprint(stderr, pluginUsage)
		return 2
	}
	if asksForHelp(args[0]) {
		fmt.Fprint(stdout, pluginUsage)
		return 0
	}
	command, ok := commands[args[0]]
	if !ok {
		var names []string
		for name := range commands {
			names = append(names, name)
		}
		fmt.Fprintf(stderr, "tgi: unknown command plugin %s%s\n%s", args[0], config.Suggest(args[0], names), pluginUsage)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := command(ctx, args[1:], stdout, stderr); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintln(stderr, "tgi:", err)
		return 2
	case errors.Is(err, errTold):
		return 1
	default:
		return exit(stderr, err)
	}
}

// errTold: the command failed and has said why.
var errTold = errors.New("the command has said why it failed")

// usageError says what is wrong with a command line; the exit status is 2.
type usageError string

// Error gives the text.
func (e usageError) Error() string { return string(e) }

func misused(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// parseMixed parses flags before, between and after the other arguments, which it returns; there are at most most.
func parseMixed(fl *flag.FlagSet, args []string, most int, stdout io.Writer) (rest []string, err error) {
	fl.SetOutput(io.Discard)
	for len(args) > 0 {
		a := args[0]
		if len(a) < 2 || a[0] != '-' {
			rest, args = append(rest, a), args[1:]
			continue
		}
		if asksForHelp(a) {
			fl.SetOutput(stdout)
			fl.Usage()
			return nil, flag.ErrHelp
		}
		name, value, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		f := fl.Lookup(name)
		if f == nil {
			return nil, misused("unknown flag --%s%s", name, suggestFlag(fl, name))
		}
		args = args[1:]
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); !inline && ok && b.IsBoolFlag() {
			value = "true"
		} else if !inline {
			if len(args) == 0 {
				return nil, misused("--%s wants a value", name)
			}
			value, args = args[0], args[1:]
		}
		if err := fl.Set(name, value); err != nil {
			return nil, misused("--%s %s: %v", name, value, err)
		}
	}
	if len(rest) > most {
		return nil, misused("%s: unexpected argument %q", fl.Name(), rest[most])
	}
	return rest, nil
}

func suggestFlag(fl *flag.FlagSet, name string) string {
	var names []string
	fl.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return strings.Replace(config.Suggest(name, names), "mean ", "mean --", 1)
}

// newFlags makes the flags of a subcommand, with a first line for its help.
func newFlags(name, line string) *flag.FlagSet {
	fl := flag.NewFlagSet("plugin "+name, flag.ContinueOnError)
	fl.Usage = func() {
		fmt.Fprintf(fl.Output(), "usage: tgi plugin %s\n", line)
		fl.PrintDefaults()
	}
	return fl
}

// objects is a flag that takes a JSON object each time it is given.
type objects []string

// String implements flag.Value.
func (o *objects) String() string { return strings.Join(*o, " ") }

// Set implements flag.Value.
func (o *objects) Set(text string) error {
	var any map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &any); err != nil || any == nil {
		return fmt.Errorf("want a JSON object such as {\"n\": 3}")
	}
	*o = append(*o, text)
	return nil
}
