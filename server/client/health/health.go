// Package health asks a server of this machine whether it accepts requests, for what can run a program and not a
// request: the health check of a container.
package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"tgi/server/config"
)

// maxReply bounds what of a reply an error shows.
const maxReply = 200

// URL returns where a server with these settings is asked, from the machine that it runs on.
func URL(s config.Server) string {
	scheme, host := "http", s.Hostname
	if s.TLSCert != "" {
		scheme = "https"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(s.Port)) + "/readyz"
}

// Ask returns nil where the server of these settings accepts requests, else what keeps it. The certificate is not
// checked: it names the server as clients call it, and who answers at this address is not what is asked.
func Ask(ctx context.Context, s config.Server) error {
	url := URL(s)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	reply, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	return fmt.Errorf("%s: %s: %s", url, reply.Status, strings.TrimSpace(string(text)))
}
