// Package kvdisk keeps blocks of the key/value cache in a folder, so that a server that starts again need not compute
// the prompts that it knew.
//
// A file holds one block: the model's name, the block's key with what it is the sum of, the keys and values, and a
// checksum of all this. Files are written under another name first, so one is whole or not there; what a power cut left
// of one is found by its checksum, removed and computed again. Nothing is read that does not have the expected size,
// model, key, source and checksum.
//
// The folder has an owner, the one process that holds its lock, and a bound in bytes: the least recently used blocks go
// first, of a text the end before its beginning.
//
// A Folder is shared by all models of a process; each has a Space in it, whose name depends on all that its bits depend
// on. All methods are safe for concurrent use.
//
// Goroutines: Open starts the writer, which Close awaits. Load reads in its caller's goroutine.
//
// Locks: Folder.mu is a leaf and is not held while a file is read or written.
//
// Callers: runtime/engine loads and keeps blocks; server/host opens the folder and names the spaces.
//
// The reasons behind it: docs/rationale/runtime.md.
package kvdisk
