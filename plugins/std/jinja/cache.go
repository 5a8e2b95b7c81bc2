package jinja

import "sync"

// Cache keeps parsed templates by name and source. The zero Cache is ready to
// use, by any number of goroutines. A source that does not parse is not kept.
type Cache struct {
	mu    sync.Mutex
	items map[cacheKey]*Template
	order []cacheKey // oldest first
}

type cacheKey struct{ name, source string }

// cacheSize is the number of templates kept: a model has a handful, and edits
// of a file make new ones.
const cacheSize = 16

// Parse gives the template of the cache or parses it. Errors are those of Parse.
func (c *Cache) Parse(name, source string) (*Template, error) {
	key := cacheKey{name, source}
	c.mu.Lock()
	t := c.items[key]
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t, err := Parse(name, source)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.items[key]; kept != nil {
		return kept, nil
	}
	if c.items == nil {
		c.items = map[cacheKey]*Template{}
	}
	if len(c.order) == cacheSize {
		delete(c.items, c.order[0])
		c.order = c.order[1:]
	}
	c.items[key] = t
	c.order = append(c.order, key)
	return t, nil
}
