#include "rondo/graph/callers.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace rondo::graph::detail {
namespace {

constexpr size_t kLongestName = 160;

// ---------------------------------------------------------------- the full symbol table of a file

class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat s {};
    if (fstat(file, &s) == 0 && s.st_size > 0) {
      void* at = mmap(nullptr, static_cast<size_t>(s.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) data_ = static_cast<const char*>(at), bytes_ = static_cast<size_t>(s.st_size);
    }
    close(file);
  }
  ~MappedFile() {
    if (data_) munmap(const_cast<char*>(data_), bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Null unless `count` of them lie within the file.
  template <class T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    if (!data_ || offset > bytes_ || offset % alignof(T) || count > (bytes_ - offset) / sizeof(T))
      return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }

 private:
  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

// The function at `address`, counted as the file's symbols are; "" when the file does not tell.
std::string symbol_in_file(const char* path, ElfW(Addr) address) {
  const MappedFile file(path);
  const auto* header = file.at<ElfW(Ehdr)>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return "";
  const auto* sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  if (!sections) return "";
  for (size_t i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    const size_t count = sections[i].sh_size / sizeof(ElfW(Sym));
    const ElfW(Shdr)& names = sections[sections[i].sh_link];
    const auto* symbols = file.at<ElfW(Sym)>(sections[i].sh_offset, count);
    const auto* text = file.at<char>(names.sh_offset, names.sh_size);
    if (!symbols || !text || names.sh_size == 0 || text[names.sh_size - 1] != 0) return "";
    for (size_t k = 0; k < count; ++k) {
      const ElfW(Sym)& s = symbols[k];
      if ((s.st_info & 0xf) == STT_FUNC && address >= s.st_value && address - s.st_value < s.st_size &&
          s.st_name < names.sh_size)
        return text + s.st_name;
    }
  }
  return "";
}

std::string demangle(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text ? text.get() : symbol;
}

// ---------------------------------------------------------------- which frames are nobody's

bool starts_with(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

bool is_cuda(const Place& p) {
  for (const char* head : {"libcuda.so", "libcudart.so", "libcudart-", "libcupti.so", "libcupti-"})
    if (starts_with(p.library, head)) return true;
  return false;
}

// A run-time library that is linked statically lies in its caller's file: inner functions have one prefix,
// and the one that was called has its own name, with a suffix for per-thread default streams.
bool is_static_runtime(const Place& p, std::string_view call) {
  return starts_with(p.symbol, "libcudart_static_") ||
         (!call.empty() && starts_with(p.symbol, call) &&
          (p.symbol.size() == call.size() || p.symbol[call.size()] == '_'));
}

// Between a caller and what it calls: this library, and std::function and the like.
bool is_between(const Place& p) {
  return starts_with(p.symbol, "rondo::graph::") || starts_with(p.symbol, "rondo::driver::") ||
         starts_with(p.symbol, "std::");
}

std::string describe(const Place& p) {
  if (p.library.empty()) return p.symbol;
  return p.symbol.empty() ? fmt::format("{}+0x{:x}", p.library, p.offset)
                          : fmt::format("{} ({})", p.symbol, p.library);
}

}  // namespace

std::string short_name(std::string_view name) {
  // Parameters: the last top-level parentheses, unless they are part of a name.
  size_t end = name.rfind(')');
  if (end != name.npos) {
    int depth = 0;
    for (size_t i = end + 1; i-- > 0;) {
      if (name[i] == ')') ++depth;
      if (name[i] != '(' || --depth != 0) continue;
      const bool part_of_name =
          name.substr(i, 21) == "(anonymous namespace)" || (i >= 8 && name.substr(i - 8, 8) == "operator");
      if (!part_of_name && i > 0) name = name.substr(0, i);
      break;
    }
  }
  // A return type, which templates have: up to the last top-level space.
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if ((c == '>' && i > 0 && name[i - 1] != '-') || c == ')' || c == '}') --depth;
    if (c == ' ' && depth == 0) {
      if (name.substr(i, 8) == " const::") continue;             // of the method that a local name lies in
      if (i >= 8 && name.substr(i - 8, 8) == "operator") break;  // operator new
      start = i + 1;
    }
  }
  name = name.substr(start);
  return name.size() <= kLongestName ? std::string(name) : std::string(name.substr(0, kLongestName)) + "...";
}

Place place_of(const void* return_address) {
  // The call is before the address to which it returns, which may belong to the next function already.
  const auto* address = static_cast<const char*>(return_address) - 1;
  Place place;
  Dl_info info{};
  link_map* map = nullptr;
  if (!dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP)) return place;
  const bool is_program = !map || !map->l_name || !*map->l_name;
  const std::string path = is_program ? "/proc/self/exe" : map->l_name;
  std::string shown = path;
  if (is_program) {
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length > 0) shown.assign(target, static_cast<size_t>(length));
  }
  place.library = shown.substr(shown.rfind('/') + 1);
  place.offset = static_cast<size_t>(address - static_cast<const char*>(info.dli_fbase));
  std::string symbol = info.dli_sname ? info.dli_sname : "";
  if (symbol.empty() && map)
    symbol = symbol_in_file(path.c_str(), reinterpret_cast<ElfW(Addr)>(address) - map->l_addr);
  if (!symbol.empty()) place.symbol = short_name(demangle(symbol.c_str()));
  return place;
}

std::vector<Place> places_of_stack() {
  struct Frames {
    void* addresses[96];
    size_t count = 0;
  } frames;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) {
        auto* f = static_cast<Frames*>(data);
        if (f->count == std::size(f->addresses)) return _URC_END_OF_STACK;
        f->addresses[f->count++] = reinterpret_cast<void*>(_Unwind_GetIP(context));
        return _URC_NO_REASON;
      },
      &frames);
  std::vector<Place> places;
  for (size_t i = 0; i < frames.count; ++i)
    if (frames.addresses[i]) places.push_back(place_of(frames.addresses[i]));
  return places;
}

std::string describe_callers(std::span<const Place> stack, std::string_view call) {
  // What lies inside of CUDA's libraries was put there by the callback, not by the caller.
  size_t at = 0;
  while (at < stack.size() && !is_cuda(stack[at])) ++at;
  if (at == stack.size()) at = 0;
  const auto machinery = [&](const Place& p) {
    return is_cuda(p) || is_static_runtime(p, call) || is_between(p);
  };
  std::string out;
  for (int levels = 0; levels < 2; ++levels) {
    while (at < stack.size() && (machinery(stack[at]) || stack[at].library.empty())) ++at;
    if (at == stack.size()) break;
    // The innermost function with a name speaks for the frames of its library.
    const Place* shown = &stack[at];
    const std::string& library = stack[at].library;
    for (; at < stack.size() && stack[at].library == library; ++at)
      if (shown->symbol.empty() && !stack[at].symbol.empty() && !machinery(stack[at])) shown = &stack[at];
    if (levels > 0 && starts_with(library, "libc.so")) break;  // who started the thread or the program
    out += (levels == 0 ? " called from " : ", by ") + describe(*shown);
  }
  return out;
}

}  // namespace rondo::graph::detail
