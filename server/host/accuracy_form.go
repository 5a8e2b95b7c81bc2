package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tgi/models"
	"tgi/models/demo"
	"tgi/runtime/token"
	"tgi/server/wire"
)

// form is one way in which weights and cache are held.
type form struct {
	text    string         // as it was asked for
	weights models.Weights // "" for what the files say
	block   int            // 0 is the usual one
	path    string         // of other files than the model's
	cache   models.DType   // "" for the usual one
}

// DefaultForms are those that a model's files are compared in, the reference first; blocks of 64 and 128 show what
// smaller ones are worth.
const DefaultForms = "fp32,fp32+float16,fp32+bfloat16,fp32+int8,int8,int8-64,int8-128,int4,int4-64,int4-128"

// cacheTypes are the types of caches that forms may have.
var cacheTypes = []models.DType{models.Float32, models.Float16, models.BFloat16, models.Codes8}

// parseForm reads WEIGHTS[-BLOCK], [WEIGHTS:]PATH, or either with +CACHE behind it.
func parseForm(text string) (f form, err error) {
	f.text = text
	rest := text
	if at := strings.LastIndexByte(rest, '+'); at >= 0 && slices.Contains(cacheTypes, models.DType(rest[at+1:])) {
		rest, f.cache = rest[:at], models.DType(rest[at+1:])
	}
	weights, block, blocks := strings.Cut(rest, "-")
	if w := models.Weights(weights); formWeights(w) {
		f.weights = w
		if blocks {
			f.block, err = strconv.Atoi(block)
			if err != nil || f.block != 64 && f.block != 128 {
				return f, fmt.Errorf("form %q: blocks of %s: want 64 or 128", text, block)
			}
		}
		return f, nil
	}
	if w, path, ok := strings.Cut(rest, ":"); ok && formWeights(models.Weights(w)) {
		f.weights, rest = models.Weights(w), path
	}
	if !strings.ContainsAny(rest, "/.") {
		return f, fmt.Errorf("form %q: want fp32, int8, int4, stored, or a path with / or ., perhaps with a cache "+
			"of %v behind +", text, cacheTypes)
	}
	f.path = rest
	return f, nil
}

// formWeights reports whether forms may have such weights.
func formWeights(w models.Weights) bool {
	return w == models.Stored || slices.Contains(models.CPU.Formats(), w) || slices.Contains(models.CUDA.Formats(), w)
}

// maxForms bounds how many run side by side.
const maxForms = 32

func parseForms(list []string) (out []form, err error) {
	if len(list) < 1 || len(list) > maxForms {
		return nil, fmt.Errorf("forms: %d are not from 1 to %d", len(list), maxForms)
	}
	var errs []error
	for _, text := range list {
		f, err := parseForm(text)
		out, errs = append(out, f), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// weightsOf returns the weights that the form has, of files whose tensors are coded so.
func (f form) weightsOf(d device, coded []string) (models.Weights, error) {
	w := f.weights
	if w == "" {
		if w = referenceOn(d); len(coded) > 0 {
			w = models.Stored
		}
	}
	return w, d.Check(w)
}

// sameVocabulary returns an error if files of a form have other tokens than the model: texts are cut by its tokenizer.
func sameVocabulary(model, other checkpoint, tok *token.Tokenizer) error {
	if other.desc.Ready != nil || other.desc.Config.Encoder != nil {
		return fmt.Errorf("%s is not built of weights, or does not generate", other.desc.Name)
	}
	if a, b := model.desc.Config.Vocab, other.desc.Config.Vocab; a != b {
		return fmt.Errorf("%s has a vocabulary of %d tokens, %s of %d", other.desc.Name, b, model.desc.Name, a)
	}
	if other.desc.TokenizerJSON == nil { // a file may lack one
		return nil
	}
	own := &instance{}
	if err := own.loadTokenizer(other.desc); err != nil {
		return err
	}
	for id := range model.desc.Config.Vocab {
		a, aOK := tok.Token(uint32(id))
		if b, bOK := own.tokenizer.Token(uint32(id)); aOK && bOK && a != b {
			return fmt.Errorf("token %d is %q in %s, and %q in %s", id, b, other.desc.Name, a, model.desc.Name)
		}
	}
	return nil
}

// DemoSamples are prompts that the demo model was never trained on, with the answers that it should give.
func DemoSamples() AccuracyInput {
	samples, err := ParseSamples(demo.Heldout)
	if err != nil {
		panic("BUG: demo: " + err.Error())
	}
	return AccuracyInput{Name: "held-out answers of the demo model", Samples: samples}
}

// ParseSamples reads a line of JSON for each sample, with its prompt and the expected answer.
func ParseSamples(data []byte) (list []AccuracySample, err error) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var s AccuracySample
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, wire.Told(err))
		}
		if name := wire.Twice(line); name != "" {
			return nil, fmt.Errorf("line %d: %.64q is there twice", n, name)
		}
		if s.Expected == "" {
			return nil, fmt.Errorf("line %d: expected is missing or empty", n)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, errors.New("there is no line with prompt and expected")
	}
	return list, nil
}
