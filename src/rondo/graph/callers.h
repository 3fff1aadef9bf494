// Whose code made a call: return addresses become symbols and libraries, and the frames of CUDA's own
// libraries, of CUPTI and of this one are stepped over.
//
// Symbols come from the dynamic symbol table (dladdr), else from the file's full one, which executables have
// unless they are stripped. A frame without a symbol still tells its library.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace rondo::graph::detail {

struct Place {
  std::string symbol;   // "rmm::alloc", demangled, without parameters; "" = unknown
  std::string library;  // "libfoo.so": the file's name without its folder; "" = unknown
  size_t offset = 0;    // in the library
};

// Where the code at a return address lies.
Place place_of(const void* return_address);

// The calling thread's stack, innermost first.
std::vector<Place> places_of_stack();

// " called from rmm::alloc (libfoo.so), by step (app)": the innermost library above CUDA with its innermost
// named function, and the library that called it; "" when the stack shows none. `call` is the function of the
// API that was called: with a run-time library that is linked statically it lies in the caller's own file.
std::string describe_callers(std::span<const Place> innermost_first, std::string_view call);

// "rmm::alloc" of "int* rmm::alloc<int>(unsigned long) const" and the like: what a person looks for in the
// source.
std::string short_name(std::string_view demangled);

}  // namespace rondo::graph::detail
