package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"tgi/models/safetensors"
)

// Names of the files of sentence-transformers in a model's folder.
const (
	ModulesFile        = "modules.json"
	SentenceFile       = "config_sentence_transformers.json"
	SentenceConfigFile = "sentence_bert_config.json"
)

// olderSentenceFiles are the names that SentenceConfigFile had by class, in the order in which sentence-transformers
// looks for them where it is missing.
var olderSentenceFiles = []string{"sentence_roberta_config.json", "sentence_distilbert_config.json",
	"sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
	"sentence_xlnet_config.json"}

// PoolingModes are the ways to make one vector of those of a text's tokens, as sentence-transformers names them.
var PoolingModes = []string{"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"}

// Sentence is what sentence-transformers' files say of how a text becomes a vector.
type Sentence struct {
	// Pooling are the modes, whose vectors are put one behind the other.
	Pooling []string
	// WithoutPrompt says that the tokens of a prompt are not pooled.
	WithoutPrompt bool
	// Stages are applied to the pooled vector.
	Stages []Stage
	// Sparse, if not nil, says that a text's vector has a number for each token of the vocabulary (SPLADE). Then
	// Pooling is "splade".
	Sparse *SparsePooling
	// Score, if not nil, says that the model scores pairs of texts. Then it makes no vectors.
	Score *LogitScore
	// Normalize says that vectors get the length 1.
	Normalize bool
	// MaxLength is the most tokens of a text; 0 leaves it to the model.
	MaxLength int
	// Lowercase says that texts are lowered first.
	Lowercase bool
	// Prompts are texts to put before others, by name; DefaultPrompt is the name of the one that all texts get.
	Prompts       map[string]string
	DefaultPrompt string
}

// SparsePooling says how the scores of all tokens in the places of a text's tokens become its vector: log(1+max(0, x))
// of each, and the largest of all places.
type SparsePooling struct {
	// Sum adds up the places' numbers instead.
	Sum bool
	// Twice takes the logarithm twice.
	Twice bool
}

// sentenceModule is an entry of modules.json.
type sentenceModule struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// SentenceFiles returns which of the files, by name, belong to sentence-transformers' modules.
func SentenceFiles(names []string) []string {
	var out []string
	for _, n := range names {
		dir, file := path.Split(n)
		parts := strings.SplitN(strings.TrimSuffix(dir, "/"), "_", 2)
		inModule := len(parts) == 2 && !strings.Contains(parts[0], "/") &&
			slices.Contains([]string{"Pooling", "SpladePooling", "LogitScore", "Dense", "Normalize"}, parts[1])
		switch {
		case slices.Contains([]string{ModulesFile, SentenceFile, SentenceConfigFile}, n),
			slices.Contains(olderSentenceFiles, n),
			inModule && (file == ConfigFile || file == safetensors.SingleFile):
			out = append(out, n)
		}
	}
	return out
}

// readSentence reads modules.json and what it names; nil if there is none. hidden is the width of the model's vectors.
func readSentence(fsys fs.FS, hidden int) (*Sentence, error) {
	data, err := readFile(fsys, ModulesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var modules []sentenceModule
	if err := json.Unmarshal(data, &modules); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", ModulesFile, ErrConfig, err)
	}
	s := &Sentence{Prompts: map[string]string{}}
	for i, m := range modules {
		if err := s.module(fsys, i, m, hidden); err != nil {
			return nil, err
		}
	}
	if len(s.Pooling) == 0 && s.Score == nil {
		return nil, fmt.Errorf("%s: %w: names no module Pooling", ModulesFile, ErrConfig)
	}
	if err := s.readConfig(fsys); err != nil {
		return nil, err
	}
	return s, nil
}

