package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"

	"tgi/plugins/internal/sandbox/rewrite"
)

// compiled is the machine code of a module, and what was found when it was rewritten. The modules of a process that
// have the same bytes, limits and cache share one: the code never changes, and all that a guest can change is in its
// instance.
type compiled struct {
	key     compiledKey
	users   int // guarded by the lock of live
	info    *rewrite.Info
	data    []byte // data segments that the engine does not have, as rewrite.Segments reads them
	entry   string // its folder in the cache, "" without
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	code    wazero.CompiledModule
}

// compiledKey is all that a compiled module follows from.
type compiledKey struct {
	sum    [sha256.Size]byte
	limits Limits
	cache  string
}

// live holds what is compiled and in use, for as long as anyone uses it.
var live struct {
	sync.Mutex
	list map[compiledKey]*compiled
}

// shareCompiled returns what is compiled under the key to one more user, nil where nothing is.
func shareCompiled(key compiledKey) *compiled {
	live.Lock()
	c := live.list[key]
	if c != nil {
		c.users++
	}
	live.Unlock()
	if c != nil && c.entry != "" {
		touch(c.entry)
	}
	return c
}

// publish offers c, which has one user, to others.
func (c *compiled) publish() {
	live.Lock()
	defer live.Unlock()
	if live.list == nil {
		live.list = map[compiledKey]*compiled{}
	}
	c.users = 1
	live.list[c.key] = c
}

// drop lets c go; its last user frees the code.
func (c *compiled) drop() {
	live.Lock()
	c.users--
	last := c.users == 0
	if last {
		delete(live.list, c.key)
	}
	live.Unlock()
	if last {
		c.free()
	}
}

// free frees the code.
func (c *compiled) free() {
	ctx := context.Background()
	if c.runtime != nil {
		_ = c.runtime.Close(ctx)
	}
	if c.cache != nil {
		_ = c.cache.Close(ctx)
	}
	c.runtime, c.cache = nil, nil
}

// load takes the compiled module from the engine's cache in dir and instantiates the functions that it imports. It
// compiles nothing; module is the hollow one, or all of it where it is interpreted.
func (c *compiled) load(ctx context.Context, dir string, module []byte, host []HostFunc) (err error) {
	c.runtime, c.cache, err = newRuntime(ctx, dir)
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("BUG: the compiler panicked: %v", r)
		}
		if err != nil {
			c.free()
		}
	}()
	if c.code, err = c.runtime.CompileModule(loadOnly(ctx), module); err != nil {
		return err
	}
	return c.instantiateHost(ctx, host)
}
