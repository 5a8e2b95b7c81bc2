package hf

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// LogitScore says that a decoder scores a text by a query: its chat template asks whether the text answers the query,
// and the score is how much more one token is its answer than another (sentence-transformers' module of that name, as
// Qwen3-Reranker has it).
type LogitScore struct {
	// Tokens are the one that speaks for the text and, behind it, the one that speaks against it, if there is one.
	Tokens []int
	// Instruction is the message of the system; "" is none.
	Instruction string
	// Structured says that messages are lists of parts, GenerationPrompt that the template begins an answer.
	Structured, GenerationPrompt bool
	// MaxLength is the most tokens of a pair; 0 leaves it to the model.
	MaxLength int
	// file is the module's.
	file string
}

// generationTask is what sentence-transformers calls the task of a decoder that scores.
const generationTask = "text-generation"

func (s *Sentence) readLogitScore(fsys fs.FS, folder string) error {
	file := path.Join(folder, ConfigFile)
	o, err := parseFile(fsys, file)
	if err != nil {
		return err
	}
	s.Score = &LogitScore{file: file, Tokens: []int{o.requireInt("true_token_id", 0, maxVocab)}}
	if _, ok := o.raw("false_token_id"); ok {
		s.Score.Tokens = append(s.Score.Tokens, o.int("false_token_id", 0, 0, maxVocab))
	}
	o.only(map[string]string{"module_input_name": "causal_logits"})
	o.checkUnread("LogitScore")
	return o.err
}

// readMessages checks what a pair's messages are, of a model that scores.
func (s *LogitScore) readMessages(o *object) {
	m := o.object("message")
	if m == nil {
		o.fail("message", "is missing: LogitScore is supported with a chat template only")
		return
	}
	m.only(map[string]string{"method": "forward", "method_output_name": "logits"})
	switch format := m.string("format", "auto"); format {
	case "flat":
	case "structured":
		s.Structured = true
	default:
		m.fail("format", "%q is not supported, want flat or structured", format)
	}
	o.take(m)
}

// readTemplateSettings reads what the template is told.
func (s *LogitScore) readTemplateSettings(o *object) {
	t := o.object("chat_template")
	if t == nil {
		return
	}
	s.GenerationPrompt = t.bool("add_generation_prompt", false)
	t.read["restore_suffix"] = true // texts are cut, never the template
	t.checkUnread("the chat template of a pair")
	o.take(t)
}

// scores makes of a decoder's configuration that of a model that scores.
func (c *Config) scores(s *LogitScore) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: LogitScore %s", ModulesFile, ErrConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Encoder != nil || !strings.HasSuffix(c.Architecture, "ForCausalLM"):
		return refuse("needs a class ForCausalLM, not %s", c.Architecture)
	case c.Scales.Logits != 1 || c.LogitCap != 0 || c.HeadBias:
		return refuse("is not supported for %s, whose logits are scaled, capped or have a bias", c.Architecture)
	}
	for _, id := range s.Tokens {
		if id >= c.Vocab {
			return fmt.Errorf("%s: %w: token %d is none of the model's %d", s.file, ErrConfig, id, c.Vocab)
		}
	}
	head := c.Tensors.Head
	if c.Tied {
		head = c.Tensors.Whole(c.Tensors.Embed)
	}
	c.Embeds()
	c.Encoder.Classifier, c.Encoder.Pooling, c.Encoder.Labels = true, "lasttoken", []string{"LABEL_0"}
	c.Encoder.Stages = []Stage{{Tensor: head, In: c.Hidden, Out: 1, Rows: s.Tokens, Of: c.Vocab}}
	return nil
}

// readScore makes a model that scores of the checkpoint.
func (c *Checkpoint) readScore(s *Sentence) error {
	if s.Lowercase {
		return fmt.Errorf("%s: %w: do_lower_case is not supported beside LogitScore", SentenceConfigFile, ErrConfig)
	}
	if err := c.Config.scores(s.Score); err != nil {
		return err
	}
	c.Score = s.Score
	c.Score.Instruction, c.Score.MaxLength = s.Prompts[s.DefaultPrompt], s.MaxLength
	return nil
}

// checkScored refuses a model that scores without a template that could ask.
func (c *Checkpoint) checkScored() error {
	if c.Score == nil || len(c.Tokenizer.ChatTemplates) > 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: LogitScore is supported with a chat template only, and there is none", ModulesFile,
		ErrConfig)
}