// module reads module i.
func (s *Sentence) module(fsys fs.FS, i int, m sentenceModule, hidden int) error {
	kind := m.Type[strings.LastIndex(m.Type, ".")+1:]
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: module %d, %s: %s", ModulesFile, ErrConfig, i, shorten([]byte(m.Type)),
			fmt.Sprintf(format, args...))
	}
	switch {
	case !strings.HasPrefix(m.Type, "sentence_transformers."):
		return refuse("is code of the folder's own, which is not run")
	case i == 0 && (kind == "Transformer" || kind == "MLMTransformer"):
		if m.Path != "" {
			return refuse("path is %q: only models at the root of the folder are read", m.Path)
		}
		return nil
	case kind == "SpladePooling" && i == 1:
		return s.readSplade(fsys, m.Path)
	case kind == "LogitScore" && i == 1:
		return s.readLogitScore(fsys, m.Path)
	case (s.Sparse != nil || s.Score != nil) && kind != "Dropout":
		return refuse("is not supported behind SpladePooling and LogitScore")
	case kind == "Pooling" && i == 1:
		return s.readPooling(fsys, m.Path)
	case kind == "Dense" && len(s.Pooling) > 0 && !s.Normalize:
		return s.readDense(fsys, m.Path, hidden)
	case kind == "Normalize" && len(s.Pooling) > 0:
		s.Normalize = true
		return readNormalize(fsys, m.Path)
	case kind == "Dropout":
		return nil
	}
	return refuse("is not supported there: want Transformer, Pooling, any number of Dense, Normalize")
}

// parseFile reads a JSON object of a module.
func parseFile(fsys fs.FS, name string) (*object, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return parseObject(name, data)
}

// oldPooling maps the keys of older files to modes.
var oldPooling = map[string]string{
	"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
	"pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
	"pooling_mode_lasttoken": "lasttoken",
}

// readNormalize checks that the module is applied to the text's vector.
func readNormalize(fsys fs.FS, folder string) error {
	o, err := parseFile(fsys, path.Join(folder, ConfigFile))
	if errors.Is(err, fs.ErrNotExist) { // older files have none
		return nil
	}
	if err != nil {
		return err
	}
	o.wantVector()
	o.checkUnread("Normalize")
	return o.err
}

// wantVector checks that a module takes and gives the text's vector.
func (o *object) wantVector() {
	for _, key := range []string{"module_input_name", "module_output_name"} {
		if got := o.string(key, "sentence_embedding"); got != "sentence_embedding" {
			o.fail(key, "%q is not supported, want sentence_embedding", got)
		}
	}
}

func (s *Sentence) readPooling(fsys fs.FS, folder string) error {
	o, err := parseFile(fsys, path.Join(folder, ConfigFile))
	if err != nil {
		return err
	}
	s.WithoutPrompt = !o.bool("include_prompt", true)
	if v, ok := o.raw("pooling_mode"); ok && v[0] == '[' {
		s.Pooling = o.strings("pooling_mode")
	} else if ok {
		s.Pooling = []string{o.string("pooling_mode", "")}
	} else {
		for _, key := range []string{"pooling_mode_cls_token", "pooling_mode_max_tokens", "pooling_mode_mean_tokens",
			"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"} {
			if o.bool(key, false) {
				s.Pooling = append(s.Pooling, oldPooling[key])
			}
		}
		if len(s.Pooling) == 0 {
			s.Pooling = []string{"mean"}
		}
	}
	for _, mode := range s.Pooling {
		if !slices.Contains(PoolingModes, mode) {
			o.fail("pooling_mode", "%q is not supported, want some of %s", mode, strings.Join(PoolingModes, ", "))
		}
	}
	for key := range oldPooling { // which the new key replaces
		o.read[key] = true
	}
	o.read["embedding_dimension"], o.read["word_embedding_dimension"] = true, true // the model's
	o.checkUnread("Pooling")
	return o.err
}

// readSplade reads how a sparse vector is made.
func (s *Sentence) readSplade(fsys fs.FS, folder string) error {
	o, err := parseFile(fsys, path.Join(folder, ConfigFile))
	if err != nil {
		return err
	}
	s.Pooling, s.Sparse = []string{"splade"}, &SparsePooling{}
	switch strategy := o.string("pooling_strategy", "max"); strategy {
	case "max":
	case "sum":
		s.Sparse.Sum = true
	default:
		o.fail("pooling_strategy", "%q is not supported, want max or sum", strategy)
	}
	switch act := o.string("activation_function", "relu"); act {
	case "relu":
	case "log1p_relu":
		s.Sparse.Twice = true
	default:
		o.fail("activation_function", "%q is not supported, want relu or log1p_relu", act)
	}
	for _, key := range []string{"embedding_dimension", "word_embedding_dimension", "chunk_size"} {
		o.read[key] = true // says how, not what
	}
	o.checkUnread("SpladePooling")
	return o.err
}

