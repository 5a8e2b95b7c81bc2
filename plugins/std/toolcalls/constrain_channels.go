package toolcalls

import "slices"

// callChannel is where OpenAI's harmony format has calls of functions, and callType what stands before the arguments.
const (
	callChannel = "commentary"
	callType    = "json"
	constrain   = "<|constrain|>"
)

// channels is a message of a format with channels, from behind the role that the prompt ends with: reasoning and other
// texts, and calls, which end it.
func (h *constraintBuilder) channels() *structure {
	c := h.f.Channels
	next := seq(h.anyMarker(c.End[:1]), h.marker(c.Start), constant("assistant"))
	text := func(channels []string) *structure {
		return seq(h.marker(c.Channel), pattern(alternatives(channels)), h.marker(c.Message),
			anyText(h.channelMarks()...))
	}
	call := h.anyTool(func(t *offered) *structure {
		head := seq(h.marker(c.Channel), constant(callChannel+" "+c.Recipient+c.Prefix+t.Name))
		if h.isToken(constrain) {
			head = seq(head, optional(seq(constant(" "), h.marker(constrain), constant(callType))))
		}
		return seq(head, h.marker(c.Message), h.arguments(t))
	})
	calls := seq(call, h.callEnd())
	if more := h.nextCall(); more != nil && !h.d.Choice.Single {
		calls = seq(call, star(seq(more, call)), h.callEnd())
	}
	if !h.auto {
		return seq(optional(seq(text(c.Reasoning), next)), calls)
	}
	if h.d.Answer != nil {
		final := seq(h.marker(c.Channel), constant("final"), h.marker(c.Message), h.answer())
		return seq(optional(seq(text(c.Reasoning), next)), either(calls, final))
	}
	all := append(slices.Clone(c.Reasoning), callChannel, "final")
	said := text(all)
	return seq(star(seq(said, next)), either(calls, said))
}

// channelMarks are the markers that free text of a channel never spells.
func (h *constraintBuilder) channelMarks() []string {
	c := h.f.Channels
	return slices.Concat(c.End, []string{c.Start, c.Channel})
}

// callEnd is what ends a call: nothing where that ends the message.
func (h *constraintBuilder) callEnd() *structure {
	for _, m := range h.f.Channels.End {
		if h.d.Split == nil {
			continue
		}
		if p := h.d.Split(m); len(p) == 1 && p[0].End {
			return seq()
		}
	}
	return optional(h.anyMarker(h.f.Channels.End))
}

// nextCall is what stands between two calls of a message; nil where a call ends it.
func (h *constraintBuilder) nextCall() *structure {
	if s := h.callEnd(); len(s.parts) == 0 {
		return nil
	}
	c := h.f.Channels
	return seq(h.anyMarker(c.End), h.marker(c.Start), constant("assistant"))
}
