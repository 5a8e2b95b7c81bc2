package config

import (
	"crypto/tls"

	"tgi/runtime/regular"
)

// ReadPair reads the PEM files of a certificate and its key. What stands in their place, such as a pipe, keeps nobody
// waiting, and neither may be larger than MaxFile.
func ReadPair(cert, key string) (tls.Certificate, error) {
	c, err := regular.Read(cert, 0, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := regular.Read(key, 0, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}
