package server_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/config"
)

var quiet = slog.New(slog.DiscardHandler)

// freePort returns a port that nobody listened on a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// status asks for a page with an administrator's key.
func status(t *testing.T, url string) int {
	t.Helper()
	r, _ := http.NewRequest("GET", url, nil)
	r.Header.Set("Authorization", "Bearer a")
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	return reply.StatusCode
}

// TestAdminAddress: administrators' routes are on their own address alone, and
// both addresses end together.
func TestAdminAddress(t *testing.T) {
	c := config.Default().Server
	c.Hostname, c.Port, c.AdminPort, c.AdminKeys = "127.0.0.1", 0, freePort(t), []string{"a"}
	s := server.New(server.Options{Config: c, APIs: []server.API{scoped{}}, Metrics: server.NewMetrics(), Log: quiet})
	public, admin, err := server.Listen(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeBoth(ctx, public, admin) }()
	for path, want := range map[string][2]int{
		"/admin/x": {404, 200}, "/keyed": {200, 404}, "/livez": {200, 200}, "/readyz": {200, 200},
		"/metrics": {200, 200},
	} {
		if got := status(t, "http://"+public.Addr().String()+path); got != want[0] {
			t.Errorf("%s on the public address: got %d, want %d", path, got, want[0])
		}
		if got := status(t, "http://"+admin.Addr().String()+path); got != want[1] {
			t.Errorf("%s on the admin address: got %d, want %d", path, got, want[1])
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, l := range []net.Listener{public, admin} {
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Errorf("%s still listens", l.Addr())
		}
	}
}

func TestListenFails(t *testing.T) {
	c := config.Default().Server
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c.Hostname, c.Port, c.AdminPort = "127.0.0.1", freePort(t), taken.Addr().(*net.TCPAddr).Port
	if _, _, err := server.Listen(c, quiet); err == nil || !strings.Contains(err.Error(), "cannot listen") ||
		!strings.Contains(err.Error(), "another program has this port (server.port, --port)") {
		t.Errorf("a port that is taken: %v", err)
	}
	if err := server.CheckListen(c); err != nil {
		t.Errorf("a port that is taken is no fault of the settings: %v", err)
	}
	if l, err := net.Listen("tcp", net.JoinHostPort(c.Hostname, strconv.Itoa(c.Port))); err != nil {
		t.Error("the public address stays taken after the admin's failed:", err)
	} else {
		l.Close()
	}
	c.AdminPort, c.TLSCert, c.TLSKey = 0, "testdata/none.pem", "testdata/none.pem"
	if _, _, err := server.Listen(c, quiet); err == nil || !strings.Contains(err.Error(), "cannot serve TLS") {
		t.Errorf("no certificate: %v", err)
	}
	if err := server.CheckListen(c); err == nil || !strings.Contains(err.Error(), "cannot serve TLS") {
		t.Errorf("check without a certificate: %v", err)
	}
	c.TLSCert, c.TLSKey, c.Hostname = "", "", "no such host"
	if err := server.CheckListen(c); err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("check of a host that is none: %v", err)
	}
}

// writePair writes a certificate for the serial number and its key, and returns
// what trusts it.
func writePair(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	for path, b := range map[string][]byte{cert: block("CERTIFICATE", der), key: block("PRIVATE KEY", text)} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		// Two pairs within the clock's resolution must differ all the same.
		if err := os.Chtimes(path, now, now.Add(time.Duration(serial)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// TestTLS: streams over both versions of HTTP, and certificates that change.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	c := config.Default().Server
	c.Hostname, c.Port, c.TLSCert, c.TLSKey = "127.0.0.1", 0, filepath.Join(dir, "cert.pem"),
		filepath.Join(dir, "key.pem")
	pool := writePair(t, c.TLSCert, c.TLSKey, 1)
	s := server.New(server.Options{Config: c, Log: quiet,
		APIs: []server.API{routes{"/stream": func(w http.ResponseWriter, _ *http.Request) error {
			e, err := server.StartEvents(w)
			if err != nil {
				return err
			}
			return e.Data([]byte("1"))
		}}}})
	l, _, err := server.Listen(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	// ask returns the protocol, the body and the certificate's number.
	ask := func(pool *x509.CertPool, http2 bool) (string, string, int64) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: http2,
			DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Post("https://"+l.Addr().String()+"/stream", "application/json",
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.Proto, string(body), r.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	for http2, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
		if proto, body, serial := ask(pool, http2); proto != want || body != "data: 1\n\n" || serial != 1 {
			t.Errorf("got %s %q with certificate %d, want %s", proto, body, serial, want)
		}
	}
	// A broken pair leaves the old one in use; a new one takes its place.
	if err := os.WriteFile(c.TLSKey, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, serial := ask(pool, false); serial != 1 {
		t.Errorf("with a broken key: certificate %d", serial)
	}
	pool = writePair(t, c.TLSCert, c.TLSKey, 2)
	if _, _, serial := ask(pool, false); serial != 2 {
		t.Errorf("after the change: certificate %d", serial)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSlowClients: who dribbles a header is cut off, and so is who does not
// read: the write fails.
func TestSlowClients(t *testing.T) {
	ended := make(chan error, 1)
	s := newServer(routes{"/flood": func(w http.ResponseWriter, r *http.Request) error {
		e, err := server.StartEvents(w)
		for err == nil {
			err = e.Data(make([]byte, 1<<16))
		}
		ended <- err
		return nil
	}}, func(o *server.Options) {
		o.Config.HeaderTimeout, o.Config.WriteTimeout = config.Duration(30*time.Millisecond),
			config.Duration(30*time.Millisecond)
	})
	url, _, _ := live(t, s)
	address := strings.TrimPrefix(url, "http://")
	slow, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\nHost: x\r\n"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(bufio.NewReader(slow)); err != nil || strings.Contains(string(rest), "200") {
		t.Errorf("a header without an end got %q, %v", rest, err)
	}
	deaf, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, "POST /flood HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a client that does not read was waited for")
	}
}
