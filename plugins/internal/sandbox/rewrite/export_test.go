package rewrite

// Opcode is one instruction of core 2.0, for tests.
type Opcode struct {
	Name  string
	Bytes []byte
}

// Opcodes lists every instruction that the decoder knows.
func Opcodes() (list []Opcode) {
	for op, in := range plain {
		if in.name != "" {
			list = append(list, Opcode{in.name, []byte{byte(op)}})
		}
	}
	for sub, in := range misc {
		list = append(list, Opcode{in.name, appendUnsigned([]byte{prefixMisc}, uint64(sub))})
	}
	for sub, in := range simd {
		if in.name != "" {
			list = append(list, Opcode{in.name, appendUnsigned([]byte{prefixSIMD}, uint64(sub))})
		}
	}
	return list
}
