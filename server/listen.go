package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"

	"tgi/runtime/filestamp"
	"tgi/server/config"
)

// Listen takes the addresses of c: the one for everybody and, when it has a
// port, the one for the admin routes, else nil. With a certificate, both speak
// TLS; its files are read again when they change, and a pair that does not fit
// leaves the one before in use. Each address has at most c.MaxConnections. After an error nothing stays open.
func Listen(c config.Server, log *slog.Logger) (public, admin net.Listener, err error) {
	secure := func(l net.Listener) net.Listener { return limit(l, c, log) }
	if c.TLSCert != "" {
		pair, err := openPair(c, log)
		if err != nil {
			return nil, nil, err
		}
		t := &tls.Config{GetCertificate: pair.get, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
		secure = func(l net.Listener) net.Listener { return tls.NewListener(limit(l, c, log), t) }
	}
	if public, err = listen(c.Hostname, c.Port); err != nil {
		return nil, nil, err
	}
	if c.AdminPort == 0 {
		return secure(public), nil, nil
	}
	if admin, err = listen(c.AdminHostname, c.AdminPort); err != nil {
		return nil, nil, errors.Join(err, public.Close())
	}
	return secure(public), secure(admin), nil
}

// CheckListen returns why Listen would fail, as far as that can be told without taking an address.
func CheckListen(c config.Server) error {
	if c.TLSCert != "" {
		if _, err := openPair(c, slog.New(slog.DiscardHandler)); err != nil {
			return fmt.Errorf("server.tls_cert: %w", err)
		}
	}
	resolve := func(key, host string) error {
		if _, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, "0")); err != nil {
			return fmt.Errorf("%s: cannot listen: %w", key, err)
		}
		return nil
	}
	err := resolve("server.hostname", c.Hostname)
	if c.AdminPort != 0 {
		err = errors.Join(err, resolve("server.admin_hostname", c.AdminHostname))
	}
	return err
}

func listen(hostname string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(hostname, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cannot listen: %w: another program has this port (server.port, --port)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	return l, nil
}

// openPair reads the certificate and the key of the settings.
func openPair(c config.Server, log *slog.Logger) (*certificate, error) {
	pair := &certificate{cert: c.TLSCert, key: c.TLSKey, log: log}
	if _, err := pair.get(nil); err != nil {
		return nil, fmt.Errorf("cannot serve TLS: %w", err)
	}
	return pair, nil
}

// certificate is a pair of files. It is looked at before every handshake, which
// costs a thousandth of one.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu                sync.Mutex
	seenCert, seenKey filestamp.Stamp
	pair              *tls.Certificate
}

// get is tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cert, key := filestamp.Of(c.cert), filestamp.Of(c.key)
	if c.pair != nil && cert.Same(c.seenCert) && key.Same(c.seenKey) {
		return c.pair, nil
	}
	pair, err := config.ReadPair(c.cert, c.key)
	switch {
	case err == nil:
		c.pair, c.seenCert, c.seenKey = &pair, cert, key
	case c.pair == nil:
		return nil, err
	default: // the files are being replaced, or were by something broken
		c.log.Warn("certificate reload failed; keeping the previous one", "error", err)
	}
	return c.pair, nil
}
