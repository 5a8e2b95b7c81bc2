package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"tgi/runtime/llm"
)

type addressKey struct{}

// fromAddress returns r with the address that it came from in its context.
func fromAddress(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), addressKey{}, r.RemoteAddr))
}

// ClientOfKey is the ClientID of the requests with a key.
func ClientOfKey(name string) string { return "key " + name }

// ClientOfBatches is the ClientID of the batches of an owner.
func ClientOfBatches(owner string) string { return "batch " + owner }

// ipv6Prefix is how much of an IPv6 address a client does not choose for itself.
const ipv6Prefix = 64

// batchShare is the share of a key's batches, relative to the key's own.
const batchShare = 1.0 / 16

// Client says whose the request of ctx is, for what clients share: see ClientID. A key has the share that its settings
// say, all others 1. The lines of a key's batches are a client of their own with a small share, beneath all others.
func Client(ctx context.Context) llm.Client {
	c := llm.Client{Name: ClientID(ctx), Share: 1}
	if k, ok := ctx.Value(keyKey{}).(*key); ok && k.share > 0 {
		c.Share = k.share
	}
	if l := lineOf(ctx); l != nil {
		c.Name, c.Share, c.Beneath = ClientOfBatches(l.owner), c.Share*batchShare, true
	}
	return c
}

// ClientID names the client of the request of ctx, for what clients share fairly: by
// its key, or else by the address of its connection, of which all clients behind one
// proxy share one. It is empty for what is no request. Headers that name addresses do
// not count: a client could send any.
func ClientID(ctx context.Context) string {
	if k, ok := ctx.Value(keyKey{}).(*key); ok {
		return ClientOfKey(k.name)
	}
	from, ok := ctx.Value(addressKey{}).(string)
	if !ok {
		return ""
	}
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if a, err := netip.ParseAddr(from); err == nil && a.Unmap().Is6() {
		if p, err := a.WithZone("").Prefix(ipv6Prefix); err == nil {
			from = p.String()
		}
	} else if err == nil {
		from = a.Unmap().String()
	}
	return "address " + from
}
