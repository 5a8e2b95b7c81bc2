package chat

import "tgi/sdk/go/params"

// Model is the description of the model: the member "model" of the configuration.
type Model struct {
	Name string
	// Tokens has the texts of special tokens by their names in Hugging Face's
	// files, such as "bos_token" and "eos_token".
	Tokens map[string]string
	// Templates has the sources of the model's Jinja templates by name. Most
	// models have one, named "default".
	Templates map[string]string
}

// ReadModel reads the value of the member "model". r keeps an error.
func ReadModel(r *params.Reader) (m Model) {
	for key := range r.Object() {
		switch key {
		case "name":
			m.Name = text(r)
		case "tokens":
			m.Tokens = texts(r)
		case "templates":
			m.Templates = texts(r)
		default:
			r.Skip()
		}
	}
	return m
}

func texts(r *params.Reader) map[string]string {
	m := map[string]string{}
	for key := range r.Object() {
		m[key] = text(r)
	}
	return m
}
