package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits of a fetch beside those of Options.
const (
	maxRedirects   = 3
	maxHeaderBytes = 32 << 10
	// piece is what is read at first of a file whose size is not known.
	piece = 64 << 10
)

// newClient returns the client of all fetches. It knows no proxy, keeps no cookies, and connects to no address that is
// not allowed, whatever name leads there.
func (f *Fetcher) newClient() *http.Client {
	dialer := &net.Dialer{Timeout: f.o.Timeout, Control: func(_, address string, _ syscall.RawConn) error {
		return f.checkAddress(address)
	}}
	return &http.Client{
		Timeout: f.o.Timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
			TLSHandshakeTimeout: f.o.Timeout, ResponseHeaderTimeout: f.o.Timeout, IdleConnTimeout: 30 * time.Second,
			MaxIdleConnsPerHost: 4, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return refuse("Could not fetch image: more than %d redirects", maxRedirects)
			}
			r.Header.Del("Referer") // it would show one host the URL on another, with what it signs
			return f.checkHost(r.URL)
		},
	}
}

// get fetches an address.
func (f *Fetcher) get(ctx context.Context, u *url.URL, take func(int64) error) ([]byte, error) {
	if err := f.checkHost(u); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, refuse("Could not fetch image: %v", err)
	}
	r.Header.Set("Accept", "image/png, image/jpeg, image/webp, image/gif")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "tgi")
	var full error
	data, err := f.read(r, func(n int64) error {
		full = take(n)
		return full
	})
	switch {
	case full != nil:
		return nil, full
	case err == nil && !slices.ContainsFunc(formats, func(k format) bool { return k.is(data) }):
		// What the file says is not for the client, who may not be able to read it.
		return nil, refuse("Could not fetch image: the host sends no PNG, JPEG, WebP or GIF")
	case err == nil:
		return data, nil
	}
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return nil, refused // without the words of package net/http around it
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, refuse("Could not fetch image: %s", reason(err))
}

// read sends a request and reads its reply.
func (f *Fetcher) read(r *http.Request, take func(int64) error) ([]byte, error) {
	reply, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, refuse("Could not fetch image: the host replies %s",
			strings.TrimSpace(fmt.Sprintf("%d %s", reply.StatusCode, http.StatusText(reply.StatusCode))))
	}
	if e := reply.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, refuse("Could not fetch image: the reply has the encoding %.20q, which was not asked for", e)
	}
	if err := f.tooLarge(reply.ContentLength); err != nil {
		return nil, err
	}
	return f.readAll(reply.Body, reply.ContentLength, take)
}

// readAll reads a file of so many bytes, or of unknown size where that is negative.
func (f *Fetcher) readAll(body io.Reader, size int64, take func(int64) error) ([]byte, error) {
	var data []byte
	for {
		if len(data) == cap(data) {
			more := size + 1 // the end of the file is one read more
			if len(data) > 0 || size < 0 {
				more = min(max(int64(len(data)), piece), f.o.Bytes+1-int64(len(data)))
			}
			if err := take(more); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, int64(len(data))+more), data...)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > f.o.Bytes:
			return nil, refuse("Image size exceeds maximum allowed size of %d bytes (images.bytes)", f.o.Bytes)
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

// reason is what a client may know of why a fetch failed: not what the network behind the server looks like.
func reason(err error) string {
	var timeout net.Error
	var unknown *net.DNSError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it took too long (images.timeout)"
	case errors.As(err, &unknown):
		return "the host is not known"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the reply ends too early"
	}
	return "the host cannot be reached"
}

// checkHost returns an error for a URL that may not be fetched.
func (f *Fetcher) checkHost(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return refuse("Could not fetch image: a redirect leads to %.20q", u.Scheme)
	}
	if u.User != nil {
		return refuse("Could not fetch image: its URL must not have a user")
	}
	if len(f.o.Hosts) == 0 {
		return refuse("images are not fetched here (images.hosts names no host): send a data: URI")
	}
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		port = ""
	}
	for _, allowed := range f.o.Hosts {
		name, itsPort := strings.ToLower(allowed), ""
		if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, ']') {
			name, itsPort = name[:colon], name[colon+1:]
		}
		name = strings.Trim(name, "[]") // of an IPv6 address
		if itsPort == port && (name == "*" || name == host ||
			strings.HasPrefix(name, "*.") && strings.HasSuffix(host, name[1:]) && len(host) > len(name)-1) {
			return nil
		}
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return refuse("images are not fetched from %.100s (images.hosts): send a data: URI", host)
}

// checkAddress returns an error for an address that may not be dialled. It is called after names were resolved.
func (f *Fetcher) checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if f.o.Private || public(at.Addr()) {
		return nil
	}
	return refuse("Could not fetch image: its host has an address that is not public (images.private_addresses)")
}

// reserved are ranges of addresses that are not public, beside those that package netip knows: IANA's special-purpose
// registries, and those that hold an IPv4 address.
var reserved = func() (list []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
		"5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}()

// public reports whether an address is one of the Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
