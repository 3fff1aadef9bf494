#include "rondo/graph/diagnosis.h"

#include <fmt/format.h>

#include "rondo/graph/driver_log.h"

namespace rondo::graph {
namespace {

constexpr bool any_phase = true, this_phase = false;

constexpr Finding kTable[] = {
    // ---- capture
    {"1", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, any_phase, "BeginCapture", -1,
     "The legacy (NULL) stream cannot be captured",
     "Capture on a stream of your own: Stream::create() or cudaStreamCreateWithFlags(.., "
     "cudaStreamNonBlocking)"},
    {"17", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, any_phase, "GraphLaunch|GraphUpload", -1,
     "An executable graph cannot be launched into a stream that is being captured, and trying has broken the "
     "capture",
     "Add the graph as a child node instead, Capture::graft([&](GraphView g, After tip) { return "
     "g.child(graph, tip); "
     "}), or launch it after the capture"},
    {"2", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase,
     "Synchronize|StreamQuery|EventQuery", -1,
     "Waiting for the GPU, or asking how far it is, is not allowed in a capture: nothing runs while work is "
     "recorded "
     "(also for a stream that is not captured, on the thread that captures)",
     "Move the call after the capture, or split the region there; a check of a debug build that synchronizes "
     "must be "
     "off"},
    {"18", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase, "GraphExecDestroy", -1,
     "An executable graph cannot be destroyed while its thread captures",
     "Let a GraphExec own it, whose destructor is let through and never throws; else destroy it after the "
     "capture, or in a RelaxedScope"},
    {"2a", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase, "AddCallback", -1,
     "A stream callback cannot be captured",
     "Use cudaLaunchHostFunc (cuLaunchHostFunc), which becomes a host node"},
    {"2b", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase,
     "CtxRecordEvent|CtxWaitEvent|GreenCtx", -1,
     "An event of a whole context cannot be recorded or awaited while one of its streams is captured; every "
     "such "
     "capture is broken",
     "Record an event in a stream instead, or do it outside of the capture"},
    {"3", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase,
     "Malloc|MemAlloc|MemFree|cudaFree|HostAlloc|HostRegister|Module|Library|Create|Destroy", -1,
     "Allocating, freeing or loading is not allowed in a capture",
     "Do it before the capture (run the work once to warm up libraries); or allocate in stream order "
     "(cudaMallocAsync), which becomes a node; or, if it concerns no captured memory, put the call into a "
     "RelaxedScope"},
    {"2c", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase, "Memcpy|Memset", -1,
     "A copy or fill that waits for the GPU is not allowed in a capture",
     "Use the asynchronous form with the captured stream (cudaMemcpyAsync, cudaMemsetAsync), and pinned host "
     "memory"},
    {"4", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Build, any_phase, "", -1,
     "The call is not allowed while a stream is being captured, on this thread or, by a capture in global "
     "mode, on "
     "another one",
     "Make it outside of the capture, capture in thread-local mode, or put the call into a RelaxedScope"},
    {"6", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, Phase::Capture, any_phase, "EndCapture", -1,
     "An earlier call has broken the capture, and nobody looked at its status; modules that were loaded and "
     "unloaded in it break it too, although the load answers success",
     "Run with RONDO_GRAPH_WATCH=calls, which names the call and its caller; or check calls with "
     "RONDO_GRAPH_CALL(call), or find the stretch with RONDO_GRAPH_CHECKPOINT(\"name\")"},
    {"5", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, Phase::Capture, any_phase, "", -1,
     "An earlier call has broken the capture, and nobody looked at its status; this one is innocent",
     "Check the calls before it with RONDO_GRAPH_CALL(call), or run with RONDO_GRAPH_WATCH=calls, which "
     "names the "
     "call and its caller"},
    {"7", CUDA_ERROR_STREAM_CAPTURE_MERGE, Phase::Capture, any_phase, "", -1,
     "An event that was recorded in one capture is waited for in another, which would merge the two; both "
     "are broken",
     "Capture both streams as one capture (Capture::fork and join), or order the two graphs by external "
     "events "
     "(Event::record_external, wait_external_in)"},
    {"8", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, Phase::Capture, any_phase, "", -1,
     "The capture was ended in a stream that joined it, not in the one where it began; it is broken",
     "End it in the stream of its begin (Capture does)"},
    {"9", CUDA_ERROR_STREAM_CAPTURE_UNJOINED, Phase::Capture, any_phase, "", -1,
     "A stream that was forked from the captured one was not joined again",
     "Join it before the end: Capture::join(stream), or record an event in it and let the captured stream "
     "wait for the "
     "event. Streams named in CaptureOptions::watch are checked and named"},
    {"10", CUDA_ERROR_STREAM_CAPTURE_ISOLATION, Phase::Capture, any_phase, "", -1,
     "A captured stream was to wait for an event that was recorded outside of the capture",
     "Wait for it before the capture begins, or wait by an external event node (Event::wait_external_in, "
     "cudaEventWaitExternal)"},
    {"11", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, Phase::Capture, any_phase, "", -1,
     "The legacy (default) stream was used while a blocking stream is being captured: the two depend on each "
     "other "
     "implicitly. Plain cudaMemcpy and cudaMemset use that stream too",
     "Capture on a non-blocking stream (Stream::create()), or compile with --default-stream per-thread"},
    {"12", CUDA_ERROR_CAPTURED_EVENT, Phase::Capture, any_phase, "", -1,
     "An event that was last recorded in a capture stands for a point of the graph; it cannot be asked or "
     "waited for",
     "Ask after the capture with another event, or record it as an external event (Event::record_external, "
     "cudaEventRecordExternal)"},
    {"12", CUDA_ERROR_INVALID_VALUE, Phase::Capture, any_phase, "WaitEvent|EventQuery|EventSynchronize", -1,
     "The event was last recorded in a capture that is over, and stands for nothing now",
     "Record it again in a stream, or record it as an external event (Event::record_external, "
     "cudaEventRecordExternal)"},
    {"13", CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, Phase::Capture, any_phase, "", -1,
     "The capture was ended on another thread than the one that began it; it is over",
     "End it on its own thread, or begin it with CU_STREAM_CAPTURE_MODE_RELAXED"},
    {"15", CUDA_ERROR_ILLEGAL_STATE, Phase::Capture, any_phase, "BeginCapture", -1,
     "The stream is being captured already",
     "End the other capture first, or capture on a stream of its own; one Capture owns a stream"},
    {"15", CUDA_ERROR_ILLEGAL_STATE, Phase::Capture, any_phase, "EndCapture|UpdateCaptureDependencies", -1,
     "The stream is not being captured: someone else has ended the capture",
     "Leave the end to Capture::end()"},
    {"14", static_cast<CUresult>(402) /* CUDA_ERROR_LOSSY_QUERY, CUDA 12.3 */, Phase::Capture, any_phase, "",
     -1, "An edge carries data (a programmatic launch), and this form of the call has no room for it",
     "Use the form with edge data (cuStreamGetCaptureInfo_v3, cuGraphGetEdges_v2; the 7-argument "
     "cudaStreamGetCaptureInfo), or Capture::tip() and GraphView::edges()"},
    // ---- instantiate
    {"20", CUDA_ERROR_INVALID_VALUE, Phase::Instantiate, this_phase, "",
     CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
     "The structure of the graph is not valid: its edges make a cycle",
     "Remove an edge of the cycle; Graph::edges() lists them"},
    {"21", CUDA_ERROR_INVALID_VALUE, Phase::Instantiate, any_phase, "",
     CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED,
     "A graph that kernels launch may hold kernels, copies, fills and child graphs only; the body of a "
     "condition these, empty nodes and conditions",
     "Take the node out, or instantiate without device_launch"},
    {"22", CUDA_ERROR_INVALID_VALUE, Phase::Instantiate, any_phase, "",
     CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
     "A graph that kernels launch must belong to one context", "Make one graph a device"},
    {"23", CUDA_ERROR_INVALID_VALUE, Phase::Instantiate, any_phase, "", 5 /* CONDITIONAL_HANDLE_UNUSED */,
     "A condition was made, and no conditional node uses it", "Add its node, or do not make it"},
    {"24", CUDA_ERROR_NOT_SUPPORTED, Phase::Instantiate, this_phase, "", -1,
     "A graph with alloc, free, conditional or device-updatable nodes has one executable graph at a time",
     "Destroy the first one, or update it instead"},
    {"24", CUDA_ERROR_NOT_SUPPORTED, Phase::Build, this_phase,
     "GraphClone|ChildGraph|AddNode|DestroyNode|Dependencies|CopyAttributes", -1,
     "A graph with alloc, free, conditional or device-updatable nodes cannot be cloned or be a child by "
     "copy, and such "
     "nodes and their edges cannot be taken out",
     "Build it anew, or move it in as a child: child(std::move(graph)), CUDA 12.9"},
    {"19", CUDA_ERROR_OUT_OF_MEMORY, Phase::Instantiate, any_phase, "", -1,
     "There is no memory left on the device",
     "Destroy executable graphs that are not needed, update one instead of keeping many, and give unused "
     "memory of "
     "graphs back with trim_graph_memory(device)"},
    // ---- launch
    {"25", CUDA_ERROR_INVALID_VALUE, Phase::Launch, this_phase, "GraphLaunch", -1,
     "Memory that the last launch allocated in the graph is not freed yet, or the stream is not valid in the "
     "current "
     "context",
     "Free it by a free node or cuMemFreeAsync before the next launch, or instantiate with auto_free"},
    {"31", CUDA_ERROR_ILLEGAL_ADDRESS, Phase::Launch, any_phase, "", -1,
     "A kernel or copy used memory that is not there (any more): a graph holds the addresses of its capture, "
     "and "
     "this may be a report of earlier work. The context is lost",
     "Keep what the graph points to alive as long as the graph, GraphView::keep(shared_ptr); look for the "
     "access "
     "with compute-sanitizer"},
    {"31", CUDA_ERROR_MISALIGNED_ADDRESS, Phase::Launch, any_phase, "", -1,
     "A kernel used an address that is not aligned as it needs: a patched address must be aligned as the "
     "recorded "
     "one. The context is lost",
     "Patch in addresses that are at least as aligned as those of the capture; look for the access with "
     "compute-sanitizer"},
    // ---- update
    {"26", CUDA_ERROR_INVALID_HANDLE, Phase::Update, this_phase, "SetParams|SetEvent|SetEnabled|GetEnabled",
     -1, "The node, or its graph, is gone",
     "Keep the graph alive as long as nodes of its executable graph are changed (keep_source does), and use "
     "nodes "
     "of GraphExec::source()"},
    {"26", CUDA_ERROR_INVALID_VALUE, Phase::Update, this_phase, "SetParams|SetEvent|SetEnabled", -1,
     "The node is not one of the graph that this executable graph was made from, or the change is not one "
     "that the "
     "driver makes in place (another function's context, another kind of copy)",
     "Use nodes of GraphExec::source(), and update_or_reinstantiate for larger changes"},
    {"27", CUDA_ERROR_NOT_SUPPORTED, Phase::Update, this_phase, "GraphExecUpdate", -1,
     "One of the graphs has device-updatable kernel nodes, and such graphs are not updated as a whole",
     "Change nodes by GraphExec::set or from a kernel, or instantiate anew (update_or_reinstantiate)"},
    {"27", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, Phase::Update, this_phase, "",
     CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
     "The graphs differ in their nodes or edges, or in the order of edges",
     "Record in the same order each time, or instantiate anew (update_or_reinstantiate)"},
    {"27", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, Phase::Update, this_phase, "",
     CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, "A node is of another kind",
     "Record the same kinds of work each time, or instantiate anew (update_or_reinstantiate)"},
    {"27", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, Phase::Update, this_phase, "",
     CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED,
     "The driver does not change this in place (some also say so when the number of nodes differs)",
     "Instantiate anew (update_or_reinstantiate)"},
    {"28", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, Phase::Update, this_phase, "", -1,
     "A parameter or attribute of a node is not one that can be changed in place (the kind of a copy, the "
     "extent of a "
     "2-D fill, cooperative launch, a function of another context)",
     "Instantiate anew (update_or_reinstantiate)"},
    // ---- anywhere
    {"34", static_cast<CUresult>(36) /* CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER */, Phase::Build, any_phase, "", -1,
     "The driver is older than this feature", "Update the driver; has(Feature) tells before the call"},
    {"34", static_cast<CUresult>(35) /* cudaErrorInsufficientDriver */, Phase::Build, any_phase, "", -1,
     "The driver is older than the run-time library that this program was built with",
     "Update the driver, or build with a CUDA toolkit that is not newer than the driver"},
    {"34", CUDA_ERROR_NOT_SUPPORTED, Phase::Build, any_phase, "", -1,
     "The driver or the device does not support this",
     "Look for a limit of the node's kind in rondo/graph_build.h"},
    {"36", static_cast<CUresult>(98) /* cudaErrorInvalidDeviceFunction */, Phase::Build, any_phase, "", -1,
     "The kernel was compiled for another architecture, or its handle belongs to another context",
     "Compile for this device, and look the function up in the current context"},
    {"36", CUDA_ERROR_NO_BINARY_FOR_GPU, Phase::Build, any_phase, "", -1,
     "The kernel was not compiled for the architecture of this GPU, and has no PTX to compile from",
     "Compile for this device (nvcc -arch=native, or several -gencode), or keep PTX in the binary"},
    {"36", CUDA_ERROR_INVALID_HANDLE, Phase::Build, any_phase, "KernelNode|LaunchKernel", -1,
     "The function is not one of the current context: its module is unloaded, or belongs to another device",
     "Look the function up again for each context, and keep its module loaded as long as graphs use it"},
    {"37", CUDA_ERROR_TIMEOUT, Phase::Launch, any_phase, "", -1,
     "A wait took too long; it has nothing to do with capture",
     "Look at external semaphores and at communication with other processes"},
};

// What no status tells.
constexpr Advice kAdvice[] = {
    {"15b", "900 from a synchronization of a stream that is not captured",
     "told as row 2: the status is the same",
     "A synchronization is unsafe on a thread that captures, whatever the stream. Move it out, or put it "
     "into a "
     "RelaxedScope"},
    {"16", "an empty graph, and no error", "CaptureOptions::refuse_empty counts the nodes at the end",
     "Put the work into the captured stream, or one that is forked from it"},
    {"29", "an update that succeeds and changes nothing, or hangs",
     "GraphExec::update compares the attributes of kernel nodes first, and refuses what the driver may keep",
     "update_or_reinstantiate makes a new executable graph then"},
    {"30", "stale results, and no error",
     "not by Rondo's graph layer: to the driver an old address is as good as a new one",
     "A graph holds addresses and host values as they were at the capture. Patch them (GraphExec::set, "
     "update), or pass scalars through device memory"},
    {"32", "replays that do not overlap",
     "not a fault: an executable graph never overlaps itself, in any stream",
     "Instantiate one executable graph for each replay that shall overlap"},
    {"33", "a slow first launch", "not a fault: the first launch uploads",
     "InstantiateOptions::upload_to, or GraphExec::upload, before it counts"},
    {"35", "an unrelated check reports 900 to 910 later",
     "Capture clears the run-time's last error after each failed capture",
     "Call use_runtime_last_error once when libcudart is linked statically; clear_runtime_last_error after "
     "failures "
     "that were handled elsewhere"},
};

bool names(const char* calls, std::string_view call) {
  std::string_view words(calls);
  if (words.empty()) return true;
  call = call.substr(0, call.find('('));
  while (true) {
    const size_t bar = words.find('|');
    if (call.find(words.substr(0, bar)) != call.npos) return true;
    if (bar == words.npos) return false;
    words.remove_prefix(bar + 1);
  }
}

}  // namespace

const Finding* diagnose(CUresult code, Phase phase, std::string_view call, int result) {
  for (const Finding& f : kTable)
    if ((f.result >= 0 ? f.result == result && f.phase == phase
                       : f.code == code && (f.any_phase || f.phase == phase)) &&
        names(f.calls, call))
      return &f;
  return nullptr;
}

std::span<const Finding> findings() { return kTable; }
std::span<const Advice> advice() { return kAdvice; }

std::string explain(CUresult code, Phase phase, std::string_view call, int result) {
  const Finding* f = diagnose(code, phase, call, result);
  return f ? fmt::format(". {}. {}", f->cause, f->remedy) : "";
}

void fail(const driver::Driver& d, CUresult code, Phase phase, const char* call, const std::string& context,
          int result) {
  const std::string_view text(call);
  throw Error(ErrorKind::Device,
              fmt::format("{} failed: {}{}{}{}", driver::base_name(text.substr(0, text.find('('))),
                          driver::describe(d, code), context.empty() ? "" : " [" + context + "]",
                          explain(code, phase, call, result), detail::log_of_call(d, code, call)));
}

const char* describe(CUgraphInstantiateResult result) {
  switch (static_cast<int>(result)) {
    case 0:
      return "success";
    case 1:
      return "see the error code";
    case 2:
      return "invalid structure, such as a cycle";
    case 3:
      return "a node that a device-launched graph, or a body, cannot have";
    case 4:
      return "nodes of several contexts";
    case 5:
      return "a condition that no node uses";
    default:
      return "a reason newer than this build";
  }
}

const char* describe(CUgraphExecUpdateResult result) {
  switch (static_cast<int>(result)) {
    case 0:
      return "success";
    case 1:
      return "see the error code";
    case 2:
      return "the topology differs";
    case 3:
      return "the type of a node differs";
    case 4:
      return "the function of a kernel node differs";
    case 5:
      return "parameters differ in a way that cannot be updated";
    case 6:
      return "something about a node is not supported";
    case 7:
      return "a kernel's function cannot be changed to this";
    case 8:
      return "the attributes of a kernel node differ";
    default:
      return "a reason newer than this build";
  }
}

}  // namespace rondo::graph
