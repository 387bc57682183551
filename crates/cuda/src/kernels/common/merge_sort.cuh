// A stable merge sort of pairs of keys and values by any comparison. Blocks sort tiles, then each
// pass merges two sorted runs to one. Merge path divides the work evenly: a binary search finds
// where the first d pairs of the result end in the two runs.
//
// To sort by another comparison, write a source with three kernels that have these parameters,
// followed by any others that the comparison needs:
//
//     struct Less {
//         const uint8_t* text;
//         // Returns true if a comes before b.
//         __device__ bool operator()(Key a, uint32_t a_value, Key b, uint32_t b_value) const {
//             ...
//         }
//     };
//     extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
//         my_tiles(Key* keys, uint32_t* values, uint32_t len, const uint8_t* text) {
//         merge_sort_tiles(keys, values, len, Less{text});
//     }
//     extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
//         my_splits(const Key* keys, const uint32_t* values, uint32_t len, uint32_t run,
//                   uint32_t* splits, const uint8_t* text) {
//         merge_sort_splits(keys, values, len, run, splits, Less{text});
//     }
//     extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
//         my_merge(const Key* keys, const uint32_t* values, Key* keys_out, uint32_t* values_out,
//                  uint32_t len, uint32_t run, const uint32_t* splits, const uint8_t* text) {
//         merge_sort_merge(keys, values, keys_out, values_out, len, run, splits, Less{text});
//     }
//
// and pass them to `MergeSort::with_kernels`. The comparison is compiled in at about twenty
// places: its rare cases should be in a function with `__noinline__`. It sees only pairs that
// were given, never padding, so it may use values as indices. It must be a strict weak order;
// where neither of two pairs comes before the other, they stay in order.
#pragma once

#include "types.cuh"

constexpr uint32_t MERGE_SORT_THREADS = 256;
// Odd, so that threads that access every ninth pair use all banks of shared memory.
constexpr uint32_t MERGE_SORT_ITEMS = 9;
constexpr uint32_t MERGE_SORT_TILE = MERGE_SORT_THREADS * MERGE_SORT_ITEMS;

