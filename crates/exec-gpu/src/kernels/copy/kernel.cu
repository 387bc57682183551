// Copies `count` words: the most that memory can do, against which other kernels are measured.
#include "types.cuh"

extern "C" __global__ void copy_words(const uint32_t* __restrict__ from, uint32_t* __restrict__ to, uint64_t count) {
    uint64_t thread = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    // 16 bytes at a time where both ends are aligned for it.
    uint64_t quads = ((uint64_t(from) | uint64_t(to)) % 16 == 0) ? count / 4 : 0;
    for (uint64_t i = thread; i < quads; i += threads)
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    for (uint64_t i = quads * 4 + thread; i < count; i += threads) to[i] = from[i];
}
