// Makes lists of tiles (`tiles.cuh`) from compressed lists, in steps: find the postings that
// begin tiles, find the starts of the tiles, and fill them.
//
// A step processes many lists at once. It makes tiles `first_tile` to `end_tile`, which may be
// all; their numbers count from the first document of the image, `origin`. A sparse list counts
// as one tile of all documents. Whatever the lists' bytes are, nothing is written outside of the
// targets: if a list is malformed, `failed` is set, and all lists become empty.
#include "packed.cuh"
#include "valuer.cuh"
#include "warp.cuh"

constexpr uint32_t FOUR = 4;
constexpr uint32_t FILL = 0x8000;

// Warps in a block of threads that decode.
constexpr uint32_t DECODERS = 4;

// Threads of a block that finds the starts of a list's tiles.
constexpr uint32_t START_THREADS = 256;

// The destination of a list. Arrays begin with tile `first_tile`.
struct Target {
    uint64_t docs;    // as in `tiles.cuh`, like the next five
    uint64_t values;
    uint64_t roughs;
    uint64_t starts;  // 0: the list is sparse
    uint64_t peaks;
    uint64_t filter;
    // uint32_t, one per tile and one more: the first posting that is not before the tile
    uint64_t raws;
    uint32_t room;  // capacity in postings, with padding
    uint32_t filter_shift;
};

// Some blocks of a list.
struct Unit {
    uint32_t list;
    uint32_t block;
    uint32_t blocks;
    uint32_t unused;
};

struct Job {
    uint64_t lists;    // PackedList, one per target
    uint64_t targets;  // Target
    // uint32_t: 1 if a list is malformed, or at least 2: a frequency that has no logarithm
    uint64_t failed;
    uint32_t docs;     // of the segment
    uint32_t origin;
    uint32_t limit;  // the first document behind the image
    uint32_t bits;   // binary logarithm of the documents in a tile
    uint32_t first_tile;
    uint32_t end_tile;
    uint32_t dense;  // number of dense lists, which come first
    uint32_t unused;
};

__device__ __forceinline__ const PackedList& list_of(const Job& job, uint32_t list) { return reinterpret_cast<const PackedList*>(job.lists)[list]; }
__device__ __forceinline__ const Target& target_of(const Job& job, uint32_t list) { return reinterpret_cast<const Target*>(job.targets)[list]; }
__device__ __forceinline__ uint32_t* failed_of(const Job& job) { return reinterpret_cast<uint32_t*>(job.failed); }
__device__ __forceinline__ bool has_failed(const Job& job) { return *reinterpret_cast<volatile uint32_t*>(job.failed) == 1; }
// Returns the same answer for all lanes, even if another warp fails at this moment.
__device__ __forceinline__ bool has_failed_for_warp(const Job& job) { return __shfl_sync(FULL_WARP, uint32_t(has_failed(job)), 0) != 0; }

// The tiles of a list: all of the job, or one for a sparse list.
struct Tiles {
    int32_t first;
    int32_t end;
    uint32_t bits;
    uint32_t origin;
    uint32_t limit;

    __device__ static Tiles of(const Job& job, const Target& target) {
        if (target.starts == 0) return Tiles{0, 1, 31, job.origin, job.limit};
        return Tiles{int32_t(job.first_tile), int32_t(job.end_tile), job.bits, job.origin, job.limit};
    }

    // Returns -1 for documents before the image, and the largest number for documents behind it.
    __device__ int32_t tile(uint32_t doc) const { return doc < origin ? -1 : doc >= limit ? 0x7fffffff : int32_t((doc - origin) >> bits); }
};

// Gets the work of this warp; false if there is none.
__device__ __forceinline__ bool unit_of(const Unit* units, uint32_t count, Unit& unit) {
    const uint32_t at = blockIdx.x * (blockDim.x / WARP) + warp_id();
    if (at >= count) return false;
    unit = units[at];
    return true;
}

