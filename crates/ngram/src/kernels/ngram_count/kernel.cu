// Counts, for one query and one range of parts per block of threads, in how many of the query's
// shortest lists each part is. Parts that are in enough of them become candidates. A thread has
// the counters of 128 parts, whose bits lie in one register for 32 parts each, so that bitmaps
// are added without looking at their bits.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t MOST_COUNTED = 127;
// Bits of a counter.
constexpr uint32_t PLANES = 7;
// Lists that are added at the same time. There are more warps.
constexpr uint32_t GROUPED = 7;

struct Found {
    uint64_t keys;      // uint64_t: part, query and count
    uint64_t rooms;     // Room per range and query
    uint64_t count;     // uint32_t: number of candidates; the array is always large enough
    uint64_t of_query;  // uint32_t per query: candidates found, even if the query was given up
    uint32_t most_of_query;  // a query with more is given up
    uint32_t unused;
};

// Allocates space for the candidates that a block of threads found, and returns the first slot,
// or `NONE` if the query is given up. One thread requests all of it, as each addition to the same
// number waits for the one before.
__device__ __forceinline__ uint32_t room_for(const Found& found, uint32_t query, uint32_t candidates) {
    uint32_t* own = reinterpret_cast<uint32_t*>(found.of_query) + query;
    if (atomicAdd(own, candidates) + candidates > found.most_of_query) return NONE;
    return atomicAdd(reinterpret_cast<uint32_t*>(found.count), candidates);
}

// Returns the same as `blocks_before` for a part whose block is `from` or not far behind it.
__device__ __forceinline__ uint32_t blocks_before_near(const Image& image, const MapList& list, uint32_t part, uint32_t from) {
    const uint32_t at = from + 1 + lane_id();
    const bool smaller = at < list.blocks && __ldg(reinterpret_cast<const uint32_t*>(image.befores) + list.first + at) < part;
    const uint32_t blocks = __popc(__ballot_sync(FULL_WARP, smaller));
    return blocks < WARP ? from + blocks : blocks_before(image, list, part);
}

// Adds three bits in each position.
__device__ __forceinline__ void add_bits(uint32_t a, uint32_t b, uint32_t c, uint32_t& low, uint32_t& high) {
    low = a ^ b ^ c;
    high = (a & b) | (c & (a ^ b));
}

// Counters of 32 parts: bit i of plane p is bit p of the counter of part i.
struct Counters {
    uint32_t planes[PLANES];

    // Adds 2^p to the counters of these parts.
    template <uint32_t p>
    __device__ __forceinline__ void add(uint32_t bits) {
#pragma unroll
        for (uint32_t i = p; i < PLANES; i++) {
            const uint32_t carry = planes[i] & bits;
            planes[i] ^= bits;
            bits = carry;
        }
    }

    __device__ __forceinline__ void add_group(const uint32_t x[GROUPED]) {
        uint32_t sums[3], carries[3], twos, fours;
        add_bits(x[0], x[1], x[2], sums[0], carries[0]);
        add_bits(x[3], x[4], x[5], sums[1], carries[1]);
        add_bits(sums[0], sums[1], x[6], sums[2], carries[2]);
        add_bits(carries[0], carries[1], carries[2], twos, fours);
        add<0>(sums[2]);
        add<1>(twos);
        add<2>(fours);
    }

    // The parts whose counters are at least `enough`.
    __device__ __forceinline__ uint32_t at_least(uint32_t enough) const {
        uint32_t found = 0xffffffffu;
#pragma unroll
        for (uint32_t i = 0; i < PLANES; i++) found = (enough >> i & 1) != 0 ? planes[i] & found : planes[i] | found;
        return found;
    }

    __device__ __forceinline__ uint32_t of(uint32_t part) const {
        uint32_t count = 0;
#pragma unroll
        for (uint32_t i = 0; i < PLANES; i++) count |= (planes[i] >> part & 1) << i;
        return count;
    }
};

// Four words of a bitmap.
__device__ __forceinline__ uint4 load_quad(uint64_t at) {
    if (at % 16 == 0) return __ldg(reinterpret_cast<const uint4*>(at));
    return make_uint4(load_u32(at), load_u32(at + 4), load_u32(at + 8), load_u32(at + 12));
}

