// Finds the best match of a query in a text, as `distance` defines it (Myers 1999). A lane has 64
// rows of the table of distances and passes the step of its last row, with the letter, to the
// next lane, which is one column behind. A query of at most 64 letters therefore has one thread,
// and a longer one up to a warp. Texts are UTF-8 and are decoded where they are read; long ones
// are cut into ranges, which overlap by the maximum length of a match.
#include "warp.cuh"

constexpr uint32_t THREADS = 128;
// Rows of a query's table: one for each letter of ASCII, then one for all letters that the query
// does not have, then its others.
constexpr uint32_t ABSENT = 128;
// The letter of a lane before the text's first letter and behind its last.
constexpr uint32_t NO_LETTER = 0xffffffffu;
// Letters that are not ASCII are found by this multiplicative hash.
constexpr uint32_t HASH = 0x9e3779b1u;
// Columns between the votes of a warp on whether to go on.
constexpr uint32_t COLUMNS = 16;

struct Query {
    // uint64_t for each letter and lane: rows of the query that have the letter, and those before
    // the query
    uint64_t table;
    // uint64_t for each slot: a letter that is not ASCII in the upper half, and its row of the
    // table; 0 if free
    uint64_t letters;
    uint32_t shift;    // what is left of a hash is a slot
    uint32_t length;
};

struct Pair {
    uint64_t text;  // a multiple of 8
    uint32_t bytes;
    uint32_t letters;
    uint32_t query;
    uint32_t number;  // where its result goes
};

// A range of a text that a search goes through.
struct Range {
    uint32_t pair;
    uint32_t from;
    uint32_t to;
};

struct Match {
    uint32_t distance;
    uint32_t start;
    uint32_t end;
};

// The difference between two columns in one row: up, down or, if neither, none.
struct Step {
    uint64_t up;
    uint64_t down;
};

__device__ __forceinline__ bool continues(uint32_t byte) { return (byte & 0xc0) == 0x80; }

// Letters of a text from a byte on, forward. It must be the first of a letter.
struct Reader {
    const uint64_t* words;
    uint32_t at;
    uint64_t rest;

    __device__ __forceinline__ Reader(uint64_t text, uint32_t from) : words(reinterpret_cast<const uint64_t*>(text)), at(from), rest(from % 8 == 0 ? 0 : __ldg(words + from / 8) >> 8 * (from % 8)) {}

    __device__ __forceinline__ uint32_t byte() {
        if (at % 8 == 0) rest = __ldg(words + at / 8);
        const uint32_t byte = uint32_t(rest) & 0xff;
        rest >>= 8;
        at++;
        return byte;
    }

    __device__ __forceinline__ uint32_t letter() {
        const uint32_t first = byte();
        if (first < 0x80) return first;
        const uint32_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        uint32_t letter = first & (0x3f >> more);
        for (uint32_t i = 0; i < more; i++) letter = letter << 6 | (byte() & 0x3f);
        return letter;
    }
};

// Returns the letter before a byte, and moves `at` there.
__device__ __forceinline__ uint32_t letter_before(const uint8_t* text, uint32_t& at) {
    uint32_t letter = 0;
    for (uint32_t more = 0;; more++) {
        const uint32_t byte = __ldg(text + --at);
        if (byte < 0x80) return byte;
        if (!continues(byte)) return letter | (byte & (0x3f >> more)) << 6 * more;
        letter |= (byte & 0x3f) << 6 * more;
    }
}

// The number of letters that begin before a byte.
__device__ __forceinline__ uint32_t letters_before(const Pair& pair, uint32_t at) {
    if (pair.bytes == pair.letters) return at;
    const uint64_t* words = reinterpret_cast<const uint64_t*>(pair.text);
    uint32_t letters = at;
    for (uint32_t i = 0; 8 * i < at; i++) {
        uint64_t word = __ldg(words + i);
        if (at - 8 * i < 8) word &= (1ull << 8 * (at - 8 * i)) - 1;
        letters -= __popcll(word & ~(word << 1) & 0x8080808080808080ull);
    }
    return letters;
}

