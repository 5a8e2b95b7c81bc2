// Package fetch gets the ONNX Runtime library into the user's cache folder.
package fetch

// Version is the release that is fetched.
const Version = "1.30.0"
