package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"unsafe"

	"golang.org/x/sys/unix"
)

// codeFile has a module's machine code and nothing else. The engine's file has it too, but not where a page begins.
const codeFile = "code.bin"

// mapCode lays the file of the machine code, in an entry of the cache, over the memory that the engine read it into.
// Then what no guest runs takes no memory, the rest is shared with other processes, and the system can drop it. It is
// called before any guest runs. An error leaves the code where it is, which works too.
//
// The file is not part of the manifest: it is compared with the code in use, and written anew where it differs.
func (e *Engine) mapCode(c *compiled, entry string) error {
	code, err := machineCode(c)
	if err != nil || len(code) == 0 {
		return err
	}
	path := filepath.Join(entry, codeFile)
	file, err := openCode(path, code)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOtherCode) {
		if err = e.writeCode(path, code); err == nil {
			file, err = openCode(path, code)
		}
	}
	if errors.Is(err, errNoRoom) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = unix.MmapPtr(int(file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(code)), uintptr(len(code)),
		unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// errNoRoom is of a cache that can't be written to: that was said when modules were compiled, if any were.
var errNoRoom = errors.New("the cache can't be written to")

var errOtherCode = fmt.Errorf("%s is not the module's code", codeFile)

// openCode opens a file that can be executed and has this code.
func openCode(path string, code []byte) (file *os.File, err error) {
	file, err = os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	if at, err := file.Stat(); err != nil {
		return nil, err
	} else if at.Size() != int64(len(code)) {
		return nil, errOtherCode
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, len(code), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(mapped) }()
	if !bytes.Equal(mapped, code) {
		return nil, errOtherCode
	}
	return file, nil
}

// writeCode writes the file, which comes to its name whole.
func (e *Engine) writeCode(path string, code []byte) error {
	s, err := newStaging(e.cache)
	if err != nil {
		return errNoRoom
	}
	defer s.remove()
	whole := filepath.Join(s.path, codeFile)
	if err := writeFile(whole, code); err != nil {
		return err
	}
	return os.Rename(whole, path)
}

// machineCode returns the memory that has the module's machine code, nothing where it is interpreted. The engine tells
// nobody where that is, so this reads its fields; a test sees that they are there.
func machineCode(c *compiled) ([]byte, error) {
	if Interpreted() != nil {
		return nil, nil
	}
	code := reflect.ValueOf(c.code)
	of, all := field(code, "module"), field(code, "compiledEngine", "compiledModules")
	if of.Kind() != reflect.Pointer || all.Kind() != reflect.Map {
		return nil, errHidden
	}
	for entries := all.MapRange(); entries.Next(); { // beside it are the functions of the host
		module := field(entries.Value(), "compiledModule", "module")
		code := field(entries.Value(), "compiledModule", "executables", "executable")
		if module.Kind() == reflect.Pointer && module.Pointer() == of.Pointer() && code.Kind() == reflect.Slice {
			return unsafe.Slice((*byte)(code.UnsafePointer()), code.Len()), nil
		}
	}
	return nil, errHidden
}

var errHidden = errors.New("the engine does not show where its machine code is")

// field follows names through pointers and interfaces. It returns the zero Value where one is missing.
func field(v reflect.Value, names ...string) reflect.Value {
	for _, name := range names {
		for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v = v.FieldByName(name)
	}
	return v
}