func (s *Sentence) readDense(fsys fs.FS, folder string, hidden int) error {
	o, err := parseFile(fsys, path.Join(folder, ConfigFile))
	if err != nil {
		return err
	}
	st := Stage{Folder: folder + "/", Tensor: "linear", In: o.requireInt("in_features", 1, maxWidth),
		Out: o.requireInt("out_features", 1, maxWidth), Bias: o.bool("bias", true)}
	name := o.string("activation_function", "torch.nn.modules.activation.Tanh")
	if short := name[strings.LastIndex(name, ".")+1:]; short != "Identity" {
		var ok bool
		if st.Activation, ok = stageActivations[strings.ToLower(short)]; !ok {
			o.fail("activation_function", "%q is not supported", name)
		}
	}
	o.wantVector()
	if o.bool("use_residual", false) {
		o.fail("use_residual", "true is not supported")
	}
	width := hidden * len(s.Pooling)
	if n := len(s.Stages); n > 0 {
		width = s.Stages[n-1].Out
	}
	if st.In != width {
		o.fail("in_features", "is %d, but what comes before has %d", st.In, width)
	}
	s.Stages = append(s.Stages, st)
	return o.err
}

// readTransformer reads SentenceConfigFile, of a model with a task of sentence-transformers, and refuses what makes
// other tokens of a text than the tokenizer alone, or other vectors of these.
func (s *Sentence) readTransformer(fsys fs.FS, task string) error {
	o, err := parseFile(fsys, SentenceConfigFile)
	for _, name := range olderSentenceFiles {
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		o, err = parseFile(fsys, name)
	}
	if errors.Is(err, fs.ErrNotExist) && s.Score == nil {
		return nil
	}
	if err != nil {
		return err
	}
	s.MaxLength = o.int("max_seq_length", 0, 1, maxPositions)
	s.Lowercase = o.bool("do_lower_case", false)
	output := map[string]string{"feature-extraction": "token_embeddings", "sequence-classification": "scores",
		maskTask: "token_embeddings", generationTask: "causal_logits"}[task]
	o.only(map[string]string{"transformer_task": task, "module_output_name": output})
	if m := o.object("modality_config"); m != nil {
		m.readModalities(task, s.Score)
		o.take(m)
	} else if s.Score != nil {
		o.fail("modality_config", "is missing: LogitScore is supported with a chat template only")
	}
	if p := o.object("processing_kwargs"); p != nil {
		for _, key := range []string{"common", "text"} { // the others are not those of plain texts
			if v, ok := p.raw(key); ok && string(v) != "{}" {
				p.fail(key, "%s is not supported", shorten(v))
			}
		}
		if s.Score != nil {
			s.Score.readTemplateSettings(p)
		}
		o.take(p)
	}
	for _, key := range []string{"model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args",
		"config_kwargs"} {
		if p := o.object(key); p != nil {
			// How the same numbers are computed; the tokenizer's side of padding, of which there is none here.
			p.ignore(setOf("trust_remote_code attn_implementation torch_dtype dtype padding_side use_fast"))
			for _, k := range slices.Sorted(maps.Keys(p.values)) {
				if !p.read[k] && string(p.values[k]) != "null" {
					p.fail(k, "%s is not supported", shorten(p.values[k]))
				}
			}
			o.take(p)
		}
	}
	if v, ok := o.raw("tokenizer_name_or_path"); ok {
		o.fail("tokenizer_name_or_path", "%s is not supported: the tokenizer is that of the folder", shorten(v))
	}
	o.read["unpad_inputs"] = true // says how, not what
	o.checkUnread("Transformer")
	return o.err
}

// maskTask is the task of a masked language model.
const maskTask = "fill-mask"

// only refuses strings of o that are there and are not the ones wanted, by key.
func (o *object) only(wanted map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) { // so that the same one is told of each time
		if got := o.string(key, wanted[key]); got != wanted[key] {
			o.fail(key, "%q is not supported, want %q", got, wanted[key])
		}
	}
}

