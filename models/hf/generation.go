package hf

// GenerationFile is the name of a model's generation defaults in its folder.
const GenerationFile = "generation_config.json"

// GenerationConfig is the part of generation_config.json that serving needs.
type GenerationConfig struct {
	// BOS, EOS and Pad are token ids; each may be empty.
	BOS, EOS, Pad []uint32
}

// ParseGenerationConfig reads generation_config.json. Its errors wrap ErrConfig.
func ParseGenerationConfig(data []byte) (GenerationConfig, error) {
	o, err := parseObject(GenerationFile, data)
	if err != nil {
		return GenerationConfig{}, err
	}
	g := GenerationConfig{BOS: o.ids("bos_token_id"), EOS: o.ids("eos_token_id"), Pad: o.ids("pad_token_id")}
	return g, o.err
}
