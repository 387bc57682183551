// Copies `count` words as fast as memory allows. Other kernels are measured against this speed.
#include "types.cuh"

extern "C" __global__ void copy_words(const uint32_t* __restrict__ from, uint32_t* __restrict__ to, uint64_t count) {
    uint64_t thread = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    // 16 bytes at a time if both addresses are aligned for it.
    uint64_t quads = ((uint64_t(from) | uint64_t(to)) % 16 == 0) ? count / 4 : 0;
    const uint4* from_quads = reinterpret_cast<const uint4*>(from);
    uint4* to_quads = reinterpret_cast<uint4*>(to);
    uint64_t i = thread;
    // Four loads in flight before the first is used.
    for (; i + 3 * threads < quads; i += 4 * threads) {
        uint4 a = from_quads[i], b = from_quads[i + threads], c = from_quads[i + 2 * threads], d = from_quads[i + 3 * threads];
        to_quads[i] = a;
        to_quads[i + threads] = b;
        to_quads[i + 2 * threads] = c;
        to_quads[i + 3 * threads] = d;
    }
    for (; i < quads; i += threads) to_quads[i] = from_quads[i];
    for (uint64_t w = quads * 4 + thread; w < count; w += threads) to[w] = from[w];
}
