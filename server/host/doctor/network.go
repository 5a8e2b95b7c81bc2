package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"tgi/server/api/redislink"
	"tgi/server/config"
)

// portOfRequests is the setting of the port that requests come to.
const portOfRequests = "server.port"

// addresses looks at what is listened on.
func (d *diagnosis) addresses(_ context.Context, r *report) {
	s := d.cfg.Server
	d.address(r, "address", portOfRequests, s.Hostname, s.Port)
	if s.AdminPort != 0 {
		d.address(r, "admin address", "server.admin_port", s.AdminHostname, s.AdminPort)
	}
	for _, e := range []struct{ setting, endpoint string }{
		{"kv_events.endpoint", d.cfg.KVEvents.Endpoint}, {"kv_events.replay_endpoint", d.cfg.KVEvents.ReplayEndpoint},
	} {
		if at, ok := config.ZMQAddress(e.endpoint); ok {
			host, port, _ := net.SplitHostPort(at)
			number, _ := strconv.Atoi(port)
			d.address(r, e.setting, e.setting, host, number)
		}
	}
}

// address takes an address for a moment. That of requests is looked at first: where a server like this one has it, the
// others are taken by that one; without it, a server that has another address is another one, and in the way.
func (d *diagnosis) address(r *report, check, setting, host string, port int) {
	at := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", at)
	switch {
	case err == nil:
		r.ok(check, "%s is free", at)
		_ = l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		name, process := listener(port)
		who := "another program"
		if name != "" {
			who = fmt.Sprintf("%s (process %d)", name, process)
		}
		server := isServer(name, process)
		d.beside = d.beside || server && setting == portOfRequests
		switch {
		case server && setting == portOfRequests:
			r.warn(check, fmt.Sprintf("%s is taken by %s: a tgi server runs there", at, who),
				"if it is the one of these settings, all is well: `tgi health` asks it; else end it, or choose another port by "+
					setting)
		case server && d.beside:
			r.warn(check, fmt.Sprintf("%s is taken by %s: a tgi server runs on the address that is set", at, who),
				"if it is the one of these settings, all is well; else end it, or choose another port by "+setting)
		case server:
			r.fail(check, fmt.Errorf("%s is taken by %s, a tgi server with another address for requests", at, who),
				"give each server a port of its own by "+setting)
		default:
			r.fail(check, fmt.Errorf("%s is taken by %s", at, who), "end that program, or choose another port by "+setting)
		}
	case errors.Is(err, syscall.EACCES):
		r.fail(check, err, "choose a port above 1023 by "+setting+", or give the program CAP_NET_BIND_SERVICE")
	default:
		r.fail(check, err, "correct the host and the port that are set ("+setting+")")
	}
}

// soon is how long a certificate should still be valid.
const soon = 14 * 24 * time.Hour

// certificate looks at the files of TLS.
func (d *diagnosis) certificate(_ context.Context, r *report) {
	cert, key := d.cfg.Server.TLSCert, d.cfg.Server.TLSKey
	if cert == "" {
		return
	}
	const check = "certificate"
	pair, err := config.ReadPair(cert, key)
	switch {
	case err != nil && strings.Contains(err.Error(), "does not match"):
		r.fail(check, fmt.Errorf("%s and %s: %w", cert, key, err),
			"set server.tls_key to the key that the certificate was made for")
		return
	case err != nil:
		r.fail(check, err, "set server.tls_cert and server.tls_key to PEM files that the server may read")
		return
	}
	leaf, now := pair.Leaf, time.Now()
	left := leaf.NotAfter.Sub(now)
	end := leaf.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		r.fail(check, fmt.Errorf("%s expired on %s", cert, end), "renew the certificate; a running server reads it again")
	case now.Before(leaf.NotBefore):
		r.fail(check, fmt.Errorf("%s is valid from %s on", cert, leaf.NotBefore.UTC().Format(time.RFC3339)),
			"correct the clock, or take a certificate that is valid now")
	case left < soon:
		r.warn(check, fmt.Sprintf("%s expires on %s", cert, end), "renew the certificate; a running server reads it again")
	default:
		r.ok(check, "%s, valid until %s", cert, end)
	}
}

// redisURL is a setting that names a Redis.
type redisURL struct{ setting, url string }

func redisURLs(c config.Config) (list []redisURL) {
	for _, r := range []redisURL{{"generate_api.store.redis_url", c.GenerateAPI.Store.RedisURL},
		{"responses.redis_url", c.Responses.RedisURL}, {"quota.redis_url", c.Quota.RedisURL}} {
		if r.url != "" {
			list = append(list, r)
		}
	}
	return list
}

// redis asks each Redis for its version.
func (d *diagnosis) redis(ctx context.Context, r *report) {
	for _, one := range redisURLs(d.cfg) {
		version, err := askRedis(ctx, one.url)
		if err != nil {
			r.fail("redis", fmt.Errorf("%s: %w", one.setting, err),
				"start Redis, or correct address and password in "+one.setting)
			continue
		}
		r.ok("redis", "%s: Redis %s", one.setting, version)
	}
}

func askRedis(ctx context.Context, url string) (version string, err error) {
	c, err := redislink.Open(url)
	if err != nil {
		return "", errors.New("it is no address of a Redis") // the error may hold the password
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	text, err := c.Info(ctx, "server").Result()
	if err, ok := errors.AsType[redis.Error](err); ok { // it answered
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%s does not answer: %w", c.Options().Addr, err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v, nil
		}
	}
	return "of unknown version", nil
}
