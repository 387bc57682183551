// The kernels of an algorithm, one for each codec. If only one codec is needed, this file is
// replaced by the line of that codec, so that the others need not be compiled.
#define PARTITIONED_KERNELS(name, Choice)               \
    PARTITIONED_KERNEL(name##_bitpack, BitPack, Choice) \
    PARTITIONED_KERNEL(name##_rice, Rice, Choice)       \
    PARTITIONED_KERNEL(name##_pfor0, PFor<0>, Choice)   \
    PARTITIONED_KERNEL(name##_pfor, PFor<1>, Choice)    \
    PARTITIONED_KERNEL(name##_pfor2, PFor<2>, Choice)   \
    PARTITIONED_KERNEL(name##_pfor3, PFor<3>, Choice)   \
    PARTITIONED_KERNEL(name##_pfor4, PFor<4>, Choice)