// Returns how many of the first `diagonal` pairs of the merged result come from the run `a`; the
// other ones come from the run `b`.
template <class Key, class Less>
__device__ __forceinline__ uint32_t merge_path(const Key* a, const uint32_t* a_values, uint32_t a_len, const Key* b, const uint32_t* b_values, uint32_t b_len,
                                               uint32_t diagonal, const Less& less) {
    uint32_t low = diagonal > b_len ? diagonal - b_len : 0, high = diagonal < a_len ? diagonal : a_len;
    while (low < high) {
        const uint32_t middle = (low + high) / 2, other = diagonal - 1 - middle;
        if (less(b[other], b_values[other], a[middle], a_values[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// The pairs of a tile in shared memory.
template <class Key>
struct MergeSortTile {
    Key keys[MERGE_SORT_TILE];
    uint32_t values[MERGE_SORT_TILE];
};

// Merges two neighbouring runs in shared memory that begin at `start`, by as many threads as have
// items there; this thread's part begins with pair `diagonal` of the result and goes to `keys`
// and `values`. Returns how many pairs that is.
template <class Key, class Less>
__device__ __forceinline__ uint32_t merge_part(const MergeSortTile<Key>& tile, uint32_t start, uint32_t a_len, uint32_t b_len, uint32_t diagonal,
                                               Key keys[MERGE_SORT_ITEMS], uint32_t values[MERGE_SORT_ITEMS], const Less& less) {
    const uint32_t both = a_len + b_len;
    if (diagonal >= both) return 0;
    const uint32_t middle = start + a_len, end = start + both;
    const uint32_t of_a = merge_path(tile.keys + start, tile.values + start, a_len, tile.keys + middle, tile.values + middle, b_len, diagonal, less);
    uint32_t a = start + of_a, b = middle + diagonal - of_a;
    const uint32_t part = both - diagonal < MERGE_SORT_ITEMS ? both - diagonal : MERGE_SORT_ITEMS;
#pragma unroll
    for (uint32_t i = 0; i < MERGE_SORT_ITEMS; i++) {
        if (i >= part) break;
        const bool from_b = a == middle || (b < end && less(tile.keys[b], tile.values[b], tile.keys[a], tile.values[a]));
        const uint32_t from = from_b ? b : a;
        keys[i] = tile.keys[from];
        values[i] = tile.values[from];
        if (from_b)
            b++;
        else
            a++;
    }
    return part;
}

// Writes a thread's pairs to shared memory. There are barriers before and after.
template <class Key>
__device__ __forceinline__ void put_part(MergeSortTile<Key>& tile, uint32_t at, uint32_t part, const Key keys[MERGE_SORT_ITEMS],
                                         const uint32_t values[MERGE_SORT_ITEMS]) {
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < MERGE_SORT_ITEMS; i++) {
        if (i >= part) break;
        tile.keys[at + i] = keys[i];
        tile.values[at + i] = values[i];
    }
    __syncthreads();
}

// Sorts each tile, in place.
template <class Key, class Less>
__device__ __forceinline__ void merge_sort_tiles(Key* keys, uint32_t* values, uint32_t len, const Less& less) {
    constexpr uint32_t N = MERGE_SORT_ITEMS;
    __shared__ MergeSortTile<Key> tile;
    const uint32_t start = blockIdx.x * MERGE_SORT_TILE, count = len - start < MERGE_SORT_TILE ? len - start : MERGE_SORT_TILE;
    for (uint32_t i = threadIdx.x; i < count; i += MERGE_SORT_THREADS) {
        tile.keys[i] = keys[start + i];
        tile.values[i] = values[start + i];
    }
    __syncthreads();

    // Each thread sorts its pairs, by exchanging neighbours that are in the wrong order.
    const uint32_t first = threadIdx.x * N;
    const uint32_t own = first >= count ? 0 : count - first < N ? count - first : N;
    Key own_keys[N];
    uint32_t own_values[N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        if (i >= own) break;
        own_keys[i] = tile.keys[first + i];
        own_values[i] = tile.values[first + i];
    }
#pragma unroll 1
    for (uint32_t round = 0; round < (N + 1) / 2; round++) {
#pragma unroll
        for (uint32_t odd = 0; odd < 2; odd++) {
#pragma unroll
            for (uint32_t i = odd; i + 1 < N; i += 2) {
                if (i + 1 >= own || !less(own_keys[i + 1], own_values[i + 1], own_keys[i], own_values[i])) continue;
                const Key key = own_keys[i];
                const uint32_t value = own_values[i];
                own_keys[i] = own_keys[i + 1];
                own_values[i] = own_values[i + 1];
                own_keys[i + 1] = key;
                own_values[i + 1] = value;
            }
        }
    }
    put_part(tile, first, own, own_keys, own_values);

    // Then runs are merged; the last ones may be shorter or missing.
#pragma unroll 1
    for (uint32_t run = N; run < count; run *= 2) {
        const uint32_t pair = first / (2 * run) * (2 * run);
        const uint32_t a_end = pair + run < count ? pair + run : count, b_end = pair + 2 * run < count ? pair + 2 * run : count;
        uint32_t part = 0;
        if (pair < count) part = merge_part(tile, pair, a_end - pair, b_end - a_end, first - pair, own_keys, own_values, less);
        put_part(tile, first, part, own_keys, own_values);
    }
    for (uint32_t i = threadIdx.x; i < count; i += MERGE_SORT_THREADS) {
        keys[start + i] = tile.keys[i];
        values[start + i] = tile.values[i];
    }
}

// The two runs to which a tile of the result belongs. Runs have `run` pairs, except at the end.
// As `run` is a multiple of the tile, a tile of the result never belongs to more.
struct MergeSortPair {
    uint32_t start, a_len, b_len, diagonal;

    __device__ MergeSortPair(uint32_t tile, uint32_t run, uint32_t len) {
        const uint32_t at = tile * MERGE_SORT_TILE;
        start = at / (2 * run) * (2 * run);
        diagonal = at - start;
        a_len = len - start < run ? len - start : run;
        b_len = len - start - a_len < run ? len - start - a_len : run;
    }
};

// Finds, for every tile of the result, how many pairs of its first run come before it. One thread
// per tile.
template <class Key, class Less>
__device__ __forceinline__ void merge_sort_splits(const Key* keys, const uint32_t* values, uint32_t len, uint32_t run, uint32_t* splits, const Less& less) {
    const uint32_t tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile >= (len + MERGE_SORT_TILE - 1) / MERGE_SORT_TILE) return;
    const MergeSortPair pair(tile, run, len);
    const uint32_t b = pair.start + pair.a_len;
    splits[tile] = merge_path(keys + pair.start, values + pair.start, pair.a_len, keys + b, values + b, pair.b_len, pair.diagonal, less);
}

// Merges every two neighbouring runs. One block per tile of the result.
template <class Key, class Less>
__device__ __forceinline__ void merge_sort_merge(const Key* keys, const uint32_t* values, Key* keys_out, uint32_t* values_out, uint32_t len, uint32_t run,
                                                 const uint32_t* splits, const Less& less) {
    __shared__ MergeSortTile<Key> tile;
    const MergeSortPair pair(blockIdx.x, run, len);
    const uint32_t both = pair.a_len + pair.b_len;
    const uint32_t end = both - pair.diagonal < MERGE_SORT_TILE ? both : pair.diagonal + MERGE_SORT_TILE;
    // The part of each run that goes to this tile. The last tile of the two runs takes all that
    // is left.
    const uint32_t a_from = splits[blockIdx.x], a_to = end == both ? pair.a_len : splits[blockIdx.x + 1];
    const uint32_t b_from = pair.diagonal - a_from, of_a = a_to - a_from, count = end - pair.diagonal;
    const uint32_t a = pair.start + a_from, b = pair.start + pair.a_len + b_from;
    for (uint32_t i = threadIdx.x; i < count; i += MERGE_SORT_THREADS) {
        const uint32_t from = i < of_a ? a + i : b + (i - of_a);
        tile.keys[i] = keys[from];
        tile.values[i] = values[from];
    }
    __syncthreads();
    Key own_keys[MERGE_SORT_ITEMS];
    uint32_t own_values[MERGE_SORT_ITEMS];
    const uint32_t first = threadIdx.x * MERGE_SORT_ITEMS;
    const uint32_t part = merge_part(tile, 0, of_a, count - of_a, first, own_keys, own_values, less);
    put_part(tile, first, part, own_keys, own_values);
    const uint32_t to = blockIdx.x * MERGE_SORT_TILE;
    for (uint32_t i = threadIdx.x; i < count; i += MERGE_SORT_THREADS) {
        keys_out[to + i] = tile.keys[i];
        values_out[to + i] = tile.values[i];
    }
}
