package generate

import (
	"errors"

	"tgi/runtime/engine"
	"tgi/sdk/abi"
)

// Emit implements emit.
func (h *Contexts) Emit(c, from, count int) error {
	x, err := h.get(c)
	if err != nil {
		return err
	}
	tokens, most := x.c.Tokens(), len(x.c.Tokens())
	if x.end != nil {
		most++
	}
	if from < 0 || count < 0 || from > most || count > most-from {
		return argument("tokens %d and %d more, the context has %d, with the end of its run", from, count, most)
	}
	h.out.Begin()
	for i := from; i < from+count; i++ {
		out, info := engine.Emitted{Whole: i == from+count-1}, tokenInfo{}
		if i == len(tokens) {
			out.Token, out.Ends, info = x.span.End, true, *x.end
		} else if out.Token = tokens[i]; i >= x.known {
			info = x.infos[i-x.known]
		}
		if err := h.emit(out, info); err != nil {
			return err
		}
	}
	return nil
}

// EmitText implements emit_text.
func (h *Contexts) EmitText(text string) error {
	tokens, err := h.encode(text, false, h.service.limits.MaxTotal)
	if err != nil {
		return err
	}
	h.out.Begin()
	for i, t := range tokens {
		if err := h.emit(engine.Emitted{Token: t, Whole: i == len(tokens)-1}, tokenInfo{}); err != nil {
			return err
		}
	}
	return nil
}

// emit gives the client a token, as far as guards let it. The one that ends the text ends the program, unless it is to
// end it.
func (h *Contexts) emit(x engine.Emitted, info tokenInfo) error {
	if h.finished {
		return errFinished
	}
	h.gave, h.cut = true, h.cut && !x.Whole
	x.Logprob, x.Top = info.logprob, info.top
	if h.told < h.params.Explain.Tokens {
		if x.Explained = info.why; !info.picked {
			x.By = h.name
		}
		if x.Explained != nil || x.By != "" {
			h.told++
		}
	}
	err := h.give(h.out.Add(x))
	if h.finished && x.Ends {
		return nil
	}
	if h.finished {
		h.stop(errFinished)
		return errFinished
	}
	if no := (*engine.Refusal)(nil); errors.As(err, &no) {
		h.told = min(h.told, no.Left)
		return refused(abi.ProgramRefused, "%v", no)
	}
	return err
}

// give gives the client events. The last of the text is left to close.
func (h *Contexts) give(list []Event, err error) error {
	for _, ev := range list {
		if ev.Finish != nil {
			ev.Finish.Cached = h.cached
			h.last, h.finished = ev, true
			return nil
		}
		h.begins(nil)
		h.run.programs.push(programItem{event: ev})
	}
	return err
}
