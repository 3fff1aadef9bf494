// What a lack of host memory interrupted, said by whoever knows it: a bad_alloc has neither a place nor a number.
#pragma once
#include <new>
#include <stdexcept>
#include <string>

#include "rondo/error.h"

namespace rondo {

// Error(Device) "out of host memory {what}: this process holds .. MiB, the machine has .. MiB free[, the limit is ..]".
// `what`: "while reading a.jsonl:3".
Error out_of_memory(const std::string& what);

// work(), with its bad_alloc (and length_error: a container of more than any machine has) as that Error. what() makes the
// text, after the memory of work() is free again.
template <class What, class Work>
auto naming_memory(const What& what, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw out_of_memory(what());
}

}  // namespace rondo
