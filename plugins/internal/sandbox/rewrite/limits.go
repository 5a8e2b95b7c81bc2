package rewrite

import "fmt"

// Limits bounds what a module may contain. A zero field means the default. The price says what the limit protects.
type Limits struct {
	ModuleBytes   int // default 16 MiB; price: compile time and about 5x the bytes of machine code
	Types         int // default 10,000; price: 100 bytes each
	Functions     int // default 20,000 defined and imported; price: a compile job and its entry in tables each
	BodyBytes     int // default 1 MiB of one function; price: the compiler works on a function at a time
	Locals        int // default 4,096 of one function, parameters not counted; price: a stack slot each
	LocalsByJoins int // default 8 Mi, locals times blocks of one function; price: the compiler's phi values
	Depth         int // default 10,000 nested blocks; price: a control frame each
	Params        int // default 64 parameters or results of one type; price: slots in every call
	Imports       int // default 256
	Exports       int // default 1,000
	Globals       int // default 1,000; price: those that can change are saved and restored with every reset
	Tables        int // default 8
	TableElements int // default 100,000 in all tables, and the most one table grows to; price: 8 bytes per instance
	Segments      int // default 100,000 data segments (a Go guest has 37,000), and as many element segments
	// default 1,024 (64 MiB), the most a memory starts with or grows to; price: as many bytes per instance
	MemoryPages int
	NameBytes   int // default 1,000 of one import or export name
	OutputBytes int // default 64 MiB after injection; price: as ModuleBytes
}

// PagesOfMemory is LimitError.What of a memory that begins larger than it may be.
const PagesOfMemory = "pages of memory"

// LimitError says which limit a module passes.
type LimitError struct {
	What   string // e.g. "functions"
	Limit  int
	Value  int // what the module has, or where counting stopped
	Offset int
}

// Error returns "offset 0x2a: 1000000 functions, the limit is 20000", and names the setting of a limit that has one.
func (e *LimitError) Error() string {
	setting := ""
	if e.What == PagesOfMemory {
		setting = " (limits.memory, 65536 bytes each)"
	}
	return fmt.Sprintf("offset 0x%x: %d %s, the limit is %d%s", e.Offset, e.Value, e.What, e.Limit, setting)
}

// WithDefaults gives l with every zero field set to its default.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&l.ModuleBytes, 16 << 20},
		{&l.Types, 10_000},
		{&l.Functions, 20_000},
		{&l.BodyBytes, 1 << 20},
		{&l.Locals, 4096},
		{&l.LocalsByJoins, 8 << 20},
		{&l.Depth, 10_000},
		{&l.Params, 64},
		{&l.Imports, 256},
		{&l.Exports, 1000},
		{&l.Globals, 1000},
		{&l.Tables, 8},
		{&l.TableElements, 100_000},
		{&l.Segments, 100_000},
		{&l.MemoryPages, 1024},
		{&l.NameBytes, 1000},
		{&l.OutputBytes, 64 << 20},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return l
}
