// The part of NVIDIA's CUDA runtime that this package calls, as facts: names and signatures of functions, looked up
// in the library when it is loaded. Functions return CUDA's error codes, 0 for success.
#ifndef TGI_CUDA_H
#define TGI_CUDA_H

#include <stddef.h>
#include <stdint.h>

// X(name, arguments) of functions of libcudart, all of which return an int.
#define TGI_CUDART(X)                                                  \
	X(DriverGetVersion, (int *))                                         \
	X(RuntimeGetVersion, (int *))                                        \
	X(GetDeviceCount, (int *))                                           \
	X(GetDeviceProperties, (void *, int))                                \
	X(DeviceGetAttribute, (int *, int, int))                             \
	X(SetDevice, (int))                                                  \
	X(MemGetInfo, (size_t *, size_t *))                                  \
	X(Malloc, (void **, size_t))                                         \
	X(Free, (void *))                                                    \
	X(HostAlloc, (void **, size_t, unsigned))                            \
	X(FreeHost, (void *))                                                \
	X(MemcpyAsync, (void *, const void *, size_t, int, void *))          \
	X(MemsetAsync, (void *, int, size_t, void *))                        \
	X(StreamCreateWithFlags, (void **, unsigned))                        \
	X(StreamDestroy, (void *))                                           \
	X(StreamSynchronize, (void *))                                       \
	X(StreamIsCapturing, (void *, int *))                                \
	X(StreamEndCapture, (void *, void **))                               \
	X(GraphDestroy, (void *))                                            \
	X(GetLastError, (void))

// TGI_CUDART_PROPERTIES is more than any version of cudaDeviceProp takes.
enum { TGI_CUDART_PROPERTIES = 8192 };

// tgi_cudart is the loaded runtime; all null before tgi_cudart_load.
struct tgi_cudart {
#define TGI_CUDART_FIELD(name, arguments) int(*name) arguments;
	TGI_CUDART(TGI_CUDART_FIELD)
#undef TGI_CUDART_FIELD
	const char *(*GetErrorString)(int);
};
extern struct tgi_cudart tgi_cudart;

// tgi_library_open opens a library for those that need it by name; it stays open. It returns null, or a message that
// the caller frees.
char *tgi_library_open(const char *path, void **library);

// tgi_cudart_load reads the functions out of an open runtime. It returns null, or a message that the caller frees.
char *tgi_cudart_load(void *library);

// tgi_driver_version asks an open driver library (libcuda.so.1) for its version; 0 if it does not say.
int tgi_driver_version(void *library);

// tgi_signals_save keeps the handlers of all signals, tgi_signals_restore sets those that have changed since.
void tgi_signals_save(void);
void tgi_signals_restore(void);

#endif