// take makes the error of a nested object that of o.
func (o *object) take(sub *object) {
	if o.err == nil {
		o.err = sub.err
	}
}

// readModalities checks what happens to a plain text. With an entry for messages sentence-transformers makes a message
// of each, whatever its format, and writes it with the chat template: models that score want that, score says how.
func (o *object) readModalities(task string, score *LogitScore) {
	if v, ok := o.values["message"]; ok && score == nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, v); err != nil {
			o.fail("message", "%v", err)
		}
		o.fail("message", "%s is not supported: it puts each text into the chat template", shorten(compact.Bytes()))
		return
	}
	text := o.object("text")
	if text == nil {
		if o.err == nil {
			o.fail("text", "is missing: the model takes no texts")
		}
		return
	}
	output := map[string]string{"feature-extraction": "last_hidden_state", "sequence-classification": "logits",
		maskTask: "logits", generationTask: "logits"}[task]
	text.only(map[string]string{"method": "forward", "method_output_name": output})
	o.take(text)
	if score != nil {
		score.readMessages(o)
	}
}

// readConfig reads the prompts and the length.
func (s *Sentence) readConfig(fsys fs.FS) error {
	task := "feature-extraction"
	if s.Sparse != nil {
		task = maskTask
	} else if s.Score != nil {
		task = generationTask
	}
	if err := s.readTransformer(fsys, task); err != nil {
		return err
	}
	o, err := parseFile(fsys, SentenceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if p := o.object("prompts"); p != nil {
		for name := range p.values {
			s.Prompts[name] = p.string(name, "")
		}
		if p.err != nil {
			return p.err
		}
	}
	s.DefaultPrompt = o.string("default_prompt_name", "")
	if _, ok := s.Prompts[s.DefaultPrompt]; !ok && s.DefaultPrompt != "" {
		o.fail("default_prompt_name", "%q is none of the prompts", s.DefaultPrompt)
	}
	return o.err
}

// readSentence reads how a model's texts become vectors, and makes the configuration that of such a model.
func (c *Checkpoint) readSentence(fsys fs.FS) error {
	e := c.Config.Encoder
	if e != nil && e.Classifier {
		if _, err := fs.Stat(fsys, ModulesFile); err != nil { // then sentence-transformers reads none of its files
			return nil
		}
		return new(Sentence).readTransformer(fsys, "sequence-classification")
	}
	s, err := readSentence(fsys, c.Config.Hidden)
	if err != nil {
		return err
	}
	if s == nil {
		if e != nil {
			c.Sentence = &Sentence{Pooling: []string{"mean"}}
		}
		return nil
	}
	if s.Score != nil {
		return c.readScore(s)
	}
	if s.Sparse != nil {
		if e == nil || e.Masked == nil || e.Masked[0].Activation == "" {
			return fmt.Errorf("%s: %w: SpladePooling needs a class ForMaskedLM of BERT, RoBERTa, XLM-R, MPNet or DistilBERT "+
				"whose activation is one of gelu, relu, tanh and sigmoid, not %s", ModulesFile, ErrConfig,
				c.Config.Architecture)
		}
		s.Stages = e.Masked
	}
	c.Config.Embeds()
	c.Config.Encoder.Stages = s.Stages
	c.Sentence = s
	return nil
}

// checkTemplate refuses an encoder without modules.json whose tokenizer has a chat template, into which
// sentence-transformers then puts each text. Scores are those of the texts alone, as transformers computes them.
func (c *Checkpoint) checkTemplate(fsys fs.FS) error {
	e := c.Config.Encoder
	if e == nil || e.Classifier || len(c.Tokenizer.ChatTemplates) == 0 {
		return nil
	}
	if _, err := fs.Stat(fsys, ModulesFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file := c.Tokenizer.TemplateFiles[DefaultTemplate]
	if file == "" {
		file = TokenizerConfigFile + ": chat_template"
	}
	return fmt.Errorf("%s: %w: a model that embeds has a chat template and no %s: each text would be put into the "+
		"template, which is not supported", file, ErrConfig, ModulesFile)
}
