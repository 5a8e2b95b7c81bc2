package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"tgi/server/config"
)

// collector looks whether somebody listens where traces are sent. A server goes on without one.
func (d *diagnosis) collector(ctx context.Context, r *report) {
	if d.cfg.Trace.OTLPEndpoint == "" {
		return
	}
	at, err := reach(ctx, d.cfg.Trace.OTLPEndpoint)
	if err != nil {
		r.warn("traces", err.Error(), "start the collector of OpenTelemetry, or correct trace.otlp_endpoint; without it the "+
			"server serves, and traces are lost")
		return
	}
	r.ok("traces", "%s is reached", at)
}

// toolServer looks whether an MCP server could be started or reached. It starts none.
func toolServer(m config.MCP) func(context.Context, *report) {
	return func(ctx context.Context, r *report) {
		check := "mcp " + m.Name
		if m.Endpoint != "" {
			at, err := reach(ctx, m.Endpoint)
			if err != nil {
				r.fail(check, err, "start that server, or correct endpoint of this [[mcp]]")
				return
			}
			r.ok(check, "%s is reached", at)
			return
		}
		if m.Folder != "" {
			info, err := os.Stat(m.Folder)
			if err == nil && !info.IsDir() {
				err = fmt.Errorf("%s is a file, not a folder", m.Folder)
			}
			if err != nil {
				r.fail(check, err, "correct folder of this [[mcp]]")
				return
			}
		}
		found, err := m.Program()
		if err != nil {
			r.fail(check, err, "install the program, or correct command of this [[mcp]]: a path, or a name on PATH")
			return
		}
		r.ok(check, "%s is there", found)
	}
}

// reach connects to the host of a URL, and returns its address: the rest of the URL may be secret.
func reach(ctx context.Context, endpoint string) (at string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", errors.New("it is no URL") // the error has its text
	}
	at = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80"))
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return "", fmt.Errorf("%s does not answer: %w", at, err)
	}
	return at, c.Close()
}
