// Tables of a segment's documents, from which the values of its postings are computed.
#pragma once

#include "formula.cuh"

struct Valuer {
    uint64_t lengths;  // of documents, in `width` bytes each
    uint64_t norms;    // one float per document; only for COSINE
    uint64_t logs;     // one float per frequency below `log_count`: 1 + ln f; only for COSINE
    uint32_t log_count;
    uint32_t width;
    uint32_t formula;
    float fixed;
    float by_length;
    float most;  // the largest value
};

// Returns the factor of a document in the formula.
__device__ __forceinline__ float factor_of(const Valuer& valuer, uint32_t doc) {
    if (valuer.formula == SATURATION) {
        uint32_t length;
        if (valuer.width == 1) length = __ldg(reinterpret_cast<const uint8_t*>(valuer.lengths) + doc);
        else if (valuer.width == 2) length = __ldg(reinterpret_cast<const uint16_t*>(valuer.lengths) + doc);
        else length = __ldg(reinterpret_cast<const uint32_t*>(valuer.lengths) + doc);
        return __fadd_rn(valuer.fixed, __fmul_rn(valuer.by_length, __uint2float_rn(length)));
    }
    return valuer.formula == COSINE ? __ldg(reinterpret_cast<const float*>(valuer.norms) + doc) : 0.0f;
}

// Returns 1 + ln f, for `value_of`. `freq` must be below `log_count`.
__device__ __forceinline__ float log_tf(const Valuer& valuer, uint32_t freq) { return __ldg(reinterpret_cast<const float*>(valuer.logs) + freq); }

// Returns a value as a fraction of the largest, rounded up to 16 bits; only padding has 0.
__device__ __forceinline__ uint32_t rough_of(const Valuer& valuer, float value) {
    const double share = ceil(double(value) / double(valuer.most) * 65535.0);
    return share < 1.0 ? 1 : share > 65535.0 ? 65535 : uint32_t(share);
}
