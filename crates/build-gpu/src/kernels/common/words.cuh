// Words of flat text (`warpseek_text::WordRules`): a byte and its neighbours say whether it is
// part of a word.
#pragma once

#include "types.cuh"

constexpr uint32_t LETTER = 1, DIGIT = 2, CORE = 7, LITERAL = 32;
// The longest word that can be a term. A test of the kernel `word_table` compares it with
// MAX_TERM_BYTES.
constexpr uint32_t MOST_BYTES = 255;
// A number that means no word and no term.
constexpr uint32_t NONE = 0xffffffffu;

// The classes of bytes, in shared memory. All threads of the block take part, and a barrier
// follows.
__device__ __forceinline__ void load_classes(const uint8_t* __restrict__ from, uint8_t* classes) {
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) classes[i] = from[i];
    __syncthreads();
}

// Returns true if a byte of class `class_of` between two others is part of a word.
__device__ __forceinline__ bool in_word(uint32_t before, uint32_t class_of, uint32_t after) {
    return (class_of & (CORE | LITERAL)) != 0 || ((class_of >> 3) & before & after & (LETTER | DIGIT)) != 0;
}

// Goes over the bytes of the word that begins at `start`, in lower case if `lower` is set, and
// returns how many there are, or NONE if the word is too long for a term, or has nothing but
// underscores. `f` is called with each byte, even
// if the result is NONE.
template <class F>
__device__ __forceinline__ uint32_t read_word(const uint8_t* __restrict__ text, uint32_t len, uint32_t start, const uint8_t* classes, bool lower, F f) {
    uint32_t before = 0, own = classes[text[start]], seen = 0, at = start;
    const uint32_t most = own == LITERAL ? 2 * MOST_BYTES : MOST_BYTES;
    while (true) {
        const uint32_t byte = text[at];
        seen |= own;
        f(lower && byte - 'A' < 26u ? byte | 32u : byte);
        at++;
        if (at == len) break;
        before = own;
        own = classes[text[at]];
        if (!in_word(before, own, at + 1 < len ? classes[text[at + 1]] : 0)) break;
        if (at - start == most) return NONE;
    }
    return (seen & (LETTER | DIGIT | LITERAL)) == 0 ? NONE : at - start;
}
