// Package fetch brings checkpoints into a library over HTTP: from a hub that
// speaks the API of the Hugging Face Hub, from a list of files, or from one
// archive.
//
// # What a broken download leaves
//
// Each file is written to a part of its own in the stage of the model
// (library.Stage), with a note of what it is a part of: the checksum that the
// list gives, or else the URL, and the entity tag of the reply. A later
// attempt, in this process or another, asks for the rest with Range and
// If-Range. Where the file has changed in between, the part is thrown away: by a
// new checksum in the list, by the reply (200 instead of 206, another entity
// tag or size), or at the end by a checksum that does not fit, after which the
// file is fetched once more from its beginning. The model appears when all
// files are whole, their checksums hold and library.Check has read them.
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

// Errors that a caller tells apart; beside them come library's ErrPath,
// ErrLimit, ErrSpace, ErrUnusable, ErrExists and ErrInUse.
var (
	// ErrSource says that a source cannot be fetched from as it is described,
	// or that what answers does not speak the protocol.
	ErrSource = errors.New("bad source")
	// ErrUnauthorized is a reply of 401: a token is needed, or a better one.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is a reply of 403, as for gated repositories.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is a reply of 404 or 410.
	ErrNotFound = errors.New("not found at the source")
	// ErrUnavailable says that the server did not deliver in all attempts. What
	// arrived is kept: trying again later goes on from there.
	ErrUnavailable = errors.New("source unavailable")
	// ErrChecksum says that a file is not what its checksum or size promised.
	ErrChecksum = errors.New("checksum mismatch")
)
