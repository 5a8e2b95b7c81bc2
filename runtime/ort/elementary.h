// Functions of numbers without branches and calls, so that the compiler turns loops over them into vectors.
#ifndef TGI_ELEMENTARY_H
#define TGI_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

#define ELEMENTARY static inline __attribute__((always_inline)) float

// e^x for any x, by range reduction and the polynomial of Cephes' expf.
ELEMENTARY exponential(float x) {
	x = x < -87.0f ? -87.0f : x;
	x = x > 87.0f ? 87.0f : x;
	const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
	const float n = x * 1.44269504088896341f + shift - shift;
	const float f = x - n * 0.693359375f + n * 2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * f + 1.3981999507e-3f;
	p = p * f + 8.3334519073e-3f;
	p = p * f + 4.1665795894e-2f;
	p = p * f + 1.6666665459e-1f;
	p = p * f + 5.0000001201e-1f;
	p = p * f * f + f + 1.0f;
	const int32_t bits = ((int32_t)n + 127) << 23;
	float power;
	memcpy(&power, &bits, sizeof power);
	return p * power;
}

// tanh x, with an absolute error below 2e-7.
ELEMENTARY hyperbolic_tangent(float x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }

// The standard normal distribution at x, by formula 7.1.26 of Abramowitz and Stegun for erfc, whose absolute error is
// below 1.5e-7.
ELEMENTARY normal_distribution(float x) {
	const float z = (x < 0 ? -x : x) * 0.70710678118654752f, t = 1.0f / (1.0f + 0.3275911f * z);
	float p = 1.061405429f;
	p = p * t - 1.453152027f;
	p = p * t + 1.421413741f;
	p = p * t - 0.284496736f;
	p = p * t + 0.254829592f;
	const float tail = 0.5f * p * t * exponential(-z * z);
	return x < 0 ? tail : 1.0f - tail;
}

#endif
