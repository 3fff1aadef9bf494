// Copies and fills, and what lies in the host memory that copies read.
#include <fmt/format.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "rondo/replay/image_parts.h"

namespace rondo::replay {
namespace {

// One end of a copy; CUDA_MEMCPY3D has them as src... and dst...
struct End {
  CUmemorytype type;
  uint64_t address;
  size_t x, y, z, pitch, height;
  bool linear() const { return type != CU_MEMORYTYPE_ARRAY; }
};
End source(const CUDA_MEMCPY3D& c) {
  const uint64_t at =
      c.srcMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(c.srcHost) : c.srcDevice;
  return {c.srcMemoryType, at, c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight};
}
End target(const CUDA_MEMCPY3D& c) {
  const uint64_t at =
      c.dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(c.dstHost) : c.dstDevice;
  return {c.dstMemoryType, at, c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch, c.dstHeight};
}
// Where its first byte is.
uint64_t first_byte(const End& e) { return e.address + e.x + e.pitch * (e.y + e.height * e.z); }
// In one row the place is the address alone.
void flatten(End* e) { *e = {e->type, first_byte(*e), 0, 0, 0, 0, 0}; }

// With every field and byte that says nothing as zero, so that equal copies are equal byte by byte.
CUDA_MEMCPY3D normal(const CUDA_MEMCPY3D& c) {
  CUDA_MEMCPY3D n;
  std::memset(static_cast<void*>(&n), 0, sizeof n);
  n.WidthInBytes = c.WidthInBytes;
  n.Height = c.Height ? c.Height : 1;
  n.Depth = c.Depth ? c.Depth : 1;
  End from = source(c), to = target(c);
  if (n.Height == 1 && n.Depth == 1) {
    if (from.linear()) flatten(&from);
    if (to.linear()) flatten(&to);
  }
  n.srcMemoryType = from.type, n.dstMemoryType = to.type;
  n.srcXInBytes = from.x, n.srcY = from.y, n.srcZ = from.z, n.srcPitch = from.pitch,
  n.srcHeight = from.height;
  n.dstXInBytes = to.x, n.dstY = to.y, n.dstZ = to.z, n.dstPitch = to.pitch, n.dstHeight = to.height;
  if (!from.linear())
    n.srcArray = c.srcArray, n.srcLOD = c.srcLOD, n.srcPitch = n.srcHeight = 0;
  else if (from.type == CU_MEMORYTYPE_HOST)
    n.srcHost = reinterpret_cast<const void*>(from.address);
  else
    n.srcDevice = from.address;
  if (!to.linear())
    n.dstArray = c.dstArray, n.dstLOD = c.dstLOD, n.dstPitch = n.dstHeight = 0;
  else if (to.type == CU_MEMORYTYPE_HOST)
    n.dstHost = reinterpret_cast<void*>(to.address);
  else
    n.dstDevice = to.address;
  return n;
}

// Whether it lies in what the program or a library has loaded: that stays.
bool is_static(uint64_t address) {
  struct Asked {
    uint64_t address;
    bool found;
  } asked{address, false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* a = static_cast<Asked*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_LOAD && a->address - (info->dlpi_addr + segment.p_vaddr) < segment.p_memsz)
            a->found = true;
        }
        return a->found ? 1 : 0;
      },
      &asked);
  return asked.found;
}

