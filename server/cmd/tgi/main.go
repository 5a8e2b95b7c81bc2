// Command tgi is the text-generation server and its tools. It is the one
// place that imports every part of the project and joins them.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"tgi/server/config"
)

// version is set by the linker.
var version = "dev"

// command is one of tgi's subcommands.
type command struct {
	name, help string
	run        func(args []string, stdout, stderr io.Writer) int
}

func commands() []command {
	return []command{
		{"serve", "serve a model over HTTP", runServe},
		{"run", "talk with a model in the terminal: the configured one, or a server's by --url", runRun},
		{"check", "do the real start without listening, and say what would be served", runCheck},
		{"bench", "measure a server by --url, or a model on this machine by --shape or --model-id", runBench},
		{"model", "list, fetch, describe and remove models, or write a random one of a known shape", runModel},
		{"plugin", "start, build, check, test and measure a plugin", runPlugin},
		{"conformance", "hold a server by --url to TGI's and OpenAI's API", runConformance},
		{"version", "print the version", runVersion},
	}
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes the subcommand that args begin with and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], stdout, stderr)
		}
	}
	switch args[0] {
	case "help", "-h", "--help":
		usage(stdout)
		return 0
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	fmt.Fprintf(stderr, "tgi: unknown command %s%s (`tgi help` lists them)\n", args[0], config.Suggest(args[0], names))
	return 2
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "tgi serves text generation over TGI's API.\n\nusage: tgi COMMAND [flags]; tgi COMMAND --help says more")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.help)
	}
}

func runVersion(_ []string, stdout, _ io.Writer) int {
	fmt.Fprintf(stdout, "tgi %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0
}
