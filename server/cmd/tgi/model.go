package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"tgi/models/synth"
	"tgi/server/config"
)

const modelUsage = `tgi model looks after the models folder. It may be used while a server runs on the same folder.

  tgi model list                      the models of the folder and of the settings
      --json                            as a JSON object
  tgi model pull SOURCE               fetch a model: namespace/name of the hub, the URL of an archive (tar, tar.gz, zip),
                                      or the name of a [[model]] in tgi.toml that has a source
      --id ID                           what to call it; default: the source's name
      --revision REV                    branch, tag or commit of the hub's repository; also as namespace/name@REV
      --sha256 HEX                      checksum of the archive
  tgi model info [ID|DIR]             describe a model of the folder, or one that lies elsewhere (without either: the embedded demo model)
  tgi model rm ID                     delete a model, or what is left of a pull that was broken off
  tgi model synth --shape S --out DIR write a checkpoint of a public model's shape with random weights, for measurements
                                      shapes: %s

A pull that is broken off, by Ctrl-C too, goes on where it was when it is started again. Exit status: 0 done, 1 failed,
2 wrong usage or settings, 130 broken off by Ctrl-C.
list, pull, info and rm take the flags of tgi serve; of these, --models-folder, --hub-url, --hub-token and --models-allow-hosts matter here.
`

// interruptedStatus is the exit status of shells for a program that SIGINT ended.
const interruptedStatus = 130

// errInterrupted says that a command was told to stop; it has said so itself.
var errInterrupted = errors.New("interrupted")

// runModel works on checkpoints without serving them.
func runModel(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // who asks twice does not want to wait
	return modelCommand(ctx, args, stdout, stderr)
}

// modelCommand is runModel until ctx ends.
func modelCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case "list", "ls":
		err = modelList(args, stdout)
	case "pull":
		err = modelPull(ctx, args, stdout, stderr)
	case "info":
		err = modelInfo(args, stdout)
	case "rm":
		err = modelRemove(args, stdout)
	case "synth":
		err = modelSynth(args, stdout)
	case "help", "-h", "--help":
		err = config.ErrHelp
	case "":
		fmt.Fprintf(stderr, modelUsage, strings.Join(synth.Shapes(), ", "))
		return 2
	default:
		err = misused("unknown command model %s%s", name, config.Suggest(name, []string{"list", "pull", "info", "rm", "synth"}))
	}
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprintf(stdout, modelUsage, strings.Join(synth.Shapes(), ", "))
		return 0
	case errors.Is(err, errInterrupted):
		return interruptedStatus
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "tgi: %v (`tgi model help` says more)\n", err)
		return 2
	}
	return exit(stderr, err)
}

// exit prints err as every command does and returns the exit status that belongs to it.
func exit(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 2
	}
	fmt.Fprintln(stderr, "tgi:", err)
	return 1
}

// modelSettings reads a command line of `tgi model`: flags of its own, which go to
// where texts and switches say, settings, and words.
func modelSettings(args []string, texts map[string]*string, switches map[string]*bool) (cfg config.Config, words []string, err error) {
	var rest []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		name, value, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		text, on := texts[name], switches[name]
		switch {
		case a == "" || a[0] != '-' || text == nil && on == nil:
			rest = append(rest, a)
			continue
		case on != nil && inline:
			return cfg, nil, misused("--%s takes no value, given %q", name, value)
		case on != nil:
			*on = true
			continue
		case !inline:
			if i++; i == len(args) {
				return cfg, nil, misused("--%s wants a value", name)
			}
			value = args[i]
		}
		*text = value
	}
	l, err := config.Read(rest, os.LookupEnv)
	if err != nil && !errors.Is(err, config.ErrHelp) {
		err = usageError(err.Error())
	}
	return l.Config, l.Rest, err
}

func modelSynth(args []string, stdout io.Writer) error {
	fl := flag.NewFlagSet("tgi model synth", flag.ContinueOnError)
	fl.SetOutput(stdout)
	shape := fl.String("shape", "", "one of "+strings.Join(synth.Shapes(), ", "))
	out := fl.String("out", "", "folder to write, empty or absent")
	seed := fl.Uint64("seed", 1, "seed of the random weights")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if fl.NArg() > 0 {
		return fmt.Errorf("model synth: unexpected argument %q", fl.Arg(0))
	}
	if *shape == "" || *out == "" {
		return fmt.Errorf("model synth needs --shape (%s) and --out", strings.Join(synth.Shapes(), ", "))
	}
	if err := synth.Write(*out, *shape, *seed); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote a random checkpoint of the shape of %s to %s\n", *shape, *out)
	return nil
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v /= 1 << 10; v < 1023.95 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// countText writes a number of parameters for people.
func countText(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1e6:
		return fmt.Sprintf("%.0fK", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fB", float64(n)/1e9)
}
