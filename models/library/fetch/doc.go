// Package fetch downloads checkpoints into a library over HTTP: from a hub with the API of the
// Hugging Face Hub, from a list of files, or from one archive. Its callers are the model manager
// and the command line. Fetch starts at most Options.Parallel goroutines and awaits them.
//
// # Resuming interrupted downloads
//
// Each file is written to a part in the stage of the model (library.Stage), with a description
// of the file that it belongs to: the checksum in the list, or else the URL, and the entity tag
// of the reply. A later attempt, in this process or another, requests the rest with Range and
// If-Range. If the file has changed meanwhile, the part is discarded: because of a new checksum
// in the list, because of the reply (200 instead of 206, another entity tag or size), or because
// the checksum does not match at the end; then the file is fetched once more from its beginning.
// The model appears when all files are complete, their checksums match and library.Check
// accepts them.
//
// # Facts of the hub's API
//
// As huggingface_hub reads it (src/huggingface_hub/hf_api.py, file_download.py,
// utils/_http.py at commit ee0a4510, 2026):
//
//   - GET /api/models/{id}/revision/{revision}?blobs=true, the revision with
//     its slashes escaped, returns {"sha", "siblings": [{"rfilename", "size",
//     "blobId", "lfs": {"size", "sha256", "pointerSize"}}]}. blobId is git's
//     object id: SHA-1 of "blob <size>\0" and the content, for files without lfs.
//   - GET /{id}/resolve/{revision}/{file} returns the file or redirects, to a
//     relative location on the same host or to another host, which does not
//     get the token. Accept-Encoding: identity keeps small files uncompressed.
//   - Errors carry X-Error-Code (RepoNotFound, RevisionNotFound, EntryNotFound,
//     GatedRepo) and X-Error-Message. A repository that is not there answers
//     401 to those who bring no token.
//   - 408, 429 and server errors are worth another attempt; Retry-After and the
//     reply say when.
package fetch

import "errors"

// Errors for callers to test with errors.Is, besides library's ErrPath,
// ErrLimit, ErrSpace, ErrUnusable, ErrExists and ErrInUse.
var (
	// ErrSource says that the description of a source is invalid, or that the server violates
	// the protocol.
	ErrSource = errors.New("bad source")
	// ErrUnauthorized is a reply of 401: a token is needed, or a better one.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is a reply of 403, as for gated repositories.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is a reply of 404 or 410.
	ErrNotFound = errors.New("not found at the source")
	// ErrUnavailable says that all attempts failed. What arrived is kept: a later fetch
	// resumes there.
	ErrUnavailable = errors.New("source unavailable")
	// ErrChecksum says that a file does not match its checksum or size.
	ErrChecksum = errors.New("checksum mismatch")
)
