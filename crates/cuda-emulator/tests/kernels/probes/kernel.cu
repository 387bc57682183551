// Kernels that test the emulator: first those that must work, then those that must be detected as
// invalid.
#include "scan.cuh"
#include "warp.cuh"

extern "C" __global__ void block_sums(const uint32_t* values, uint32_t* sums, uint32_t* prefixes) {
    __shared__ uint32_t scratch[32];
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t total;
    prefixes[at] = block_exclusive_sum(values[at], scratch, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Reverses each block's values through dynamic shared memory.
extern "C" __global__ void reverse_in_shared(uint32_t* values) {
    DYNAMIC_SHARED(uint32_t, tile);
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = values[at];
    __syncthreads();
    values[at] = tile[blockDim.x - 1 - threadIdx.x];
}

constexpr uint32_t RESULTS = 24;

// Performs every warp operation once and writes the results in one row per lane.
extern "C" __global__ void __launch_bounds__(32) warp_operations(const uint32_t* values, uint32_t* out) {
    uint32_t v = values[threadIdx.x], i = 0;
    uint32_t* row = out + threadIdx.x * RESULTS;
    row[i++] = __shfl_sync(FULL_WARP, v, 5);
    row[i++] = __shfl_sync(FULL_WARP, v, threadIdx.x + 1);
    row[i++] = __shfl_sync(FULL_WARP, v, 2, 8);
    row[i++] = __shfl_up_sync(FULL_WARP, v, 3);
    row[i++] = __shfl_up_sync(FULL_WARP, v, 3, 8);
    row[i++] = __shfl_down_sync(FULL_WARP, v, 7);
    row[i++] = __shfl_down_sync(FULL_WARP, v, 7, 16);
    row[i++] = __shfl_xor_sync(FULL_WARP, v, 21);
    row[i++] = __ballot_sync(FULL_WARP, v & 1);
    row[i++] = __any_sync(FULL_WARP, v == 7);
    row[i++] = __all_sync(FULL_WARP, v < 1000);
    row[i++] = __match_any_sync(FULL_WARP, v % 3);
    int same;
    row[i++] = __match_all_sync(FULL_WARP, v / 1000, &same) + same;
    row[i++] = warp_sum(v);
    row[i++] = warp_min(v);
    row[i++] = warp_max(v);
    row[i++] = warp_or(v);
    row[i++] = warp_fold_by_shuffles(v, Sum());
    row[i++] = warp_fold_by_shuffles(v, Min());
    row[i++] = warp_fold_by_shuffles(v, Max());
    row[i++] = warp_fold_by_shuffles(v, Or());
    uint64_t wide = __shfl_sync(FULL_WARP, uint64_t(v) << 32 | threadIdx.x, 9);
    row[i++] = uint32_t(wide >> 32);
    row[i++] = uint32_t(wide);
    __syncwarp();
    row[i++] = __float_as_uint(__shfl_xor_sync(FULL_WARP, float(v), 1));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
extern "C" __global__ void reductions(const uint32_t* values, uint32_t* out) {
    uint32_t v = values[threadIdx.x], i = 0, odd = 0xaaaaaaaau;
    if (threadIdx.x % 2 == 0) return;
    uint32_t* row = out + threadIdx.x * 8;
    row[i++] = __reduce_add_sync(odd, v);
    row[i++] = __reduce_min_sync(odd, v);
    row[i++] = __reduce_max_sync(odd, v);
    row[i++] = __reduce_min_sync(odd, int32_t(v) - 500);
    row[i++] = __reduce_max_sync(odd, int32_t(v) - 500);
    row[i++] = __reduce_or_sync(odd, v);
    row[i++] = __reduce_and_sync(odd, v);
    row[i++] = __reduce_xor_sync(odd, v);
}
#endif

// Even and odd lanes diverge and perform different numbers of operations before they converge
// again.
extern "C" __global__ void partial_masks(uint32_t* out) {
    uint32_t result = 0;
    if (threadIdx.x % 2) {
        for (int i = 0; i < 3; i++) result += __popc(__ballot_sync(0xaaaaaaaau, threadIdx.x > 8));
    } else {
        result = threadIdx.x;
        for (int i = 2; i < 32; i *= 2) result += __shfl_xor_sync(0x55555555u, result, i);
    }
    __syncwarp();
    out[threadIdx.x] = __shfl_xor_sync(FULL_WARP, result, 1);
}

extern "C" __global__ void barriers(uint32_t* out) {
    uint32_t count = __syncthreads_count(threadIdx.x % 3 == 0);
    uint32_t all = __syncthreads_and(threadIdx.x < 100), none = __syncthreads_and(threadIdx.x < 99);
    uint32_t some = __syncthreads_or(threadIdx.x == 99), no = __syncthreads_or(threadIdx.x == 100);
    out[threadIdx.x] = count << 4 | all << 3 | none << 2 | some << 1 | no;
}

extern "C" __global__ void atomics(uint32_t* words, uint64_t* wide) {
    __shared__ uint32_t histogram[4];
    if (threadIdx.x < 4) histogram[threadIdx.x] = 0;
    __syncthreads();
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&histogram[i % 4], i);
    atomicMax(&words[4], i);
    atomicMin(&words[5], i);
    atomicOr(&words[6], 1u << i % 32);
    atomicAnd(&words[7], ~(1u << i % 16));
    atomicAdd(&wide[0], uint64_t(i) << 20);
    atomicMax(&wide[1], uint64_t(i) << 40);
    uint32_t seen = words[8], expected;
    do {
        expected = seen;
        seen = atomicCAS(&words[8], expected, expected + 2);
    } while (seen != expected);
    if (atomicExch(&words[9], 1) == 0) atomicAdd(&words[10], 1);
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(&words[threadIdx.x], histogram[threadIdx.x]);
}

// Single-precision operations and bit tricks, one per result.
extern "C" __global__ void arithmetic(float a, float b, uint32_t x, uint32_t y, uint32_t* out) {
    uint32_t i = 0;
    out[i++] = __float_as_uint(__fadd_rn(a, b));
    out[i++] = __float_as_uint(__fmul_rn(a, b));
    out[i++] = __float_as_uint(__fdiv_rn(a, b));
    out[i++] = __float_as_uint(__frcp_rn(b));
    out[i++] = __float_as_uint(a * b + a);
    out[i++] = __float2uint_rd(a);
    out[i++] = __float2uint_rz(-a);
    out[i++] = uint32_t(__float2int_rd(-a));
    out[i++] = __float2uint_rz(1e20f);
    out[i++] = __float_as_uint(__uint2float_rn(x));
    out[i++] = __float_as_uint(__uint2float_rd(x));
    out[i++] = __popc(x);
    out[i++] = __clz(y);
    out[i++] = __ffs(x);
    out[i++] = __brev(x);
    out[i++] = __umulhi(x, y);
    out[i++] = __funnelshift_l(x, y, 7);
    out[i++] = __funnelshift_r(x, y, 39);
    out[i++] = __byte_perm(x, y, 0x7a40);
    out[i++] = min(x, y) ^ max(x, y);
}

struct Pair {
    uint64_t wide;
    uint32_t narrow[2];
};

extern "C" __global__ void structures(Pair pair, uint8_t byte, const uint4* vectors, uint32_t* out) {
    uint4 v = vectors[threadIdx.x];
    out[threadIdx.x] = v.x + v.y + v.z + v.w + uint32_t(pair.wide >> 32) + pair.narrow[0] - pair.narrow[1] + byte;
}

// Switches between lanes as often as possible.
extern "C" __global__ void switches(uint32_t rounds, uint32_t* out) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < rounds; i++) sum += __shfl_xor_sync(FULL_WARP, i, 1);
    out[threadIdx.x] = sum;
}

