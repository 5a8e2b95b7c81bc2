package config

import (
	"net/url"
	"strings"
)

// Images is about the pictures of requests, for models that read them.
type Images struct {
	// PerRequest bounds the images of one request.
	PerRequest int `toml:"per_request"`
	// Bytes bounds the file of one.
	Bytes Size `toml:"bytes"`
	// Pixels bounds the width of one times its height.
	Pixels int `toml:"pixels"`
	// Tokens bounds those of one; models that resize freely make larger ones smaller.
	Tokens int `toml:"tokens"`
	// Hosts are those from which images are fetched by their address: example.com, *.example.com, example.com:8443, or
	// * for all. Without any, only data: URIs are read.
	Hosts []string `toml:"hosts"`
	// PrivateAddresses lets these hosts have addresses that are not public.
	PrivateAddresses bool `toml:"private_addresses"`
	// Timeout bounds a fetch, and decoding what it brought.
	Timeout Duration `toml:"timeout"`
	// Cache is the memory for what images became, for each model; 0 is none.
	Cache Size `toml:"cache"`
	// Threads is how many threads turn an image into what the model reads, beside those of its steps; 0 is half of the
	// processors.
	Threads int `toml:"threads"`
}

func defaultImages() Images {
	return Images{PerRequest: 8, Bytes: 20 << 20, Pixels: 24_000_000, Tokens: 4096, Hosts: []string{},
		Timeout: 10 * second, Cache: 128 << 20}
}

// validate checks the section.
func (i *Images) validate(v *verdict) {
	v.between("images.per_request", i.PerRequest, 1, 1000)
	v.check(i.Bytes >= 1, "images.bytes must be >= 1, given %s", i.Bytes.number())
	v.between("images.pixels", i.Pixels, 1, 1_000_000_000)
	v.between("images.tokens", i.Tokens, 1, 1_000_000)
	v.positive("images.timeout", i.Timeout)
	v.between("images.threads", i.Threads, 0, 1024)
	for _, host := range i.Hosts {
		name := strings.TrimPrefix(host, "*.")
		u, err := url.Parse("https://" + name)
		plain := err == nil && name != "" && u.Host == name && !strings.Contains(name, "*")
		v.check(host == "*" || plain,
			"images.hosts must be names such as example.com, *.example.com, example.com:8443 or *, given %q",
			trim(ShownHost(host)))
	}
}

// imageSettings are the ways to set them outside the file.
var imageSettings = []setting{
	{"images-per-request", "images.per_request", "most images of one request",
		func(c *Config) any { return &c.Images.PerRequest }, nil},
	{"max-image-fetch-size", "images.bytes", "largest file of an image",
		func(c *Config) any { return &c.Images.Bytes }, []string{"MAX_IMAGE_FETCH_SIZE"}},
	{"images-pixels", "images.pixels", "most pixels of an image", func(c *Config) any { return &c.Images.Pixels }, nil},
	{"images-tokens", "images.tokens", "most tokens of an image", func(c *Config) any { return &c.Images.Tokens }, nil},
	{"images-hosts", "images.hosts", "hosts from which images are fetched",
		func(c *Config) any { return &c.Images.Hosts }, nil},
	{"images-private-addresses", "images.private_addresses", "let them have addresses that are not public",
		func(c *Config) any { return &c.Images.PrivateAddresses }, nil},
	{"images-timeout", "images.timeout", "longest fetch of an image, and longest decoding",
		func(c *Config) any { return &c.Images.Timeout }, nil},
	{"images-cache", "images.cache", "memory for what images became, for each model",
		func(c *Config) any { return &c.Images.Cache }, nil},
	{"images-threads", "images.threads", "threads that turn an image into what the model reads",
		func(c *Config) any { return &c.Images.Threads }, nil},
}