// Finds the first posting of each tile. A posting is the first of all tiles from behind that of
// the posting before it up to its own; the end of the list is that of all tiles behind its last
// posting.
extern "C" __global__ void __launch_bounds__(DECODERS * WARP) mark_tiles(Job job, const Unit* units, uint32_t count) {
    Unit unit;
    if (!unit_of(units, count, unit)) return;
    const PackedList list = list_of(job, unit.list);
    const Target target = target_of(job, unit.list);
    const Tiles tiles = Tiles::of(job, target);
    uint32_t* raws = reinterpret_cast<uint32_t*>(target.raws);
    const uint32_t lane = lane_id();
    for (uint32_t number = unit.block; number < unit.block + unit.blocks; number++) {
        PackedBlock block;
        uint32_t docs[4];
        if (!find_block(list, number, block) || !decode_docs(list, block, job.docs, docs)) {
            if (lane == 0) *failed_of(job) = 1;
            return;
        }
        uint32_t before = __shfl_up_sync(FULL_WARP, docs[3], 1);
        int32_t last = tiles.tile(before);
        // A short list has no skip array: its first block is its only one.
        if (lane == 0) last = number == 0 ? -1 : tiles.tile(block.before);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t i = 4 * lane + j;
            if (i >= block.n) break;
            const int32_t tile = tiles.tile(docs[j]);
            const int32_t from = max(min(last, tiles.end) + 1, tiles.first), to = min(tile, tiles.end);
            for (int32_t t = from; t <= to; t++) raws[t - tiles.first] = number * BLOCK + i;
            last = tile;
            if (number * BLOCK + i + 1 == list.df) {
                for (int32_t t = max(to + 1, tiles.first); t <= tiles.end; t++) raws[t - tiles.first] = list.df;
            }
        }
    }
}

// Finds the starts of tiles, in groups of four postings: a block of threads for each list. Writes
// the number of postings of each list, with padding, to `totals`.
extern "C" __global__ void __launch_bounds__(START_THREADS) start_tiles(Job job, uint32_t* totals) {
    __shared__ uint32_t scratch[32];
    const Target target = target_of(job, blockIdx.x);
    uint32_t* raws = reinterpret_cast<uint32_t*>(target.raws);
    if (target.starts == 0) {
        if (threadIdx.x == 0) {
            if (has_failed(job)) raws[0] = raws[1] = 0;
            totals[blockIdx.x] = raws[1] - raws[0];
        }
        return;
    }
    const bool failed = has_failed(job);
    uint32_t* starts = reinterpret_cast<uint32_t*>(target.starts);
    const uint32_t tiles = job.end_tile - job.first_tile;
    uint32_t before = 0;
    for (uint32_t first = 0; first < tiles; first += blockDim.x) {
        const uint32_t tile = first + threadIdx.x;
        const uint32_t groups = tile < tiles && !failed ? (raws[tile + 1] - raws[tile] + FOUR - 1) / FOUR : 0;
        uint32_t total;
        const uint32_t start = before + block_exclusive_sum(groups, scratch, total);
        if (tile < tiles) starts[tile] = start;
        before += total;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        starts[tiles] = before;
        totals[blockIdx.x] = before * FOUR;
    }
}

// The arrays that `fill_tiles` writes.
constexpr uint32_t PLACES = 1;
constexpr uint32_t VALUES = 2;

