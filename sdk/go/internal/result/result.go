// Package result returns texts from a guest to the host.
package result

// Text returns an error's text. It is never empty, because an empty text means success.
func Text(err error) string {
	if s := err.Error(); s != "" {
		return s
	}
	return "error without text"
}
