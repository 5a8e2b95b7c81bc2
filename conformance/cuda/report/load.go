package report

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"tgi/conformance/cuda/serving"
	"tgi/models"
	"tgi/server/client/bench"
)

// load measures whole servers: what clients of served models see.
func (r *report) load() error {
	for _, name := range r.o.Served {
		for _, w := range r.o.Timed {
			if r.over("load", "%s in %s, and what follows", r.called(name), w) {
				return nil
			}
			if err := r.underLoad(name, w); err != nil {
				return fmt.Errorf("%s in %s: %w", r.called(name), w, err)
			}
		}
	}
	return nil
}

// underLoad measures one model.
func (r *report) underLoad(name string, w models.Weights) error {
	clients := slices.Max(r.o.Streams)
	flags := []string{"--device", fmt.Sprintf("cuda:%d", r.o.Device.Index), "--weights", string(w),
		"--max-concurrent-requests", fmt.Sprint(2 * clients), "--max-batch-size", fmt.Sprint(clients)}
	if name != "" {
		dir, err := folder(name)
		if err != nil {
			return err
		}
		flags = append(flags, "--model-id", dir)
	}
	s, err := serving.Start(r.ctx, r.o.Program, "[log]\nformat = \"json\"\n", flags...)
	if err != nil {
		return err
	}
	r.line("### %s in %s\n\n```", r.called(name), w)
	var runs []bench.Measured
	var table strings.Builder
	for _, streams := range r.o.Streams {
		var measured bench.Report
		measured, err = bench.Run(r.ctx, bench.Options{URL: s.URL, Concurrency: []int{streams},
			Requests: max(4, 2*streams),
			Warmup:   1, PromptTokens: r.o.LoadPrompt, OutputTokens: r.o.LoadOutput})
		if err != nil {
			break
		}
		runs = append(runs, measured.Runs...)
		_ = measured.WriteTable(&table) // to a Builder
	}
	r.line("%s```\n", table.String())
	for _, run := range runs {
		if failed := run.Requests - run.Completed; failed > 0 {
			r.line("%d of %d requests failed: %v: %s", failed, run.Requests, run.Errors,
				r.holds(false, "load: %s in %s: %d of %d requests failed", r.called(name), w, failed, run.Requests))
		}
	}
	stopped := s.Stop(os.Interrupt)
	if err == nil && stopped != nil {
		return stopped
	}
	return err
}
