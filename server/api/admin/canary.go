package admin

import (
	"net/http"
	"time"

	"tgi/server"
)

// States of a canary.
const (
	CanaryRuns    = "running"
	CanaryAborted = "aborted"
	// CanaryPromoted is what promote_after came to: it serves.
	CanaryPromoted = "promoted"
)

// Canary is a new version of an uploaded plugin that gets a share of the requests, or a shadow that is shown them.
type Canary struct {
	Name string `json:"name"`
	// State is CanaryRuns, CanaryAborted: no request gets it any more, or CanaryPromoted. Why says the reason.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Shadow says that no reply depends on it.
	Shadow bool `json:"shadow"`
	// Percent of the requests that name the plugin get it; AbortAfter faulty ones abort it.
	Percent    int       `json:"percent"`
	AbortAfter int       `json:"abort_after"`
	Began      time.Time `json:"began"`
	// PromoteAfter is the number of finished requests behind which it takes over, 0 for never, but not before
	// PromoteNotBefore. Of a shadow, more different ones than MaxDifferences abort it.
	PromoteAfter     int       `json:"promote_after,omitempty"`
	PromoteNotBefore time.Time `json:"promote_not_before,omitzero"`
	MaxDifferences   int       `json:"max_differences,omitempty"`
	// Bound counts how often requests, and runs of programs, got it; Faulty those in which it failed; Fallbacks those
	// that went on with the version that serves; Finished those that ended well.
	Bound     uint64 `json:"bound"`
	Faulty    uint64 `json:"faulty"`
	Fallbacks uint64 `json:"fallbacks"`
	Finished  uint64 `json:"finished"`
	// Compared is what a shadow's answers came to; nil of others.
	Compared *CanaryCompared `json:"compared,omitempty"`
	// Serving and Canary are what both versions used since Began.
	Serving CanaryUse `json:"serving"`
	Canary  CanaryUse `json:"canary"`
}

// CanaryCompared is what the answers of a shadow came to.
type CanaryCompared struct {
	// Answers were compared, and DifferentAnswers were not those of the version that serves. Different are the requests
	// that had one, Dropped those that were given up because there was no room or time for them.
	Answers          uint64 `json:"answers"`
	DifferentAnswers uint64 `json:"different_answers"`
	Different        uint64 `json:"different"`
	Dropped          uint64 `json:"dropped"`
	// Samples are the first differences of the latest different requests.
	Samples []CanaryDifference `json:"samples"`
}

// CanaryDifference is where a shadow first answered a request differently.
type CanaryDifference struct {
	Time    time.Time `json:"time"`
	Request string    `json:"request"`
	Kind    string    `json:"kind"`
	// Step is the number of tokens that the text had, -1 before the first answer.
	Step int    `json:"step"`
	What string `json:"what"`
	// Texts shows parts of the request, where the canary was begun with canary_texts.
	Texts string `json:"texts,omitempty"`
}

// CanaryUse is what one version used. Instances are in use now, and take InstanceBytes.
type CanaryUse struct {
	SHA256   string            `json:"sha256"`
	Version  string            `json:"version"`
	Calls    uint64            `json:"calls"`
	Refusals uint64            `json:"refusals"`
	Faults   map[string]uint64 `json:"faults"`
	Fuel     uint64            `json:"fuel"`
	Seconds  float64           `json:"seconds"`

	Instances     int   `json:"instances_out"`
	InstanceBytes int64 `json:"instance_bytes"`
	// Guard is what a canary did as a guard; nil where it is none, of a shadow, whose verdicts are not applied, and of
	// the version that serves, which the plugin itself has it of.
	Guard *server.Guard `json:"guard,omitempty"`
}

// CanaryInShort is a canary where plugins are listed.
type CanaryInShort struct {
	// The first ones are as in Canary and in its CanaryUse of the new version.
	State     string  `json:"state"`
	Shadow    bool    `json:"shadow"`
	SHA256    string  `json:"sha256"`
	Version   string  `json:"version"`
	Percent   int     `json:"percent"`
	Bound     uint64  `json:"bound"`
	Faulty    uint64  `json:"faulty"`
	Calls     uint64  `json:"calls"`
	Seconds   float64 `json:"seconds"`
	Instances int     `json:"instances_out"`
	Bytes     int64   `json:"instance_bytes"`
	// Faults counts the calls that failed.
	Faults uint64 `json:"faults"`
	// Of a shadow: see CanaryCompared.
	Answers          uint64 `json:"answers,omitempty"`
	DifferentAnswers uint64 `json:"different_answers,omitempty"`
	Different        uint64 `json:"different,omitempty"`
}

// inShort are the canaries by the plugins that they would replace. One that was promoted is the plugin now.
func inShort(list []Canary) map[string]*CanaryInShort {
	short := map[string]*CanaryInShort{}
	for _, c := range list {
		if c.State == CanaryPromoted {
			continue
		}
		u := c.Canary
		s := &CanaryInShort{State: c.State, Shadow: c.Shadow, SHA256: u.SHA256, Version: u.Version, Percent: c.Percent,
			Bound: c.Bound, Faulty: c.Faulty, Calls: u.Calls, Seconds: u.Seconds, Instances: u.Instances,
			Bytes: u.InstanceBytes}
		for _, n := range u.Faults {
			s.Faults += n
		}
		if x := c.Compared; x != nil {
			s.Answers, s.DifferentAnswers, s.Different = x.Answers, x.DifferentAnswers, x.Different
		}
		short[c.Name] = s
	}
	return short
}

// startCanary is put with canary in the query.
func (a *API) startCanary(w http.ResponseWriter, r *http.Request, name string, wasm []byte, s Settings) error {
	c, err := a.options.Plugins.StartCanary(r.Context(), name, wasm, s)
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusCreated, c)
}

// canaries lists those of all plugins.
func (a *API) canaries(w http.ResponseWriter, _ *http.Request) error {
	list := a.options.Plugins.Canaries()
	if list == nil {
		list = []Canary{}
	}
	return server.WriteValue(w, http.StatusOK, map[string][]Canary{"canaries": list})
}

func (a *API) canary(w http.ResponseWriter, r *http.Request) error {
	c, err := a.options.Plugins.Canary(r.PathValue("name"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, c)
}

func (a *API) promoteCanary(w http.ResponseWriter, r *http.Request) error {
	p, err := a.options.Plugins.PromoteCanary(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, shown(p))
}

func (a *API) endCanary(w http.ResponseWriter, r *http.Request) error {
	if err := a.options.Plugins.EndCanary(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
