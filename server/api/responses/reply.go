package responses

import (
	"cmp"
	"strconv"

	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/wire"
)

// The states of a response and of its items.
const (
	queued           = "queued"
	inProgress       = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// outcome is how a response stands.
type outcome struct {
	status string
	// failed is why, of statusFailed.
	failed *failure
	// completed is when it ended, in seconds since 1970; 0 while it has not.
	completed int64
}

// outcome returns how a turn ended that ran to its end.
func (t *turn) outcome(now int64) outcome {
	if t.cut() {
		return outcome{status: statusIncomplete}
	}
	return outcome{status: statusCompleted, completed: now}
}

// appendResponse writes the response as it stands.
func (t *turn) appendResponse(b []byte, o outcome) []byte {
	c, s := t.call, &t.call.shown
	text := func(name, value string) {
		if b = append(append(append(b, `,"`...), name...), `":`...); value == "" {
			b = append(b, "null"...)
		} else {
			b = wire.AppendString(b, value)
		}
	}
	raw := func(name string, value []byte, otherwise string) {
		if b = append(append(append(b, `,"`...), name...), `":`...); value == nil {
			b = append(b, otherwise...)
		} else {
			b = append(b, value...)
		}
	}
	count := func(name string, value *uint32) {
		if b = append(append(append(b, `,"`...), name...), `":`...); value == nil {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendUint(b, uint64(*value), 10)
		}
	}
	flag := func(name string, value bool) {
		b = strconv.AppendBool(append(append(append(b, `,"`...), name...), `":`...), value)
	}
	b = wire.AppendString(append(b, `{"id":`...), c.id)
	b = strconv.AppendInt(append(b, `,"object":"response","created_at":`...), c.created, 10)
	text("status", o.status)
	flag("background", c.background)
	if o.completed != 0 {
		b = strconv.AppendInt(append(b, `,"completed_at":`...), o.completed, 10)
	} else {
		b = append(b, `,"completed_at":null`...)
	}
	if b = append(b, `,"error":`...); o.failed != nil {
		b = o.failed.appendCode(b)
	} else {
		b = append(b, "null"...)
	}
	if b = append(b, `,"incomplete_details":`...); o.status == statusIncomplete {
		reason := `{"reason":"max_output_tokens"}`
		if t.guarded() {
			reason = `{"reason":"content_filter"}`
		}
		b = append(b, reason...)
	} else {
		b = append(b, "null"...)
	}
	if b = append(b, `,"instructions":`...); c.instructions != nil {
		b = wire.AppendString(b, *c.instructions)
	} else {
		b = append(b, "null"...)
	}
	if c.within != "" {
		b = append(wire.AppendString(append(b, `,"conversation":{"id":`...), c.within), '}')
	} else if c.conversed {
		b = append(b, `,"conversation":null`...)
	}
	count("max_output_tokens", s.most)
	count("max_tool_calls", s.calls)
	text("model", dispatch.Shown(c.named, c.model))
	b = append(b, `,"output":[`...)
	for i, one := range t.items {
		b = t.appendItem(wire.Comma(b, i), one)
	}
	b = append(b, ']')
	flag("parallel_tool_calls", s.parallel)
	text("previous_response_id", c.previous)
	text("prompt_cache_key", s.cacheKey)
	b = append(b, `,"reasoning":{"effort":`...)
	b = append(appendOrNull(append(appendOrNull(b, s.effort), `,"summary":`...), s.summary), '}')
	text("safety_identifier", s.safety)
	b = wire.AppendString(append(b, `,"service_tier":`...), string(cmp.Or(c.draft.Tier, generate.TierDefault)))
	flag("store", c.store)
	b = wire.AppendFloat32(append(b, `,"temperature":`...), or(c.draft.Temperature, 1))
	b = append(b, `,"text":{"format":`...)
	if s.format != nil {
		b = append(b, s.format...)
	} else {
		b = append(b, `{"type":"text"}`...)
	}
	if s.verbosity != "" {
		b = wire.AppendString(append(b, `,"verbosity":`...), s.verbosity)
	}
	b = append(b, '}')
	raw("tool_choice", s.choice, `"auto"`)
	raw("tools", s.tools, "[]")
	b = wire.AppendInt(append(b, ','), "top_logprobs", int(s.top))
	b = wire.AppendFloat32(append(b, `,"top_p":`...), or(c.draft.TopP, 1))
	truncation := "disabled"
	if c.truncate {
		truncation = "auto"
	}
	text("truncation", truncation)
	b = t.appendUsage(append(b, `,"usage":`...))
	text("user", s.user)
	raw("metadata", s.metadata, "{}")
	if t.choice.Finish != nil {
		b = generate.AppendDropped(generate.AppendSkips(b, t.run.Skipped()), t.run.Dropped())
		b = generate.AppendExplained(b, t.explained, t.run.Receipt())
	}
	return append(b, '}')
}

func appendOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return wire.AppendString(b, s)
}

func or(f *float32, otherwise float32) float32 {
	if f == nil {
		return otherwise
	}
	return *f
}

// appendUsage writes the tokens of a turn that ended, null before.
func (t *turn) appendUsage(b []byte) []byte {
	f := t.choice.Finish
	if f == nil {
		return append(b, "null"...)
	}
	prompt, generated := t.prompt+f.Prompt, t.generated+f.Generated
	b = wire.AppendInt(append(b, '{'), "input_tokens", prompt)
	b = wire.AppendInt(append(b, `,"input_tokens_details":{`...), "cached_tokens", t.cached+f.Cached)
	b = append(b, `,"cache_write_tokens":0},`...)
	b = wire.AppendInt(b, "output_tokens", generated)
	b = wire.AppendInt(append(b, `,"output_tokens_details":{`...), "reasoning_tokens", t.reasoned+t.choice.Reasoned)
	counts := t.counts.Plus(f)
	counts.Predicted = t.call.draft.Prediction != nil
	b = counts.Append(b)
	b = wire.AppendInt(append(b, `},`...), "total_tokens", prompt+generated)
	return append(b, '}')
}
