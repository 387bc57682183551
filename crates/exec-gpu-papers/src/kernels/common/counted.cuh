// Counts the bytes that kernels move, in a source that includes this header first: for everything
// that a lane reads or writes in global memory, the kernel calls `moved`.
//
// Memory moves sectors of 32 bytes: lanes that arrive together and touch the same sector move it
// once. Caches are not modelled: accesses that hit a cache count as well. In the emulator lanes
// arrive one at a time, and the bytes that each requests are counted.
#pragma once

#define COUNTED(...) __VA_ARGS__
#include "types.cuh"

// Threads share this many counters, so that few of them use the same one.
constexpr uint32_t MOVED_COUNTERS = 1 << 14;

__device__ uint64_t moved_bytes[MOVED_COUNTERS];

// A lane accesses `*at`, or that many values around it.
template <class T>
__device__ __forceinline__ void moved(const T* at, uint32_t times = 1) {
    if (!__isGlobal(at)) return;
    uint64_t bytes = sizeof(T);
#ifndef EMULATED
    constexpr uint32_t SECTOR = 32;
    const uint32_t together = __match_any_sync(__activemask(), reinterpret_cast<uint64_t>(at) / SECTOR);
    if (__ffs(together) - 1 != lane_id()) return;
    bytes = (bytes + SECTOR - 1) / SECTOR * SECTOR;
#endif
    atomicAdd(&moved_bytes[(blockIdx.x * blockDim.x + threadIdx.x) % MOVED_COUNTERS], bytes * times);
}

// Adds what was counted since the last launch. One block.
extern "C" __global__ void take_moved(uint64_t* sum) {
    uint64_t mine = 0;
    for (uint32_t i = threadIdx.x; i < MOVED_COUNTERS; i += blockDim.x) {
        mine += moved_bytes[i];
        moved_bytes[i] = 0;
    }
    atomicAdd(sum, mine);
}
