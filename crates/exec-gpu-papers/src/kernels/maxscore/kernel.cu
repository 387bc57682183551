// MaxScore (Turtle 1995; Gaioso 2019, algorithm 5): lists are ordered by their maxima; as many of
// the first as the threshold allows are not essential. See `partitioned.cuh`.
#include "partitioned.cuh"

struct ByMaximum {
    uint32_t first = 0;  // the first essential list
    uint32_t sum = 0;    // of the maxima before it

    template <class Search>
    __device__ bool choose(Search& search) {
        const uint32_t lists = search.query.terms;
        if (search.all + search.query.static_most <= search.floor) return false;
        if (first < lists && sum + search.terms[first].most <= search.allowance()) {
            search.flush();
            const uint32_t allowance = search.allowance();
            while (first < lists && sum + search.terms[first].most <= allowance) {
                sum += search.terms[first].most;
                if (lane_id() == 0) search.at[first].essential = 0;
                first++;
            }
            search.rest = sum + search.query.static_most;
            __syncwarp();
        }
        uint32_t next = NO_DOC;
        for (uint32_t list = first + lane_id(); list < lists; list += WARP) {
            uint32_t doc = search.at[list].doc;
            next = doc < next ? doc : next;
        }
        next = warp_min(next);
        if (next > search.begin) search.begin = next;
        return next < search.until;
    }
};

PARTITIONED_KERNELS(maxscore, ByMaximum)
