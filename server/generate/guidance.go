package generate

import (
	"context"
	"fmt"
	"math"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/wire"
)

// A request may weigh what its prompt makes likely against what a second prompt makes likely. The model computes the
// text behind both, and each token is picked from the mix of the two (sample.Mix).

// Kinds of guidance, as metrics name them.
const (
	// GuidanceCFG is classifier-free guidance.
	GuidanceCFG = "cfg"
	// GuidanceContrastive is contrastive decoding.
	GuidanceContrastive = "contrastive"
)

const (
	// maxGuidance bounds guidance_scale and contrastive.beta: beyond it rounding decides.
	maxGuidance = 100
	// Defaults of contrastive, from O'Brien and Lewis 2023.
	defaultBeta, defaultAlpha = 0.5, 0.1
)

// Guidance is what a request asks for of a second prompt.
type Guidance struct {
	// Scale is that of classifier-free guidance; nil and 1 are off.
	Scale *float32
	// Negative is its second prompt; without one it is the last token of the prompt, as in transformers.
	Negative Other
	// Contrast, when not nil, is contrastive decoding.
	Contrast *Contrast
}

// Contrast is contrastive decoding: what the second prompt makes likely counts against a token.
type Contrast struct {
	// Other is the second prompt, which has to be given.
	Other Other
	// Beta is how much it counts; nil is 0.5.
	Beta *float32
	// Alpha leaves out tokens that are less than so many times as likely as the likeliest, behind the prompt alone; nil
	// is 0.1.
	Alpha *float32
}

// Other is a second prompt: a text, or a conversation. In place of a conversation a text is its system message; the
// empty one leaves that out.
type Other struct {
	Text     *string
	Messages []Message
}

// given reports whether there is one.
func (o *Other) given() bool { return o.Text != nil || o.Messages != nil }

// kind returns which guidance there is, "" for none, and the field that asks for it.
func (g *Guidance) kind() (kind, field string) {
	switch {
	case g.Contrast != nil:
		return GuidanceContrastive, "contrastive"
	case or(g.Scale, 1) != 1:
		return GuidanceCFG, "guidance_scale"
	}
	return "", ""
}

// other returns the second prompt and the field that it comes from.
func (g *Guidance) other() (o *Other, field string) {
	if g.Contrast != nil {
		return &g.Contrast.Other, "contrastive"
	}
	if g.Negative.Messages != nil {
		return &g.Negative, "negative_messages"
	}
	return &g.Negative, "negative_prompt"
}

// mix returns the weights of the prompt and of the second one.
func (g *Guidance) mix() sample.Mix {
	if c := g.Contrast; c != nil {
		beta := or(c.Beta, defaultBeta)
		return sample.Mix{Weights: []float32{1 + beta, -beta}, Alpha: or(c.Alpha, defaultAlpha)}
	}
	return sample.Mix{Weights: []float32{*g.Scale, 1 - *g.Scale}}
}

// check refuses settings outside their bounds.
func (g *Guidance) check(d *Draft) error {
	between := func(field string, v, most float32) error {
		if !(v >= 0 && v <= most) || math.IsNaN(float64(v)) {
			return invalid(field, "`%s` must be >= 0.0 and <= %.1f. Given: %v", field, most, v)
		}
		return nil
	}
	if g.Scale != nil {
		if err := between("guidance_scale", *g.Scale, maxGuidance); err != nil {
			return err
		}
	}
	if _, field := g.other(); g.Negative.given() && g.Scale == nil {
		return invalid(field, "`%s` needs `guidance_scale`, which says how much it counts", field)
	}
	if g.Negative.Text != nil && g.Negative.Messages != nil {
		return invalid("negative_messages", "`negative_prompt` and `negative_messages` exclude each other")
	}
	if c := g.Contrast; c != nil {
		switch {
		case g.Scale != nil:
			return invalid("contrastive", "`contrastive` and `guidance_scale` exclude each other")
		case !c.Other.given():
			return invalid("contrastive", "`contrastive` must have a `prompt` or `messages`")
		case c.Other.Text != nil && c.Other.Messages != nil:
			return invalid("contrastive", "`prompt` and `messages` of `contrastive` exclude each other")
		}
		if err := between("contrastive.beta", or(c.Beta, defaultBeta), maxGuidance); err != nil {
			return err
		}
		if err := between("contrastive.alpha", or(c.Alpha, defaultAlpha), 1); err != nil {
			return err
		}
	}
	kind, field := g.kind()
	switch {
	case kind == "":
	case or(d.NumBeams, 1) > 1:
		_, search := d.searchField()
		return invalid(field, "`%s` and %s exclude each other", field, search)
	case d.Heal != nil && *d.Heal:
		return invalid(field, "`%s` and `token_healing` exclude each other", field)
	}
	return nil
}