__device__ __forceinline__ uint32_t row_of(const Query& query, uint32_t letter) {
    if (letter < ABSENT) return letter;
    const uint64_t* letters = reinterpret_cast<const uint64_t*>(query.letters);
    const uint32_t last = (1u << (32 - query.shift)) - 1;
    for (uint32_t slot = letter * HASH >> query.shift;; slot = (slot + 1) & last) {
        const uint64_t found = __ldg(letters + slot);
        if (found == 0) return ABSENT;
        if (found >> 32 == letter) return uint32_t(found);
    }
}

// The rows of a lane in one column.
template <uint32_t LANES>
struct Rows {
    const uint64_t* table;
    uint32_t lane;
    // Rows before the query.
    uint32_t padding;
    uint64_t up;
    uint64_t down;

    __device__ __forceinline__ Rows(const Query& query, uint32_t lane) : table(reinterpret_cast<const uint64_t*>(query.table)), lane(lane), padding(64 * LANES - query.length), up(~0ull), down(0) {
        if (padding >= 64 * lane + 64) up = 0;
        else if (padding > 64 * lane) up <<= padding - 64 * lane;
    }

    // The lane's rows that have a letter.
    __device__ __forceinline__ uint64_t same(uint32_t row) const { return __ldg(table + row * LANES + lane); }

    // The same rows for the query backward: all rows in reverse, moved so that the query ends
    // with the last one. Rows before the query move out.
    __device__ __forceinline__ uint64_t same_backward(uint32_t row) const {
        const uint32_t words = padding / 64, bits = padding % 64;
        if (lane < words) return 0;
        const uint64_t* last = table + row * LANES + LANES - 1;
        const uint64_t own = __brevll(__ldg(last - (lane - words))) << bits;
        return bits == 0 || lane == words ? own : own | __brevll(__ldg(last - (lane - words - 1))) >> (64 - bits);
    }

    // Advances by a column (Myers 1999, section 4); returns the step of the last row.
    __device__ __forceinline__ Step advance(uint64_t same, Step above) {
        const uint64_t level = same | down;
        same |= above.down;
        const uint64_t carried = (((same & up) + up) ^ up) | same;
        const uint64_t all_up = down | ~(carried | up), all_down = up & carried;
        const uint64_t next_up = all_up << 1 | above.up, next_down = all_down << 1 | above.down;
        up = next_down | ~(level | next_up);
        down = next_up & level;
        return Step{all_up >> 63, all_down >> 63};
    }
};

// The values that go from lane to lane: a letter's row of the table, the byte behind it (or,
// backward, its first), and the step of the rows above.
struct Column {
    uint32_t row;
    uint32_t at;
    Step step;
};

template <uint32_t LANES>
__device__ __forceinline__ Column of_lane_before(const Column& own) {
    const uint32_t packed = __shfl_up_sync(FULL_WARP, uint32_t(own.step.up | own.step.down << 1), 1, LANES);
    return Column{__shfl_up_sync(FULL_WARP, own.row, 1, LANES), __shfl_up_sync(FULL_WARP, own.at, 1, LANES), Step{packed & 1, packed >> 1}};
}

// Moves all lanes of a query through columns. `next` returns the first lane's next column,
// without a letter behind the last; `take` processes a column in a lane, and returns the step of
// its last row.
template <uint32_t LANES, class Next, class Take>
__device__ __forceinline__ void each_column(uint32_t lane, Next next, Take take) {
    if constexpr (LANES == 1) {
        for (Column column = next(); column.row != NO_LETTER; column = next()) take(column);
    } else {
        Column column{NO_LETTER, 0, Step{0, 0}};
        do {
            for (uint32_t i = 0; i < COLUMNS; i++) {
                column = of_lane_before<LANES>(column);
                if (lane == 0) column = next();
                if (column.row != NO_LETTER) column.step = take(column);
            }
        } while (__any_sync(FULL_WARP, column.row != NO_LETTER));
    }
}

