// Decodes whole lists, for tests and benchmarks; queries decode only what they need. A warp takes
// a run of blocks of one list.
#define CODEC_WARPS 8
#include "codec_bitpack.cuh"
#include "codec_pfor.cuh"
#include "codec_rice.cuh"
#include "values.cuh"

struct Run {
    uint32_t list;
    uint32_t begin;  // blocks
    uint32_t end;
    uint32_t out;  // where the block `begin` is written, in blocks
};

// The ways to use the numbers: a sum, so that the compiler removes nothing,
struct AddUp {
    uint32_t sum;
    __device__ __forceinline__ void docs(uint32_t, const uint32_t values[4]) { sum += values[0] + values[1] + values[2] + values[3]; }
    __device__ __forceinline__ void freqs(uint32_t, const uint32_t values[4]) { docs(0, values); }
};

// or a copy to memory.
struct Write {
    uint4* to_docs;
    uint4* to_freqs;
    __device__ __forceinline__ void docs(uint32_t block, const uint32_t v[4]) { to_docs[block * WARP + lane_id()] = make_uint4(v[0], v[1], v[2], v[3]); }
    __device__ __forceinline__ void freqs(uint32_t block, const uint32_t v[4]) { to_freqs[block * WARP + lane_id()] = make_uint4(v[0], v[1], v[2], v[3]); }
};

template <class Codec, uint32_t COUNT>
__device__ __forceinline__ void load_heads(const typename Codec::List& list, uint32_t block, typename Codec::Head heads[COUNT]) {
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++) heads[i] = Codec::head(list, block + i);
}

template <class Codec, bool FREQS, class Sink>
__device__ __forceinline__ void decode(const CompressedList& compressed, const Run& run, Sink& sink) {
    constexpr uint32_t AHEAD = FREQS ? 2 : 4;  // blocks whose loads are in flight together
    typename Codec::List list = Codec::open(compressed);
    uint32_t block = run.begin, to = run.out, full = min(run.end, compressed.df / BLOCK_LEN);
    typename Codec::Head heads[AHEAD], next[AHEAD];
    if (block + AHEAD <= full) load_heads<Codec, AHEAD>(list, block, next);
    while (block < run.end) {
        // Full blocks, several at once; the heads of the next ones are loaded before these are
        // decoded.
        for (; block + AHEAD <= full; block += AHEAD, to += AHEAD) {
            typename Codec::Docs docs[AHEAD];
            typename Codec::Freqs freqs[FREQS ? AHEAD : 1];
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++) {
                heads[i] = next[i];
                docs[i] = Codec::load_docs(list, block + i, heads[i], BLOCK_LEN);
                if (FREQS) freqs[i] = Codec::load_freqs(list, block + i, heads[i], BLOCK_LEN);
            }
            bool easy = true;
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++) {
                Codec::follow(list, docs[i]);
                easy &= Codec::easy(docs[i]);
                if (FREQS) {
                    Codec::follow(list, freqs[i]);
                    easy &= Codec::easy(freqs[i]);
                }
            }
            load_heads<Codec, AHEAD>(list, min(block + AHEAD, full - AHEAD), next);
            if (!easy) break;
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++) {
                uint32_t out[4];
                Codec::template docs<true>(list, heads[i], docs[i], out);
                sink.docs(to + i, out);
                if (FREQS) {
                    Codec::template freqs<true>(list, heads[i], freqs[i], out);
                    sink.freqs(to + i, out);
                }
            }
        }
        // The other blocks, one at a time.
        uint32_t others = block + AHEAD <= full ? block + AHEAD : run.end;
#pragma unroll 1
        for (; block < others; block++, to++) {
            uint32_t out[4];
            decode_docs<Codec>(compressed, block, out);
            sink.docs(to, out);
            if (FREQS) {
                decode_freqs<Codec>(compressed, block, out);
                sink.freqs(to, out);
            }
        }
    }
}