// Sets the bits of the parts of some lists without bitmaps, from number `from` on, in bitmaps in
// shared memory.
__device__ __forceinline__ void set_bits(const Image& image, const Own& own, uint32_t from, uint32_t lists, uint32_t start, uint32_t end, uint32_t words, uint32_t* bits) {
    // The first block of each list in the range, and how many blocks the lists before it have
    // there.
    __shared__ uint32_t firsts[GROUPED], before[GROUPED + 1];
    if (threadIdx.x == 0) before[0] = 0;
    for (uint32_t i = threadIdx.x; i < lists * words; i += THREADS) bits[i] = 0;
    if (warp_id() < lists) {
        const MapList& list = own[from + warp_id()];
        const uint32_t first = blocks_before(image, list, start), last = blocks_before_near(image, list, end - 1, first);
        if (lane_id() == 0) {
            firsts[warp_id()] = list.first + first;
            before[warp_id() + 1] = last + 1 - first;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < lists; i++) before[i + 1] += before[i];
    }
    __syncthreads();
    const uint64_t* heads = reinterpret_cast<const uint64_t*>(image.heads);
    const uint32_t* befores = reinterpret_cast<const uint32_t*>(image.befores);
    for (uint32_t item = warp_id(), i = 0; item < before[lists]; item += THREADS / WARP) {
        while (before[i + 1] <= item) i++;
        const uint32_t number = firsts[i] + item - before[i];
        uint32_t parts[4];
        decode(Head(image.file, __ldg(heads + number)), __ldg(befores + number), parts);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t at = parts[j] - start;
            if (parts[j] < end && parts[j] >= start) atomicOr(&bits[i * words + at / 32], 1u << at % 32);
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) ngram_count(const Query* queries, const uint32_t* ordinals, Image image, uint32_t range_bits, uint32_t ranges, Found found) {
    // Bitmaps of lists that have none.
    DYNAMIC_SHARED(uint32_t, bits);
    __shared__ uint64_t bitmaps[MOST_COUNTED + GROUPED];
    const uint32_t number = blockIdx.x / ranges, start = (blockIdx.x % ranges) << range_bits, words = (1u << range_bits) / 32;
    const uint32_t end = image.parts - start < words * 32 ? image.parts : start + words * 32;
    const Query query = queries[number];
    // Other blocks may give the query up at this moment, so one thread checks for all: they must
    // leave together.
    __shared__ bool given_up;
    if (threadIdx.x == 0) given_up = *reinterpret_cast<volatile uint32_t*>(reinterpret_cast<uint32_t*>(found.of_query) + number) > found.most_of_query;
    const Own own(image, ordinals, query);
    const uint32_t sparse = min(query.counted, query.bitmaps);
    for (uint32_t i = sparse + threadIdx.x; i < query.counted; i += THREADS) bitmaps[i - sparse] = own[i].bitmaps + start / 8;
    __syncthreads();
    if (given_up) return;
    // A thread has the counters of four words.
    const uint32_t mine = 4 * threadIdx.x;
    const bool has_any = mine < words && start + 32 * mine < end;
    Counters counters[4] = {};
    for (uint32_t from = 0; from < sparse; from += GROUPED) {
        const uint32_t lists = min(sparse - from, GROUPED);
        set_bits(image, own, from, lists, start, end, words, bits);
        if (has_any) {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                uint32_t x[GROUPED];
#pragma unroll
                for (uint32_t i = 0; i < GROUPED; i++) x[i] = i < lists ? bits[i * words + mine + j] : 0;
                counters[j].add_group(x);
            }
        }
        __syncthreads();
    }
    if (has_any) {
        for (uint32_t from = 0; from < query.counted - sparse; from += GROUPED) {
            uint4 quads[GROUPED];
#pragma unroll
            for (uint32_t i = 0; i < GROUPED; i++) quads[i] = from + i < query.counted - sparse ? load_quad(bitmaps[from + i] + 4 * mine) : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                uint32_t x[GROUPED];
#pragma unroll
                for (uint32_t i = 0; i < GROUPED; i++) x[i] = j == 0 ? quads[i].x : j == 1 ? quads[i].y : j == 2 ? quads[i].z : quads[i].w;
                counters[j].add_group(x);
            }
        }
    }
    uint32_t reached[4], candidates = 0;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        // Bins are whole: four words may reach behind the last part, but not behind the bitmap,
        // as there are eight in a bin.
        const uint32_t at = start + 32 * (mine + j);
        reached[j] = has_any && at < end ? counters[j].at_least(query.enough) & mask_of(end - at) : 0;
        candidates += __popc(reached[j]);
    }
    __shared__ uint32_t sums[32], first;
    uint32_t all;
    uint32_t slot = block_exclusive_sum(candidates, sums, all);
    if (all == 0) return;
    if (threadIdx.x == 0) {
        first = room_for(found, number, all);
        if (first != NONE) reinterpret_cast<Room*>(found.rooms)[blockIdx.x % ranges * (gridDim.x / ranges) + number] = Room{first, all};
    }
    __syncthreads();
    if (first == NONE) return;
    uint64_t* keys = reinterpret_cast<uint64_t*>(found.keys) + first;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        for (uint32_t rest = reached[j]; rest != 0; rest &= rest - 1) {
            const uint32_t i = __ffs(rest) - 1;
            keys[slot++] = uint64_t(start + 32 * (mine + j) + i) << 32 | number << 8 | counters[j].of(i);
        }
    }
}
