// What the kernels with NEON share.
#ifndef TGI_PRODUCT_NEON_H
#define TGI_PRODUCT_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

// mq_halves widens four 16-bit floats, mq_four_bytes four unsigned bytes.
static inline float32x4_t mq_halves(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }
static inline float32x4_t mq_four_bytes(const uint8_t *p) {
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(v)))));
}

#endif
