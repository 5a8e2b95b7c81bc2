package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/quant"
	"tgi/models/store"
	"tgi/runtime/token"
	"tgi/server/config"
)

// AccuracyInput is what forms of a model are compared on: a text, read in windows, or samples.
type AccuracyInput struct {
	// Name is what the input is called.
	Name    string
	Text    string
	Samples []AccuracySample
	// Window is how many tokens of the text a window has; 0 is 1024, or what the model allows. Windows overlap by half.
	Window int
}

// AccuracySample is a prompt and the answer that is expected. Only the answer is scored, and that it ends.
type AccuracySample struct {
	Prompt   string `json:"prompt"`
	Expected string `json:"expected"`
}

// Accuracy is how far the predictions of a model's forms are from those of the first one, the reference.
type Accuracy struct {
	Model string `json:"model"`
	Input string `json:"input"`
	// Tokens were computed by each form, and before Scored of them its prediction is compared.
	Tokens    int            `json:"tokens"`
	Scored    int            `json:"scored"`
	Reference string         `json:"reference"`
	Forms     []FormAccuracy `json:"forms"`
	Seconds   float64        `json:"seconds"`
}

// FormAccuracy is that of one form.
type FormAccuracy struct {
	Form string `json:"form"`
	// Bytes are those of the weights, CacheBytes those of a token's keys and values.
	Bytes      int64 `json:"bytes"`
	CacheBytes int64 `json:"cache_bytes_per_token"`
	// Error is that of the weights against those that the files have, relative to them.
	Error float64 `json:"relative_error"`
	// KL is the mean divergence from the reference in nats, KL99 what 99 % of the positions do not exceed; Top1 is the
	// share of positions with the same likeliest token.
	KL   float64 `json:"kl"`
	KL99 float64 `json:"kl_p99"`
	Top1 float64 `json:"top1"`
	// NLL is the mean negative log-likelihood of the scored tokens in nats, Perplexity its exponential.
	NLL        float64 `json:"nll"`
	Perplexity float64 `json:"perplexity"`
}

