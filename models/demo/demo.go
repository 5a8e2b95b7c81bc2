// Package demo holds the embedded demo model: a small Llama checkpoint in
// Hugging Face's layout, with its own tokenizer and chat template, trained from
// scratch on text that generate.py makes. README.md says how it was made and
// what it can do.
//
// The package owns the files below checkpoint/ and the prompts that were held out;
// reading them is the work of the readers of any other checkpoint.
//
// The reasons behind it: docs/rationale/models.md.
package demo

import (
	"embed"
	"io/fs"
	"unsafe"
)

// Folder is the name of the checkpoint's folder in FS.
const Folder = "checkpoint"

// FS holds the Hugging Face folder of the demo model below [Folder]:
// config.json, generation_config.json, model.safetensors, tokenizer.json and
// tokenizer_config.json. It is read only and safe for concurrent use.
//
//go:embed checkpoint/config.json checkpoint/generation_config.json checkpoint/model.safetensors
//go:embed checkpoint/tokenizer.json checkpoint/tokenizer_config.json
var FS embed.FS

// Heldout are prompts that the model was never trained on, as README.md describes them: a line of JSON for each, with
// its prompt and the expected answer among others.
//
//go:embed heldout.jsonl
var Heldout []byte

// weightsFile has most of the checkpoint's bytes.
const weightsFile = "model.safetensors"

// weights are those bytes, which are in FS too: the program has them once.
//
//go:embed checkpoint/model.safetensors
var weights string

// Checkpoint is the folder itself: its files are at the root.
func Checkpoint() fs.FS {
	sub, err := fs.Sub(FS, Folder)
	if err != nil {
		panic("BUG: demo: " + err.Error()) // Folder is a valid path
	}
	return folder{sub}
}

// folder is the folder, whose weights tell where they are.
type folder struct{ fs.FS }

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err == nil && name == weightsFile {
		return weightsInMemory{file}, nil
	}
	return file, err
}

// weightsInMemory is the file of the weights.
type weightsInMemory struct{ fs.File }

// Content returns the file's bytes, which must not be changed.
func (weightsInMemory) Content() []byte {
	return unsafe.Slice(unsafe.StringData(weights), len(weights))
}
