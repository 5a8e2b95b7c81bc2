package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// MCP is one [[mcp]]: a server of the Model Context Protocol, whose tools requests may have this server call.
type MCP struct {
	// Name is what requests call it: their server_label.
	Name string `toml:"name"`
	// Command starts it as a process that speaks over its standard input and output; Endpoint is the URL where it
	// listens (streamable HTTP). It has one of them.
	Command  []string `toml:"command"`
	Endpoint string   `toml:"endpoint"`
	// Folder is where the process works; Env are its variables besides PATH, HOME, LANG and TMPDIR.
	Folder string            `toml:"folder"`
	Env    map[string]string `toml:"env"`
	// Headers are sent to the endpoint.
	Headers map[string]string `toml:"headers"`
	// AllowedTools are those that may be called; none is all.
	AllowedTools []string `toml:"allowed_tools"`
	// Keys are the names of the keys whose requests may use it; none is all.
	Keys []string `toml:"keys"`
	// StartTimeout bounds how long it takes to connect and to list its tools, Timeout a call.
	StartTimeout Duration `toml:"start_timeout"`
	Timeout      Duration `toml:"timeout"`
	// ResultBytes bounds a result, Concurrency the calls at a time.
	ResultBytes Size `toml:"result_bytes"`
	Concurrency int  `toml:"concurrency"`
}

// MCPLimits bound what one request may do with tools of MCP servers.
type MCPLimits struct {
	// Rounds is how often the model may call tools; then it has to answer. Calls are all that it may make, Parallel
	// those at a time.
	Rounds   int `toml:"rounds"`
	Calls    int `toml:"calls"`
	Parallel int `toml:"parallel"`
	// Time bounds all calls together, ResultBytes their results.
	Time        Duration `toml:"time"`
	ResultBytes Size     `toml:"result_bytes"`
	// Tools bounds how many a request may be offered.
	Tools int `toml:"tools"`
}

// Defaults of [[mcp]], for what is not given.
const (
	mcpStartTimeout = 30 * second
	mcpTimeout      = 30 * second
	mcpResultBytes  = Size(256 << 10)
	mcpConcurrency  = 4
)

// MaxMCPResult bounds what result_bytes may be: a result becomes a part of a prompt.
const MaxMCPResult = Size(64 << 20)

func defaultMCPLimits() MCPLimits {
	return MCPLimits{Rounds: 8, Calls: 32, Parallel: 4, Time: 120 * second, ResultBytes: 1 << 20, Tools: 128}
}

// Complete returns m with defaults in place of what was not given.
func (m MCP) Complete() MCP {
	if m.StartTimeout == 0 {
		m.StartTimeout = mcpStartTimeout
	}
	if m.Timeout == 0 {
		m.Timeout = mcpTimeout
	}
	if m.ResultBytes == 0 {
		m.ResultBytes = mcpResultBytes
	}
	if m.Concurrency == 0 {
		m.Concurrency = mcpConcurrency
	}
	return m
}

// validateMCP adds what is wrong with [[mcp]] and [mcp_limits].
func (c *Config) validateMCP(v *verdict) {
	keys := c.AllKeys()
	known := func(name string) bool {
		return slices.ContainsFunc(keys, func(k Key) bool { return k.Name == name })
	}
	for i, m := range c.MCP {
		at := fmt.Sprintf("mcp[%d].", i)
		if err := CheckName(m.Name); err != nil {
			v.check(false, "%sname %w", at, err)
		}
		for j, other := range c.MCP[:i] {
			v.check(other.Name != m.Name, "%sname must differ from mcp[%d].name, given %q twice", at, j, m.Name)
		}
		v.check((len(m.Command) == 0) != (m.Endpoint == ""), "%scommand or %sendpoint must be given, and not both", at, at)
		if m.Endpoint != "" {
			u, err := url.Parse(m.Endpoint)
			v.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
				"%sendpoint must be an http or https URL, given %q", at, trim(ShownHost(m.Endpoint)))
		}
		v.check(m.Endpoint == "" || len(m.Env) == 0 && m.Folder == "", "%senv and %sfolder are for a command", at, at)
		v.check(m.Endpoint != "" || len(m.Headers) == 0, "%sheaders are for an endpoint", at)
		for name, value := range m.Env {
			v.check(name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00"),
				"%senv must hold names without \"=\", given %.80q", at, name)
		}
		for _, name := range m.Keys {
			v.check(known(name), "%skeys must be names of keys, given %.80q", at, name)
		}
		full := m.Complete()
		v.positive(at+"start_timeout", full.StartTimeout)
		v.positive(at+"timeout", full.Timeout)
		v.check(full.ResultBytes >= 1 && full.ResultBytes <= MaxMCPResult, "%sresult_bytes must be between 1 and %s, given %s",
			at, MaxMCPResult, full.ResultBytes.number())
		v.between(at+"concurrency", full.Concurrency, 1, maxCount)
	}
	l := &c.MCPLimits
	v.between("mcp_limits.rounds", l.Rounds, 1, 1000)
	v.between("mcp_limits.calls", l.Calls, 1, maxCount)
	v.between("mcp_limits.parallel", l.Parallel, 1, maxCount)
	v.positive("mcp_limits.time", l.Time)
	v.check(l.ResultBytes >= 1 && l.ResultBytes <= MaxMCPResult, "mcp_limits.result_bytes must be between 1 and %s, given %s",
		MaxMCPResult, l.ResultBytes.number())
	v.between("mcp_limits.tools", l.Tools, 1, maxCount)
	for i, k := range c.Key {
		for _, name := range k.MCP {
			v.check(slices.ContainsFunc(c.MCP, func(m MCP) bool { return m.Name == name }),
				"key[%d].mcp must hold names of [[mcp]], given %.80q", i, name)
		}
	}
}
