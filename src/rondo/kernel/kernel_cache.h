// Compiled things by key, once: in memory for the process, on disk for the next one.
//
// The key of an entry is the 128-bit hash (base/hash.h) of, in this order, each with its length:
//   1. kFormat, the version of this file format and of this list;
//   2. the kind of thing: "cubin" or "so";
//   3. the compiler's identity: NVRTC's version, or path, size, time and `--version` of the host compiler; or
//      "any", the second key of an artifact, asked only where there is no compiler;
//   4. the flags as passed;
//   5. the architecture: "sm_90", or the host's CPU as -march=native resolves it;
//   6. the source text.
// Nothing else reaches the compiler (no include path of the user's), so equal keys mean equal code.
//
// A file is the compiled bytes as they are (a shared object can be opened where it lies) followed by a
// trailer of 48 bytes: "rondo-kc", format, payload size, hash of the payload. Files are written under another
// name and renamed, so that a reader never sees half a file. A file whose trailer does not fit is deleted and
// made again, and so is anything else that has its name (a pipe). When the folder cannot be written,
// everything works from memory and one note says so. The folder may be deleted at any time.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rondo/base/hash.h"
#include "rondo/error.h"

namespace rondo::kernel {

struct KeyParts {
  std::string_view kind, compiler, flags, architecture, text;
};
Hash128 make_key(const KeyParts& parts);

struct Artifact {
  std::string bytes;
  std::filesystem::path file;  // where it lies in the cache; "" when it is in memory only
};

// Where an artifact came from, for reports.
struct Outcome {
  enum class From { Memory, Disk, Compiled } from = From::Compiled;
  double ms = 0;  // from the request to the artifact
};
const char* name(Outcome::From from) noexcept;  // "memory", "disk", "compiled"

class KernelCache {
 public:
  // "" = memory only.
  explicit KernelCache(std::filesystem::path folder);
  ~KernelCache();
  // The process's cache, in options().cache_dir as it was at the first call.
  static KernelCache& shared();

  // The artifact of `key`, by compile() when it is nowhere; several threads that ask for one key compile it
  // once. What compile() throws is thrown to its caller and nothing is kept. `name` is for people: it starts
  // file names and is shown in the trace ("kernel.memory", "kernel.disk", "kernel.compiled": spans, text =
  // name). `suffix` ends file names: ".cubin", ".so". `source` is kept beside under `source_suffix`, for
  // reading.
  std::shared_ptr<const Artifact> get(Hash128 key, std::string_view name, std::string_view suffix,
                                      std::string_view source_suffix, std::string_view source,
                                      const std::function<std::string()>& compile,
                                      Outcome* outcome = nullptr);
  // A second key for an artifact's file, on disk only. Best effort.
  void also(const Artifact& artifact, Hash128 key, std::string_view name, std::string_view suffix);
  // Keeps what did not have to be compiled, without a source and without a trace. Best effort.
  void put(Hash128 key, std::string_view name, std::string_view suffix, std::string bytes);
  // Null when it is nowhere.
  std::shared_ptr<const Artifact> find(Hash128 key, std::string_view name, std::string_view suffix);
  // For want of a compiler: what any compiler made, kept by also() under `any_key`, with a note that says so.
  // Throws `reason` when there is none.
  std::shared_ptr<const Artifact> instead_of(const Error& reason, Hash128 any_key, std::string_view name,
                                             std::string_view suffix, Outcome* outcome);
  // Keeps a source that did not compile; "" when the folder cannot be written.
  std::filesystem::path keep_source(Hash128 key, std::string_view name, std::string_view suffix,
                                    std::string_view source);
  const std::filesystem::path& folder() const;
  void forget();  // the memory level

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondo::kernel
