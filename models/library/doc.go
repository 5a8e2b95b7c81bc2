// Package library owns the models folder: which checkpoints lie in it, under
// which ids, what they are, and how one gets in and out.
//
//	<folder>/<id>/              one checkpoint; an id's slashes are folders
//	    config.json ...         what serving reads, and nothing else
//	    .origin.json            where it came from, when the library put it there
//	<folder>/.tgi/partial/      what is being fetched; survives a restart
//	<folder>/.tgi/temp/         imports that run, deletions, or what was cut off
//	<folder>/.tgi/locks/        one empty file for each id that was ever used
//
// A checkpoint is put together under .tgi, checked, and renamed into place: a
// reader of the folder sees all of it or nothing. Nothing is written outside
// the folder, whatever an id, a file list or an archive says; links are not
// followed and not created. Folders that someone made by hand are listed like
// the others.
//
// Several processes may share a folder, a server and the command line say. Locks
// of the operating system keep them from deleting a model that another one
// uses and from fetching one twice; where a system has none (Windows), only
// the one process is guarded.
//
// The reasons behind it: docs/rationale/model-manager.md.
package library

import "errors"

// Errors that a caller tells apart. Their texts are completed by what they
// are wrapped in: id or file, bound, value.
var (
	// ErrID is wrapped by errors about the text of an id.
	ErrID = errors.New("bad model id")
	// ErrNotFound says that no model has the id.
	ErrNotFound = errors.New("model not found")
	// ErrExists says that the id, or a part of its path, is taken.
	ErrExists = errors.New("model exists already")
	// ErrInUse says that somebody holds the model, here or in another process.
	ErrInUse = errors.New("model is in use")
	// ErrDeclared says that the model belongs to the configuration and not to the folder.
	ErrDeclared = errors.New("model is declared in the configuration")
	// ErrUnusable says that a folder, archive or file list is no checkpoint that can be served.
	ErrUnusable = errors.New("unusable checkpoint")
	// ErrPath is wrapped by errors about a file's name in an archive or a list.
	ErrPath = errors.New("unsafe file name")
	// ErrLimit says that something is larger than Limits allow.
	ErrLimit = errors.New("limit exceeded")
	// ErrSpace says that the disk is full, or too full for what is to come.
	ErrSpace = errors.New("not enough disk space")
)
