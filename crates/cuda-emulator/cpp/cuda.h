// The subset of CUDA C++ that the kernels use, for the host. Anything else does not compile, which
// is better than behaving differently: there is no `__activemask`, no approximate arithmetic, and
// no inline PTX.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static __attribute__((section(SHARED_SECTION)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(emulated_dynamic_shared)

// ---- vector types

#define VECTOR_1(name, type, align) struct alignas(align) name { type x; };
#define VECTOR_2(name, type, align)                            \
    struct alignas(align) name { type x, y; };                 \
    static inline name make_##name(type x, type y) { return {x, y}; }
#define VECTOR_3(name, type)                                   \
    struct name { type x, y, z; };                             \
    static inline name make_##name(type x, type y, type z) { return {x, y, z}; }
#define VECTOR_4(name, type, align)                            \
    struct alignas(align) name { type x, y, z, w; };           \
    static inline name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
#define VECTORS(name, type, size)                              \
    VECTOR_2(name##2, type, 2 * size)                          \
    VECTOR_3(name##3, type)                                    \
    VECTOR_4(name##4, type, (size < 4 ? 4 * size : 16))
VECTORS(char, signed char, 1)
VECTORS(uchar, unsigned char, 1)
VECTORS(short, short, 2)
VECTORS(ushort, unsigned short, 2)
VECTORS(int, int, 4)
VECTORS(uint, unsigned, 4)
VECTORS(float, float, 4)
VECTOR_2(longlong2, long long, 16)
VECTOR_2(ulonglong2, unsigned long long, 16)
VECTOR_2(double2, double, 16)

struct dim3 { unsigned x, y, z; };

// ---- the scheduler

extern "C" {
extern uint3 emulated_thread, emulated_block;
extern dim3 emulated_block_dim, emulated_grid_dim;
extern unsigned char *emulated_dynamic_shared, *emulated_dynamic_shared_end;
uint64_t emulated_warp(int operation, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width, const char* file, int line);
uint32_t emulated_barrier(int operation, uint32_t value, const char* file, int line);
void emulated_yield();
[[noreturn]] void emulated_trap(const char* what, const char* file, int line);
uint64_t emulated_clock();
}

#define threadIdx emulated_thread
#define blockIdx emulated_block
#define blockDim emulated_block_dim
#define gridDim emulated_grid_dim
constexpr int warpSize = 32;

enum WarpOperation {
    WARP_SYNC, WARP_BALLOT, WARP_ANY, WARP_ALL, WARP_MATCH_ANY, WARP_MATCH_ALL, WARP_SHFL, WARP_SHFL_UP, WARP_SHFL_DOWN, WARP_SHFL_XOR,
    WARP_ADD, WARP_MIN_U, WARP_MAX_U, WARP_MIN_S, WARP_MAX_S, WARP_AND, WARP_OR, WARP_XOR,
};
enum BarrierOperation { BARRIER_SYNC, BARRIER_COUNT, BARRIER_AND, BARRIER_OR };

// The source location of the caller.
#define SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(SITE) { emulated_barrier(BARRIER_SYNC, 0, file, line); }
static inline int __syncthreads_count(int p, SITE) { return emulated_barrier(BARRIER_COUNT, p != 0, file, line); }
static inline int __syncthreads_and(int p, SITE) { return emulated_barrier(BARRIER_AND, p != 0, file, line); }
static inline int __syncthreads_or(int p, SITE) { return emulated_barrier(BARRIER_OR, p != 0, file, line); }

static inline void __syncwarp(unsigned mask = 0xffffffffu, SITE) { emulated_warp(WARP_SYNC, mask, 0, 0, 32, file, line); }
static inline unsigned __ballot_sync(unsigned mask, int p, SITE) { return emulated_warp(WARP_BALLOT, mask, p != 0, 0, 32, file, line); }
static inline int __any_sync(unsigned mask, int p, SITE) { return emulated_warp(WARP_ANY, mask, p != 0, 0, 32, file, line); }
static inline int __all_sync(unsigned mask, int p, SITE) { return emulated_warp(WARP_ALL, mask, p != 0, 0, 32, file, line); }

template <class T>
static inline uint64_t emulated_bits(T value) {
    static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::is_arithmetic<T>::value, "warp operations take numbers of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T>
static inline T emulated_value(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}

template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value, SITE) {
    return emulated_warp(WARP_MATCH_ANY, mask, emulated_bits(value), 0, 32, file, line);
}
template <class T>
static inline unsigned __match_all_sync(unsigned mask, T value, int* all, SITE) {
    unsigned result = emulated_warp(WARP_MATCH_ALL, mask, emulated_bits(value), 0, 32, file, line);
    *all = result != 0;
    return result;
}
#define SHUFFLE(name, operation, kind)                                                                            \
    template <class T>                                                                                            \
    static inline T name(unsigned mask, T value, kind argument, int width = 32, SITE) {                          \
        return emulated_value<T>(emulated_warp(operation, mask, emulated_bits(value), argument, width, file, line)); \
    }
SHUFFLE(__shfl_sync, WARP_SHFL, int)
SHUFFLE(__shfl_up_sync, WARP_SHFL_UP, unsigned)
SHUFFLE(__shfl_down_sync, WARP_SHFL_DOWN, unsigned)
SHUFFLE(__shfl_xor_sync, WARP_SHFL_XOR, int)

#define REDUCE(name, type, operation)                                                     \
    static inline type name(unsigned mask, type value, SITE) {                            \
        return emulated_value<type>(emulated_warp(operation, mask, emulated_bits(value), 0, 32, file, line)); \
    }
REDUCE(__reduce_add_sync, unsigned, WARP_ADD)
REDUCE(__reduce_add_sync, int, WARP_ADD)
REDUCE(__reduce_min_sync, unsigned, WARP_MIN_U)
REDUCE(__reduce_min_sync, int, WARP_MIN_S)
REDUCE(__reduce_max_sync, unsigned, WARP_MAX_U)
REDUCE(__reduce_max_sync, int, WARP_MAX_S)
REDUCE(__reduce_and_sync, unsigned, WARP_AND)
REDUCE(__reduce_or_sync, unsigned, WARP_OR)
REDUCE(__reduce_xor_sync, unsigned, WARP_XOR)

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) { emulated_yield(); }
static inline long long clock64() { return (long long)emulated_clock(); }
static inline int clock() { return (int)emulated_clock(); }
#define __trap() emulated_trap("__trap()", __FILE__, __LINE__)
#define assert(condition) ((condition) ? (void)0 : emulated_trap("assert(" #condition ")", __FILE__, __LINE__))
#define __builtin_assume(condition) assert(condition)
#define __assume(condition) assert(condition)

// ---- memory

// Returns true if a kernel's pointer is outside its dynamic shared memory.
static inline bool __isGlobal(const void* at) {
    return at < emulated_dynamic_shared || at >= emulated_dynamic_shared_end;
}

// Only one lane runs at a time, so an atomic operation is a plain one.
#define ATOMIC(name, expression)                                               \
    template <class T, class U>                                                \
    static inline T name(T* address, U operand) {                              \
        T old = *address, value = T(operand);                                  \
        (void)value;                                                           \
        *address = (expression);                                               \
        return old;                                                            \
    }                                                                          \
    template <class T, class U>                                                \
    static inline T name##_block(T* address, U operand) { return name(address, operand); }
ATOMIC(atomicAdd, T(old + value))
ATOMIC(atomicSub, T(old - value))
ATOMIC(atomicExch, value)
ATOMIC(atomicMin, old < value ? old : value)
ATOMIC(atomicMax, old > value ? old : value)
ATOMIC(atomicAnd, T(old & value))
ATOMIC(atomicOr, T(old | value))
ATOMIC(atomicXor, T(old ^ value))
ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
ATOMIC(atomicDec, (old == 0 || old > value) ? value : T(old - 1))
template <class T, class U, class V>
static inline T atomicCAS(T* address, U expected, V desired) {
    T old = *address;
    if (old == T(expected)) *address = T(desired);
    return old;
}

#define LOAD(name) template <class T> static inline T name(const T* address) { return *address; }
LOAD(__ldg) LOAD(__ldcg) LOAD(__ldca) LOAD(__ldcs) LOAD(__ldlu) LOAD(__ldcv)
#define STORE(name) template <class T> static inline void name(T* address, T value) { *address = value; }
STORE(__stwb) STORE(__stcg) STORE(__stcs) STORE(__stwt)

// ---- integers

template <class A, class B>
static inline std::common_type_t<A, B> min(A a, B b) {
    std::common_type_t<A, B> x = a, y = b;
    return y < x ? y : x;
}
template <class A, class B>
static inline std::common_type_t<A, B> max(A a, B b) {
    std::common_type_t<A, B> x = a, y = b;
    return x < y ? y : x;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
static inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    uint64_t bytes = (uint64_t)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned pick = selector >> (4 * i) & 15;
        unsigned byte = bytes >> (8 * (pick & 7)) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}
static inline unsigned __sad(int a, int b, unsigned c) { return (unsigned)((int64_t)a > b ? (int64_t)a - b : (int64_t)b - a) + c; }

// ---- single precision, rounded as the names say

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline unsigned __float_as_uint(float a) { return emulated_value<unsigned>(emulated_bits(a)); }
static inline int __float_as_int(float a) { return emulated_value<int>(emulated_bits(a)); }
static inline float __uint_as_float(unsigned a) { return emulated_value<float>(emulated_bits(a)); }
static inline float __int_as_float(int a) { return emulated_value<float>(emulated_bits(a)); }
static inline long long __double_as_longlong(double a) { return emulated_value<long long>(emulated_bits(a)); }
static inline double __longlong_as_double(long long a) { return emulated_value<double>(emulated_bits(a)); }

// Values out of range become the nearest one that fits, and NaN becomes 0, as on the device.
template <class T>
static inline T emulated_to_integer(double rounded) {
    if (rounded != rounded) return 0;
    if (rounded <= (double)std::numeric_limits<T>::min()) return std::numeric_limits<T>::min();
    if (rounded >= (double)std::numeric_limits<T>::max()) return std::numeric_limits<T>::max();
    return (T)rounded;
}
#define TO_INTEGER(suffix, round)                                                                                  \
    static inline unsigned __float2uint_##suffix(float a) { return emulated_to_integer<unsigned>(round((double)a)); } \
    static inline int __float2int_##suffix(float a) { return emulated_to_integer<int>(round((double)a)); }         \
    static inline unsigned long long __float2ull_##suffix(float a) { return emulated_to_integer<unsigned long long>(round((double)a)); } \
    static inline long long __float2ll_##suffix(float a) { return emulated_to_integer<long long>(round((double)a)); }
TO_INTEGER(rz, trunc)
TO_INTEGER(rd, floor)
TO_INTEGER(ru, ceil)
TO_INTEGER(rn, nearbyint)

static inline float emulated_down(double exact) {
    float a = (float)exact;
    return (double)a > exact ? nextafterf(a, -INFINITY) : a;
}
static inline float emulated_up(double exact) {
    float a = (float)exact;
    return (double)a < exact ? nextafterf(a, INFINITY) : a;
}
#define FROM_INTEGER(name, type)                                                                   \
    static inline float __##name##2float_rn(type a) { return (float)a; }                          \
    static inline float __##name##2float_rd(type a) { return emulated_down((double)a); }          \
    static inline float __##name##2float_ru(type a) { return emulated_up((double)a); }            \
    static inline float __##name##2float_rz(type a) { return (double)a < 0 ? emulated_up((double)a) : emulated_down((double)a); }
FROM_INTEGER(uint, unsigned)
FROM_INTEGER(int, int)
static inline float __ull2float_rn(unsigned long long a) { return (float)a; }
static inline float __saturatef(float a) { return a != a || a < 0.0f ? 0.0f : a > 1.0f ? 1.0f : a; }
