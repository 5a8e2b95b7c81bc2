package main

import (
	"reflect"
	"testing"
	"testing/fstest"
)

// TestFind: a test is found by whatever way it reaches package long or the variable, and no other test is.
func TestFind(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	tree := fstest.MapFS{
		"a/direct_test.go": file(`package a
			import "tgi/conformance/long"
			func TestDirect(t *testing.T) { long.Test(t) }
			func TestOther(t *testing.T) { other.Test(t) }
			func FuzzDirect(f *testing.F) { f.Skip(long.Enabled()) }
			func Testify(t *testing.T) { long.Test(t) }
			func helper() int { return long.Count(1, 2) }
			var rounds = helper()
			type kind struct{}
			func (kind) all() { println(rounds) }`),
		"a/indirect_test.go": file(`package a
			func TestHelper(t *testing.T) { helper() }
			func TestVariable(t *testing.T) { println(rounds) }
			func TestMethod(t *testing.T) { kind{}.all() }
			func TestType(t *testing.T) { _ = kind{} }
			func TestLocal(t *testing.T) { var long sync.WaitGroup; long.Wait() }`),
		"a/code.go": file(`package a`),
		"b/b_test.go": file(`package b
			import takes "tgi/conformance/long"
			func TestNamed(t *testing.T) { takes.Test(t) }
			func TestNone(t *testing.T) {}`),
		"c/c_test.go": file(`package c
			func TestVariable(t *testing.T) { os.Getenv("TGI_LONG") }
			func TestNone(t *testing.T) {}`),
		"d/main_test.go": file(`package d
			func TestMain(m *testing.M) { os.Getenv("TGI_LONG"); m.Run() }
			func TestBehindMain(t *testing.T) {}`),
		"e/e_test.go": file(`package e
			func TestNone(t *testing.T) {}`),
		"a/testdata/x_test.go": file(`not Go`),
		".hidden/x_test.go":    file(`not Go`),
		"module/go.mod":        file(`module other`),
		"module/x_test.go":     file(`not Go`),
	}
	got, err := find(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []longTests{
		{"a", []string{"FuzzDirect", "TestDirect", "TestHelper", "TestMethod", "TestVariable"}},
		{"b", []string{"TestNamed"}},
		{"c", []string{"TestVariable"}},
		{"d", []string{"TestBehindMain"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestFindRefuses(t *testing.T) {
	for _, tree := range []fstest.MapFS{
		{"a/a_test.go": {Data: []byte("not Go")}},
		{"a/a.go": {Data: []byte("package a\nimport \"tgi/conformance/long\"")}},
	} {
		if found, err := find(tree); err == nil {
			t.Errorf("no error, but %v", found)
		}
	}
}
