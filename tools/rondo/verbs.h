// The verbs of the program `rondo`, one file a verb. Each adds its subcommand with its options and its help; what it does
// runs when the command line has been read in full, and throws rondo::Error.
//
// Exit codes: what went wrong tells who can mend it.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rondo/base/words.h"
#include "rondo/error.h"

namespace rondo::tool {

enum ExitCode { kOk = 0, kSource = 1, kUsage = 2, kUnavailable = 3, kDevice = 4, kInternal = 5 };
int exit_code(ErrorKind kind) noexcept;

void add_run(CLI::App& app);
void add_check(CLI::App& app);
void add_dump(CLI::App& app);
void add_bench(CLI::App& app);
void add_weights(CLI::App& app);
void add_instances(CLI::App& app);
void add_doctor(CLI::App& app);
void add_replay_report(CLI::App& app);

// ---------------------------------------------------------------- shared by verbs

// -D NAME=VALUE, the sizes of a program.
using Defines = std::vector<std::pair<std::string, int64_t>>;
struct DefineOption {
  std::vector<std::string> given;
  void add_to(CLI::App& verb);
  Defines parsed() const;  // throws Error(Usage)
};

// The whole text; "-" is standard output. See io/file.h.
void write_file(const std::string& path, const std::string& text);

}  // namespace rondo::tool
