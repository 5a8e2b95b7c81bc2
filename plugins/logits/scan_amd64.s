#include "textflag.h"

// SCAN compares 32 values at a time with a limit, and stops at the first 32 of which one compares true.
#define SCAN(PREDICATE, LOOP, DONE) \
	MOVQ x+0(FP), SI             \
	MOVQ n+8(FP), CX             \
	VBROADCASTSS limit+16(FP), Y0 \
	XORQ AX, AX                  \
LOOP:                            \
	VMOVUPS (SI), Y1             \
	VMOVUPS 32(SI), Y2           \
	VMOVUPS 64(SI), Y3           \
	VMOVUPS 96(SI), Y4           \
	VCMPPS  PREDICATE, Y0, Y1, Y1 \
	VCMPPS  PREDICATE, Y0, Y2, Y2 \
	VCMPPS  PREDICATE, Y0, Y3, Y3 \
	VCMPPS  PREDICATE, Y0, Y4, Y4 \
	VORPS   Y1, Y2, Y1           \
	VORPS   Y3, Y4, Y3           \
	VORPS   Y1, Y3, Y1           \
	VMOVMSKPS Y1, DX             \
	TESTL   DX, DX               \
	JNZ     DONE                 \
	ADDQ    $128, SI             \
	ADDQ    $32, AX              \
	CMPQ    AX, CX               \
	JLT     LOOP                 \
DONE:                            \
	MOVQ AX, ret+24(FP)          \
	VZEROUPPER                   \
	RET

// func skipAVX2(x *float32, n int, limit float32) int
TEXT ·skipAVX2(SB), NOSPLIT, $0-32
	SCAN($30, skip, skipped) // greater than, false for NaN

// func usableAVX2(x *float32, n int, limit float32) int
TEXT ·usableAVX2(SB), NOSPLIT, $0-32
	SCAN($22, usable, used) // not (less or equal): true for NaN
