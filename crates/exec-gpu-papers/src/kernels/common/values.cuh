// Tables from which the values of postings are computed (`formula.cuh`), for lists that stay
// compressed.
#pragma once

#include "formula.cuh"

struct Values {
    uint64_t factors;     // one float per document
    uint64_t logs;        // one float per frequency below SMALL_FREQ: 1 + ln f
    uint64_t large;       // uint32_t, the larger frequencies that occur, ascending
    uint64_t large_logs;  // one float each
    uint32_t large_count;
    uint32_t formula;
};

constexpr uint32_t SMALL_FREQ = 4096;

__device__ __forceinline__ float factor_of(const Values& values, uint32_t doc) {
    return __ldg(reinterpret_cast<const float*>(values.factors) + doc);
}

// 1 + ln f, computed by the host because no two libraries agree on a logarithm's last bit. `freq`
// must occur in the segment.
__device__ __forceinline__ float log_tf(const Values& values, uint32_t freq) {
    if (freq < SMALL_FREQ) return __ldg(reinterpret_cast<const float*>(values.logs) + freq);
    const uint32_t* large = reinterpret_cast<const uint32_t*>(values.large);
    uint32_t from = 0;
    for (uint32_t end = values.large_count; from + 1 < end;) {
        uint32_t middle = from + (end - from) / 2;
        if (__ldg(large + middle) <= freq) from = middle;
        else end = middle;
    }
    return __ldg(reinterpret_cast<const float*>(values.large_logs) + from);
}
