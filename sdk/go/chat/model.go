package chat

import "tgi/sdk/go/params"

// Model is what the configuration says of the model, as its member "model".
type Model struct {
	Name string
	// Tokens are the texts of special tokens by their names in Hugging Face's
	// files, such as "bos_token" and "eos_token".
	Tokens map[string]string
	// Templates are the Jinja sources that the model brings, by name; mostly
	// there is one, of name "default".
	Templates map[string]string
}

// ReadModel reads the value of the member "model". Faults stay in r.
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
