// Package redislink connects the stores of the APIs to Redis: with short timeouts, without
// second attempts, and without a word of the library's own.
package redislink

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeout bounds one exchange with Redis, connecting included.
const Timeout = 3 * time.Second

// Open returns a client of the Redis at url (redis://, rediss:// or unix://, as redis.ParseURL reads them). It connects
// when it is first used.
func Open(url string) (*redis.Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	// A second attempt of a script whose reply was lost would find what the first one did.
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Timeout, Timeout, Timeout
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // of the library: errors are returned to whoever asked
	return redis.NewClient(o), nil
}

// Ping returns why c does not answer, nil if it does.
func Ping(c *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	return c.Ping(ctx).Err()
}