// Writes postings to their places: documents and filters, values, or both.
extern "C" __global__ void __launch_bounds__(DECODERS * WARP) fill_tiles(Job job, Valuer valuer, const Unit* units, uint32_t count, uint32_t what) {
    __shared__ uint32_t all_docs[DECODERS][BLOCK], all_freqs[DECODERS][BLOCK];
    Unit unit;
    if (!unit_of(units, count, unit) || has_failed_for_warp(job)) return;
    uint32_t* docs = all_docs[warp_id()];
    uint32_t* freqs = all_freqs[warp_id()];
    const PackedList list = list_of(job, unit.list);
    const Target target = target_of(job, unit.list);
    const Tiles tiles = Tiles::of(job, target);
    const bool dense = target.starts != 0;
    const uint32_t* raws = reinterpret_cast<const uint32_t*>(target.raws);
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(target.starts);
    uint16_t* positions = reinterpret_cast<uint16_t*>(target.docs);
    float* values = reinterpret_cast<float*>(target.values);
    uint16_t* roughs = reinterpret_cast<uint16_t*>(target.roughs);
    uint32_t* filter = reinterpret_cast<uint32_t*>(target.filter);
    const uint32_t lane = lane_id(), first_bit = dense ? (job.first_tile << job.bits) >> target.filter_shift : 0;
    for (uint32_t number = unit.block; number < unit.block + unit.blocks; number++) {
        PackedBlock block;
        uint32_t own[4];
        bool sound = find_block(list, number, block) && decode_docs(list, block, job.docs, own);
        __syncwarp();
        if (sound && (what & VALUES) != 0) sound = decode_freqs(list, block, freqs);
        if (!sound) {
            if (lane == 0) *failed_of(job) = 1;
            return;
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) docs[4 * lane + j] = own[j];
        __syncwarp();
        for (uint32_t j = 0; j < BLOCK / WARP; j++) {
            const uint32_t i = j * WARP + lane, posting = number * BLOCK + i;
            if (i >= block.n) break;
            const uint32_t doc = docs[i];
            const int32_t tile = tiles.tile(doc);
            if (tile < tiles.first || tile >= tiles.end) continue;
            const uint32_t t = tile - tiles.first;
            const uint32_t at = (dense ? starts[t] * FOUR : 0) + posting - raws[t];
            if (at >= target.room) continue;
            float value = 0.0f;
            if ((what & VALUES) != 0) {
                const uint32_t freq = max(freqs[i], 1u);
                if (valuer.formula == COSINE && freq >= valuer.log_count) {
                    atomicMax(failed_of(job), freq);
                    continue;
                }
                value = value_of(valuer, freq, factor_of(valuer, doc));
                values[at] = value;
                if (dense) roughs[at] = uint16_t(rough_of(valuer, value));
            }
            if ((what & PLACES) != 0) {
                if (dense) {
                    positions[at] = uint16_t((doc - job.origin) & (FILL - 1));
                    const uint32_t bit = ((doc - job.origin) >> target.filter_shift) - first_bit;
                    atomicOr(&filter[bit / 32], 1u << (bit % 32));
                } else {
                    reinterpret_cast<uint32_t*>(target.docs)[at] = doc - job.origin;
                }
            }
            // The last posting of a tile is followed by padding up to a whole group.
            if (!dense || raws[t + 1] != posting + 1) continue;
            for (uint32_t pad = at + 1; pad % FOUR != 0 && pad < target.room; pad++) {
                if ((what & PLACES) != 0) positions[pad] = FILL;
                if ((what & VALUES) != 0) {
                    values[pad] = 0.0f;
                    roughs[pad] = 0;
                }
            }
        }
        __syncwarp();
    }
}

// Finds the largest rough value of each tile of the dense lists: a warp for 32 tiles of a list.
extern "C" __global__ void __launch_bounds__(WARP) peak_tiles(Job job) {
    const uint32_t tiles = job.end_tile - job.first_tile, per_list = (tiles + WARP - 1) / WARP;
    const Target target = target_of(job, blockIdx.x / per_list);
    const uint32_t first = blockIdx.x % per_list * WARP, lane = lane_id();
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(target.starts);
    const ushort4* roughs = reinterpret_cast<const ushort4*>(target.roughs);
    uint16_t* peaks = reinterpret_cast<uint16_t*>(target.peaks);
    const uint32_t begin = starts[min(first + lane, tiles)], end = starts[min(first + lane + 1, tiles)];
    const auto peak_of = [&](uint32_t group) -> uint32_t {
        const ushort4 four = roughs[group];
        return max(max(uint32_t(four.x), uint32_t(four.y)), max(uint32_t(four.z), uint32_t(four.w)));
    };
    uint32_t peak = 0;
    if (warp_sum(end - begin) <= 8 * WARP) {
        for (uint32_t group = begin; group < end; group++) peak = max(peak, peak_of(group));
    } else {
        for (uint32_t i = 0; i < WARP; i++) {
            const uint32_t from = __shfl_sync(FULL_WARP, begin, i), to = __shfl_sync(FULL_WARP, end, i);
            uint32_t most = 0;
            for (uint32_t group = from + lane; group < to; group += WARP) most = max(most, peak_of(group));
            most = warp_max(most);
            if (lane == i) peak = most;
        }
    }
    if (first + lane < tiles) peaks[first + lane] = uint16_t(peak);
}

// Ranks whose values are kept, and their number.
constexpr uint32_t FIRST_RANK = 10;
constexpr uint32_t SECOND_RANK = 100;
constexpr uint32_t THIRD_RANK = 1000;
constexpr uint32_t RANKS = 3;

// Maximum number of threads of a block that finds the best values of a list.
constexpr uint32_t BEST_THREADS = 1024;

// Digits of a value's bits: 11, 10 and 10 of 31, since no value is negative.
constexpr uint32_t BINS = 2048;

// Groups of four values that a thread loads at once.
constexpr uint32_t LOADS = 4;

