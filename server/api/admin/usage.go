package admin

import (
	"net/http"
	"time"

	"tgi/server"
	"tgi/server/quota"
)

// used is what a key has used, as clients see it.
type used struct {
	// Key is null for requests without one.
	Key       *string                 `json:"key"`
	Requests  uint64                  `json:"requests"`
	Running   int                     `json:"running"`
	Lines     uint64                  `json:"batch_lines"`
	Prompt    uint64                  `json:"prompt_tokens"`
	Cached    uint64                  `json:"cached_tokens"`
	Generated uint64                  `json:"generated_tokens"`
	Unseen    uint64                  `json:"unseen_tokens"`
	Refused   map[quota.Window]uint64 `json:"refused"`
	Limits    map[quota.Window]limit  `json:"limits"`
}

// limit is a limit of a key, and for rates how much is left of it.
type limit struct {
	Limit     int      `json:"limit"`
	Remaining *int     `json:"remaining,omitempty"`
	Reset     *float64 `json:"reset_seconds,omitempty"`
}

// usage replies with what each key has used since the server started.
func (a *API) usage(w http.ResponseWriter, r *http.Request) error {
	since, list := a.options.Usage(r.Context())
	keys := []used{}
	for i := range list {
		u := &list[i]
		one := used{Requests: u.Requests, Running: u.Running, Lines: u.Lines, Prompt: u.Prompt, Cached: u.Cached,
			Generated: u.Generated, Unseen: u.Unseen, Refused: u.Refused, Limits: map[quota.Window]limit{}}
		if u.Key != "" {
			one.Key = &u.Key
		}
		if n := u.Limits.Concurrent; n > 0 {
			left := max(n-u.Running, 0)
			one.Limits[quota.Concurrent] = limit{Limit: n, Remaining: &left}
		}
		for _, s := range u.States {
			seconds := s.Reset.Seconds()
			one.Limits[s.Window] = limit{s.Limit, &s.Remaining, &seconds}
		}
		keys = append(keys, one)
	}
	return server.WriteValue(w, http.StatusOK, struct {
		Since string `json:"since"`
		Keys  []used `json:"keys"`
	}{since.UTC().Format(time.RFC3339), keys})
}
