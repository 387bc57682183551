// The data about a kernel that the launcher needs.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

struct Kernel {
    const char* name;
    void (*call)(void** arguments);
    const uint32_t* sizes;
    uint32_t parameters;
    uint32_t max_threads;
    // Static shared memory of the kernel's source file.
    char* shared_start;
    char* shared_end;
};

struct Source {
    const char* name;
    const Kernel* kernels;
};

template <class T>
static T read_argument(const void* bytes) {
    static_assert(std::is_trivially_copyable<T>::value, "kernels take plain values");
    alignas(T) unsigned char value[sizeof(T)];
    memcpy(value, bytes, sizeof(T));
    return *reinterpret_cast<T*>(value);
}

// The type of a kernel's function provides everything needed to call it with the driver's array of
// pointers.
template <class F>
struct Signature;

template <class... A>
struct Signature<void (*)(A...)> {
    static constexpr uint32_t count = sizeof...(A);
    static constexpr uint32_t sizes[sizeof...(A) + 1] = {uint32_t(sizeof(A))..., 0};

    template <void (*f)(A...)>
    static void call(void** arguments) {
        spread<f>(arguments, std::index_sequence_for<A...>());
    }

    template <void (*f)(A...), size_t... i>
    static void spread(void** arguments, std::index_sequence<i...>) {
        (void)arguments;
        f(read_argument<std::remove_const_t<A>>(arguments[i])...);
    }
};

#define SHARED_BOUNDS(source)                                                 \
    extern "C" __attribute__((weak)) char __start_emulated_shared_##source[]; \
    extern "C" __attribute__((weak)) char __stop_emulated_shared_##source[];

#define KERNEL(source, function, bounds)                                                            \
    {#function, &Signature<decltype(&function)>::call<&function>, Signature<decltype(&function)>::sizes, \
     Signature<decltype(&function)>::count, uint32_t(bounds), __start_emulated_shared_##source,     \
     __stop_emulated_shared_##source}

#define END_OF_KERNELS {nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr}
