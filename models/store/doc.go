// Package store caches built models in a folder. It owns the folder's layout and the cache
// key, and guarantees that a model that Prepare returns is complete:
//
//	hashes.json                     checksums of large files, by path, size and time
//	m-<name>-<weights>-<key>/       one built model; on CUDA <name>-cuda-<weights>
//	    model.onnx model.onnx.data  the graph and its weights
//	    model-adapters.onnx         the graph with low-rank adapters, over the same weights; CPU only
//	    manifest.json               written last; sizes and checksums of the others
//	.tmp-*/                         builds in progress, or their remains
//
// The key is a checksum of everything that the build depends on: the contents of config.json
// and of the weight files, and decoder.Key, which covers device, format and builder. An entry is built
// in a temporary folder, flushed to the disk and renamed into place, so a reader sees all of
// it or nothing. Loading compares the files with the manifest. The data file, which has
// gigabytes, is only read at the first load and after its size or time has changed, so that
// a start stays fast. A damaged entry is converted again. Several processes may prepare the
// same model at once: each builds it, the first rename wins, and the others use that entry.
// The package starts no goroutines.
//
// The reasons behind it: docs/rationale/models.md.
package store
