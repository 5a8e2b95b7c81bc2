package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/batches"
	"tgi/server/config"
)

// openBatches opens the folder of files and batches, nil where there is none. Their lines are served by
// serving, which must be open soon: until then they are told that it is loading, and wait.
func openBatches(cfg config.Config, serving *server.Server, log *slog.Logger) (*batches.Store, error) {
	c := cfg.Batches
	if c.Folder == "" {
		return nil, nil
	}
	s, err := batches.Open(c.Folder, batches.Limits{
		Storage: int64(c.Storage), OwnerStorage: int64(c.KeyStorage), MaxFile: int64(c.MaxFile),
		MaxLine:   int(c.MaxLine),
		MaxResult: int(c.MaxResult), MaxLines: c.MaxRequests, MaxBatches: c.MaxBatches, Lines: c.At(cfg.Limits),
		Keep: time.Duration(c.Keep),
	}, serveLine(serving, int(c.MaxResult)), log)
	if errors.Is(err, batches.ErrInUse) {
		err = fmt.Errorf("batches.folder: %s: %w: end the other server, or give each a folder of its own by "+
			"batches.folder", c.Folder, batches.ErrInUse)
	}
	return s, err
}

// serveLine has s answer the lines of batches.
func serveLine(s *server.Server, most int) batches.Do {
	return func(ctx context.Context, owner, path string, body []byte) (batches.Reply, error) {
		r, err := s.Line(ctx, owner, path, body, most)
		switch {
		case errors.Is(err, llm.ErrDraining):
			return batches.Reply{}, batches.ErrStopping
		case errors.Is(err, server.ErrWrongKey):
			return batches.Reply{}, batches.ErrKeyGone
		case err != nil:
			return batches.Reply{}, err
		}
		return batches.Reply{Status: r.Status, RequestID: r.Header.Get("X-Request-Id"), Body: r.Body,
			RetryAfter: r.RetryAfter()}, nil
	}
}
