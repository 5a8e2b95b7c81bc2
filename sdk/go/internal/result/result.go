// Package result owns texts on their way out of a guest.
package result

// Text is an error's text, never empty: an empty one would read as success.
func Text(err error) string {
	if s := err.Error(); s != "" {
		return s
	}
	return "error without text"
}