// Finds the least distance in each range, and the first byte behind a match with it. `best` has
// the least of a pair: the distance in the upper half.
template <uint32_t LANES>
__device__ __forceinline__ void search(const Query* queries, const Pair* pairs, const Range* ranges, uint32_t count, uint64_t* best) {
    const uint32_t number = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    const bool exists = number < count;
    const Range range = exists ? ranges[number] : Range{0, 0, 0};
    const Pair pair = pairs[range.pair];
    const Query query = queries[pair.query];
    uint32_t from = range.from;
    while (from < range.to && continues(__ldg(reinterpret_cast<const uint8_t*>(pair.text) + from))) from++;
    Reader reader(pair.text, from);
    Rows<LANES> rows(query, lane);
    // The last lane's, whose last row is the query's.
    const bool last = lane == LANES - 1;
    uint32_t current = query.length, distance = current, end = 0;
    each_column<LANES>(
        lane,
        [&] {
            // Nothing is better than no error.
            if (reader.at >= range.to || distance == 0) return Column{NO_LETTER, 0, Step{0, 0}};
            const uint32_t row = row_of(query, reader.letter());
            return Column{row, reader.at, Step{0, 0}};
        },
        [&](const Column& column) {
            const Step step = rows.advance(rows.same(column.row), column.step);
            current += uint32_t(step.up) - uint32_t(step.down);
            if (last && current < distance) {
                distance = current;
                end = column.at;
            }
            return step;
        });
    if (exists && last) atomicMin(best + range.pair, uint64_t(distance) << 32 | end);
}

// Finds the start of each match: it goes backward from the end of the match until the distance is
// reached.
template <uint32_t LANES>
__device__ __forceinline__ void align(const Query* queries, const Pair* pairs, uint32_t count, const uint64_t* best, Match* matches) {
    const uint32_t number = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    const bool exists = number < count;
    const Pair pair = pairs[exists ? number : 0];
    const Query query = queries[pair.query];
    // An empty text has no range.
    const uint64_t found = min(best[exists ? number : 0], uint64_t(query.length) << 32);
    const uint32_t distance = uint32_t(found >> 32), end = uint32_t(found);
    uint32_t at = end, left = exists ? query.length + distance : 0, current = query.length, start = end;
    const bool last = lane == LANES - 1;
    bool done = distance == query.length;
    Rows<LANES> rows(query, lane);
    each_column<LANES>(
        lane,
        [&] {
            if (at == 0 || left == 0 || done) return Column{NO_LETTER, 0, Step{1, 0}};
            left--;
            const uint32_t row = row_of(query, letter_before(reinterpret_cast<const uint8_t*>(pair.text), at));
            return Column{row, at, Step{1, 0}};
        },
        [&](const Column& column) {
            const Step step = rows.advance(rows.same_backward(column.row), column.step);
            current += uint32_t(step.up) - uint32_t(step.down);
            if (last && !done && current <= distance) {
                start = column.at;
                done = true;
            }
            return step;
        });
    if (exists && last) matches[pair.number] = Match{distance, letters_before(pair, start), letters_before(pair, end)};
}

#define KERNELS(LANES)                                                                                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) search_##LANES(const Query* queries, const Pair* pairs, const Range* ranges, uint32_t count, uint64_t* best) {          \
        search<LANES>(queries, pairs, ranges, count, best);                                                                                                                         \
    }                                                                                                                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) align_##LANES(const Query* queries, const Pair* pairs, uint32_t count, const uint64_t* best, Match* matches) {          \
        align<LANES>(queries, pairs, count, best, matches);                                                                                                                         \
    }

KERNELS(1)
KERNELS(2)
KERNELS(4)
KERNELS(8)
KERNELS(16)
KERNELS(32)
