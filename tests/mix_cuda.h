// Parts of mix_test.cpp that nvcc compiles. Each returns "" or what is wrong.
#pragma once
#include <string>

namespace mix {

std::string no_device();  // "" or why there is none
std::string launches_in_a_capture();
std::string a_stream_of_the_runtime();
std::string a_graph_of_the_runtime_goes_in();
std::string a_graph_goes_out();
std::string execs_go_both_ways();
std::string a_kernel_of_this_file_as_a_node();
std::string events_of_the_runtime();
std::string a_broken_capture();
std::string kernels_are_shown();
std::string verdicts_hold(std::string* seen);
std::string memory_of_execs(std::string* seen);

}  // namespace mix