// Of memory that may not be mapped any more: the kernel says so instead of ending the process.
bool read_own_memory(void* to, uint64_t from, size_t bytes) {
  const iovec here{to, bytes}, there{reinterpret_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

// Of page-locked memory, which the driver keeps mapped (and which the kernel may not read for another).
void read_rows(const CUDA_MEMCPY3D& c, uint64_t address, std::vector<uint8_t>* to) {
  to->resize(c.WidthInBytes * c.Height * c.Depth);
  uint8_t* at = to->data();
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y, at += c.WidthInBytes)
      std::memcpy(at, reinterpret_cast<const void*>(address + c.srcPitch * (y + c.srcHeight * z)),
                  c.WidthInBytes);
}

uint64_t reach(const End& e, const CUDA_MEMCPY3D& c) {
  return e.pitch * (c.Height - 1 + e.height * (c.Depth - 1)) + c.WidthInBytes;
}

template <class T>
std::vector<uint8_t> bytes_of(const T& value) {
  std::vector<uint8_t> out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

}  // namespace

bool one_row(const CUDA_MEMCPY3D& copy) noexcept {
  return copy.Height <= 1 && copy.Depth <= 1 && copy.srcMemoryType != CU_MEMORYTYPE_ARRAY &&
         copy.dstMemoryType != CU_MEMORYTYPE_ARRAY;
}

uint32_t source_offset(const CUDA_MEMCPY3D& copy) noexcept {
  return copy.srcMemoryType == CU_MEMORYTYPE_HOST ? offsetof(CUDA_MEMCPY3D, srcHost)
                                                  : offsetof(CUDA_MEMCPY3D, srcDevice);
}

Memory CopyReader::where(CUmemorytype type, uint64_t address) const {
  if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY) return Memory::Device;
  const Memory found = memory_at(d_, address);
  // Managed memory, by its host address.
  return found == Memory::Device && type == CU_MEMORYTYPE_HOST ? Memory::PageLocked : found;
}

bool CopyReader::argument(uint64_t address) const {
  for (const Span64& span : arguments_)
    if (span.holds(address)) return true;
  return false;
}

void CopyReader::read(NodeImage* to) {
  const CUDA_MEMCPY3D copy = normal(to->node.memcpy());
  to->bytes = bytes_of(copy);
  read_source(copy, first_byte(source(copy)), to);
  read_target(copy, first_byte(target(copy)), to);
}

void CopyReader::read_source(const CUDA_MEMCPY3D& copy, uint64_t address, NodeImage* to) {
  const Memory w = where(copy.srcMemoryType, address);
  if (w == Memory::Device || argument(address)) return;
  const size_t bytes = copy.WidthInBytes * copy.Height * copy.Depth;
  if (w == Memory::PageLocked) {
    if (bytes <= kMostTableBytes) read_rows(copy, address, &to->table);
    return;
  }
  const auto refuse = [&](const char* why, const char* or_else = "or page-lock it") {
    to->why_not =
        fmt::format("a copy of {} bytes from pageable host memory at {:#x}, {}. Make it an argument, {}",
                    bytes, address, why, or_else);
  };
  if (pageable_ == Pageable::MayBeGone && !is_static(address))
    return refuse("which the work may have freed by now",
                  "page-lock it, or promise that it stays (Options::host_tables)");
  if (bytes > kMostTableBytes) return refuse("more than a recording keeps of it (1 MiB)");
  if (!one_row(copy)) return refuse("in rows, which a graph cannot be given another place for");
  to->table.resize(bytes);
  if (!read_own_memory(to->table.data(), address, bytes)) {
    to->table.clear();
    return refuse("which is not there any more");
  }
  to->pageable = true;
}

void CopyReader::read_target(const CUDA_MEMCPY3D& copy, uint64_t address, NodeImage* to) {
  const Memory w = where(copy.dstMemoryType, address);
  if (w == Memory::Device || argument(address)) return;
  if (w == Memory::PageLocked) {
    written_.push_back({address, reach(target(copy), copy)});
    return;
  }
  to->why_not = fmt::format(
      "a copy to pageable host memory at {:#x} would write to an address that may be gone. Make it an "
      "argument, or "
      "page-lock it",
      address);
}

void CopyReader::read_fill(NodeImage* to) {
  CUDA_MEMSET_NODE_PARAMS fill = to->node.memset();
  if (fill.height <= 1) fill.height = 1, fill.pitch = 0;
  static_assert(sizeof fill == 40, "no padding: its bytes are its members");
  to->bytes = bytes_of(fill);
}

void CopyReader::finish(Image* image) const {
  for (NodeImage& n : image->nodes) {
    if (n.table.empty() || n.pageable) continue;
    CUDA_MEMCPY3D copy;
    std::memcpy(&copy, n.bytes.data(), sizeof copy);
    const uint64_t begin = first_byte(source(copy)), end = begin + reach(source(copy), copy);
    for (const Span64& w : written_)
      if (w.base < end && begin < w.base + w.bytes) {
        n.table.clear();
        break;
      }
  }
}

}  // namespace rondo::replay
