package demo

import (
	"io/fs"
	"testing"
	"unsafe"

	"tgi/models/tensors"
)

// TestWeightsInPlace: the weights are those of the folder, and a mapping of them is the program's own bytes.
func TestWeightsInPlace(t *testing.T) {
	m, err := tensors.MapFS(Checkpoint(), weightsFile)
	if err != nil {
		t.Fatal(err)
	}
	want, err := fs.ReadFile(FS, Folder+"/"+weightsFile)
	if err != nil || string(m.Bytes()) != string(want) {
		t.Errorf("%d bytes, %v; the folder has %d", len(m.Bytes()), err, len(want))
	}
	if unsafe.SliceData(m.Bytes()) != unsafe.StringData(weights) {
		t.Error("the weights were copied")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
