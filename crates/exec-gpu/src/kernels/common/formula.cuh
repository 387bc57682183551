// The value of a posting before the term's weight, with the bits of `Formula::value`: the same
// IEEE operations in the same order.
#pragma once

#include "types.cuh"

// Numbers of the formulas.
constexpr uint32_t SATURATION = 0;
constexpr uint32_t COSINE = 1;
constexpr uint32_t LINEAR = 2;
constexpr uint32_t QUANTIZED = 3;

// Returns the value of a posting. `freq` is at least 1. `tables` has the number of the formula,
// and `log_tf(tables, freq)` is 1 + ln f; logarithms come from the host because no two libraries
// agree on their last bit.
template <class Tables>
__device__ __forceinline__ float value_of(const Tables& tables, uint32_t freq, float factor) {
    if (tables.formula == SATURATION) return __frcp_rn(__fadd_rn(1.0f, __fmul_rn(factor, __frcp_rn(__uint2float_rn(freq)))));
    if (tables.formula == COSINE) {
        const float weight = __fdiv_rn(log_tf(tables, freq), factor);
        return weight < 1.0f ? weight : 1.0f;
    }
    if (tables.formula == LINEAR) return __uint2float_rn(min(freq, 65535u));
    return __fdiv_rn(__uint2float_rn(min(freq, 255u)), 255.0f);
}
