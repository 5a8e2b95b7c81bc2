// Package api holds an HTTP server to the behaviour of Hugging Face's
// text-generation-inference and of OpenAI's API: routes, fields, statuses,
// headers, error texts, event streams. It owns a table of cases, each with the
// rule that it checks and where the rule comes from, and reports every
// violation with both.
//
// The kit knows nothing of this project's server: it speaks HTTP to any URL, TGI
// itself included. Cases that hold for this server alone are marked, and left
// out when the other side turns out to be TGI.
//
//	report := api.Run(ctx, api.Target{URL: "http://127.0.0.1:3000"}, nil)
//	for _, v := range report.Violations() {
//		t.Error(v)
//	}
package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"
)

// Names of the dialects: the versions of TGI whose bytes a server may speak.
const (
	TGI06 = "tgi-0.6"
	TGI22 = "tgi-2.2"
	TGI3  = "tgi-3"
)

// Target is the server to be checked.
type Target struct {
	// URL is where it answers, without a path.
	URL string
	// Dialect is what it must speak; empty is TGI3. It is sent with every request
	// as the header X-TGI-Dialect.
	Dialect string
	// Key is its bearer key; empty where none is needed, then the cases about keys
	// are left out.
	Key string
	// AdminKey opens the routes of administrators. With one, a model that is not the
	// default is stopped and started; without, the cases that do so are left out.
	AdminKey string
	// Client sends the requests; nil is one with the default transport.
	Client *http.Client
	// Timeout bounds one case; 0 is a minute.
	Timeout time.Duration
	// Documents are OpenAPI documents that replies are held to, beside the kit's
	// own description and the document that the server itself serves.
	Documents []*Document
}

// Case is one row of the table.
type Case struct {
	// ID names it in reports.
	ID string
	// Rule says what must hold.
	Rule string
	// Source says where the rule comes from.
	Source string
	// This marks rules of this server that TGI itself does not keep.
	This bool
	// Extra marks routes that TGI may lack, for its version or the way it was
	// built: there, a 404 leaves the case out.
	Extra bool
	// Dialects are those that it holds in; nil is all of them.
	Dialects []string

	run func(*probe)
}

// Violation is what broke a rule.
type Violation struct {
	Case
	// Detail says what was found.
	Detail string
	// Transcript is the exchange in which it was found, shortened.
	Transcript string
}

// String is one line for a test's report.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (%s; %s)", v.ID, v.Detail, v.Rule, v.Source)
}

// Result is what became of one case.
type Result struct {
	Case       Case
	Violations []Violation
	// Skipped says why the case was left out; empty when it ran.
	Skipped string
}

// Report is what became of a table.
type Report struct {
	// This says that the server is this project's, not TGI itself.
	This bool
	// Dialect is what was asked for.
	Dialect string
	// Results are in the order of the table.
	Results []Result
}

// Violations returns those of all cases.
func (r Report) Violations() []Violation {
	var all []Violation
	for _, one := range r.Results {
		all = append(all, one.Violations...)
	}
	return all
}

// Run checks every case whose id only accepts; nil accepts all. The cases run
// one after the other; the requests of one may run together. An error says that
// the server was not reached or that the target makes no sense, then nothing was
// checked.
func Run(ctx context.Context, t Target, only func(id string) bool) (Report, error) {
	s, err := open(ctx, t)
	if err != nil {
		return Report{}, err
	}
	if t.Client == nil {
		defer s.client.CloseIdleConnections()
	}
	report := Report{This: s.form.this, Dialect: s.form.name}
	for _, c := range Cases() {
		if only == nil || only(c.ID) {
			report.Results = append(report.Results, s.check(ctx, c))
		}
	}
	return report, nil
}

// check runs one case. It has a goroutine of its own, so that a probe can end it
// from any depth, as testing.T.FailNow does.
func (s *session) check(ctx context.Context, c Case) Result {
	ctx, cancel := context.WithTimeout(ctx, s.target.Timeout)
	defer cancel()
	p := &probe{session: s, ctx: ctx, result: Result{Case: c}}
	if p.result.Skipped = s.skipReason(c); p.result.Skipped != "" {
		return p.result
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(p)
	}()
	<-done
	return p.result
}

// skipReason returns why c does not apply to the server, "" if it applies.
func (s *session) skipReason(c Case) string {
	if c.This && !s.form.this {
		return "holds for this server, not for TGI itself"
	}
	for i, d := range c.Dialects {
		if d == s.form.name {
			break
		}
		if i == len(c.Dialects)-1 {
			return "does not hold in " + s.form.name
		}
	}
	return ""
}

// stop ends the case that p belongs to.
func (p *probe) stop() { runtime.Goexit() }

// Cases returns the table.
func Cases() []Case {
	later := slices.Concat(cloudCases, chatCases, chatStreamCases, toolCases, completionCases, grammarCases,
		responsesCases, textsCases, ollamaCases, batchesCases)
	for i := range later {
		later[i].Extra = true // none of these was in 0.6
	}
	return slices.Concat(transportCases, infoCases, generateCases, checkCases(), streamCases, later, togetherCases,
		inferenceCases, sharedCases, modelsCases, metricsCases)
}
