// Compiled as C++11 and without the macro: the header asks for no more than code of CUDA 11's days does.
#if __has_include(<crt/host_defines.h>) || defined(COMPAT_12)
#define RONDO_CUDA_COMPAT_NO_MACRO
#include "compat_forms.h"
#endif
