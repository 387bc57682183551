// Integer types, and the definitions that differ between NVRTC and the emulator.
#pragma once

#ifndef EMULATED
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;

// The block's dynamic shared memory, aligned to 16 bytes. The emulator has its own definition,
// with guards around the memory.
#define DYNAMIC_SHARED(type, name)                      \
    extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
    type* const name = reinterpret_cast<type*>(dynamic_shared_bytes)
#endif

constexpr uint32_t WARP = 32;
constexpr uint32_t FULL_WARP = 0xffffffffu;

// Statements that are compiled only in sources that count the bytes they move (`counted.cuh`).
#ifndef COUNTED
#define COUNTED(...)
#endif

__device__ __forceinline__ uint32_t lane_id() { return threadIdx.x % WARP; }
__device__ __forceinline__ uint32_t warp_id() { return threadIdx.x / WARP; }
