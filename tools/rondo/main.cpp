// `rondo`: check, look into, run and measure dynamic models.
#include <cstdio>
#include <exception>
#include <iostream>

#include "rondo/base/temporary.h"
#include "rondo/error.h"
#include "verbs.h"

namespace {

constexpr const char* kAbout =
    "rondo: write a dynamic model (trees, sequences) for one instance; run it batched on a CPU or an NVIDIA GPU.\n"
    "\n"
    "A first session:\n"
    "  rondo doctor                                          what this machine has and lacks\n"
    "  rondo check examples/models/treelstm.rondo            types and shapes\n"
    "  rondo weights random -p examples/models/treelstm.rondo --seed 1 -o w.safetensors\n"
    "  rondo run examples/models/treelstm.rondo --weights w.safetensors --trees examples/data/trees.txt --hash-words 1000\n"
    "`rondo VERB --help` explains a verb; docs/language.md teaches the language.";

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 the program (or its source) is wrong; 2 the call is wrong: arguments, weights, instances;\n"
    "3 something that the machine lacks; 4 the device failed; 5 a fault of Rondo's own.\n"
    "Environment: RONDO_LOG=off|error|warn|info|debug, RONDO_CACHE_DIR, RONDO_CXX, RONDO_LIBCUDA, RONDO_LIBNVRTC, RONDO_LIBCUPTI,\n"
    "RONDO_THREADS, RONDO_GRAPH_WATCH=off|log|retry|calls (docs/graph_diagnosis.md),\n"
    "RONDO_REPLAY=auto|never|always, RONDO_REPLAY_CHECK=0|1, RONDO_REPLAY_REPORT=FILE (for replay-report).";

// "file:line:col: error: ..." stands as it is; anything else says which program speaks.
void print_error(const rondo::Error& error) {
  const bool placed = error.kind() == rondo::ErrorKind::Source;
  std::fprintf(stderr, "%s%s\n", placed ? "" : "rondo: ", error.what());
}

int run(int argc, char** argv) {
  CLI::App app{kAbout, "rondo"};
  app.set_version_flag("--version", std::string("rondo ") + RONDO_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  using namespace rondo::tool;
  add_run(app);
  add_check(app);
  add_dump(app);
  add_bench(app);
  add_weights(app);
  add_instances(app);
  add_doctor(app);
  add_replay_report(app);
  if (argc > 1 && argv[1][0] != '-') {
    bool known = false;
    std::string verbs;
    for (const CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
      known = known || verb->get_name() == argv[1];
      verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
    }
    if (!known) {
      std::fprintf(stderr, "rondo: there is no verb '%s': expected one of %s\nRun `rondo --help`, or `rondo VERB --help`.\n", argv[1], verbs.c_str());
      return kUsage;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "rondo: %s\nRun `rondo --help`, or `rondo VERB --help`.\n", e.what());
    return kUsage;
  }
  return kOk;
}

// Whatever a verb printed, and however it ended: what did not arrive is said, and is no success.
int finish_output(int code) {
  if (std::cout.flush() && std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fprintf(stderr, "rondo: cannot write to standard output: is the disk full, or the reader gone?\n");
  return code == rondo::tool::kOk ? rondo::tool::kUsage : code;
}

int run_and_explain(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const rondo::Error& e) {
    std::fflush(stdout);
    print_error(e);
    return rondo::tool::exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "rondo: out of host memory. Try a smaller --batch.\n");
    return rondo::tool::kDevice;
  } catch (const std::exception& e) {
    if (std::ferror(stdout)) return rondo::tool::kOk;  // fmt could not print: finish_output says so
    std::fprintf(stderr, "rondo: a fault of Rondo's own: %s\n", e.what());
    return rondo::tool::kInternal;
  }
}

}  // namespace

int main(int argc, char** argv) {
  rondo::remove_temporaries_on_signals();
  return finish_output(run_and_explain(argc, argv));
}
