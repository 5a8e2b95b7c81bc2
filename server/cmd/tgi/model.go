package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"tgi/models/synth"
)

const modelUsage = `usage:
  tgi model info DIR                  describe a Hugging Face folder (without DIR: the embedded demo model)
  tgi model synth --shape S --out DIR write a checkpoint of a public model's shape with random weights, for measurements
                                      shapes: %s
`

// runModel works on checkpoints without serving them.
func runModel(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "info":
			return exit(stderr, modelInfo(args[1:], stdout))
		case "synth":
			return exit(stderr, modelSynth(args[1:], stdout))
		}
	}
	fmt.Fprintf(stderr, modelUsage, strings.Join(synth.Shapes(), ", "))
	return 2
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

func modelInfo(args []string, stdout io.Writer) error {
	if len(args) > 1 {
		return fmt.Errorf("model info takes one folder, got %d", len(args))
	}
	path := ""
	if len(args) == 1 {
		path = args[0]
	}
	src, err := describe(path)
	if err != nil {
		return err
	}
	c := src.ckpt
	m := c.Config
	fmt.Fprintf(stdout, "%s: %s, %d layers of %d, %d heads over %d of %d, %d tokens, %d positions\n",
		c.Name, m.Architecture, m.Layers, m.Hidden, m.Heads, m.KVHeads, m.HeadDim, m.Vocab, m.MaxPositions)
	fmt.Fprintf(stdout, "about %.0fM parameters, end-of-sequence ids %v, %d chat templates\n",
		paramsOf(m)/1e6, c.EOS(), len(c.Tokenizer.ChatTemplates))
	return nil
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
