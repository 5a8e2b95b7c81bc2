package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"tgi/models/library"
)

// errStalled says that nothing arrived for Options.Idle.
var errStalled = errors.New("no data received")

// retry repeats attempt until it succeeds, fails permanently, or made no progress
// Options.Attempts times in a row.
func (c *Client) retry(ctx context.Context, attempt func() (progress bool, err error)) error {
	for failed := 0; ; {
		progress, err := attempt()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if permanent(err) {
			return err
		}
		if progress {
			failed = 0
		}
		if failed++; failed >= c.opt.Attempts {
			return fmt.Errorf("%w after %d attempts: %w", ErrUnavailable, failed, err)
		}
		wait := c.backoff(failed)
		if status := (*statusError)(nil); errors.As(err, &status) && status.wait > 0 {
			if status.wait > c.opt.MaxRetryAfter {
				return fmt.Errorf("%w: the server asks to wait %s, at most %s is allowed: %w", ErrUnavailable,
					status.wait, c.opt.MaxRetryAfter, err)
			}
			wait = max(wait, status.wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// permanent reports whether another attempt would fail in the same way.
func permanent(err error) bool {
	for _, kind := range []error{
		errRefused, ErrSource, ErrUnauthorized, ErrForbidden, ErrNotFound, ErrChecksum,
		library.ErrSpace, library.ErrLimit, library.ErrPath, library.ErrUnusable, errDisk,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// backoff returns the wait after the n-th failure in a row, n from 1.
func (c *Client) backoff(n int) time.Duration {
	d := c.opt.MaxBackoff
	if n <= 20 {
		d = min(d, c.opt.Backoff<<(n-1))
	}
	return d - rand.N(d/2+1)
}

// watch returns a context that is cancelled when alive has not been called for Options.Idle.
// The caller must call done.
func (c *Client) watch(ctx context.Context) (actx context.Context, alive, done func()) {
	actx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.opt.Idle, func() { cancel(fmt.Errorf("%w for %s", errStalled, c.opt.Idle)) })
	return actx, func() { timer.Reset(c.opt.Idle) }, func() {
		timer.Stop()
		cancel(nil)
	}
}

// stallCause replaces an error that watch's cancellation caused by errStalled.
func stallCause(actx context.Context, err error) error {
	if cause := context.Cause(actx); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// watchedReader calls alive when bytes arrive.
type watchedReader struct {
	io.Reader
	alive func()
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.alive()
	}
	return n, err
}
