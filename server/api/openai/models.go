package openai

import (
	"tgi/runtime/llm"
	"tgi/server/dispatch"
)

// modelName returns the model that a reply names.
func (c *call) modelName() string {
	if c.form.chat && c.dialect.EchoModel {
		return dispatch.Shown(c.named, c.model)
	}
	return c.model.ID
}

// tokenBytes returns the bytes that a token stands for, and whether they are known.
func (c *call) tokenBytes(t llm.Token) ([]byte, bool) {
	if c.model.TokenBytes == nil {
		return nil, false
	}
	return c.model.TokenBytes(t)
}
