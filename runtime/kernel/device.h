typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(THREADS) name
#define KERNEL_OF(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define SHARED __shared__
#define UNSET(memory)
#define FUNCTION static __device__ __forceinline__
#define ALIGNED(n) __align__(n)
#define EACH(t) for (u32 t = threadIdx.x, t##_more = 1; t##_more; t##_more = 0)
#define BARRIER() __syncthreads()
#define BLOCK blockIdx.x
#define BLOCK_Y blockIdx.y
#define BLOCKS_Y gridDim.y
#define add_shared(p, n) atomicAdd(p, n)
#define add_global(p, n) atomicAdd(p, n)
#define FENCE() __threadfence()
#define PRAGMA(text) _Pragma(#text)
#define UNROLL PRAGMA(unroll)
#define UNROLL_BY(n) PRAGMA(unroll n)
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

// pack rounds two numbers to 16 bits: fp16 where half is not 0 and bf16 else.
FUNCTION u32 pack(float low, float high, const u32 half) {
	u32 both;
	if (half)
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
	else
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
	return both;
}

// power_of_two is near 2 to the power of v, and square_root is what its name says.
FUNCTION float power_of_two(float v) {
	float p;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(p) : "f"(v));
	return p;
}
#define square_root(v) sqrtf(v)

// read_far and read_four_far read what other blocks have written.
FUNCTION float read_far(const float *at) {
	float v;
	asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(at));
	return v;
}
#define read_four_far(at) read_four_words(at)
template <class T>
FUNCTION T read_four_words(const T *at) {
	T v;
	asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
	             : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
	             : "l"(at));
	return v;
}

// Warps. KEPT declares what each thread keeps from phase to phase: arrays of which AT(t) is its own. WARP_BARRIER ends
// a phase between the threads of a warp.
#define KEPT(type, name, n) type name[1][n]
#define AT(t) 0
#define WARP_BARRIER() __syncwarp()

// copy_ahead begins to copy 16 bytes, or, where bytes is 0, zeros, to shared memory. COPIES_END ends a group of copies;
// COPIES_WAIT(n) waits for all groups of the thread but the last n, then for the warp.
FUNCTION void copy_ahead(void *to, const void *from, u32 bytes) {
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
	             "l"(from), "r"(bytes)
	             : "memory");
}
FUNCTION void wait_copies(const u32 n) {
	if (n == 7)
		asm volatile("cp.async.wait_group 7;" ::: "memory");
	else if (n == 5)
		asm volatile("cp.async.wait_group 5;" ::: "memory");
	else if (n == 3)
		asm volatile("cp.async.wait_group 3;" ::: "memory");
	else if (n == 1)
		asm volatile("cp.async.wait_group 1;" ::: "memory");
	else
		asm volatile("cp.async.wait_group 0;" ::: "memory");
	__syncwarp();
}
#define COPIES_END() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(n) wait_copies(n)

// LOAD_MATRICES reads four matrices of 8 by 8 numbers of 16 bits from shared memory: thread t of the warp says where
// row t % 8 of matrix t / 8 is, and gets two numbers of row t / 4 of each, into words i to i+3. LOAD_TRANSPOSED gives
// two of column t / 4.
FUNCTION void load_matrices(u32 *to, const void *at, const u32 transposed) {
	const u32 from = (u32)__cvta_generic_to_shared(at);
	if (transposed)
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		             : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
		             : "r"(from)
		             : "memory");
	else
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		             : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
		             : "r"(from)
		             : "memory");
}
#define LOAD(to, i, t, at, transposed)        \
	{                                           \
		const u32 t = threadIdx.x;                \
		load_matrices(&to[0][i], at, transposed); \
	}
#define LOAD_MATRICES(to, i, t, at) LOAD(to, i, t, at, 0)
#define LOAD_TRANSPOSED(to, i, t, at) LOAD(to, i, t, at, 1)

// MULTIPLY adds the product of a matrix of 16 by 16 numbers, words i to i+3 of a, and one of 16 by 8, words j and j+1
// of b, to one of 16 by 8, numbers h to h+3 of sum.
FUNCTION void multiply(float *sum, const u32 *a, const u32 *b, const u32 half) {
	if (half)
		asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
		    "{%0, %1, %2, %3};"
		    : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else
		asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
		    "{%0, %1, %2, %3};"
		    : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#define MULTIPLY(sum, h, a, i, b, j, half) multiply(&sum[0][h], &a[0][i], &b[0][j], half)

// QUAD_MAX and QUAD_SUM give four neighbours the largest, and the sum, of what is at i of x.
#define QUAD_MAX(x, i)                                                    \
	{                                                                       \
		x[0][i] = fmaxf(x[0][i], __shfl_xor_sync(0xffffffff, x[0][i], 1));    \
		x[0][i] = fmaxf(x[0][i], __shfl_xor_sync(0xffffffff, x[0][i], 2));    \
	}
#define QUAD_SUM(x, i)                                                    \
	{                                                                       \
		x[0][i] = x[0][i] + __shfl_xor_sync(0xffffffff, x[0][i], 1);          \
		x[0][i] = x[0][i] + __shfl_xor_sync(0xffffffff, x[0][i], 2);          \
	}
