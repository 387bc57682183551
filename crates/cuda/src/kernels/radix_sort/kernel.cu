// Radix sort, least significant digit first, after "Onesweep" (Adinets and Merrill 2022). One
// kernel counts all digits of all keys. Then one kernel per digit reads every pair once and
// writes it once, to the place that its digit determines. Blocks learn by looking back
// (look_back.cuh) how many keys with each digit precede their tile.
//
// Within a tile, each warp has consecutive pairs and counts its digits in shared memory, which
// yields the order within the warp; sums over the warps yield the order within the tile. Pairs
// are put into this order in shared memory, so that those with the same digit are written next to
// each other.
#include "look_back.cuh"
#include "scan.cuh"

constexpr uint32_t DIGITS = 256;
constexpr uint32_t COUNT_THREADS = 256;
constexpr uint32_t COUNT_ITEMS = 16;
// Lanes count in different copies, so that equal digits in a warp wait less for each other.
constexpr uint32_t COPIES = 4;
constexpr uint32_t THREADS = 384;
constexpr uint32_t WARPS = THREADS / WARP;
// Predecessors that a thread reads at a time.
constexpr uint32_t LOOK = 4;

// Pairs per thread: as many as fit into shared memory with the counts.
constexpr uint32_t ITEMS_U32 = 20;
constexpr uint32_t ITEMS_U64 = 10;
template <class Key>
constexpr uint32_t ITEMS = sizeof(Key) == 4 ? ITEMS_U32 : ITEMS_U64;