// Shared memory in a template: each instance has its own.
template <uint32_t N>
__device__ uint32_t rotate(uint32_t value) {
    __shared__ uint32_t ring[N];
    ring[threadIdx.x % N] = value;
    __syncthreads();
    uint32_t next = ring[(threadIdx.x + 1) % N];
    __syncthreads();
    return next;
}

struct Table {
    uint32_t sum = 0;
    __device__ void add(uint32_t value) {
        __shared__ uint32_t last;
        if (threadIdx.x == 0) last = value;
        __syncthreads();
        sum += last;
        __syncthreads();
    }
};

#define ROTATE(N)                                                                  \
    extern "C" __global__ void __launch_bounds__(N) rotate_##N(uint32_t* values) { \
        Table table;                                                               \
        table.add(values[threadIdx.x] + 1);                                        \
        values[threadIdx.x] = rotate<N>(values[threadIdx.x]) + table.sum;          \
    }
ROTATE(64)
ROTATE(96)

// ---- what must be detected

extern "C" __global__ void diverged_barrier(uint32_t* out) {
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" __global__ void two_barriers(uint32_t* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

extern "C" __global__ void diverged_warp(uint32_t* out) {
    if (threadIdx.x == 3) return;
    out[threadIdx.x] = __ballot_sync(FULL_WARP, 1);
}

extern "C" __global__ void foreign_mask(uint32_t* out) { out[threadIdx.x] = __ballot_sync(0xfu, 1); }

extern "C" __global__ void masks_differ(uint32_t* out) {
    out[threadIdx.x] = __ballot_sync(threadIdx.x < 16 ? FULL_WARP : 0xffff0000u, 1);
}

extern "C" __global__ void write_at(uint32_t* out, int32_t index) { out[index] = 1; }

extern "C" __global__ void read_at(const uint32_t* from, int32_t index, uint32_t* out) { out[0] = from[index]; }

extern "C" __global__ void write_byte_at(uint8_t* out, int32_t index) { out[index] = 1; }

extern "C" __global__ void shared_at(int32_t index) {
    DYNAMIC_SHARED(volatile uint32_t, words);
    words[index] = 1;
}

extern "C" __global__ void static_shared_at(uint32_t index, uint32_t* out) {
    __shared__ uint32_t words[8];
    words[index] = 5;
    out[0] = words[index];
}

extern "C" __global__ void misaligned(const uint32_t* from, uint32_t* out) {
    out[0] = reinterpret_cast<const uint2*>(from + 1)->x;
}

extern "C" __global__ void shift_by(uint32_t bits, uint32_t* out) { out[0] = 1u << bits; }

extern "C" __global__ void trapped(uint32_t* out) {
    if (threadIdx.x == 7) __trap();
    out[threadIdx.x] = 1;
}

__device__ __noinline__ uint32_t goes_deep(uint32_t depth) {
    volatile uint32_t big[64 << 10];
    for (uint32_t i = 0; i < (64 << 10); i++) big[i] = i;
    return big[depth];
}

// The last lane does the operation, while all others wait.
extern "C" __global__ void deep(uint32_t depth, uint32_t* out) {
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) out[0] = goes_deep(depth);
    __syncthreads();
}

// Reads uninitialised global, static shared and dynamic shared memory.
extern "C" __global__ void uninitialised(const uint32_t* from, uint32_t* out) {
    __shared__ uint32_t words[4];
    DYNAMIC_SHARED(uint32_t, dynamic);
    out[0] = from[0];
    out[1] = words[1];
    out[2] = dynamic[1];
    out[3] = __shfl_sync(1u, 5u, 3);
}

// The last write wins; no program may depend on which one that is.
extern "C" __global__ void racing(uint32_t* out) {
    __shared__ uint32_t last;
    out[0] = blockIdx.x;
    last = threadIdx.x;
    __syncthreads();
    out[1] = last;
}
