package config

// Batches is about /v1/files and /v1/batches.
type Batches struct {
	// Folder keeps files and batches; "" switches them off.
	Folder string `toml:"folder"`
	// Storage bounds the bytes of all files, KeyStorage those of one key.
	Storage    Size `toml:"storage"`
	KeyStorage Size `toml:"key_storage"`
	// MaxFile bounds one file, MaxLine one line of a batch, MaxResult one reply to a line.
	MaxFile   Size `toml:"max_file"`
	MaxLine   Size `toml:"max_line"`
	MaxResult Size `toml:"max_result"`
	// MaxRequests bounds the lines of a batch, MaxBatches the batches of a key that are not over.
	MaxRequests int `toml:"max_requests"`
	MaxBatches  int `toml:"max_batches"`
	// Concurrency is how many lines run at once; 0 is a quarter of limits.max_concurrent_requests.
	Concurrency int `toml:"concurrency"`
	// Keep is how long files, and batches that are over, are kept unless they say otherwise.
	Keep Duration `toml:"keep"`
}

func defaultBatches() Batches {
	return Batches{Storage: 10 << 30, KeyStorage: 2 << 30, MaxFile: 200 << 20, MaxLine: 2 << 20, MaxResult: 4 << 20,
		MaxRequests: 50_000, MaxBatches: 100, Keep: 30 * 24 * 3600 * second}
}

// At returns how many lines run at once.
func (b *Batches) At(l Limits) int {
	if b.Concurrency > 0 {
		return b.Concurrency
	}
	return max(1, l.MaxConcurrentRequests/4)
}

// validate checks the section.
func (b *Batches) validate(v *verdict) {
	const most = 1 << 50
	v.check(b.Storage >= 1<<20 && b.Storage <= most, "batches.storage must be >= 1MiB and <= 1024TiB, given %s",
		b.Storage.number())
	v.check(b.KeyStorage >= 1<<20 && b.KeyStorage <= b.Storage,
		"batches.key_storage must be >= 1MiB and <= batches.storage, given %s and %s", b.KeyStorage.number(), b.Storage)
	v.check(b.MaxFile >= 1<<10 && b.MaxFile <= b.KeyStorage,
		"batches.max_file must be >= 1KiB and <= batches.key_storage, given %s and %s", b.MaxFile.number(), b.KeyStorage)
	v.check(b.MaxLine >= 1<<10 && b.MaxLine <= 1<<30, "batches.max_line must be >= 1KiB and <= 1GiB, given %s",
		b.MaxLine.number())
	v.check(b.MaxResult >= 1<<10 && b.MaxResult <= 1<<30, "batches.max_result must be >= 1KiB and <= 1GiB, given %s",
		b.MaxResult.number())
	v.between("batches.max_requests", b.MaxRequests, 1, maxCount)
	v.between("batches.max_batches", b.MaxBatches, 1, maxCount)
	v.between("batches.concurrency", b.Concurrency, 0, maxCount)
	v.positive("batches.keep", b.Keep)
}

// batchSettings are the ways to set them outside the file.
var batchSettings = []setting{
	{"batches-folder", "batches.folder", "folder that keeps files and batches; none switches them off",
		func(c *Config) any { return &c.Batches.Folder }, nil},
	{"batches-storage", "batches.storage", "most bytes of all files and batches",
		func(c *Config) any { return &c.Batches.Storage }, nil},
	{"batches-concurrency", "batches.concurrency", "lines of batches that run at once; 0 chooses",
		func(c *Config) any { return &c.Batches.Concurrency }, nil},
}
