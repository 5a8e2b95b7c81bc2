// Command judge writes several answers at the same time, asks the model of each whether it is right, and sends the one
// that convinces most.
package main

import (
	"math"

	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/program"
)

func init() {
	plugin.Describe(plugin.Info{Name: "judge", Version: "1.0.0", Doc: "The best of several answers, by the model's judgement.",
		Params: `{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","minimum":1,"maximum":32}}}`})
	program.Register(program.Uses{Contexts: 4}, program.Always(judge{}))
}

func main() {}

type judge struct{}

// Validate checks the parameters.
func (judge) Validate(raw []byte) error {
	_, err := read(raw)
	return err
}

// read returns how many answers compete.
func read(raw []byte) (n int, err error) {
	n = 4
	if len(raw) == 0 {
		return n, nil
	}
	r := params.Read(raw)
	for key := range r.Object() {
		switch key {
		case "n":
			if n = int(r.Uint()); n < 1 || n > 32 {
				r.Fail("n: want a number from 1 to 32")
			}
		default:
			r.Fail("unknown parameter: " + key)
		}
	}
	return n, r.Close()
}

// Run implements program.Plugin.
func (judge) Run(r *program.Request) error {
	n, err := read(r.Params)
	if err != nil {
		return err
	}
	kids, err := r.Context.ForkN(n)
	if err != nil {
		return err
	}
	if err := program.Generate(nil, kids...); err != nil {
		return err
	}
	votes := make([]*program.Context, n)
	for i, k := range kids {
		if votes[i], err = question(k); err != nil {
			return err
		}
	}
	if err := program.Wait(votes...); err != nil { // one step of the model answers all
		return err
	}
	best, top := kids[0], math.Inf(-1)
	for i, v := range votes {
		s, err := convinces(v)
		if err != nil {
			return err
		}
		if s > top {
			best, top = kids[i], s
		}
	}
	return best.EmitSpan()
}

// question begins to ask the model whether an answer is right.
func question(k *program.Context) (*program.Context, error) {
	j, err := k.Fork()
	if err != nil {
		return nil, err
	}
	if err := j.Append("\nIs this right? Answer yes or no: "); err != nil {
		return nil, err
	}
	return j, j.Ask("")
}

// convinces says how much likelier "yes" is than "no" behind the question.
func convinces(j *program.Context) (float64, error) {
	yes, err := j.Score("yes")
	if err != nil {
		return 0, err
	}
	no, err := j.Score("no")
	return yes - no, err
}