// CompareForms runs forms of the model of cfg, a folder or a file, side by side on an input. Forms are written as
// ParseForm reads them; the first is the reference. done is told how many tokens were computed.
func CompareForms(ctx context.Context, cfg config.Config, in AccuracyInput, forms []string,
	done func(tokens, of int)) (r Accuracy, err error) {
	start := time.Now()
	asked, err := parseForms(forms)
	if err != nil {
		return r, err
	}
	d, err := openDevice(cfg)
	if err != nil {
		return r, err
	}
	src, err := describe(cfg.Model.Path)
	if err != nil {
		return r, pathError(cfg, err)
	}
	if src.desc.Ready != nil || src.desc.Config.Encoder != nil {
		return r, fmt.Errorf("model %s: forms are compared of models that are built of weights and generate",
			src.desc.Name)
	}
	own := &instance{}
	if err := own.loadTokenizer(src.desc); err != nil {
		return r, err
	}
	c := src.desc.Config
	sequences, err := in.sequences(own.tokenizer, endOf(src.desc, own.tokenizer),
		cmp.Or(c.OriginalPositions, c.MaxPositions))
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "tgi-forms-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	set, err := openForms(ctx, d, src, own.tokenizer, asked, dir, longest(sequences))
	defer set.close()
	if err != nil {
		return r, err
	}
	r = Accuracy{Model: src.desc.Name, Input: in.Name, Reference: asked[0].text}
	total := 0
	for _, s := range sequences {
		total, r.Scored = total+len(s.tokens), r.Scored+len(s.tokens)-s.first
	}
	for _, s := range sequences {
		if err := set.add(ctx, s); err != nil {
			return r, err
		}
		r.Tokens += len(s.tokens)
		done(r.Tokens, total)
	}
	for _, f := range set {
		nll := f.loss / float64(r.Scored)
		r.Forms = append(r.Forms, FormAccuracy{Form: f.text, Bytes: f.built.WeightBytes,
			CacheBytes: f.built.CacheBytesPerToken(), Error: f.weights.Relative(), KL: f.agreement.KL(),
			KL99: f.agreement.KLAt(0.99), Top1: f.agreement.Top1(), NLL: nll, Perplexity: math.Exp(nll)})
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// scoredTokens are tokens of which those from number first on are predicted; first is 1 at least.
type scoredTokens struct {
	tokens []uint32
	first  int
}

// longest is the length of the longest sequence.
func longest(list []scoredTokens) (n int) {
	for _, s := range list {
		n = max(n, len(s.tokens))
	}
	return n
}

// endOf returns the token that ends an answer, of several the one that the tokenizer's configuration names; none if the
// files name none.
func endOf(ckpt *hf.Checkpoint, tok *token.Tokenizer) []uint32 {
	if id, ok := tok.ID(ckpt.Tokenizer.EOS); ok {
		return []uint32{id}
	}
	all := eosOf(ckpt, tok)
	return all[:min(len(all), 1)]
}

// sequences turns the input into tokens, for a model of so many positions. end ends answers.
func (in AccuracyInput) sequences(tok *token.Tokenizer, end []uint32, positions int) (list []scoredTokens, err error) {
	for i, s := range in.Samples {
		tokens := tok.Encode(s.Prompt, true)
		first := max(len(tokens), 1)
		tokens = append(tokens, tok.Encode(s.Expected, false)...)
		tokens = append(tokens, end...)
		if len(tokens) > positions {
			return nil, fmt.Errorf("%s: sample %d has %d tokens, the model takes %d at most", in.Name, i+1, len(tokens),
				positions)
		}
		if first < len(tokens) {
			list = append(list, scoredTokens{tokens, first})
		}
	}
	if in.Samples == nil {
		window := cmp.Or(in.Window, min(windowTokens, positions))
		if window < 2 || window > positions {
			return nil, fmt.Errorf("window: %d is not from 2 to %d, what the model takes", window, positions)
		}
		tokens := tok.Encode(in.Text, true)
		for begin, end := 0, 0; end < len(tokens); begin += window / 2 {
			first := max(end-begin, 1)
			end = min(begin+window, len(tokens))
			if first < end-begin {
				list = append(list, scoredTokens{tokens[begin:end], first})
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: there is no token to score", in.Name)
	}
	return list, nil
}

// openForm is a form that runs, and what was found.
type openForm struct {
	form
	built     models.Built
	sequence  *checkSequence
	weights   quant.WeightError
	agreement quant.Agreement
	loss      float64
}

// formSet are forms that run side by side, the reference first.
type formSet []*openForm

// close ends them.
func (s formSet) close() {
	for _, f := range s {
		f.sequence.model.Close()
	}
}

// openForms builds forms in a folder and opens them for sequences of so many tokens. It returns those that are open
// also with an error.
func openForms(ctx context.Context, d device, src checkpoint, tok *token.Tokenizer, list []form, dir string,
	tokens int) (set formSet, err error) {
	builds := map[string]*openForm{} // forms that differ in their caches alone share files
	bytes, available := int64(0), availableMemory()
	if d.onGPU() {
		available, _ = d.free()
	}
	for _, f := range list {
		from := src
		if f.path != "" {
			if from, err = describe(f.path); err != nil {
				return set, fmt.Errorf("form %s: %w", f.text, err)
			}
			if err := sameVocabulary(src, from, tok); err != nil {
				return set, fmt.Errorf("form %s: %w", f.text, err)
			}
		}
		w, err := f.weightsOf(d, from.desc.Coded)
		if err != nil {
			return set, fmt.Errorf("form %s: %w", f.text, err)
		}
		o := &openForm{form: f}
		var more int64 // forms of one build share its weights
		key := fmt.Sprint(w, f.block, f.path)
		if before := builds[key]; before != nil {
			o.built, o.weights = before.built, before.weights
		} else {
			o.built, err = from.prepare(ctx, store.Options{Device: d.Device, Weights: w, Block: f.block,
				Dir:       filepath.Join(dir, strconv.Itoa(len(builds))),
				Converted: func(c store.Conversion) { o.weights = c.Error }})
			if err != nil {
				return set, fmt.Errorf("form %s: %w", f.text, err)
			}
			builds[key], more = o, o.built.WeightBytes
		}
		if f.cache != "" {
			if d.onGPU() {
				return set, fmt.Errorf("form %s: caches of another type are on %s alone", f.text, models.CPU)
			}
			o.built.Layout = o.built.Layout.WithCache(f.cache)
		}
		if bytes += more; bytes > available {
			return set, fmt.Errorf("form %s: the forms up to it take %d bytes of memory, %d are available: ask for "+
				"fewer", f.text, bytes, available)
		}
		if o.sequence, err = newCheckSequence(d, o.built, tokens); err != nil {
			return set, fmt.Errorf("form %s: %w", f.text, err)
		}
		set = append(set, o)
	}
	return set, nil
}

// add computes a sequence with all forms, a piece at a time, and compares what they predict for the scored tokens.
func (s formSet) add(ctx context.Context, seq scoredTokens) error {
	vocab := s[0].built.Vocab
	piece := min(max(pieceLogits/vocab, 1), maxPiece)
	for _, f := range s {
		f.sequence.n = 0
	}
	for at := 0; at < len(seq.tokens)-1; at += piece { // nothing is predicted behind the last
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		tokens := seq.tokens[at:min(at+piece, len(seq.tokens)-1)]
		first := min(max(seq.first-1-at, 0), len(tokens))
		var reference []float32
		for i, f := range s {
			logits, err := f.sequence.logits(tokens, first)
			if err != nil {
				return fmt.Errorf("form %s: %w", f.text, err)
			}
			if len(logits) != (len(tokens)-first)*vocab {
				return fmt.Errorf("form %s: BUG: %d logits of %d tokens", f.text, len(logits), len(tokens)-first)
			}
			if i == 0 {
				reference = logits // until it computes again
			}
			for row := range len(tokens) - first {
				own, at := logits[row*vocab:][:vocab], at+first+row
				loss, err := quant.Loss(own, seq.tokens[at+1])
				err = errors.Join(err, f.agreement.Add(reference[row*vocab:][:vocab], own))
				if err != nil {
					return fmt.Errorf("form %s: %w", f.text, err)
				}
				f.loss += loss
			}
		}
	}
	return nil
}

// What bounds a piece of a sequence: the logits of each form, and its tokens.
const (
	pieceLogits = 4 << 20
	maxPiece    = 512
)

// WriteText writes a table for people.
func (r Accuracy) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s: %d of %d tokens scored, compared with %s, %.1fs\n", r.Model, r.Input, r.Scored, r.Tokens,
		r.Reference, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "form\tweights MB\tcache B/token\tweights err\tKL\tKL p99\ttop-1\tperplexity\t")
	for _, f := range r.Forms {
		fmt.Fprintf(t, "%s\t%.2f\t%d\t%.2f %%\t%.5f\t%.4f\t%.2f %%\t%.4f\t\n", f.Form, float64(f.Bytes)/1e6,
			f.CacheBytes, 100*f.Error, f.KL, f.KL99, 100*f.Top1, f.Perplexity)
	}
	return t.Flush()
}
