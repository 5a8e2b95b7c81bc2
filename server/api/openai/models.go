package openai

import (
	"tgi/runtime/llm"
	"tgi/server/dispatch"
)

// modelName returns the model that a reply names: as TGI, a server that lets every name
// mean its model says the name of the request again, unless it is one of those that
// clients send when they know none.
func (c *call) modelName() string {
	if c.form.chat && c.dialect.EchoModel && !dispatch.Placeholder(c.named) {
		return c.named
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
