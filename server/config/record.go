package config

// Record keeps requests and their replies in files, for tgi replay.
type Record struct {
	// Folder is where; "" records nothing.
	Folder string `toml:"folder"`
	// MaxFile bounds a file, MaxFiles their number: the oldest goes first.
	MaxFile  Size `toml:"max_file"`
	MaxFiles int  `toml:"max_files"`
	// MaxBody bounds the body of a request and its reply, each: of a longer one the beginning is kept.
	MaxBody Size `toml:"max_body"`
	// Memory bounds what waits to be written, and what is not complete yet.
	Memory Size `toml:"memory"`
	// Redact are members of bodies whose values are left out, wherever they are; dots lead to members of members.
	// RedactHeaders are headers and query parameters, besides those whose names speak of keys.
	Redact        []string `toml:"redact"`
	RedactHeaders []string `toml:"redact_headers"`
}

func defaultRecord() Record {
	return Record{MaxFile: 64 << 20, MaxFiles: 8, MaxBody: 1 << 20, Memory: 64 << 20, Redact: []string{},
		RedactHeaders: []string{}}
}

// validate checks the section.
func (r *Record) validate(v *verdict) {
	v.check(r.MaxFile >= 1<<16, "record.max_file must be >= 64KiB, given %s", r.MaxFile.number())
	v.between("record.max_files", r.MaxFiles, 1, maxCount)
	v.check(r.MaxBody >= 1<<10, "record.max_body must be >= 1KiB, given %s", r.MaxBody.number())
	v.check(r.Memory >= 2*r.MaxBody, "record.memory must be >= twice record.max_body, given %s and %s", r.Memory,
		r.MaxBody)
	for _, name := range r.Redact {
		v.check(name != "", "record.redact must not hold an empty name")
	}
}

// recordSettings are the ways to set them outside the file.
var recordSettings = []setting{
	{"record-folder", "record.folder", "folder that requests and replies are recorded in; none records nothing",
		func(c *Config) any { return &c.Record.Folder }, nil},
}
