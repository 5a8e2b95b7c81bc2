package server_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/config"
)

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	return append(b, payload...)
}

// TestStreamFlood: a connection of HTTP/2 that opens streams without end, and resets
// each at once or not, runs no more of them than it may, and is closed for it.
func TestStreamFlood(t *testing.T) {
	const (
		headers, reset, settings = 1, 3, 4
		most                     = 100
	)
	dir := t.TempDir()
	c := config.Default().Server
	c.Hostname, c.Port, c.TLSCert, c.TLSKey = "127.0.0.1", 0, filepath.Join(dir, "cert.pem"),
		filepath.Join(dir, "key.pem")
	pool := writePair(t, c.TLSCert, c.TLSKey, 1)
	var running, highest atomic.Int32
	free := make(chan struct{})
	s := newServer(routes{"/wait": func(http.ResponseWriter, *http.Request) error {
		n := running.Add(1)
		for old := highest.Load(); n > old && !highest.CompareAndSwap(old, n); old = highest.Load() {
		}
		<-free // work that does not stop in the moment in which nobody wants it any more
		running.Add(-1)
		return nil
	}}, func(o *server.Options) { o.Config = c })
	l, _, err := server.Listen(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	request := []byte("\x83\x87\x04\x05/wait\x01\x01x") // POST https /wait of x
	for name, resets := range map[string]bool{"with resets": true, "without": false} {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		go func() {
			b := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0, nil)...)
			for i := range uint32(20_000) {
				b = append(b, frame(headers, 5, 2*i+1, request)...)
				if resets {
					b = append(b, frame(reset, 0, 2*i+1, []byte{0, 0, 0, 8})...)
				}
				if len(b) < 1<<14 {
					continue
				}
				if _, err := conn.Write(b); err != nil {
					return // closed, as it should be
				}
				b = b[:0]
			}
		}()
		if !resets { // refused streams are answered one by one
			go func() {
				time.Sleep(2 * time.Second)
				conn.Close()
			}()
		}
		if _, err := io.Copy(io.Discard, conn); resets && err != nil {
			if nerr, ok := err.(interface{ Timeout() bool }); ok && nerr.Timeout() {
				t.Errorf("%s: the connection was not closed", name)
			}
		}
		conn.Close()
	}
	if n := highest.Load(); n == 0 || n > 2*most {
		t.Errorf("%d requests ran at the same time on two connections, %d may on each", n, most)
	}
	close(free)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