// Minimum number of tiles for which a list's peaks are read before its values.
constexpr uint32_t MANY_TILES = 1024;

// Calls `take` with the bits of each live document's value, by all threads of a block; padding
// has 0, which is below all values. Tiles whose peak is below `least` may be left out.
template <class F>
__device__ __forceinline__ void each_live_value(const Job& job, const Target& target, uint32_t count, const uint32_t* deleted, uint32_t least, F take) {
    const float* values = reinterpret_cast<const float*>(target.values);
    const float4* fours = reinterpret_cast<const float4*>(target.values);
    if (deleted == nullptr && least > 0) {
        const uint32_t* starts = reinterpret_cast<const uint32_t*>(target.starts);
        const uint16_t* peaks = reinterpret_cast<const uint16_t*>(target.peaks);
        const uint32_t tiles = job.end_tile - job.first_tile;
        for (uint32_t tile = warp_id(); tile < tiles; tile += blockDim.x / WARP) {
            if (peaks[tile] < least) continue;
            for (uint32_t group = starts[tile] + lane_id(); group < starts[tile + 1]; group += WARP) {
                const float4 four = fours[group];
                take(__float_as_uint(four.x));
                take(__float_as_uint(four.y));
                take(__float_as_uint(four.z));
                take(__float_as_uint(four.w));
            }
        }
        return;
    }
    if (deleted == nullptr) {
        const uint32_t groups = count / FOUR;
        for (uint32_t first = threadIdx.x; first < groups; first += LOADS * blockDim.x) {
            float4 loaded[LOADS];
#pragma unroll
            for (uint32_t i = 0; i < LOADS; i++) {
                const uint32_t group = first + i * blockDim.x;
                loaded[i] = group < groups ? fours[group] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
#pragma unroll
            for (uint32_t i = 0; i < LOADS; i++) {
                take(__float_as_uint(loaded[i].x));
                take(__float_as_uint(loaded[i].y));
                take(__float_as_uint(loaded[i].z));
                take(__float_as_uint(loaded[i].w));
            }
        }
        for (uint32_t i = groups * FOUR + threadIdx.x; i < count; i += blockDim.x) take(__float_as_uint(values[i]));
        return;
    }
    if (target.starts == 0) {
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
            const uint32_t doc = reinterpret_cast<const uint32_t*>(target.docs)[i];
            if ((deleted[doc / 32] >> (doc % 32) & 1) == 0) take(__float_as_uint(values[i]));
        }
        return;
    }
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(target.starts);
    const ushort4* positions = reinterpret_cast<const ushort4*>(target.docs);
    const uint32_t tiles = job.end_tile - job.first_tile, low = (1u << job.bits) - 1;
    for (uint32_t tile = warp_id(); tile < tiles; tile += blockDim.x / WARP) {
        const uint32_t first = (job.first_tile + tile) << job.bits;
        for (uint32_t group = starts[tile] + lane_id(); group < starts[tile + 1]; group += WARP) {
            const ushort4 position = positions[group];
            const float4 value = fours[group];
            const uint32_t position_of[FOUR] = {position.x, position.y, position.z, position.w};
            const float value_of[FOUR] = {value.x, value.y, value.z, value.w};
#pragma unroll
            for (uint32_t i = 0; i < FOUR; i++) {
                const uint32_t doc = first + (position_of[i] & low);
                if ((position_of[i] & FILL) == 0 && (deleted[doc / 32] >> (doc % 32) & 1) == 0) take(__float_as_uint(value_of[i]));
            }
        }
    }
}

// Finds the bin that contains the value with rank `left`, counted from the largest down. `left`
// becomes the rank within that bin. Returns `bins` if there are too few values or if `left` is 0.
// Called by a warp.
__device__ uint32_t bin_of_rank(const uint32_t* histogram, uint32_t bins, uint32_t& left) {
    const uint32_t lane = lane_id(), per_lane = bins / WARP, first = (WARP - 1 - lane) * per_lane;
    uint32_t own = 0;
    // Each lane begins elsewhere, so that no two of them read the same bank.
    for (uint32_t i = 0; i < per_lane; i++) own += histogram[first + (i + lane) % per_lane];
    const uint32_t sum = warp_inclusive_sum(own), reached = __ballot_sync(FULL_WARP, left != 0 && sum >= left);
    if (reached == 0) return bins;
    const uint32_t at = __ffs(reached) - 1;
    left -= __shfl_sync(FULL_WARP, sum - own, at);
    for (uint32_t end = (WARP - at) * per_lane;; end -= WARP) {
        const uint32_t count = histogram[end - 1 - lane], sum = warp_inclusive_sum(count);
        const uint32_t reached = __ballot_sync(FULL_WARP, sum >= left);
        if (reached != 0) {
            const uint32_t bin = __ffs(reached) - 1;
            left -= __shfl_sync(FULL_WARP, sum - count, bin);
            return end - 1 - bin;
        }
        left -= __shfl_sync(FULL_WARP, sum, WARP - 1);
    }
}

