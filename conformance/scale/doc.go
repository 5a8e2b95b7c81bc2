// Package scale tests replicas of the server behind routers that people use: SGLang's model gateway (smg) from PyPI,
// and HAProxy from the system's packages with the file that examples/scale-out has. Programs with ZeroMQ's
// own library read the events of its cache. Commands change the plugins of two replicas as one. `make test-scale` runs
// it.
package scale
