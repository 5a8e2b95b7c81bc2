package store

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"tgi/server/api/redislink"
)

// Scripts run as one step in Redis. KEYS are the times at which an owner's records expire, by id, their sizes, by id,
// and how many bytes they are together. A record without bytes is one that was deleted.
var (
	// putScript keeps ARGV[4] under KEYS[4] for the id ARGV[1], until the time ARGV[2] in ms and for ARGV[3] ms. What
	// has expired by ARGV[5] is forgotten, and the oldest records beyond ARGV[6] of them and ARGV[7] bytes; ARGV[8]
	// begins the keys of records. ARGV[9], unless it is empty, is the SHA-1 of what it is to replace. It returns 1
	// where it was kept, 0 where it was deleted, 2 where there is nothing to replace, and 3 where that is something
	// else.
	putScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[4]) == 1 and redis.call('STRLEN', KEYS[4]) == 0 then return 0 end
if ARGV[9] ~= '' then
  local kept = redis.call('GET', KEYS[4])
  if not kept then return 2 end
  if redis.sha1hex(kept) ~= ARGV[9] then return 3 end
end
local function forget(id)
  redis.call('DECRBY', KEYS[3], redis.call('HGET', KEYS[2], id) or 0)
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[1], id)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[5])) do forget(id) end
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then forget(ARGV[1]) end
redis.call('SET', KEYS[4], ARGV[4], 'PX', ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], #ARGV[4])
redis.call('INCRBY', KEYS[3], #ARGV[4])
while redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[6]) or tonumber(redis.call('GET', KEYS[3])) > tonumber(ARGV[7]) do
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  redis.call('DEL', ARGV[8] .. oldest)
  forget(oldest)
end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return 1`)
	// deleteScript forgets the id ARGV[1], whose record is under KEYS[4], and returns whether it was there. It cannot
	// be put again for ARGV[2] ms.
	deleteScript = redis.NewScript(`
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  redis.call('DECRBY', KEYS[3], redis.call('HGET', KEYS[2], ARGV[1]) or 0)
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if redis.call('STRLEN', KEYS[4]) == 0 then return 0 end
redis.call('SET', KEYS[4], '', 'PX', ARGV[2])
return 1`)
)

// Redis keeps records where every replica finds them, those of one owner on one node of a cluster.
type Redis struct {
	client  *redis.Client
	limits  Limits
	probing sync.WaitGroup
}

// OpenRedis returns the store at url, as redislink.Open reads it. It connects when it is first used.
func OpenRedis(url string, l Limits) (*Redis, error) {
	client, err := redislink.Open(url)
	if err != nil {
		return nil, fmt.Errorf("responses.redis_url: %w", err)
	}
	return &Redis{client: client, limits: l}, nil
}

// Probe asks Redis for a sign of life, and hands lost why there is none. It does not wait for that.
func (s *Redis) Probe(lost func(error)) {
	s.probing.Go(func() {
		if err := redislink.Ping(s.client); err != nil {
			lost(fmt.Errorf("%w: %w", ErrUnavailable, err))
		}
	})
}

// Close implements Store.
func (s *Redis) Close() error {
	s.probing.Wait() // it ends by its timeout
	return s.client.Close()
}

// prefix begins all keys of an owner. Braces keep them on one node.
func prefix(o Owner) string { return "tgi:{" + o.String() + "}:response:" }

// keys are those of the scripts for a record.
func keys(o Owner, id string) []string {
	p := "tgi:{" + o.String() + "}:responses:"
	return []string{p + "until", p + "sizes", p + "bytes", prefix(o) + id}
}

// Put implements Store.
func (s *Redis) Put(ctx context.Context, o Owner, id string, record []byte) error {
	return s.put(ctx, o, id, record, "")
}

// Replace implements Store.
func (s *Redis) Replace(ctx context.Context, o Owner, id string, old, record []byte) error {
	sum := sha1.Sum(old) // to tell records apart that one client wrote: nothing hangs on its strength
	return s.put(ctx, o, id, record, hex.EncodeToString(sum[:]))
}

// put is Put in the place of a record with the SHA-1 old, "" for any or none.
func (s *Redis) put(ctx context.Context, o Owner, id string, record []byte, old string) error {
	if most := min(int64(s.limits.MaxRecord), s.limits.MaxOwnerBytes); int64(len(record)) > most {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(record), most)
	}
	ctx, cancel := context.WithTimeout(ctx, redislink.Timeout)
	defer cancel()
	now := time.Now()
	kept, err := putScript.Run(ctx, s.client, keys(o, id), id, now.Add(s.limits.TTL).UnixMilli(),
		s.limits.TTL.Milliseconds(), record, now.UnixMilli(), s.limits.MaxOwnerRecords, s.limits.MaxOwnerBytes,
		prefix(o), old).Int()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch kept {
	case 0:
		return ErrDeleted
	case 2:
		return ErrNotFound
	case 3:
		return ErrChanged
	}
	return nil
}

// Get implements Store.
func (s *Redis) Get(ctx context.Context, o Owner, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, redislink.Timeout)
	defer cancel()
	record, err := s.client.Get(ctx, prefix(o)+id).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case len(record) == 0: // deleted
		return nil, ErrNotFound
	}
	return record, nil
}

// Delete implements Store.
func (s *Redis) Delete(ctx context.Context, o Owner, id string) error {
	ctx, cancel := context.WithTimeout(ctx, redislink.Timeout)
	defer cancel()
	n, err := deleteScript.Run(ctx, s.client, keys(o, id), id, deletedFor.Milliseconds()).Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case n == 0:
		return ErrNotFound
	}
	return nil
}
