// What a kernel node holds: its name, shape, parameters and attributes.
#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "rondo/graph/look.h"
#include "rondo/graph/state.h"

namespace rondo::graph::look {

// ---------------------------------------------------------------- values

std::string hex(uint64_t value, size_t bytes) { return fmt::format("{:#0{}x}", value, 2 * bytes + 2); }

std::string hex(const std::vector<unsigned char>& bytes) {
  const auto word = [&](size_t at, size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, count);  // little-endian, as GPUs and their hosts are
    return hex(value, count);
  };
  if (bytes.size() <= 8) return bytes.empty() ? "" : word(0, bytes.size());
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    if (at) text += ' ';
    text += word(at, std::min<size_t>(8, bytes.size() - at));
  }
  return text;
}

namespace {

// How many bytes a character of UTF-8 takes at the start of `text`; 0: there is none.
size_t character_bytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char head = at(0);
  const size_t bytes = head < 0x80   ? 1
                       : head < 0xc2 ? 0
                       : head < 0xe0 ? 2
                       : head < 0xf0 ? 3
                       : head < 0xf5 ? 4
                                     : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Longer than needed, half of a pair of UTF-16, or beyond the last character.
  if ((head == 0xe0 && at(1) < 0xa0) || (head == 0xed && at(1) > 0x9f) || (head == 0xf0 && at(1) < 0x90) ||
      (head == 0xf4 && at(1) > 0x8f))
    return 0;
  return bytes;
}

}  // namespace

std::string utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    out += bytes ? text.substr(0, bytes) : "\xef\xbf\xbd";
    text.remove_prefix(bytes ? bytes : 1);
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : utf8(text)) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string demangled(const std::string& symbol) {
  // A plain name may spell a type ("f" is float): only what is mangled is taken apart.
  if (symbol.compare(0, 2, "_Z") != 0) return symbol;
  int status = 0;
  char* name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  const std::string out = status == 0 && name ? name : symbol;
  std::free(name);
  return out;
}

Field number(std::string name, uint64_t value, Change change, const char* why) {
  const std::string text = fmt::format("{}", value);
  return {std::move(name), text, text, change, why};
}
Field word(std::string name, const std::string& value, Change change, const char* why) {
  return {std::move(name), value, quoted(value), change, why};
}
Field address(std::string name, uint64_t value, Change change, const char* why) {
  const std::string text = hex(value, 8);
  Field f{std::move(name), text, quoted(text), change, why};
  f.address = true;
  return f;
}
Field dimensions(std::string name, Dim3 d, Change change, const char* why) {
  return {std::move(name), fmt::format("{}x{}x{}", d.x, d.y, d.z), fmt::format("[{},{},{}]", d.x, d.y, d.z),
          change, why};
}

