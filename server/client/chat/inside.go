package chat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Inside returns a transport that hands requests to h in this process, as a
// server would, without a connection. The body of a response comes as the
// handler writes it; closing it, as the end of the request's context, ends the
// context that the handler has, and waits for the handler.
func Inside(h http.Handler) http.RoundTripper { return inside{h} }

type inside struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (in inside) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	body, out := io.Pipe()
	w := &pipeWriter{header: http.Header{}, out: out, begun: make(chan struct{})}
	asked := req.Clone(ctx) // handlers may change theirs
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var broken error
		defer func() {
			if broken != nil {
				w.fail(broken)
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = out.Close()
		}()
		defer func() {
			// A server closes the connection when a handler gives up this way.
			if p := recover(); p == http.ErrAbortHandler {
				broken = io.ErrUnexpectedEOF
			} else if p != nil {
				panic(p)
			}
		}()
		in.handler.ServeHTTP(w, asked)
	}()
	end := func() {
		cancel()
		_ = body.Close()
		<-done
	}
	select {
	case <-w.begun:
	case <-ctx.Done():
		end()
		return nil, context.Cause(req.Context())
	}
	if w.status == 0 {
		end()
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &pipeBody{PipeReader: body, end: sync.OnceFunc(end)}, ContentLength: -1, Request: req,
	}, nil
}

// pipeBody is a response's body that ends its handler.
type pipeBody struct {
	*io.PipeReader
	end func()
}

// Close implements io.Closer.
func (b *pipeBody) Close() error {
	b.end()
	return nil
}

// pipeWriter is the http.ResponseWriter of a handler; it belongs to the
// handler's goroutine. status and sent are read by others once begun is closed.
type pipeWriter struct {
	header, sent http.Header
	status       int
	out          *io.PipeWriter
	begun        chan struct{}
}

// Header implements http.ResponseWriter.
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pipeWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

// Write implements http.ResponseWriter.
func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush implements http.Flusher: nothing is held back.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// fail breaks the response off; without a status there is none.
func (w *pipeWriter) fail(err error) {
	if w.status == 0 {
		close(w.begun)
	}
	_ = w.out.CloseWithError(err)
}
