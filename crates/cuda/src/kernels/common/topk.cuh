// The best k of the keys that a warp, or a block of threads, finds: a buffer with a threshold.
// When the buffer is full, it is sorted, the best k stay, and the threshold rises to the worst of
// them.
#pragma once

#include "types.cuh"

// Bitonic sort, largest first; `size` is a power of two. The caller is thread `member` of
// `members`, which `meet` at a barrier.
template <class F>
__device__ __forceinline__ void sort_keys(uint64_t* keys, uint32_t size, uint32_t member, uint32_t members, F meet) {
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t stride = run / 2; stride > 0; stride /= 2) {
            for (uint32_t i = member; i < size / 2; i += members) {
                uint32_t at = 2 * i - (i & (stride - 1));
                uint64_t a = keys[at], b = keys[at + stride];
                COUNTED(moved(&keys[at]), moved(&keys[at + stride]);)
                if ((a < b) == ((at & run) == 0)) {
                    COUNTED(moved(&keys[at]), moved(&keys[at + stride]);)
                    keys[at] = b;
                    keys[at + stride] = a;
                }
            }
            meet();
        }
    }
}

struct MeetWarp {
    __device__ void operator()() const { __syncwarp(); }
};

struct MeetBlock {
    __device__ void operator()() const { __syncthreads(); }
};

// The best keys of a warp. Its lanes hold up to 32 keys, best first; more keys are in a buffer
// that is sorted when it is full. With FEW there are never more than 32, and the code for the
// buffer is compiled away.
template <bool FEW>
struct KeysOfWarp {
    uint64_t* keys;
    uint32_t capacity;  // of the buffer: a power of two, at least k + 32
    uint32_t k;
    uint64_t threshold;  // the same in every lane, as is `count`
    uint32_t count;
    uint64_t mine;

    __device__ KeysOfWarp(uint64_t* keys, uint32_t capacity, uint32_t k, uint64_t least)
        : keys(keys), capacity(capacity), k(k), threshold(least), count(0), mine(0) {}

    __device__ bool is_few() const { return FEW || k <= WARP; }

    // Takes the keys of those lanes whose key is above the threshold. A key of 0 means no key.
    // Called by all lanes.
    __device__ void offer(uint64_t key) {
        uint32_t takers = __ballot_sync(FULL_WARP, key > threshold);
        if (is_few()) {
            while (takers != 0) {
                uint64_t one = __shfl_sync(FULL_WARP, key, __ffs(takers) - 1);
                takers &= takers - 1;
                uint32_t rank = __popc(__ballot_sync(FULL_WARP, mine > one));
                uint64_t before = __shfl_up_sync(FULL_WARP, mine, 1);
                if (lane_id() == rank) mine = one;
                else if (lane_id() > rank) mine = before;
                if (count < k) count++;
                uint64_t worst = __shfl_sync(FULL_WARP, mine, k - 1);
                if (worst > threshold) threshold = worst;
                takers &= __ballot_sync(FULL_WARP, key > threshold);
            }
            return;
        }
        if (takers == 0) return;
        if (count + WARP > capacity) {
            compact();
            takers = __ballot_sync(FULL_WARP, key > threshold);
        }
        if (key > threshold) keys[count + __popc(takers & ((1u << lane_id()) - 1))] = key;
        COUNTED(if (key > threshold) moved(&keys[count + __popc(takers & ((1u << lane_id()) - 1))]);)
        count += __popc(takers);
        __syncwarp();
    }

    // Sorts the buffer, keeps the best k and raises the threshold.
    __device__ void compact() {
        uint32_t size = 1;
        while (size < count) size *= 2;
        for (uint32_t i = count + lane_id(); i < size; i += WARP) keys[i] = 0;
        COUNTED(for (uint32_t i = count + lane_id(); i < size; i += WARP) moved(&keys[i]);)
        __syncwarp();
        sort_keys(keys, size, lane_id(), WARP, MeetWarp());
        if (count >= k) {
            count = k;
            if (keys[k - 1] > threshold) threshold = keys[k - 1];
        }
        __syncwarp();
    }

    // Sorts the keys and returns how many of them can still be among the best k of the query:
    // those that reach the threshold, which the worst of the best k equals.
    __device__ uint32_t close() {
        if (is_few()) return __popc(__ballot_sync(FULL_WARP, lane_id() < count && mine >= threshold));
        compact();
        uint32_t kept = 0, some = WARP;
        for (uint32_t first = 0; first < count && some == WARP; first += WARP) {
            uint32_t i = first + lane_id();
            some = __popc(__ballot_sync(FULL_WARP, i < count && keys[i] >= threshold));
            kept += some;
        }
        return kept;
    }

    // Writes the best `kept` keys, after `close`.
    __device__ void write(uint64_t* out, uint32_t kept) const {
        for (uint32_t i = lane_id(); i < kept; i += WARP) out[i] = is_few() ? mine : keys[i];
        COUNTED(for (uint32_t i = lane_id(); i < kept; i += WARP) moved(&out[i]);)
        COUNTED(for (uint32_t i = lane_id(); i < kept && !is_few(); i += WARP) moved(&keys[i]);)
    }

    // Writes the keys, best first, and their number.
    __device__ void finish(uint64_t* out, uint32_t* out_count) {
        const uint32_t kept = close();
        write(out, kept);
        if (lane_id() == 0) *out_count = kept;
    }

