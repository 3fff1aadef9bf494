#include "rondo/io/safetensors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "rondo/error.h"
#include "rondo/io/file.h"

namespace rondo::io {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kLargestHeader = 100'000'000;  // the limit of the reference implementation

struct Entry {
  std::string name, dtype;
  std::vector<int64_t> dims;
  uint64_t numel = 1, begin = 0, end = 0;
};

int dtype_bytes(const std::string& dtype) {
  static const std::pair<const char*, int> kSizes[] = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"U64", 8},     {"I32", 4},
      {"U32", 4}, {"I16", 2}, {"U16", 2}, {"I8", 1},   {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};
  for (const auto& [name, bytes] : kSizes)
    if (dtype == name) return bytes;
  return 0;
}

float half_to_float(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(mantissa), -24), h & 0x8000 ? -1.f : 1.f);
  const uint32_t bits = exponent == 31 ? 0x7f800000u | mantissa << 13 : (exponent + 112) << 23 | mantissa << 13;
  return std::bit_cast<float>(sign | bits);
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), bytes_(read_file(path)) {}

  std::vector<std::pair<std::string, Tensor>> read() {
    std::vector<Entry> entries = header();
    std::vector<std::pair<std::string, Tensor>> out;
    for (const Entry& e : entries) out.emplace_back(e.name, tensor(e));
    return out;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    throw Error(ErrorKind::Usage, fmt::format("{}: not a valid .safetensors file: {}", path_, what));
  }
  [[noreturn]] void bad(const std::string& name, const std::string& what) const {
    bad(fmt::format("tensor \"{}\": {}", name, what));
  }

  std::vector<Entry> header() {
    if (bytes_.size() < 8) bad(fmt::format("{} bytes, expected at least 8", bytes_.size()));
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    if (length > kLargestHeader) bad(fmt::format("header of {} bytes, the limit is {}", length, kLargestHeader));
    if (length > bytes_.size() - 8)
      bad(fmt::format("header of {} bytes in a file of {} bytes; it may have been cut short", length, bytes_.size()));
    data_ = bytes_.data() + 8 + length;
    data_bytes_ = bytes_.size() - 8 - length;
    const char* begin = bytes_.data() + 8;
    if (length == 0 || *begin != '{') bad("the header does not start with {");
    // The DOM keeps the last of equal keys; the format forbids them.
    std::set<std::string> seen;
    std::string twice;
    const auto watch = [&](int depth, json::parse_event_t event, json& value) {
      if (event == json::parse_event_t::key && depth == 1 && !seen.insert(value.get<std::string>()).second)
        twice = value.get<std::string>();
      return true;
    };
    json doc;
    try {
      doc = json::parse(begin, begin + length, watch);
    } catch (const json::exception& e) {
      bad(fmt::format("the header is not JSON: {}", e.what()));
    }
    if (!twice.empty()) bad(twice, "is in the header twice");
    std::vector<Entry> entries;
    for (const auto& [name, value] : doc.items())
      if (name != "__metadata__") entries.push_back(entry(name, value));
    check_layout(&entries);
    return entries;
  }

  Entry entry(const std::string& name, const json& value) const {
    if (!value.is_object()) bad(name, "its entry is not an object");
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!value.contains(key)) bad(name, fmt::format("its entry has no \"{}\"", key));
    Entry e;
    e.name = name;
    if (!value["dtype"].is_string()) bad(name, "its dtype is not a string");
    e.dtype = value["dtype"].get<std::string>();
    if (!dtype_bytes(e.dtype)) bad(name, fmt::format("unknown dtype \"{}\"", e.dtype));
    if (!value["shape"].is_array()) bad(name, "its shape is not an array");
    for (const json& d : value["shape"]) {
      if (!d.is_number_unsigned()) bad(name, "its shape is not of whole numbers from 0");
      const auto extent = d.get<uint64_t>();
      if (extent > (uint64_t{1} << 48) || (extent && e.numel > (uint64_t{1} << 48) / extent))
        bad(name, "its shape is too large");
      e.numel *= extent;
      e.dims.push_back(static_cast<int64_t>(extent));
    }
    const json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      bad(name, "its data_offsets are not two whole numbers");
    e.begin = offsets[0].get<uint64_t>();
    e.end = offsets[1].get<uint64_t>();
    if (e.begin > e.end || e.end > data_bytes_)
      bad(name, fmt::format("its data_offsets [{}, {}] lie outside the data of {} bytes; the file may have been cut short",
                            e.begin, e.end, data_bytes_));
    const uint64_t wanted = e.numel * static_cast<uint64_t>(dtype_bytes(e.dtype));
    if (e.end - e.begin != wanted)
      bad(name, fmt::format("{} of shape [{}] takes {} bytes, its data_offsets [{}, {}] hold {}", e.dtype,
                            fmt::join(e.dims, ","), wanted, e.begin, e.end, e.end - e.begin));
    return e;
  }

  void check_layout(std::vector<Entry>* entries) const {
    std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    uint64_t at = 0;
    for (const Entry& e : *entries) {
      if (e.begin != at)
        bad(e.name, fmt::format("its data begins at {}, expected {}: the data {}", e.begin, at,
                                e.begin < at ? "overlap" : "leave a hole"));
      at = e.end;
    }
    if (at != data_bytes_) bad(fmt::format("{} bytes of data, of which the header names {}", data_bytes_, at));
  }

  Tensor tensor(const Entry& e) const {
    Tensor t;
    t.dims = e.dims;
    t.numel = e.numel;
    const bool usable = e.dtype == "F32" || e.dtype == "F16" || e.dtype == "BF16" || e.dtype == "F64";
    if (!usable) {
      t.unusable = "its dtype is " + e.dtype;
      return t;
    }
    auto out = std::shared_ptr<float[]>(new float[e.numel]);
    const char* in = data_ + e.begin;
    for (uint64_t i = 0; e.dtype != "F32" && i < e.numel; ++i) {
      if (e.dtype == "F64") {
        double v;
        std::memcpy(&v, in + 8 * i, 8);
        out[i] = static_cast<float>(v);
      } else {
        uint16_t v;
        std::memcpy(&v, in + 2 * i, 2);
        out[i] = e.dtype == "F16" ? half_to_float(v) : std::bit_cast<float>(static_cast<uint32_t>(v) << 16);
      }
    }
    if (e.dtype == "F32" && e.numel) std::memcpy(out.get(), in, e.numel * sizeof(float));
    t.data = std::move(out);
    return t;
  }

  std::string path_, bytes_;
  const char* data_ = nullptr;
  uint64_t data_bytes_ = 0;
};

}  // namespace

std::vector<std::pair<std::string, Tensor>> read_safetensors(const std::string& path) { return Reader(path).read(); }

void write_safetensors(const std::string& path, const std::vector<SavedTensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t at = 0;
  std::vector<uint64_t> sizes;
  for (const SavedTensor& t : tensors) {
    uint64_t bytes = static_cast<uint64_t>(dtype_bytes(t.dtype));
    for (const int64_t d : t.dims) bytes *= static_cast<uint64_t>(d);
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.dims}, {"data_offsets", {at, at + bytes}}};
    sizes.push_back(bytes);
    at += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& e) {
    throw Error(ErrorKind::Usage, fmt::format("cannot write {}: a tensor's name is not UTF-8: {}", path, e.what()));
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  FileWriter file(path);
  const uint64_t length = text.size();
  file.write(&length, 8);
  file.write(text.data(), text.size());
  for (size_t i = 0; i < tensors.size(); ++i) file.write(tensors[i].data, sizes[i]);
  file.finish();
}

}  // namespace rondo::io
