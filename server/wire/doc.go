// Package wire reads and writes JSON byte for byte as the Rust servers whose
// clients we inherit do: typed reads whose errors name the path, the value, the
// wanted type and the position in serde's words, and appends that format
// numbers and strings like serde_json.
//
// It owns no types of any API: each dialect declares its fields and calls this.
//
// The reasons behind it: docs/rationale/server.md.
package wire
