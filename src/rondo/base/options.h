// What the environment asks for. The only place of Rondo that reads it.
//
//   RONDO_LIBCUDA       path of libcuda (else the one in the process, else libcuda.so.1)
//   RONDO_LIBNVRTC      path of libnvrtc (else libnvrtc.so.13, libnvrtc.so.12, the toolkit's folder)
//   RONDO_LIBCUPTI      path of libcupti (else the one in the process, libcupti.so.13, .12, the toolkit's folder)
//   RONDO_CACHE_DIR     folder of compiled kernels (else $XDG_CACHE_HOME/rondo, else ~/.cache/rondo); "off": none
//   RONDO_CXX           host compiler (else g++, c++, clang++ on the PATH)
//   RONDO_LOG           off, error, warn (default), info or debug, on stderr
//   RONDO_THREADS       workers of the cpu device, 1 to 1024 (else the hardware threads)
//   RONDO_GRAPH_WATCH   how a capture that breaks finds the call: off, log (default), retry, or calls (also 1)
//   RONDO_REPLAY        never: every region runs plainly; always: a graph wherever one can be made; auto (default): as
//                       the region says
//   RONDO_REPLAY_CHECK  1: every call of a region asks whether its buffers still exist; 0 (default): as the region says
//   RONDO_REPLAY_REPORT a file that the report of all regions is written to when the process ends, for `rondo
//                       replay-report`; %p in it is the process id
#pragma once
#include <string>

#include "rondo/base/trace.h"

namespace rondo {

// As rondo::graph::WatchCalls, which says what each does.
enum class GraphWatch { Off, Log, Retry, Calls };
// Auto: as rondo::replay::Options::policy says.
enum class ReplayPolicy { Auto, Never, Always };

struct Options {
  std::string libcuda;    // "" = look for it
  std::string libnvrtc;   // "" = look for it
  std::string libcupti;   // "" = look for it
  std::string cache_dir;  // "" = no disk cache
  std::string cxx;        // "" = look for one
  std::string path;       // PATH, where programs are looked for
  std::string temp_dir;   // TMPDIR, or /tmp
  trace::Level log = trace::Level::Warn;
  int threads = 0;  // 0 = the hardware threads
  GraphWatch graph_watch = GraphWatch::Log;
  ReplayPolicy replay = ReplayPolicy::Auto;
  bool replay_check = false;
  std::string replay_report;  // "" = none; with %p replaced
};

// Reads the environment now. Throws Error(Usage) naming the variable and its value.
Options read_options();

// As read at the first call, or at the last reload_options().
Options options();
void reload_options();
// options().graph_watch without the copy of the rest: it is asked for at every capture.
GraphWatch graph_watch();

}  // namespace rondo
