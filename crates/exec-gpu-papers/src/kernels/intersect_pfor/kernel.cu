// Intersection on lists of one codec (see intersect.cuh), separate from the others because they
// take long to compile.
#include "codec_pfor.cuh"
#include "intersect.cuh"

INTERSECT(pfor0, PFor<0>)
INTERSECT(pfor1, PFor<1>)
INTERSECT(pfor2, PFor<2>)
INTERSECT(pfor3, PFor<3>)
INTERSECT(pfor4, PFor<4>)
