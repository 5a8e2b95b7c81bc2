// Package library owns the models folder: which checkpoints it holds, under which ids,
// their descriptions, and how checkpoints are added and removed.
//
//	<folder>/<id>/              one checkpoint; an id's slashes are folders
//	    config.json ...         what serving reads, and nothing else
//	    .origin.json            where it came from, if the library put it there
//	<folder>/.tgi/partial/      fetches in progress; survive a restart
//	<folder>/.tgi/temp/         imports and deletions in progress, or their remains
//	<folder>/.tgi/locks/        one empty file for each id that was ever used
//
// A checkpoint is assembled under .tgi, checked, and renamed into place: a reader of the
// folder sees all of it or nothing. Nothing is written outside the folder, whatever an
// id, a file list or an archive says. Links are neither followed nor created. Folders
// made by hand are listed like the others.
//
// Several processes, for example a server and the command line, may share a folder. File
// locks (flock) prevent them from deleting a model that another process uses and from
// fetching one twice. On systems without flock (Windows) only the models used by the
// same process are protected.
//
// The package starts no goroutines. Library.mu guards its maps; it is held while a file
// lock is taken, and file locks are never waited for.
//
// The reasons behind it: docs/rationale/model-manager.md.
package library

import "errors"

// Errors for callers to test with errors.Is. The errors that wrap them add id or file,
// bound and value.
var (
	// ErrID is wrapped by errors about the text of an id.
	ErrID = errors.New("bad model id")
	// ErrNotFound says that no model has the id.
	ErrNotFound = errors.New("model not found")
	// ErrExists says that the id, or a part of its path, is taken.
	ErrExists = errors.New("model exists already")
	// ErrInUse says that this or another process holds the model.
	ErrInUse = errors.New("model is in use")
	// ErrDeclared says that the model belongs to the configuration, not to the folder.
	ErrDeclared = errors.New("model is declared in the configuration")
	// ErrUnusable says that a folder, archive or file list is not a checkpoint that can be served.
	ErrUnusable = errors.New("unusable checkpoint")
	// ErrPath is wrapped by errors about a file's name in an archive or a list.
	ErrPath = errors.New("unsafe file name")
	// ErrLimit says that something is larger than Limits allow.
	ErrLimit = errors.New("limit exceeded")
	// ErrSpace says that the disk has too little free space.
	ErrSpace = errors.New("not enough disk space")
)
