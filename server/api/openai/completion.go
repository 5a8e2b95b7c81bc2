package openai

import (
	"tgi/runtime/llm"
	"tgi/server/dialect"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// prompt is a text, or its tokens.
type prompt struct {
	text   string
	tokens []llm.Token
}

// completionBody is what a completions request has besides the settings.
type completionBody struct {
	settings
	prompts  []prompt
	most     int // prompts at most; 0 is any number
	logprobs *uint32
	echo     bool
	suffix   *string
}

// decodeCompletion reads a body of POST /v1/completions with at most so many prompts; 0 is any number.
func decodeCompletion(text []byte, most int, d *dialect.Dialect) (*call, error) {
	b := &completionBody{most: most}
	list := append(b.settings.fields(), []wire.Field{
		{Name: "prompt", Required: true, Read: b.prompt},
		{Name: "best_of", Read: wire.Optional(&b.draft.BestOf, (*wire.Reader).Usize)},
		{Name: "logprobs", Read: wire.Optional(&b.logprobs, (*wire.Reader).Uint32)},
		{Name: "echo", Read: fields.Flag(&b.echo)},
		{Name: "suffix", Read: wire.Optional(&b.suffix, (*wire.Reader).String)},
	}...)
	list = append(list, fields.Guidance(&b.draft.Guidance, nil)...)
	err := fields.Decode(text, "struct CompletionRequest", list, &b.draft)
	switch {
	case err != nil:
		return nil, err
	case b.suffix != nil && *b.suffix != "":
		return nil, noSuffix
	}
	c, err := newCall(&b.settings, &completionForm, d)
	if err != nil {
		return nil, err
	}
	c.shown.Echo, c.shown.Logprobs = b.echo, b.logprobs != nil
	if c.shown.Logprobs {
		b.draft.TopNTokens, b.draft.TopField = b.logprobs, "logprobs"
		c.top = int(*b.logprobs)
	}
	// Prompts are scored by a call that echoes them and wants no more.
	if c.shown.ScoreOnly = c.shown.Echo && b.maxTokens != nil && *b.maxTokens == 0; c.shown.ScoreOnly {
		b.draft.MaxNewTokens = new(uint32)
		*b.draft.MaxNewTokens = 1
	}
	c.prompts, c.draft = b.prompts, b.draft
	return c, nil
}

// makeDrafts gives each prompt of a completion its draft.
func (c *call) makeDrafts() error {
	for _, p := range c.prompts {
		draft := c.draft
		draft.Inputs, draft.Tokens, draft.EchoField = p.text, p.tokens, "echo"
		draft.PromptLogprobs, draft.PromptTop = c.shown.Echo && (c.shown.Logprobs || p.tokens != nil), c.shown.Logprobs
		if draft.PromptLogprobs && c.stream && c.n > 1 {
			return &generate.Invalid{Msg: "`echo` with log-probabilities or token ids is not supported when streaming `n` > 1",
				Field: "echo"}
		}
		c.drafts = append(c.drafts, draft)
	}
	return nil
}

// prompt reads a text, a list of texts, the tokens of one prompt or of several.
func (b *completionBody) prompt(r *wire.Reader) error {
	err := fields.Either(r, func(r *wire.Reader) error {
		s, err := r.String()
		b.prompts = []prompt{{text: s}}
		return err
	}, func(r *wire.Reader) error {
		b.prompts = nil
		return r.Array(func(int) error {
			s, err := r.String()
			return b.add(prompt{text: s}, err)
		})
	}, func(r *wire.Reader) error {
		ids, err := tokens(r)
		b.prompts = []prompt{{tokens: ids}}
		return err
	}, func(r *wire.Reader) error {
		b.prompts = nil
		return r.Array(func(int) error {
			ids, err := tokens(r)
			return b.add(prompt{tokens: ids}, err)
		})
	})
	if err == nil && len(b.prompts) == 0 {
		return r.Refuse("Empty array detected. Do not use an empty array for the prompt.")
	}
	return err
}

// add adds a prompt of a list that was read with err. The list ends with the first prompt too many: what follows could
// only take memory.
func (b *completionBody) add(p prompt, err error) error {
	if err == nil && b.most > 0 && len(b.prompts) == b.most {
		return tooManyPrompts(b.most)
	}
	b.prompts = append(b.prompts, p)
	return err
}

// tokens reads a list of token ids, never nil.
func tokens(r *wire.Reader) ([]llm.Token, error) {
	ids := []llm.Token{}
	err := r.Array(func(int) error {
		id, err := r.Uint32()
		ids = append(ids, id)
		return err
	})
	return ids, err
}
