// libcurand.so.10, of which the provider uses nothing.
