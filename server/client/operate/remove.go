package operate

import (
	"context"
	"fmt"
	"net/http"

	"tgi/server/api/admin"
	"tgi/server/client/terminal"
)

// RemoveVerb is the verb that removes from the settings where no server is named.
const RemoveVerb = "rm"

// Removed is what went with an upload.
type Removed struct {
	Removed string `json:"removed"`
	// Versions that no rollback has serve any more, the one that served among them.
	Versions []admin.Version `json:"versions"`
	// Canary is true where one was tried beside it.
	Canary bool `json:"canary"`
}

// Remove removes an upload with all that the server keeps of it, and says what that was. Nothing is removed where the
// server does not tell what it has.
func (s *Server) Remove(ctx context.Context, name string) (r Removed, text string, err error) {
	r.Removed = name
	list, status, err := s.versions(ctx, name)
	if status == http.StatusConflict { // it is no upload: the server says where it is to be removed
		err = s.Delete(ctx, name)
	}
	if r.Versions = list; err != nil {
		return r, "", err
	}
	_, none, err := s.trial(ctx, name)
	if r.Canary = err == nil; err != nil && !none {
		return r, "", err
	}
	if err := s.Delete(ctx, name); err != nil {
		return r, "", err
	}
	text = fmt.Sprintf("%s: removed from %s; requests that run with it finish\n", name, terminal.Line(s.url))
	if n := len(r.Versions); n > 1 {
		text += fmt.Sprintf("  %s went too: no rollback brings one back\n", terminal.Count(n-1, "earlier version"))
	}
	if r.Canary {
		text += "  its canary ended\n"
	}
	return r, text, nil
}

// beforeRemove finds out whether each server can remove an upload, or has none.
func beforeRemove(ctx context.Context, all Fleet, words []string, plans []Plan) error {
	all.ask(ctx, plans, func(ctx context.Context, s *Server) (Plan, error) {
		_, status, err := s.versions(ctx, words[0])
		if status == http.StatusNotFound {
			return Plan{Done: words[0] + ": there is no such plugin"}, nil
		}
		return Plan{}, err
	})
	for _, p := range plans {
		if p.Done == "" {
			return nil
		}
	}
	return fmt.Errorf("none of the servers has a plugin %s", words[0])
}
