#include "textflag.h"

// The constants of 2^r = 1 + r*(c1 + r*(c2 + r*(c3 + r*(c4 + r*c5)))) for
// |r| <= 1/2, a Chebyshev fit with a relative error of 2.1e-7, and what goes
// with them.
DATA consts<>+0(SB)/4, $0x3fb8aa3b  // log2(e)
DATA consts<>+4(SB)/4, $0x4b400000  // 1.5 * 2^23: adding it rounds to an integer
DATA consts<>+8(SB)/4, $0xc1f80000  // -31, as spread
DATA consts<>+12(SB)/4, $0x3f800000 // 1
DATA consts<>+16(SB)/4, $0x3f317218 // c1
DATA consts<>+20(SB)/4, $0x3e75fd25 // c2
DATA consts<>+24(SB)/4, $0x3d6357b6 // c3
DATA consts<>+28(SB)/4, $0x3c1e5fb6 // c4
DATA consts<>+32(SB)/4, $0x3aaf844b // c5
GLOBL consts<>(SB), RODATA|NOPTR, $36

// EXP replaces the eight logits in X by their weights. It computes
// d = (x-top)*scale and t = d*log2(e), splits t into an integer and r, and adds
// the integer to the exponent of 2^r. Lanes where d > -31 is false, as it is for
// NaN, become 0.
#define EXP(X, T, F, P) \
	VSUBPS  Y0, X, X       \
	VMULPS  Y1, X, X       \
	VMULPS  Y2, X, T       \
	VCMPPS  $30, Y4, X, X  \
	VADDPS  Y3, T, F       \
	VSUBPS  Y3, F, P       \
	VSUBPS  P, T, T        \
	VMOVAPS Y10, P         \
	VFMADD213PS Y9, T, P   \
	VFMADD213PS Y8, T, P   \
	VFMADD213PS Y7, T, P   \
	VFMADD213PS Y6, T, P   \
	VFMADD213PS Y5, T, P   \
	VPSLLD  $23, F, F      \
	VPADDD  F, P, P        \
	VANDPS  X, P, X

// func sumExpAVX2(x *float32, n int, top, scale float32) float32
TEXT ·sumExpAVX2(SB), NOSPLIT, $0-28
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSS top+16(FP), Y0
	VBROADCASTSS scale+20(FP), Y1
	VBROADCASTSS consts<>+0(SB), Y2
	VBROADCASTSS consts<>+4(SB), Y3
	VBROADCASTSS consts<>+8(SB), Y4
	VBROADCASTSS consts<>+12(SB), Y5
	VBROADCASTSS consts<>+16(SB), Y6
	VBROADCASTSS consts<>+20(SB), Y7
	VBROADCASTSS consts<>+24(SB), Y8
	VBROADCASTSS consts<>+28(SB), Y9
	VBROADCASTSS consts<>+32(SB), Y10
	VXORPS Y11, Y11, Y11

sum:
	VMOVUPS (SI), Y12
	EXP(Y12, Y13, Y14, Y15)
	VADDPS Y12, Y11, Y11
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ sum

	VEXTRACTF128 $1, Y11, X12
	VADDPS X12, X11, X11
	VMOVHLPS X11, X11, X12
	VADDPS X12, X11, X11
	VMOVSHDUP X11, X12
	VADDSS X12, X11, X11
	VMOVSS X11, ret+24(FP)
	VZEROUPPER
	RET

// func greatestAVX2(x *float32, n int) float32
TEXT ·greatestAVX2(SB), NOSPLIT, $0-20
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VPCMPEQD Y0, Y0, Y0
	VPSLLD $23, Y0, Y0 // -Inf in each lane
	VMOVAPS Y0, Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y3

max:
	// Of a pair with a NaN the instruction returns its first operand here, which
	// is the greatest so far.
	VMOVUPS (SI), Y4
	VMOVUPS 32(SI), Y5
	VMOVUPS 64(SI), Y6
	VMOVUPS 96(SI), Y7
	VMAXPS Y0, Y4, Y0
	VMAXPS Y1, Y5, Y1
	VMAXPS Y2, Y6, Y2
	VMAXPS Y3, Y7, Y3
	ADDQ $128, SI
	SUBQ $32, CX
	JNZ max

	VMAXPS Y1, Y0, Y0
	VMAXPS Y3, Y2, Y2
	VMAXPS Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VMOVHLPS X0, X0, X1
	VMAXPS X1, X0, X0
	VMOVSHDUP X0, X1
	VMAXSS X1, X0, X0
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET
