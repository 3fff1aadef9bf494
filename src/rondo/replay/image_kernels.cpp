// Kernels: their parameters as one block, and the block as the driver takes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "rondo/replay/image_parts.h"

namespace rondo::replay {

std::string hex(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  return fmt::format("{:02x}", fmt::join(p, p + bytes, ""));
}

namespace {

using driver::Driver;

KernelReader::Layout read_layout([[maybe_unused]] const Driver& d,
                                 [[maybe_unused]] const CUDA_KERNEL_NODE_PARAMS& p) {
  KernelReader::Layout out;
#if CUDA_VERSION >= 12040
  const bool by_function = p.func && d.cuFuncGetParamInfo;
  if (!by_function && !(p.kern && d.cuKernelGetParamInfo)) {
    out.unknown =
        fmt::format("where its parameters lie is told by driver {} and newer, this is {}. Update the driver",
                    driver::driver_name(12040), driver::driver_name(d.version));
    return out;
  }
  for (size_t i = 0;; ++i) {
    size_t offset = 0, bytes = 0;
    const CUresult code = by_function ? d.cuFuncGetParamInfo(p.func, i, &offset, &bytes)
                                      : d.cuKernelGetParamInfo(p.kern, i, &offset, &bytes);
    if (code == CUDA_ERROR_INVALID_VALUE) return out;  // there is no i-th
    if (code != CUDA_SUCCESS) {
      out.unknown =
          fmt::format("the driver does not tell where its parameters lie: {}", driver::describe(d, code));
      return out;
    }
    out.parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
  }
#else
  out.unknown =
      "where its parameters lie is not known to a Rondo that was built with CUDA headers before 12.4. Build "
      "it "
      "with newer ones";
  return out;
#endif
}

// The block that `extra` holds: {POINTER, p, SIZE, &n, END}, the pairs in any order.
bool packed_block(void* const* extra, const uint8_t** block, size_t* bytes) {
  *block = nullptr, *bytes = 0;
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *block = static_cast<const uint8_t*>(extra[i + 1]);
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      *bytes = *static_cast<const size_t*>(extra[i + 1]);
    else
      return false;  // a form from the future
  }
  return *block || *bytes == 0;
}

size_t end_of(const std::vector<Parameter>& parameters) {
  size_t end = 0;
  for (const Parameter& p : parameters) end = std::max<size_t>(end, p.offset + p.size);
  return end;
}

// What lies between parameters is whatever lay on the caller's stack, and no kernel reads it.
void clear_gaps(const std::vector<Parameter>& parameters, std::vector<uint8_t>* bytes) {
  std::vector<uint8_t> clean(bytes->size());
  const size_t end = end_of(parameters);
  const auto keep = [&](size_t at, size_t count) {
    std::memcpy(clean.data() + at, bytes->data() + at, count);
  };
  for (const Parameter& p : parameters) keep(p.offset, p.size);
  if (end < bytes->size()) keep(end, bytes->size() - end);
  bytes->swap(clean);
}

// Attributes by their ids, with how much of the value counts: they are not patched, and a launch
// configuration that depends on an address shows here.
constexpr struct {
  int id;
  size_t bytes;
} kAttributes[] = {{1, 28} /* access policy window */,
                   {2, 4} /* cooperative */,
                   {4, 12} /* cluster */,
                   {8, 4} /* priority */,
                   {9, 2} /* domain map */,
                   {10, 4} /* domain */};

void read_attributes([[maybe_unused]] const Driver& d, NodeImage* to) {
  for (const auto& [id, bytes] : kAttributes) {
    const std::optional<CUlaunchAttributeValue> value =
        to->node.attribute(static_cast<CUlaunchAttributeID>(id));
    static constexpr CUlaunchAttributeValue kNone{};
    if (!value || std::memcmp(&*value, &kNone, bytes) == 0) continue;
    to->rest += fmt::format("attribute {} {}\n", id, hex(&*value, bytes));
    if (id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
      to->rest_words.push_back(reinterpret_cast<uint64_t>(value->accessPolicyWindow.base_ptr));
  }
#if CUDA_VERSION >= 12040
  if (d.version < 12040) return;
  const auto updatable = to->node.attribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
  if (updatable && updatable->deviceUpdatableKernelNode.deviceUpdatable)
    to->why_not =
        "a kernel may change it on the device, and what it is then nobody knows here. Launch this graph as "
        "it is";
#endif
}

}  // namespace

void KernelReader::read(NodeImage* to) {
  const CUDA_KERNEL_NODE_PARAMS p = to->node.kernel();
  to->kernel = p;
  to->kernel.kernelParams = to->kernel.extra = nullptr;
  read_attributes(d_, to);
  const void* function = p.func ? static_cast<const void*>(p.func) : p.kern;
  auto known = layouts_.find(function);
  if (known == layouts_.end()) known = layouts_.emplace(function, read_layout(d_, p)).first;
  const Layout& layout = known->second;
  if (p.extra) {
    const uint8_t* block = nullptr;
    size_t bytes = 0;
    if (!packed_block(p.extra, &block, &bytes)) {
      to->why_not = "its parameters are packed in a form that this build of Rondo does not know";
      return;
    }
    to->packed = true;
    to->bytes.assign(block, block + bytes);
    if (!layout.parameters.empty() && end_of(layout.parameters) <= bytes) {
      to->parameters = layout.parameters;
      clear_gaps(to->parameters, &to->bytes);
    } else if (bytes) {
      to->parameters = {{0, static_cast<uint32_t>(bytes)}};
    }
    return;
  }
  if (!p.kernelParams) {
    if (!layout.parameters.empty()) to->why_not = "the driver does not tell its parameters";
    return;
  }
  if (!layout.unknown.empty()) {
    to->why_not = layout.unknown;
    return;
  }
  to->parameters = layout.parameters;
  to->bytes.resize(end_of(to->parameters));
  for (size_t i = 0; i < to->parameters.size(); ++i)
    std::memcpy(to->bytes.data() + to->parameters[i].offset, p.kernelParams[i], to->parameters[i].size);
}

void point_at(const NodeImage& image, uint8_t* bytes, void** pointers, PackedParameters* packed,
              CUDA_KERNEL_NODE_PARAMS* to) noexcept {
  *to = image.kernel;
  if (image.packed) {
    packed->bytes = image.bytes.size();
    void** e = packed->extra;
    e[0] = CU_LAUNCH_PARAM_BUFFER_POINTER, e[1] = bytes;
    e[2] = CU_LAUNCH_PARAM_BUFFER_SIZE, e[3] = &packed->bytes;
    e[4] = CU_LAUNCH_PARAM_END;
    to->extra = e;
  } else if (!image.parameters.empty()) {
    for (size_t i = 0; i < image.parameters.size(); ++i) pointers[i] = bytes + image.parameters[i].offset;
    to->kernelParams = pointers;
  }
}

}  // namespace rondo::replay
