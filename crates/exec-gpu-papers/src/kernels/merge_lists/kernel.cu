// Merges the sorted keys of up to 32 lists, one list per lane: in each step the best of the
// lanes' first keys is written, until enough keys have been. Repeated launches merge the lists of
// a query to one in log32 steps. Equal keys become one.
#include "topk.cuh"
#include "warp.cuh"

// A query has `lists` neighbouring lists and `parts` blocks of threads, which is lists / 32,
// rounded up; `kept` has the number of keys to keep for each query.
extern "C" __global__ void __launch_bounds__(WARP) merge_lists(const uint32_t* kept, uint32_t lists, uint32_t parts, const uint64_t* keys,
                                                               const uint32_t* counts, uint32_t stride, uint64_t* out_keys, uint32_t* out_counts) {
    const uint32_t query = blockIdx.x / parts, list = blockIdx.x % parts * WARP + lane_id();
    const uint64_t slot = uint64_t(query) * lists + list;
    const uint64_t* mine = keys + slot * stride;
    const uint32_t count = list < lists ? counts[slot] : 0, wanted = min(kept[query], stride);
    // Two keys are loaded ahead, so that the next one is available when the first is taken.
    uint64_t head = count > 0 ? mine[0] : 0, next = count > 1 ? mine[1] : 0;
    uint32_t at = 2, found = 0;
    uint64_t* out = out_keys + uint64_t(blockIdx.x) * stride;
    uint64_t staged = 0;
    while (found < wanted) {
        // No key has a score of 0.
        uint32_t score = warp_max(uint32_t(head >> 32));
        if (score == 0) break;
        uint32_t low = warp_max(uint32_t(head >> 32) == score ? uint32_t(head) : 0);
        uint64_t best = uint64_t(score) << 32 | low;
        if (head == best) {
            head = next;
            next = at < count ? mine[at] : 0;
            at++;
        }
        if (found % WARP == lane_id()) staged = best;
        found++;
        if (found % WARP == 0) out[found - WARP + lane_id()] = staged;
    }
    if (lane_id() < found % WARP) out[found - found % WARP + lane_id()] = staged;
    if (lane_id() == 0) out_counts[blockIdx.x] = found;
}
