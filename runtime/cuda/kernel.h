// Kernels of our own, through the driver's library, which CUDA's runtime has loaded.
#ifndef TGI_CUDA_KERNEL_H
#define TGI_CUDA_KERNEL_H

#include <stdint.h>

// tgi_kernel_load compiles PTX for a device and finds a function in it. Functions return CUDA's error codes, 0 for
// success, and -1 where the driver's library lacks a function.
int tgi_kernel_load(int device, const char *ptx, const char *name, void **module, void **function);
int tgi_kernel_unload(int device, void *module);

enum { TGI_KERNEL_ARGUMENTS = 29 };

// tgi_kernel_launch asks a stream for a grid of x by y blocks. Each argument takes up to 8 bytes.
int tgi_kernel_launch(int device, void *function, unsigned x, unsigned y, unsigned threads, void *stream,
                      uint64_t *arguments, int n);

// tgi_kernel_error describes a code.
const char *tgi_kernel_error(int code);

#endif
