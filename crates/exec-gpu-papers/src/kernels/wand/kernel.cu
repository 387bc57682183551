// WAND (Broder 2003; Gaioso 2019, algorithm 4): lists are ordered by their next documents; as
// many of the first as the threshold allows are not essential, and no document before that of the
// next one, the pivot, can become a hit. See `partitioned.cuh`.
#include "partitioned.cuh"

struct ByDocument {
    // The first document at which the maxima of the lists that have reached it exceed the
    // allowance; at least `until` if there is none.
    template <class Search>
    __device__ uint32_t pivot(const Search& search, uint32_t allowance) {
        const uint32_t lists = search.query.terms;
        if (lists <= WARP) {
            uint32_t doc = lane_id() < lists ? search.at[lane_id()].doc : NO_DOC;
            uint32_t most = lane_id() < lists ? search.terms[lane_id()].most : 0;
            uint32_t sum = 0;
            for (uint32_t list = 0; list < lists; list++) {
                uint32_t other = __shfl_sync(FULL_WARP, doc, list), more = __shfl_sync(FULL_WARP, most, list);
                if (other <= doc) sum += more;
            }
            return warp_min(sum > allowance ? doc : NO_DOC);
        }
        uint32_t from = search.begin, to = search.until;
        while (from < to) {
            uint32_t middle = from + (to - from) / 2, sum = 0;
            for (uint32_t list = lane_id(); list < lists; list += WARP) {
                if (search.at[list].doc <= middle) sum += search.terms[list].most;
            }
            if (warp_sum(sum) > allowance) to = middle;
            else from = middle + 1;
        }
        return from;
    }

    template <class Search>
    __device__ bool choose(Search& search) {
        const uint32_t lists = search.query.terms, statics = search.query.static_most;
        if (search.all + statics <= search.floor) return false;
        if (search.rest == statics && search.terms[0].most > search.allowance()) {
            // All lists are essential and remain so: the next document is the pivot, and waiting
            // documents may go on waiting.
            uint32_t next = NO_DOC;
            for (uint32_t list = lane_id(); list < lists; list += WARP) next = min(next, search.at[list].doc);
            next = warp_min(next);
            if (next > search.begin) search.begin = next;
            return next < search.until;
        }
        search.flush();
        if (search.all + statics <= search.floor) return false;
        const uint32_t allowance = search.allowance();
        uint32_t at = pivot(search, allowance);
        while (at < search.until && search.by_maxima() && search.rules_out(at)) at = pivot(search, allowance);
        if (at >= search.until) return false;
        // Lists before the pivot move to it. That may move the pivot, after which all documents
        // from there to the end of a block are processed.
        for (uint32_t list = 0; list < lists; list++) {
            if (search.at[list].doc < at) search.open(list, at);
        }
        at = pivot(search, allowance);
        if (at >= search.until) return false;
        uint32_t sum = 0;
        for (uint32_t list = lane_id(); list < lists; list += WARP) {
            uint32_t doc = search.at[list].doc;
            if (doc < at) sum += search.terms[list].most;
            search.at[list].essential = doc < at ? 0 : 1;
        }
        sum = warp_sum(sum);
        __syncwarp();
        // Of the lists at the pivot, too, as many as the allowance permits.
        for (uint32_t list = 0; list < lists; list++) {
            if (search.at[list].doc != at || sum + search.terms[list].most > allowance) continue;
            sum += search.terms[list].most;
            if (lane_id() == 0) search.at[list].essential = 0;
        }
        search.rest = sum + statics;
        search.begin = at;
        __syncwarp();
        return true;
    }
};

PARTITIONED_KERNELS(wand, ByDocument)
