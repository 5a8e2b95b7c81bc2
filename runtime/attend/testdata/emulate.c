#include "../../kernel/emulate.h"
#include "../../kernel/kerneltest/commands.h"
#include "../attend.cu"

typedef void kernel(PARAMETERS);
static kernel *const kernels[] = {
	tgi_attend_16, tgi_attend_32, tgi_attend_64, tgi_attend_80, tgi_attend_96, tgi_attend_128, tgi_attend_256,
	tgi_attend_16_half, tgi_attend_32_half, tgi_attend_64_half, tgi_attend_80_half, tgi_attend_96_half,
	tgi_attend_128_half, tgi_attend_256_half,
};

static float real(u64 bits) { return float_of((u32)bits); }

// run runs a kernel's grid of x blocks: the number of the kernel and flags, x, and the address of the parameters.
static void run(const u64 *c) {
	const u64 *a = (const u64 *)c[3];
	const u32 y = (u32)a[25], x = (u32)c[2], order = (u32)(c[1] >> 32);
	check((c[1] & 0xff) < sizeof kernels / sizeof *kernels);
	stride = order * 2 + 1;
	shift = order * 7;
	late = order % 2;
	blocks_y = y;
	for (u32 n = x * y; n-- > 0;) {
		block = n % x, block_y = order % 3 ? n / x : y - 1 - n / x;
		kernels[c[1] & 0xff]((const u16 *)a[0], (const u16 *)a[1], (const u16 *)a[2], (u16 *)a[3], (u16 *)a[4], (u16 *)a[5],
		                     (const u32 *)a[6], (const u32 *)a[7], (const u32 *)a[8], (const u16 *)a[9], (const u16 *)a[10],
		                     (const u16 *)a[11], (const u16 *)a[12], (const u16 *)a[13], (float *)a[14], (u32 *)a[15],
		                     (u32)a[16], (u32)a[17], (u32)a[18], (u32)a[19], (u32)a[20], (u32)a[21], (u32)a[22], (u32)a[23],
		                     (u32)a[24], (u32)a[25], real(a[26]), real(a[27]), real(a[28]));
	}
}

int main(void) { return serve(run); }
