// Package store keeps built models in a cache folder. It owns the folder's
// layout, the key under which a model is found, and the promise that what
// Prepare returns is whole:
//
//	hashes.json                     checksums of large files, by path, size and time
//	<name>-<weights>-<key>/         one built model
//	    model.onnx model.onnx.data  the graph and its weights
//	    manifest.json               written last; says what the others must be
//	.tmp-*/                         builds that run, or that were cut off
//
// The key is a checksum of everything that the build depends on: the contents
// of config.json and of the weight files, the form of the weights, and
// decoder.Version. An entry is built in a folder of its own and renamed into
// place after everything has reached the disk, so a reader sees all of it or
// nothing. Whoever loads one compares its files with the manifest: the data file,
// of gigabytes, is read for that at the first load and then whenever its size
// or time has changed, so that a start is not slowed down. What is damaged is
// converted anew. Several processes may prepare the same model at once: each builds,
// the first rename wins and the others take what it left.
//
// The reasons behind it: docs/rationale/models.md.
package store
