// A table of distinct words in device memory, found by hash. A slot has the hash of a word and
// its number; the words themselves are in an arena.
//
// Words with the same hash share a slot. To detect different words with the same hash,
// `word_table_terms` compares every word of the text with the one in the arena and reports a
// difference; the host then takes another way.
//
// With a schema, the same word in two fields is two words, since fields have analyzers of their
// own. The sections of words tell their fields.
#include "words.cuh"

constexpr uint32_t THREADS = 256;

// Positions of `state`.
constexpr uint32_t WORDS = 0, OVERFLOW = 1, COLLISION = 2;

__device__ __forceinline__ uint64_t mix(uint64_t hash) {
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
    return hash;
}

__device__ __forceinline__ uint32_t word_of_text(const uint8_t* __restrict__ text, uint32_t len, uint32_t start, uint32_t field, const uint8_t* classes, bool lower,
                                                 uint64_t& hash) {
    // The field counts like a byte before the word: words that differ only in their first bytes
    // must not get the same hash in different fields.
    uint64_t sum = (0xcbf29ce484222325ull ^ field) * 0x100000001b3ull;
    const uint32_t bytes = read_word(text, len, start, classes, lower, [&](uint32_t byte) { sum = (sum ^ byte) * 0x100000001b3ull; });
    hash = mix(sum);
    // 0 marks an empty slot.
    hash += hash == 0;
    return bytes;
}

__device__ __forceinline__ uint32_t field_of(const uint32_t* __restrict__ sections, uint32_t fields, uint32_t word) {
    return fields == 1 ? 0 : sections[word] % fields;
}

// Writes the slot of each word, and adds words that are new. Once there are `most` words, it
// stops and sets OVERFLOW.
extern "C" __global__ void __launch_bounds__(THREADS)
    word_table_insert(const uint8_t* __restrict__ text, uint32_t len, const uint8_t* __restrict__ rules, uint32_t lower, const uint32_t* __restrict__ starts, uint32_t count,
                      const uint32_t* __restrict__ sections, uint32_t fields, unsigned long long* keys, uint32_t* __restrict__ numbers, uint32_t mask, uint32_t most, uint32_t* state, uint32_t* __restrict__ word_starts,
                      uint32_t* __restrict__ word_lens, uint32_t* __restrict__ word_fields, uint32_t* __restrict__ slots) {
    __shared__ uint8_t classes[256];
    load_classes(rules, classes);
    const uint32_t word = blockIdx.x * THREADS + threadIdx.x;
    if (word >= count) return;
    const uint32_t start = starts[word], field = field_of(sections, fields, word);
    uint64_t hash;
    const uint32_t bytes = word_of_text(text, len, start, field, classes, lower != 0, hash);
    uint32_t slot = NONE;
    if (bytes != NONE) {
        slot = uint32_t(hash) & mask;
        volatile uint32_t* shared_state = state;
        while (true) {
            unsigned long long key = *const_cast<volatile unsigned long long*>(&keys[slot]);
            if (key == 0) {
                if (shared_state[WORDS] >= most) shared_state[OVERFLOW] = 1;
                if (shared_state[OVERFLOW] != 0) break;
                key = atomicCAS(&keys[slot], 0ull, (unsigned long long)hash);
                if (key == 0) {
                    const uint32_t number = atomicAdd(&state[WORDS], 1u);
                    numbers[slot] = number;
                    if (number < most) {
                        word_starts[number] = start;
                        word_lens[number] = bytes;
                        word_fields[number] = field;
                    } else {
                        shared_state[OVERFLOW] = 1;
                    }
                    break;
                }
            }
            if (key == hash) break;
            if (shared_state[OVERFLOW] != 0) break;
            slot = (slot + 1) & mask;
        }
    }
    slots[word] = slot;
}

// Copies the new words, numbered from `first` on, from the text to the arena. `offsets` are sums
// of their lengths.
extern "C" __global__ void __launch_bounds__(THREADS)
    word_table_keep(const uint8_t* __restrict__ text, uint32_t lower, uint32_t first, uint32_t count, const uint32_t* __restrict__ offsets, uint32_t base,
                    uint32_t* __restrict__ word_starts, const uint32_t* __restrict__ word_lens, uint8_t* __restrict__ arena) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const uint32_t from = word_starts[first + i], to = base + offsets[i];
    for (uint32_t j = 0; j < word_lens[first + i]; j++) {
        const uint32_t byte = text[from + j];
        arena[to + j] = uint8_t(lower != 0 && byte - 'A' < 26u ? byte | 32u : byte);
    }
    word_starts[first + i] = to;
}

// Replaces the slot of each word by its term, NONE if it has none, and sets the bits of words
// that have one.
extern "C" __global__ void __launch_bounds__(THREADS)
    word_table_terms(const uint8_t* __restrict__ text, uint32_t len, const uint8_t* __restrict__ rules, uint32_t lower, const uint32_t* __restrict__ starts, uint32_t count,
                     const uint32_t* __restrict__ sections, uint32_t fields, const uint32_t* __restrict__ numbers, const uint32_t* __restrict__ word_starts, const uint32_t* __restrict__ word_lens,
                     const uint32_t* __restrict__ word_fields, const uint8_t* __restrict__ arena, const uint32_t* __restrict__ terms, uint32_t* __restrict__ state, uint32_t* __restrict__ slots, uint32_t* __restrict__ bits) {
    __shared__ uint8_t classes[256];
    load_classes(rules, classes);
    const uint32_t word = blockIdx.x * THREADS + threadIdx.x;
    uint32_t term = NONE;
    if (word < count && slots[word] != NONE) {
        const uint32_t number = numbers[slots[word]];
        const uint8_t* kept = arena + word_starts[number];
        const uint32_t kept_len = word_lens[number];
        uint32_t at = 0;
        bool same = true;
        const uint32_t bytes = read_word(text, len, starts[word], classes, lower != 0, [&](uint32_t byte) {
            same = same && at < kept_len && kept[at] == byte;
            at++;
        });
        if (!same || bytes != kept_len || word_fields[number] != field_of(sections, fields, word)) state[COLLISION] = 1;
        term = terms[number];
    }
    if (word < count) slots[word] = term;
    const uint32_t has = __ballot_sync(FULL_WARP, term != NONE);
    if (lane_id() == 0 && word < count) bits[word / WARP] = has;
}
