package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"tgi/server/config"
)

// EvalHelp describes what `tgi eval` measures.
const EvalHelp = `--suite perplexity computes the perplexity of a text with the model that the settings name, by the engine
that serves it. Windows of --window tokens start every --stride tokens; each scores the tokens that no window before
had, given what precedes them in it. The text begins with what the tokenizer puts there.

--suite accuracy compares forms of the model with the first one: how far the distributions of the next token are from
its (KL divergence, mean and 99th percentile), how often the likeliest token is the same, and the perplexity. A FILE
*.jsonl has a line {"prompt": "...", "expected": "..."} for each sample, of which only the expected answer is scored,
and that it ends; other files are texts, read in windows. The demo model brings samples of its own.

A form is WEIGHTS, WEIGHTS-BLOCK or [WEIGHTS:]PATH, with +CACHE behind it if it is not the usual cache: int8, int4-128,
fp32+int8, model-q4_k_m.gguf, fp32:model-q4_k_m.gguf. A PATH is other files of the same model, of which stored weights
are kept.`

// maxEvalText bounds the text that is evaluated, in bytes.
const maxEvalText = 64 << 20

// progressTime is how often EvalForms tells how far it is.
const progressTime = 2 * time.Second

// EvalForms is CompareForms of a file, or of the samples of the demo model if files is empty. forms are separated by
// commas; progress is told how far it is.
func EvalForms(ctx context.Context, cfg config.Config, files []string, forms string, window int,
	progress io.Writer) (r Accuracy, err error) {
	in := DemoSamples()
	switch {
	case len(files) == 0 && cfg.Model.Path != "":
		return r, errors.New("other models than the demo are compared on a file of text or samples: name one")
	case len(files) > 0:
		if in, err = readInput(files[0]); err != nil {
			return r, err
		}
	}
	if in.Window = window; window != 0 && in.Samples != nil {
		return r, fmt.Errorf("window: %d is for texts, samples are computed whole", window)
	}
	last := time.Now()
	return CompareForms(ctx, cfg, in, strings.Split(forms, ","), func(tokens, of int) {
		if time.Since(last) > progressTime {
			last = time.Now()
			fmt.Fprintf(progress, "computed %d of %d tokens\n", tokens, of)
		}
	})
}

// readInput reads a text, or samples from a file *.jsonl.
func readInput(name string) (AccuracyInput, error) {
	in := AccuracyInput{Name: filepath.Base(name)}
	text, err := ReadText(name)
	if err != nil || filepath.Ext(name) != ".jsonl" {
		in.Text = text
		return in, err
	}
	if in.Samples, err = ParseSamples([]byte(text)); err != nil {
		return in, fmt.Errorf("%s: %w", name, err)
	}
	return in, nil
}

// ReadText reads a file of at most 64 MiB that is UTF-8.
func ReadText(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEvalText+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxEvalText:
		return "", fmt.Errorf("%s: has more than %d bytes", name, maxEvalText)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s: is not UTF-8", name)
	}
	return string(data), nil
}
