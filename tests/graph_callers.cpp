// Whose code made a call: which frame is named, and how.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "rondo/graph/callers.h"

// Outside of every namespace of Rondo, as user code is; not in the dynamic symbol table.
static __attribute__((noinline)) std::vector<rondo::graph::detail::Place> user_code_that_looks() {
  std::vector<rondo::graph::detail::Place> places = rondo::graph::detail::places_of_stack();
  return places;
}

namespace rondo::graph::detail {
namespace {

TEST(GraphCallers, NamesAreShownWithoutParametersAndReturnTypes) {
  for (const auto& [text, name] :
       {std::pair{"rmm::alloc(unsigned long)", "rmm::alloc"},
        {"cudaMalloc", "cudaMalloc"},
        {"int* rmm::alloc<int*>(std::vector<int, A<int> > const&)", "rmm::alloc<int*>"},
        {"f(int)::{lambda(int)#1}::operator()(int) const", "f(int)::{lambda(int)#1}::operator()"},
        {"a::f()::{lambda()#1}::operator()() const::{lambda()#2}::_FUN()",
         "a::f()::{lambda()#1}::operator()() const::{lambda()#2}::_FUN"},
        {"a::(anonymous namespace)::f(void (*)(int))", "a::(anonymous namespace)::f"},
        {"(anonymous namespace)::f", "(anonymous namespace)::f"},
        {"operator new(unsigned long)", "operator new"},
        {"unsigned long g<(int)1>()", "g<(int)1>"},
        {"S::operator()", "S::operator()"}})
    EXPECT_EQ(short_name(text), name);
  EXPECT_EQ(short_name(std::string(200, 'x')), std::string(160, 'x') + "...");
}

TEST(GraphCallers, TheFrameAboveCudaIsNamedAndTheLibraryThatCalledIt) {
  const std::vector<Place> stack = {{"rondo::graph::detail::on_call", "app", 1},
                                    {"", "libcupti.so.13", 2},
                                    {"", "libcuda.so.1", 3},
                                    {"cudaMalloc", "libcudart.so.13", 4},
                                    {"rmm::alloc", "librmm.so", 5},
                                    {"rmm::more", "librmm.so", 6},
                                    {"step", "app", 7},
                                    {"main", "app", 8},
                                    {"", "libc.so.6", 9}};
  EXPECT_EQ(describe_callers(stack, "cudaMalloc"), " called from rmm::alloc (librmm.so), by step (app)");
}

TEST(GraphCallers, AFrameWithoutASymbolTakesTheNameOfTheFunctionOfItsLibraryThatWasCalled) {
  const std::vector<Place> stack = {{"", "libcuda.so.1", 3},
                                    {"", "libcublas.so.12", 0x1234},
                                    {"cublasCreate_v2", "libcublas.so.12", 5},
                                    {"", "libstripped.so", 0x99}};
  EXPECT_EQ(describe_callers(stack, "cudaMalloc"),
            " called from cublasCreate_v2 (libcublas.so.12), by libstripped.so+0x99");
}

TEST(GraphCallers, ARuntimeLibraryInTheCallersOwnFileIsSteppedOver) {
  const std::vector<Place> stack = {{"", "libcuda.so.580", 3},
                                    {"libcudart_static_0a1b", "app", 4},
                                    {"cudaMemcpyAsync_ptsz", "app", 5},
                                    {"rondo::driver::Function<int (*)()>::operator()", "app", 5},
                                    {"std::_Function_handler<void ()>::_M_invoke", "app", 5},
                                    {"step", "app", 6}};
  EXPECT_EQ(describe_callers(stack, "cudaMemcpyAsync"), " called from step (app)");
}

TEST(GraphCallers, AStackOfCudaOnlyNamesNobody) {
  EXPECT_EQ(describe_callers(std::vector<Place>{{"", "libcuda.so.1", 3}, {"", "", 0}}, "cudaMalloc"), "");
  EXPECT_EQ(describe_callers({}, "cudaMalloc"), "");
}

TEST(GraphCallers, AFunctionOfTheProgramIsFoundThoughItIsNotExported) {
  const std::vector<Place> stack = user_code_that_looks();
  bool found = false;
  for (const Place& p : stack)
    if (p.symbol == "user_code_that_looks") {
      found = true;
      EXPECT_EQ(p.library, "graph_test");
    }
  EXPECT_TRUE(found);
  EXPECT_EQ(describe_callers(stack, "cudaMalloc").find(" called from user_code_that_looks (graph_test)"), 0u)
      << describe_callers(stack, "cudaMalloc");
}

TEST(GraphCallers, AnExportedFunctionOfALibraryIsFoundByItsAddress) {
  // One that no sanitizer puts a function of its own before.
  const void* address = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
  const Place p = place_of(static_cast<const char*>(address) + 2);
  EXPECT_EQ(p.library.find("libc.so"), 0u) << p.library;
  EXPECT_NE(p.symbol.find("gnu_get_libc_version"), std::string::npos) << p.symbol;
  const Place nowhere = place_of(reinterpret_cast<void*>(16));
  EXPECT_EQ(nowhere.library + nowhere.symbol, "");
}

}  // namespace
}  // namespace rondo::graph::detail