// Finds the values at the ranks above among the live documents of a list, 0 if there are
// fewer: a block of threads for each list, with one pass over its values for each digit. `lists`
// are the numbers of the lists; `deleted` has one bit per document of the image, or is 0.
extern "C" __global__ void __launch_bounds__(BEST_THREADS) best_values(Job job, const uint32_t* lists, const uint32_t* totals, uint64_t deleted, float* best) {
    __shared__ uint32_t histograms[RANKS][BINS];
    __shared__ uint32_t prefixes[RANKS], lefts[RANKS];
    const uint32_t number = lists[blockIdx.x], count = totals[number];
    const Target target = target_of(job, number);
    if (threadIdx.x < RANKS) {
        prefixes[threadIdx.x] = 0;
        lefts[threadIdx.x] = threadIdx.x == 0 ? FIRST_RANK : threadIdx.x == 1 ? SECOND_RANK : THIRD_RANK;
    }
    // If as many tiles as the last rank have a peak of at least `least`, so have all values at
    // the ranks: they are in tiles with such peaks.
    uint32_t least = 0;
    if (target.starts != 0 && deleted == 0 && job.end_tile - job.first_tile >= MANY_TILES) {
        __shared__ uint32_t found_least;
        uint32_t* histogram = histograms[0];
        for (uint32_t i = threadIdx.x; i < BINS; i += blockDim.x) histogram[i] = 0;
        if (threadIdx.x == 0) found_least = 0;
        __syncthreads();
        const uint16_t* peaks = reinterpret_cast<const uint16_t*>(target.peaks);
        for (uint32_t tile = threadIdx.x; tile < job.end_tile - job.first_tile; tile += blockDim.x) atomicAdd(&histogram[peaks[tile] / 32], 1u);
        __syncthreads();
        if (warp_id() == 0) {
            uint32_t left = lefts[RANKS - 1];
            const uint32_t bin = bin_of_rank(histogram, BINS, left);
            if (lane_id() == 0 && bin < BINS) found_least = bin * 32;
        }
        __syncthreads();
        least = found_least;
        __syncthreads();
    }
    for (uint32_t digit = 0; digit < 3; digit++) {
        const uint32_t shift = 20 - 10 * digit, bins = digit == 0 ? BINS : BINS / 2, above = shift + (digit == 0 ? 11 : 10);
        const uint32_t sets = digit == 0 ? 1 : RANKS;
        for (uint32_t i = threadIdx.x; i < sets * bins; i += blockDim.x) histograms[i / bins][i % bins] = 0;
        __syncthreads();
        each_live_value(job, target, count, reinterpret_cast<const uint32_t*>(deleted), least, [&](uint32_t value) {
            if (value == 0) return;
            const uint32_t bin = value >> shift & (bins - 1);
            for (uint32_t set = 0; set < sets; set++) {
                if (digit == 0 || value >> above == prefixes[set]) atomicAdd(&histograms[set][bin], 1u);
            }
        });
        __syncthreads();
        // A warp for each rank finds the bin in which the rank lies, from the largest bin down.
        if (warp_id() < RANKS) {
            const uint32_t rank = warp_id();
            const uint32_t* histogram = histograms[digit == 0 ? 0 : rank];
            uint32_t left = lefts[rank];
            const uint32_t found = bin_of_rank(histogram, bins, left);
            __syncwarp();
            if (lane_id() == 0) {
                // A rank of 0 means that there are too few documents.
                lefts[rank] = found == bins ? 0 : left;
                prefixes[rank] = found == bins ? 0 : prefixes[rank] << (digit == 0 ? 11 : 10) | found;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x < RANKS) best[blockIdx.x * RANKS + threadIdx.x] = __uint_as_float(lefts[threadIdx.x] == 0 ? 0 : prefixes[threadIdx.x]);
}
