package check

import (
	"context"

	"tgi/plugins/internal/guest"
	"tgi/plugins/program"
)

// programName is the name of the series of a program's texts.
const programName = "run of a program"

// benchPrograms is how many texts are measured at most: each is some hundred calls.
const benchPrograms = 100

// ProgramCounts are what one text of a program came to, over a made-up model.
type ProgramCounts struct {
	Prompt    int `json:"prompt_tokens"`
	Generated int `json:"generated_tokens"` // of all its contexts
	Computed  int `json:"computed_tokens"`  // those, and what it appended and scored
	Emitted   int `json:"emitted"`          // tokens and bytes
}

// programs measures whole texts of a program, each in an instance of its own.
func (r *running) programs(ctx context.Context, steps int) error {
	prompt := r.prompt()
	for i := range min(steps, benchPrograms) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.measure(func() error { return r.g.Validate(nil, r.params) }, always("validate")); err != nil {
			return err
		}
		h := program.NewSynthetic(r.vocab, prompt)
		request := h.Request(r.params)
		err := r.measure(func() error {
			return program.Run(r.g, h, request, func(host any) (*guest.Session, error) {
				return r.g.OpenProgram(r.o.Seed+uint64(i), ctx.Done(), nil, host)
			})
		}, always(programName))
		if err != nil {
			return err
		}
		r.run.Program = &ProgramCounts{Prompt: len(prompt), Generated: h.Generated, Computed: h.Computed(),
			Emitted: h.Emitted}
	}
	return nil
}
