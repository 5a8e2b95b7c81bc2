package check

import "tgi/runtime/regular"

// maxModuleFile bounds the file of a module, in bytes. It is more than a module may have, so that the checks refuse one
// that is somewhat too large in their own words.
const maxModuleFile = 64 << 20

// ReadModule reads the file of a module. What stands in its place, such as a pipe, keeps nobody waiting.
func ReadModule(file string) ([]byte, error) { return regular.Read(file, 0, maxModuleFile) }
