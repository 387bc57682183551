// The weight of a posting. Operations are IEEE 754 in the order written, as on the CPU
// (`warpseek_core::saturation`).
#pragma once

#include "types.cuh"

// Returns the bits of the weight, given the weight of the term, the frequency of the term in the
// document, and the length of the document.
__device__ __forceinline__ uint32_t weight(float idf, uint32_t freq, uint32_t length, float fixed, float by_length) {
    const float factor = __fadd_rn(fixed, __fmul_rn(by_length, __uint2float_rn(length)));
    const float value = __frcp_rn(__fadd_rn(1.0f, __fmul_rn(factor, __frcp_rn(__uint2float_rn(freq)))));
    return __float_as_uint(__fmul_rn(idf, value));
}
