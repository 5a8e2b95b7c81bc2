typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(THREADS) name
#define SHARED __shared__
#define FUNCTION static __device__ __forceinline__
#define ALIGNED(n) __align__(n)
#define EACH(t) for (u32 t = threadIdx.x, t##_more = 1; t##_more; t##_more = 0)
#define BARRIER() __syncthreads()
#define BLOCK blockIdx.x
#define BLOCK_Y blockIdx.y
#define BLOCKS_Y gridDim.y
#define add_shared(p, n) atomicAdd(p, n)
#define high_product(a, b) __umul64hi(a, b)
#define bits_of(v) __float_as_uint(v)
#define float_of(b) __uint_as_float(b)

// Numbers of 16 bits as IEEE 754 has them.
FUNCTION float of_half(u32 h) {
	float v;
	asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((u16)h));
	return v;
}
FUNCTION u32 to_half(float v) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
	return h;
}
