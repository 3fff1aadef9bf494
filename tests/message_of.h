// What a failure says, for tests of its kind and its text.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "rondo/error.h"

namespace rondo::test {

inline std::string message_of(const std::function<void()>& work, ErrorKind kind) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace rondo::test
