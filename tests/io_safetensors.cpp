#include <cmath>
#include <cstring>

#include "io_echo.h"
#include "io_support.h"
#include "rondo/io/safetensors.h"
#include "rondo/io/write_outputs.h"
#include "rondo/weights.h"

namespace rondo {
namespace {

using test::error_of;

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), 8);
  return text + header + data;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST(Safetensors, WhatIsSavedIsLoaded) {
  Weights w;
  const float numbers[] = {1, -2, 3.5f, 4, 5, INFINITY};
  w.set("b", {2, 3}, numbers);
  w.set("a", {}, std::span(numbers, 1));
  w.set("empty", {0, 7}, {});
  const test::TempFile file(".safetensors");
  w.save(file.path());
  const Weights back = Weights::load(file.path());
  EXPECT_EQ(back.names(), (std::vector<std::string>{"a", "b", "empty"}));
  EXPECT_EQ(back.find("b")->dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(back.find("b")->values()[5], INFINITY);
  EXPECT_TRUE(back.find("a")->dims.empty());
  EXPECT_EQ(back.find("empty")->numel, 0u);
  EXPECT_EQ(back.find("c"), nullptr);
  uint64_t length = 0;
  std::memcpy(&length, file.read().data(), 8);
  EXPECT_EQ(length % 8, 0u);  // so that the data are aligned
}

TEST(Safetensors, OtherFloatsAreConverted) {
  const std::string header = R"({"h":{"dtype":"F16","shape":[7],"data_offsets":[0,14]},)"
                             R"("m":{"dtype":"BF16","shape":[2],"data_offsets":[14,18]},)"
                             R"("d":{"dtype":"F64","shape":[1],"data_offsets":[18,26]},"__metadata__":{"format":"pt"}})";
  const test::TempFile file(
      ".safetensors", file_of(header, raw<uint16_t>({0x3c00, 0xc000, 0x7c00, 0x0001, 0x8000, 0x7bff, 0x7e00}) +
                                          raw<uint16_t>({0x3f80, 0xc049}) + raw<double>({0.1})));
  const Weights w = Weights::load(file.path());
  const std::span<const float> h = w.find("h")->values();
  EXPECT_EQ(h[0], 1.0f);
  EXPECT_EQ(h[1], -2.0f);
  EXPECT_EQ(h[2], INFINITY);
  EXPECT_EQ(h[3], std::ldexp(1.0f, -24));
  EXPECT_TRUE(h[4] == 0 && std::signbit(h[4]));
  EXPECT_EQ(h[5], 65504.0f);
  EXPECT_TRUE(std::isnan(h[6]));
  EXPECT_EQ(w.find("m")->values()[0], 1.0f);
  EXPECT_EQ(w.find("m")->values()[1], -3.140625f);
  EXPECT_EQ(w.find("d")->values()[0], 0.1f);
}

TEST(Safetensors, TensorsOfOtherDtypesAreNamesOnly) {
  const test::TempFile file(".safetensors", file_of(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
                                                    raw<int64_t>({1})));
  const Weights w = Weights::load(file.path());
  EXPECT_EQ(w.find("i")->data, nullptr);
  EXPECT_EQ(w.find("i")->unusable, "its dtype is I64");
  const test::TempFile out(".safetensors");
  EXPECT_EQ(error_of([&] { w.save(out.path()); }), "usage: cannot save tensor \"i\": its dtype is I64");
}

TEST(Safetensors, EveryMalformationIsNamed) {
  const auto error = [](const std::string& content) {
    const test::TempFile file(".safetensors", content);
    std::string text = error_of([&] { io::read_safetensors(file.path()); });
    const std::string head = "usage: " + file.path() + ": not a valid .safetensors file: ";
    EXPECT_EQ(text.substr(0, head.size()), head);
    return text.substr(std::min(head.size(), text.size()));
  };
  const auto entry = [&](const std::string& fields, const std::string& data = "12345678") {
    return error(file_of("{\"w\":" + fields + "}", data));
  };
  EXPECT_EQ(error("abc"), "3 bytes, expected at least 8");
  EXPECT_EQ(error(raw<uint64_t>({200000000})), "header of 200000000 bytes, the limit is 100000000");
  EXPECT_EQ(error(raw<uint64_t>({100})), "header of 100 bytes in a file of 8 bytes; it may have been cut short");
  EXPECT_EQ(error(raw<uint64_t>({0})), "the header does not start with {");
  EXPECT_EQ(error(file_of("[]", "")), "the header does not start with {");
  EXPECT_EQ(error(file_of("{\"w\"", "")).substr(0, 23), "the header is not JSON:");
  EXPECT_EQ(entry("3"), "tensor \"w\": its entry is not an object");
  EXPECT_EQ(entry("{}"), "tensor \"w\": its entry has no \"dtype\"");
  EXPECT_EQ(entry(R"({"dtype":3,"shape":[],"data_offsets":[0,8]})"), "tensor \"w\": its dtype is not a string");
  EXPECT_EQ(entry(R"({"dtype":"F33","shape":[],"data_offsets":[0,8]})"), "tensor \"w\": unknown dtype \"F33\"");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "tensor \"w\": its shape is not an array");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
            "tensor \"w\": its shape is not of whole numbers from 0");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
            "tensor \"w\": its shape is too large");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
            "tensor \"w\": its data_offsets are not two whole numbers");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,9]})"),
            "tensor \"w\": its data_offsets [0, 9] lie outside the data of 8 bytes; the file may have been cut short");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            "tensor \"w\": F32 of shape [3] takes 12 bytes, its data_offsets [0, 8] hold 8");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
            "tensor \"w\": its data begins at 4, expected 0: the data leave a hole");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "8 bytes of data, of which the header names 4");
  const std::string one = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(error(file_of("{" + one + "," + one + "}", "1234")), "tensor \"w\": is in the header twice");
  EXPECT_EQ(error(file_of("{" + one + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234")),
            "tensor \"w\": its data begins at 0, expected 4: the data overlap");
}

TEST(Safetensors, FilesThatCannotBeOpenedAreNamed) {
  EXPECT_EQ(error_of([] { Weights::load("/no/such.safetensors"); }),
            "usage: cannot read /no/such.safetensors: No such file or directory");
  EXPECT_EQ(error_of([] { Weights::load("/tmp"); }), "usage: cannot read /tmp: it is a folder");
  EXPECT_EQ(error_of([] { Weights().save("/no/such.safetensors"); }),
            "usage: cannot write /no/such.safetensors: No such file or directory");
}

TEST(Weights, NumbersMustFillTheShape) {
  Weights w;
  const float one[] = {1};
  EXPECT_EQ(error_of([&] { w.set("w", {2, 3}, one); }), "usage: weight \"w\": 1 numbers for f32[2,3], which has 6");
  EXPECT_EQ(error_of([&] { w.set("w", {-1}, one); }), "usage: weight \"w\" has a negative extent -1");
}

TEST(Safetensors, OutputsAreStackedAndListsHaveOffsets) {
  TypeTable types;
  const TypeId ints = types.list(types.integer());
  const TypeId type = types.tuple({types.tensor({2}), ints});
  const auto signature = std::make_shared<Signature>(types, std::vector<TypeId>{type}, type);
  Batch batch(signature);
  const float numbers[] = {1, 2, 3, 4};
  batch.add({batch.tuple({batch.tensor(types.tensor({2}), std::span(numbers, 2)), batch.list({Value::integer(7)})})});
  batch.add({batch.tuple({batch.tensor(types.tensor({2}), std::span(numbers + 2, 2)),
                          batch.list({Value::integer(8), Value::integer(9)})})});
  // echo's tensors: the word of slot s is s << 32 | 1.
  io::SafetensorsOutput out(*signature);
  out.add(test::echo(batch, signature, 2));
  const test::TempFile file(".safetensors");
  out.write(file.path());
  const Weights back = Weights::load(file.path());
  EXPECT_EQ(back.names(), (std::vector<std::string>{"output.0", "output.1", "output.1.offsets"}));
  EXPECT_EQ(back.find("output.0")->dims, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(back.find("output.0")->values()[3], 4.0f);
  EXPECT_EQ(back.find("output.1")->dims, (std::vector<int64_t>{3}));
  EXPECT_EQ(back.find("output.1.offsets")->dims, (std::vector<int64_t>{3}));
  EXPECT_EQ(error_of([] { io::SafetensorsOutput(*test::tree_signature()); }),
            "usage: outputs of type Tree do not fit into .safetensors; write JSON lines");
}

}  // namespace
}  // namespace rondo