// renderOther returns a draft whose prompt is the second one of d; nil for the last token of the prompt, and where
// there is no guidance.
func (s *Service) renderOther(ctx context.Context, d *Draft, now time.Time) (*Draft, error) {
	kind, by := d.Guidance.kind()
	o, field := d.Guidance.other()
	switch {
	case kind == "":
		return nil, nil
	case len(d.Conversation.images()) > 0:
		return nil, invalid(by, "`%s` and images exclude each other", by)
	case !o.given():
		return nil, nil
	}
	out := *d
	if d.Conversation == nil {
		if o.Messages != nil {
			return nil, invalid(field, "`%s`: the prompt is no conversation", field)
		}
		out.Inputs, out.Tokens = *o.Text, nil
		return &out, nil
	}
	c := *d.Conversation
	c.Messages = o.Messages
	if o.Text != nil {
		c.Messages = withSystem(d.Conversation.Messages, *o.Text)
	}
	out.Conversation = &c
	if len(c.images()) > 0 {
		return nil, invalid(field, "`%s` must not have images", field)
	}
	code, err := s.bind(ctx, &out, now)
	if err != nil {
		return nil, err
	}
	code.Close()
	return &out, nil
}

// withSystem returns messages with a text in the place of those that instruct the model before the first turn.
func withSystem(messages []Message, text string) (out []Message) {
	role := "system"
	for len(messages) > 0 && (messages[0].Role == "system" || messages[0].Role == "developer") {
		role, messages = messages[0].Role, messages[1:]
	}
	if text != "" {
		b := wire.AppendString([]byte(`{"role":`), role)
		b = append(wire.AppendString(append(b, `,"content":`...), text), '}')
		out = append(out, Message{Role: role, HasText: true, JSON: b})
	}
	return append(out, messages...)
}

// guide adds the second prompt, which d's is other, to r.
func (s *Service) guide(ctx context.Context, d, other *Draft, r *Request) error {
	kind, by := d.Guidance.kind()
	switch {
	case kind == "":
		return nil
	case r.ImageTokens > 0: // of a text
		return invalid(by, "`%s` and images exclude each other", by)
	}
	_, field := d.Guidance.other()
	var twin []llm.Token
	if other != nil {
		encoded, err := s.encode(ctx, other.Inputs, s.limits.encoding(other))
		if err != nil {
			return err
		}
		if twin, err = s.limits.checkOther(d, field, &encoded, &r.Params); err != nil {
			return err
		}
	}
	if len(twin) == 0 {
		twin = r.Prompt[len(r.Prompt)-1:]
	}
	r.Guidance, r.twins, r.mix = kind, [][]llm.Token{twin}, d.Guidance.mix()
	return nil
}

// checkOther is checkLength for the second prompt.
func (l Limits) checkOther(d *Draft, field string, e *llm.Encoded, p *llm.Params) ([]llm.Token, error) {
	prompt, n := e.Tokens, e.Count
	if d.Truncate != nil {
		prompt = prompt[max(0, len(prompt)-int(*d.Truncate)):]
		n = len(prompt)
	}
	if (d.MaxNewTokens == nil || d.Clip) && n < l.MaxTotal {
		p.MaxNewTokens = min(p.MaxNewTokens, l.MaxTotal-n)
	}
	most := min(l.MaxInput, l.MaxTotal-p.MaxNewTokens)
	if n > most {
		return nil, &Invalid{Field: field, TooLong: true, Msg: fmt.Sprintf("`%s` must have at most %d tokens beside %d "+
			"`max_new_tokens`. Given: %d", field, most, p.MaxNewTokens, n)}
	}
	return prompt, nil
}