namespace {

// ---------------------------------------------------------------- attributes

using Value = CUlaunchAttributeValue;

std::string dims_or_none(unsigned x, unsigned y, unsigned z) {
  return x * y * z > 1 ? fmt::format("{}x{}x{}", x, y, z) : "";
}
std::string not_zero(int value) { return value ? fmt::format("{}", value) : ""; }

struct Attribute {
  int id, since;
  const char* name;
  const char* why;                    // an update cannot change it
  std::string (*text)(const Value&);  // "" for the default
};
constexpr const char* kKept = "the driver may keep the old attribute of a kernel and report success";
const Attribute kAttributes[] = {
    {1, 12000, "access policy window", kKept,
     [](const Value& v) {
       const CUaccessPolicyWindow& w = v.accessPolicyWindow;
       return w.num_bytes ? fmt::format("{} bytes, hit ratio {}, hit {}, miss {}", w.num_bytes, w.hitRatio,
                                        static_cast<int>(w.hitProp), static_cast<int>(w.missProp))
                          : std::string();
     }},
    {2, 12000, "cooperative", "a kernel cannot become cooperative or cease to be",
     [](const Value& v) { return not_zero(v.cooperative); }},
    {4, 12000, "cluster dimension", kKept,
     [](const Value& v) { return dims_or_none(v.clusterDim.x, v.clusterDim.y, v.clusterDim.z); }},
    {5, 12000, "cluster scheduling policy", kKept,
     [](const Value& v) {
       // The driver reads "spread" (1) back where nothing was set: seen on an H200, R580.
       const int policy = static_cast<int>(v.clusterSchedulingPolicyPreference);
       return policy == CU_CLUSTER_SCHEDULING_POLICY_SPREAD ? std::string() : not_zero(policy);
     }},
    {8, 12000, "priority", kKept, [](const Value& v) { return not_zero(v.priority); }},
    {9, 12000, "memory sync domain map", kKept,
     [](const Value& v) {
       const auto& m = v.memSyncDomainMap;
       // {0, 1} is what the driver starts with, {0, 0} a value that was never set.
       return m.default_ == 0 && m.remote <= 1 ? std::string() : fmt::format("{}, {}", m.default_, m.remote);
     }},
    {10, 12000, "memory sync domain", kKept,
     [](const Value& v) { return not_zero(static_cast<int>(v.memSyncDomain)); }},
#if CUDA_VERSION >= 12080
    {11, 12080, "preferred cluster dimension", kKept,
     [](const Value& v) {
       const auto& p = v.preferredClusterDim;
       return dims_or_none(p.x, p.y, p.z);
     }},
#endif
#if CUDA_VERSION >= 12040
    {13, 12040, "device updatable", "device-updatable kernel nodes take no update of the whole graph",
     [](const Value& v) { return not_zero(v.deviceUpdatableKernelNode.deviceUpdatable); }},
#endif
#if CUDA_VERSION >= 13000
    {16, 13000, "nvlink centric scheduling", kKept,
     [](const Value& v) { return not_zero(static_cast<int>(v.nvlinkUtilCentricScheduling)); }},
#endif
};

void read_attributes(const driver::Driver& d, const NodeView& node, Node* to) {
  for (const Attribute& a : kAttributes) {
    if (d.version < a.since) continue;
    Value value{};
    // A driver that cannot read this kind of attribute back refuses; there is nothing to show then.
    if (d.cuGraphKernelNodeGetAttribute(node.get(), static_cast<CUlaunchAttributeID>(a.id), &value) !=
        CUDA_SUCCESS)
      continue;
    const std::string text = a.text(value);
    if (text.empty()) continue;
    to->attributes.push_back(word(a.name, text, Change::Never, a.why));
    to->device_updatable |= a.id == 13;
  }
}

// ---------------------------------------------------------------- parameters

[[maybe_unused]] std::string needs(const char* what, int version, const driver::Driver& d) {
  return fmt::format("{} needs driver {}, this is {}", what, driver::driver_name(version),
                     driver::driver_name(d.version));
}

void read_name([[maybe_unused]] const driver::Driver& d, [[maybe_unused]] const CUDA_KERNEL_NODE_PARAMS& p,
               [[maybe_unused]] Node* to) {
#if CUDA_VERSION >= 12030
  const char* symbol = nullptr;
  const bool told = (p.func && d.cuFuncGetName && d.cuFuncGetName(&symbol, p.func) == CUDA_SUCCESS) ||
                    (p.kern && d.cuKernelGetName && d.cuKernelGetName(&symbol, p.kern) == CUDA_SUCCESS);
  if (told && symbol) {
    to->symbol = symbol;
    to->name = demangled(symbol);
  }
#endif
}

// Where the parameters of a kernel lie, or why that is not known.
std::string read_layout([[maybe_unused]] const driver::Driver& d,
                        [[maybe_unused]] const CUDA_KERNEL_NODE_PARAMS& p,
                        [[maybe_unused]] std::vector<Parameter>* layout) {
#if CUDA_VERSION >= 12040
  const bool by_function = p.func && d.cuFuncGetParamInfo;
  if (!by_function && !(p.kern && d.cuKernelGetParamInfo))
    return needs("the layout of kernel parameters", 12040, d);
  for (size_t i = 0;; ++i) {
    Parameter at;
    const CUresult code = by_function ? d.cuFuncGetParamInfo(p.func, i, &at.offset, &at.bytes)
                                      : d.cuKernelGetParamInfo(p.kern, i, &at.offset, &at.bytes);
    if (code == CUDA_ERROR_INVALID_VALUE) return "";  // there is no i-th
    if (code != CUDA_SUCCESS)
      return fmt::format("the driver does not tell where they lie: {}", driver::describe(d, code));
    layout->push_back(std::move(at));
  }
#else
  return "their layout is known to Rondo built with CUDA 12.4 headers or newer";
#endif
}

// The block that `extra` holds: {POINTER, p, SIZE, &n, END}, the pairs in any order.
std::pair<const unsigned char*, size_t> packed_block(void** extra) {
  const unsigned char* block = nullptr;
  size_t bytes = 0;
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      block = static_cast<const unsigned char*>(extra[i + 1]);
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<const size_t*>(extra[i + 1]);
    else
      return {nullptr, 0};  // a form from the future
  }
  return {block, bytes};
}

void read_parameters(const driver::Driver& d, const CUDA_KERNEL_NODE_PARAMS& p, Node* to) {
  std::vector<Parameter> layout;
  to->unknown = read_layout(d, p, &layout);
  if (p.extra) {
    to->packed = true;
    const auto [block, bytes] = packed_block(p.extra);
    bool fits = to->unknown.empty() && !layout.empty();
    for (const Parameter& at : layout) fits &= at.offset + at.bytes <= bytes;
    if (!fits) layout.assign(block && bytes ? 1 : 0, Parameter{0, bytes, {}});  // as it came: one block
    for (Parameter& at : layout) at.value.assign(block + at.offset, block + at.offset + at.bytes);
    to->unknown = block ? "" : "they are packed in a form that this build does not know";
  } else if (to->unknown.empty() && !layout.empty() && !p.kernelParams) {
    to->unknown = "the driver gives none for this node";
  } else if (to->unknown.empty()) {
    for (size_t i = 0; i < layout.size(); ++i) {
      const auto* from = static_cast<const unsigned char*>(p.kernelParams[i]);
      layout[i].value.assign(from, from + layout[i].bytes);
    }
  }
  if (to->unknown.empty()) to->parameters = std::move(layout);
}

}  // namespace

void read_kernel(const NodeView& node, Node* to) {
  const driver::Driver& d = driver::driver();
  const CUDA_KERNEL_NODE_PARAMS p = node.kernel();
  read_name(d, p, to);
  Field function = address(
      "function", reinterpret_cast<uint64_t>(p.func ? static_cast<const void*>(p.func) : p.kern),
      Change::Depends, "neither kernel uses dynamic parallelism, device-side updates or graph launches");
  function.shown = false;
  to->fields = {std::move(function), dimensions("grid", {p.gridDimX, p.gridDimY, p.gridDimZ}),
                dimensions("block", {p.blockDimX, p.blockDimY, p.blockDimZ}),
                number("shared bytes", p.sharedMemBytes)};
  if (p.ctx) {
    Field context = address("context", reinterpret_cast<uint64_t>(p.ctx), Change::Never,
                            "the context of a kernel cannot change");
    context.shown = false;
    to->fields.push_back(std::move(context));
  }
  read_parameters(d, p, to);
  read_attributes(d, node, to);
}

}  // namespace rondo::graph::look
