package report

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"tgi/conformance/cuda/serving"
)

// online is the demo model on the device, served by a process of its own.
type online struct {
	*serving.Server
	r   *report
	cpu cpuTexts
}

// cpuTexts are what the CPU makes of the prompts, in 32 bits.
type cpuTexts struct {
	greedy []serving.Reply
	beams  serving.Reply
}

// settings of the server; verify has the engine check its invariants after every step.
const settings = `
[log]
format = "json"
[runtime]
verify = true
%s
[[plugin]]
name = "no-repeat"
source = "builtin:no-repeat-ngram"
[plugin.config]
n = 2
[[plugin]]
name = "mirostat"
source = "builtin:mirostat"
`

// server checks the whole server, with the demo model.
func (r *report) server() error {
	cpu, err := r.onTheCPU()
	if err != nil {
		return fmt.Errorf("the demo model on the CPU: %w", err)
	}
	err = r.whileServing("", os.Interrupt, cpu, []serverCheck{
		{"the device is the GPU", (*online).isGPU}, {"greedy texts", (*online).greedy},
		{"64 requests with and without grammars at once", (*online).grammars}, {"plugins", (*online).plugins},
		{"beams, best_of and n", (*online).several}, {"prefix sharing", (*online).prefix},
		{"clients that go away", (*online).disconnect}, {"metrics", (*online).metrics},
	})
	if err != nil || r.over("server", "preemption") {
		return err
	}
	return r.whileServing(`kv_memory = "5MiB"`, syscall.SIGTERM, cpu, []serverCheck{
		{"a cache of a few blocks", (*online).preemption},
	})
}

// onTheCPU has the CPU write the texts that the device's are compared with.
func (r *report) onTheCPU() (texts cpuTexts, err error) {
	s, err := serving.Start(r.ctx, r.o.Program, fmt.Sprintf(settings, ""), "--device", "cpu", "--weights", "fp32")
	if err != nil {
		return texts, err
	}
	o := &online{Server: s, r: r}
	texts.greedy, err = o.each(r.ctx, prompts, greedyTokens)
	if err == nil {
		texts.beams, err = o.Generate(r.ctx, prompts[0], withBeams)
	}
	if stopped := s.Stop(os.Interrupt); err == nil {
		err = stopped
	}
	return texts, err
}

// serverCheck looks at one thing, and says in a few words what it saw; its error is what did not hold.
type serverCheck struct {
	name string
	run  func(o *online, ctx context.Context) (saw string, err error)
}

// whileServing makes checks of a server on the device, and at last ends it by a signal while it streams.
func (r *report) whileServing(more string, signal os.Signal, cpu cpuTexts, checks []serverCheck) error {
	began := time.Now()
	s, err := serving.Start(r.ctx, r.o.Program, fmt.Sprintf(settings, more), "--device",
		fmt.Sprintf("cuda:%d", r.o.Device.Index))
	if err != nil {
		return err
	}
	r.line("A server with %s, which served after %.1f s:\n", cmp.Or(more, "the default cache"),
		time.Since(began).Seconds())
	o := &online{Server: s, r: r, cpu: cpu}
	checks = append(checks[:len(checks):len(checks)], serverCheck{fmt.Sprintf("the signal %q while it streams", signal),
		func(o *online, ctx context.Context) (string, error) { return o.end(ctx, signal) }})
	for _, c := range checks {
		if r.over("server", "%s, and what follows", c.name) {
			break
		}
		within, stop := context.WithTimeout(r.ctx, time.Minute)
		saw, err := c.run(o, within)
		stop()
		if err != nil && r.ctx.Err() != nil {
			r.leaveOut("server", "%s, and what follows", c.name)
			break
		}
		if err != nil {
			saw = err.Error()
		}
		r.line("- %s: %s: %s", c.name, saw, r.holds(err == nil, "server: %s: %s", c.name, saw))
	}
	r.line("")
	_ = s.Stop(os.Kill) // if it still runs: its last check was cut off, or failed
	return nil
}

// end ends the server while a text is streamed, which comes whole.
func (o *online) end(ctx context.Context, signal os.Signal) (string, error) {
	const tokens = 200
	var stopped chan error
	events, last := 0, ""
	err := o.Stream(ctx, prompts[0], serving.Parameters{"max_new_tokens": tokens, "ignore_eos": true},
		func(event string) bool {
			if stopped == nil {
				stopped = make(chan error, 1)
				go func() { stopped <- o.Stop(signal) }()
			}
			events, last = events+1, event
			return true
		})
	if stopped == nil {
		return "", fmt.Errorf("nothing was streamed: %w", err)
	}
	if ended := <-stopped; ended != nil {
		return "", ended
	}
	if err != nil || events != tokens {
		return "", fmt.Errorf("%d of %d tokens came: %w, %s", events, tokens, err, last)
	}
	return fmt.Sprintf("%d tokens came, and it ended with code 0", events), nil
}