template <class Codec, bool FREQS>
__device__ __forceinline__ void decode_sums(const CompressedList* lists, const Run* runs, uint32_t count, uint32_t* sums) {
    uint32_t number = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (number >= count) return;
    Run run = runs[number];
    CompressedList list = lists[run.list];
    AddUp sink = {0};
    decode<Codec, FREQS>(list, run, sink);
    uint32_t sum = warp_sum(sink.sum);
    if (lane_id() == 0) sums[number] = sum;
}

template <class Codec>
__device__ __forceinline__ void decode_write(const CompressedList* lists, const Run* runs, uint32_t count, uint4* docs, uint4* freqs) {
    uint32_t number = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (number >= count) return;
    Run run = runs[number];
    CompressedList list = lists[run.list];
    Write sink = {docs, freqs};
    decode<Codec, true>(list, run, sink);
}

// Every frequency, fetched separately.
template <class Codec>
__device__ __forceinline__ void fetch_freqs(const CompressedList* lists, const Run* runs, uint32_t count, uint32_t* freqs) {
    uint32_t number = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (number >= count) return;
    Run run = runs[number];
    CompressedList list = lists[run.list];
    uint32_t begin = run.begin * BLOCK_LEN;
    for (uint32_t i = lane_id(); i < (run.end - run.begin) * BLOCK_LEN; i += WARP)
        freqs[run.out * BLOCK_LEN + i] = begin + i < list.df ? freq_at<Codec>(list, begin + i) : 0;
}

#define BOUNDS __launch_bounds__(CODEC_WARPS * 32)
// With two blocks of threads per multiprocessor as the bound, the assembler issues the loads of
// all blocks of numbers before the first is used.
#define TWO_BLOCKS __launch_bounds__(CODEC_WARPS * 32, 2)

#define OF_CODEC(name, DOCS_BOUNDS, Codec)                                                                                                                     \
    extern "C" __global__ void DOCS_BOUNDS docs_##name(const CompressedList* lists, const Run* runs, uint32_t count, uint32_t* sums) {                         \
        decode_sums<Codec, false>(lists, runs, count, sums);                                                                                                   \
    }                                                                                                                                                          \
    extern "C" __global__ void BOUNDS both_##name(const CompressedList* lists, const Run* runs, uint32_t count, uint32_t* sums) {                              \
        decode_sums<Codec, true>(lists, runs, count, sums);                                                                                                    \
    }                                                                                                                                                          \
    extern "C" __global__ void BOUNDS write_##name(const CompressedList* lists, const Run* runs, uint32_t count, uint4* docs, uint4* freqs) {                  \
        decode_write<Codec>(lists, runs, count, docs, freqs);                                                                                                  \
    }                                                                                                                                                          \
    extern "C" __global__ void BOUNDS fetch_##name(const CompressedList* lists, const Run* runs, uint32_t count, uint32_t* freqs) {                            \
        fetch_freqs<Codec>(lists, runs, count, freqs);                                                                                                         \
    }

OF_CODEC(bitpack, BOUNDS, BitPack)
OF_CODEC(rice, BOUNDS, Rice)
OF_CODEC(pfor0, TWO_BLOCKS, PFor<0>)
OF_CODEC(pfor, TWO_BLOCKS, PFor<1>)
OF_CODEC(pfor2, TWO_BLOCKS, PFor<2>)
OF_CODEC(pfor3, TWO_BLOCKS, PFor<3>)
OF_CODEC(pfor4, TWO_BLOCKS, PFor<4>)

// Without the prefix sum, for figure 4 of (Ding 2009).
struct PForGaps : PFor<1> {
    template <bool EASY>
    __device__ __forceinline__ static void docs(const List& list, const Head&, const Docs& loaded, uint32_t out[4]) {
        get<EASY>(list, list.gaps, GAP_OVERFLOWS, loaded, out);
    }
};

extern "C" __global__ void TWO_BLOCKS gaps_pfor(const CompressedList* lists, const Run* runs, uint32_t count, uint32_t* sums) {
    decode_sums<PForGaps, false>(lists, runs, count, sums);
}

// Computes the bits of postings' values.
extern "C" __global__ void posting_values(Values values, const uint32_t* docs, const uint32_t* freqs, uint32_t* bits, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) bits[i] = __float_as_uint(value_of(values, freqs[i], factor_of(values, docs[i])));
}
