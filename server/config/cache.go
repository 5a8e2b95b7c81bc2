package config

// KVDTypes are what a CPU stores keys and values as.
var KVDTypes = []string{"float32", "float16", "bfloat16", "int8"}

// kvDType is KVDType as TGI's flag --kv-cache-dtype sets it. Its 8-bit floats become 8-bit integers with scales, which
// take about as much memory and keep more.
type kvDType struct{ of *string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k kvDType) UnmarshalText(text []byte) error {
	switch *k.of = string(text); *k.of {
	case "fp8_e4m3fn", "fp8_e5m2":
		*k.of = "int8"
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (k kvDType) MarshalText() ([]byte, error) { return []byte(*k.of), nil }
