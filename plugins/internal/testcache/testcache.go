// Package testcache says where tests keep compiled modules: a folder of the user's that outlives the run, because
// compiling is most of what tests of plugins would do otherwise. Tests of the cache itself have folders of their own.
package testcache

import (
	"os"
	"path/filepath"
)

// Bytes bounds the folder, for those that can: what was used longest ago goes first.
const Bytes = 2 << 30

// Dir gives the folder. Entries are named by all that they follow from, so runs of different trees share it.
func Dir() string {
	user, err := os.UserCacheDir()
	if err != nil { // no home
		user = os.TempDir()
	}
	return filepath.Join(user, "tgi", "test-modules")
}