// Adds to `counts[pass * DIGITS + digit]`. Of each key, the low `bits` bits count; a digit has
// `width` bits, and the last may have fewer.
template <class Key>
__device__ __forceinline__ void count_digits(const Key* __restrict__ keys, uint32_t len, uint32_t passes, uint32_t width, uint32_t bits,
                                             uint32_t* __restrict__ counts) {
    __shared__ uint32_t copies[sizeof(Key) * DIGITS * COPIES];
    for (uint32_t i = threadIdx.x; i < passes * DIGITS * COPIES; i += COUNT_THREADS) copies[i] = 0;
    __syncthreads();
    const uint32_t copy = lane_id() % COPIES, tile = COUNT_THREADS * COUNT_ITEMS;
    const Key low = ~Key(0) >> (sizeof(Key) * 8 - bits);
    for (uint32_t first = blockIdx.x * tile + threadIdx.x; first < len; first += gridDim.x * tile) {
        Key own[COUNT_ITEMS];
#pragma unroll
        for (uint32_t i = 0; i < COUNT_ITEMS; i++) {
            uint32_t at = first + i * COUNT_THREADS;
            own[i] = at < len ? keys[at] & low : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < COUNT_ITEMS; i++) {
            if (first + i * COUNT_THREADS >= len) break;
            for (uint32_t pass = 0; pass < passes; pass++) {
                uint32_t digit = uint32_t(own[i] >> (pass * width)) & ((1u << width) - 1);
                atomicAdd(&copies[(pass * DIGITS + digit) * COPIES + copy], 1u);
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < passes * DIGITS; i += COUNT_THREADS) {
        uint32_t sum = 0;
        for (uint32_t j = 0; j < COPIES; j++) sum += copies[i * COPIES + j];
        if (sum > 0) atomicAdd(&counts[i], sum);
    }
}

// Returns the lanes with the same digit.
__device__ __forceinline__ uint32_t lanes_with(uint32_t digit) {
    uint32_t same = FULL_WARP;
#pragma unroll
    for (uint32_t bit = 0; bit < 8; bit++) {
        bool set = (digit >> bit & 1) != 0;
        uint32_t lanes = __ballot_sync(FULL_WARP, set);
        same &= set ? lanes : ~lanes;
    }
    return same;
}

// Moves all pairs to the places that their digits determine, in order. `values` may be 0: then
// there are only keys. `counts` are those of this pass; `counter` and the words of `states` (a
// row of DIGITS per tile) are 0 before the launch. The words of `next` become 0, for the pass
// after this one.
template <class Key>
__device__ __forceinline__ void sort_digit(const Key* __restrict__ keys, const uint32_t* __restrict__ values, Key* __restrict__ keys_out,
                                           uint32_t* __restrict__ values_out, uint32_t len, uint32_t shift, uint32_t mask,
                                           const uint32_t* __restrict__ counts, uint32_t* counter, uint32_t* states, uint32_t* next) {
    constexpr uint32_t N = ITEMS<Key>, TILE = THREADS * N;
    __shared__ Key sorted[TILE];
    // For each warp and digit: at first the number of the warp's pairs with the digit, later the
    // place in the tile of the first of them.
    __shared__ uint32_t places[WARPS * DIGITS];
    // Place in the output of the tile's first pair with the digit, less its place in the tile.
    __shared__ uint32_t targets[DIGITS];
    __shared__ uint32_t scratch[32];
    const uint32_t thread = threadIdx.x;
    uint32_t* const mine = places + warp_id() * DIGITS;
    for (uint32_t i = lane_id(); i < DIGITS; i += WARP) mine[i] = 0;
    const uint32_t tile = next_tile(counter), start = tile * TILE, valid = len - start < TILE ? len - start : TILE;
    const uint32_t from = warp_id() * N * WARP + lane_id();

    // Beyond the end there are keys with the largest digit. They are the last of the last tile,
    // so the order puts them behind all others, and no block looks back at their counts.
    Key own[N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++) own[i] = from + i * WARP < valid ? keys[start + from + i * WARP] : ~Key(0);
    auto digit_of = [=](Key key) { return uint32_t(key >> shift) & mask; };

    uint32_t place[N];
    const uint32_t lower = (1u << lane_id()) - 1;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t digit = digit_of(own[i]), same = lanes_with(digit), before = mine[digit];
        // All lanes have read before one lane of each digit writes, and it has written before the
        // next round reads.
        __syncwarp();
        if (same >> lane_id() == 1) mine[digit] = before + __popc(same);
        __syncwarp();
        // The place is below 2^16, so that one register holds it and the digit.
        place[i] = (before + __popc(same & lower)) | digit << 16;
    }
    __syncthreads();

    uint32_t sum = 0;
    if (thread < DIGITS) {
#pragma unroll
        for (uint32_t w = 0; w < WARPS; w++) sum += places[w * DIGITS + thread];
        // Publish as early as possible: other blocks wait for it.
        if (tile > 0) publish(states + tile * DIGITS + thread, sum + 1);
        if (next != nullptr) next[tile * DIGITS + thread] = 0;
    }
    uint32_t total, before = 0;
    if (tile == 0) {
        // The first tile begins where the digit begins in the output; the sums that other tiles
        // find contain that.
        before = block_exclusive_sum(thread < DIGITS ? counts[thread] : 0u, scratch, total);
        if (thread < DIGITS) publish(states + thread, UP_TO_HERE | (before + sum));
        __syncthreads();
    }
    const uint32_t first = block_exclusive_sum(sum, scratch, total);
    if (thread < DIGITS) {
        uint32_t at = first;
#pragma unroll
        for (uint32_t w = 0; w < WARPS; w++) {
            const uint32_t count = places[w * DIGITS + thread];
            places[w * DIGITS + thread] = at;
            at += count;
        }
    }
    __syncthreads();

#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        place[i] = (place[i] & 0xffff) + mine[place[i] >> 16];
        sorted[place[i]] = own[i];
    }
    // Load the values while the block looks back.
    uint32_t own_values[N];
    if (values != nullptr) {
#pragma unroll
        for (uint32_t i = 0; i < N; i++) own_values[i] = from + i * WARP < valid ? values[start + from + i * WARP] : 0;
    }
    if (thread < DIGITS) {
        if (tile > 0) {
            before = look_back<LOOK>(states + thread, DIGITS, tile);
            publish(states + tile * DIGITS + thread, UP_TO_HERE | (before + sum));
        }
        targets[thread] = before - first;
    }
    __syncthreads();

    // Four digits per word, for the values.
    uint32_t digits[(N + 3) / 4] = {};
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t at = i * THREADS + thread;
        if (at >= valid) continue;
        const Key key = sorted[at];
        const uint32_t digit = digit_of(key);
        keys_out[targets[digit] + at] = key;
        digits[i / 4] |= digit << (i % 4 * 8);
    }
    if (values == nullptr) return;
    __syncthreads();
    uint32_t* const sorted_values = reinterpret_cast<uint32_t*>(sorted);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) sorted_values[place[i]] = own_values[i];
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t at = i * THREADS + thread;
        if (at < valid) values_out[targets[digits[i / 4] >> (i % 4 * 8) & 255] + at] = sorted_values[at];
    }
}

#define RADIX_SORT_KERNELS(suffix, Key)                                                                                                                \
    extern "C" __global__ void __launch_bounds__(COUNT_THREADS)                                                                                        \
        radix_count_##suffix(const Key* __restrict__ keys, uint32_t len, uint32_t passes, uint32_t width, uint32_t bits, uint32_t* __restrict__ counts) { \
        count_digits<Key>(keys, len, passes, width, bits, counts);                                                                                     \
    }                                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                                                           \
        radix_pass_##suffix(const Key* __restrict__ keys, const uint32_t* __restrict__ values, Key* __restrict__ keys_out,                             \
                            uint32_t* __restrict__ values_out, uint32_t len, uint32_t shift, uint32_t mask, const uint32_t* __restrict__ counts,       \
                            uint32_t* counter, uint32_t* states, uint32_t* next) {                                                                     \
        sort_digit<Key>(keys, values, keys_out, values_out, len, shift, mask, counts, counter, states, next);                                          \
    }

RADIX_SORT_KERNELS(u32, uint32_t)
RADIX_SORT_KERNELS(u64, uint64_t)