    // Appends the keys to those that `found` counts.
    __device__ void append(uint64_t* out, uint32_t* found) {
        const uint32_t kept = close();
        if (kept == 0) return;
        uint32_t at = 0;
        if (lane_id() == 0) at = atomicAdd(found, kept);
        COUNTED(if (lane_id() == 0) moved(found);)
        write(out + __shfl_sync(FULL_WARP, at, 0), kept);
    }

    // Exchanges thresholds with the other items of the query: `known` is the value read from
    // `shared`, and `published` is the last threshold that this item wrote there.
    __device__ void share(uint64_t* shared, uint64_t known, uint64_t& published) {
        if (threshold > published && lane_id() == 0) atomicMax(shared, threshold);
        COUNTED(if (lane_id() == 0) moved(shared, threshold > published ? 2 : 1);)
        known = __shfl_sync(FULL_WARP, known, 0);
        if (known > threshold) threshold = known;
        published = threshold;
    }

    __device__ void share(uint64_t* shared, uint64_t& published) { share(shared, *reinterpret_cast<volatile uint64_t*>(shared), published); }
};

using WarpTopK = KeysOfWarp<false>;

// Counts the documents of a query by score, over all of its items. The k-th best score is thus
// known to lie in a bin or above it long before one item has found k hits. A bin is 2^shift
// scores wide, the first begins at `low`, and scores above the last bin count in the last bin.
struct Histogram {
    uint32_t* bins;  // one per lane, in global memory
    uint32_t low;
    uint32_t shift;

    // Counts a hit. Called by lanes that have the key of a hit. Each document is added once.
    __device__ void add(uint64_t key) const {
        const uint32_t score = uint32_t(key >> 32);
        const uint32_t bin = score > low ? (score - low) >> shift : 0;
        atomicAdd(&bins[bin < WARP ? bin : WARP - 1], 1u);
        COUNTED(moved(&bins[bin < WARP ? bin : WARP - 1]);)
    }

    // Reads the lane's bin.
    __device__ uint32_t read() const {
        COUNTED(moved(&bins[lane_id()]);)
        return reinterpret_cast<volatile uint32_t*>(bins)[lane_id()];
    }

    // Returns a key that the k best hits exceed. Called by all lanes, each with the count it has
    // read. If another warp is about to raise a count, the count is too small, which is safe.
    __device__ uint64_t threshold(uint32_t count, uint32_t k) const {
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            const uint32_t above = __shfl_down_sync(FULL_WARP, count, distance);
            if (lane_id() + distance < WARP) count += above;
        }
        const uint32_t reached = __ballot_sync(FULL_WARP, count >= k) & ~1u;
        if (reached == 0) return 0;
        const uint32_t bin = WARP - 1 - __clz(reached);
        return (uint64_t(low + (bin << shift)) << 32) - 1;
    }
};

struct TopKState {
    uint64_t threshold;
    uint32_t count;
};

// The best keys of a block of threads.
struct TopK {
    uint64_t* keys;
    uint32_t capacity;  // a power of two, larger than k
    uint32_t k;
    TopKState* state;  // in shared memory

    // Takes a key if it is above the threshold; returns false if the buffer is full.
    __device__ bool offer(uint64_t key) {
        if (key <= state->threshold) return true;
        uint32_t slot = atomicAdd(&state->count, 1u);
        if (slot >= capacity) return false;
        keys[slot] = key;
        COUNTED(moved(&keys[slot]);)
        return true;
    }

    // Offers an array of keys, AT_ONCE per thread at a time, so that loads overlap. No hit has
    // key 0. Called by the whole block.
    template <uint32_t AT_ONCE>
    __device__ void take(const uint64_t* from, uint32_t len) {
        for (uint32_t first = threadIdx.x; first - threadIdx.x < len; first += AT_ONCE * blockDim.x) {
            uint64_t key[AT_ONCE];
#pragma unroll
            for (uint32_t j = 0; j < AT_ONCE; j++) key[j] = first + j * blockDim.x < len ? from[first + j * blockDim.x] : 0;
            COUNTED(for (uint32_t j = 0; j < AT_ONCE; j++) if (first + j * blockDim.x < len) moved(&from[first + j * blockDim.x]);)
            while (true) {
                bool pending = false;
#pragma unroll
                for (uint32_t j = 0; j < AT_ONCE; j++) {
                    if (key[j] != 0 && offer(key[j])) key[j] = 0;
                    pending |= key[j] != 0;
                }
                if (!__syncthreads_or(pending)) break;
                compact();
            }
        }
        __syncthreads();
        compact();
    }

    // Sorts, keeps the best k and raises the threshold. Called by the whole block after a
    // barrier. Ends with a barrier.
    __device__ void compact() {
        uint32_t found = state->count < capacity ? state->count : capacity;
        uint32_t size = 1;
        while (size < found) size *= 2;
        for (uint32_t i = found + threadIdx.x; i < size; i += blockDim.x) keys[i] = 0;
        COUNTED(for (uint32_t i = found + threadIdx.x; i < size; i += blockDim.x) moved(&keys[i]);)
        __syncthreads();
        sort_keys(keys, size, threadIdx.x, blockDim.x, MeetBlock());
        if (threadIdx.x == 0) {
            state->count = found < k ? found : k;
            if (found >= k && keys[k - 1] > state->threshold) state->threshold = keys[k - 1];
        }
        __syncthreads();
    }
};
