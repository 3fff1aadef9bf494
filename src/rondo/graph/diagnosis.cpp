#include "rondo/graph/diagnosis.h"

#include <fmt/format.h>

namespace rondo::graph {
namespace {

constexpr bool any_phase = true, this_phase = false;

constexpr Finding kTable[] = {
    // ---- capture
    {"1", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase, "BeginCapture", -1,
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
     "(15b: also for a stream that is not captured, on the thread that captures)",
     "Move the call after the capture, or split the region there; a check of a debug build that synchronizes "
     "must be "
     "off"},
    {"3", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Capture, this_phase,
     "Malloc|MemAlloc|MemFree|cudaFree|HostAlloc|HostRegister|Module|Library|Create|Destroy", -1,
     "Allocating, freeing or loading is not allowed in a capture",
     "Do it before the capture (run the work once to warm up libraries); or allocate in stream order "
     "(cudaMallocAsync), which becomes a node; or, if it concerns no captured memory, put the call into a "
     "RelaxedScope"},
    {"4", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Phase::Build, any_phase, "", -1,
     "The call is not allowed while a stream is being captured, on this thread or, by a capture in global "
     "mode, on "
     "another one",
     "Make it outside of the capture, capture in thread-local mode, or put the call into a RelaxedScope"},
    {"5", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, Phase::Capture, any_phase, "", -1,
     "An earlier call has broken the capture, and nobody looked at its status; modules that were loaded and "
     "unloaded in it break it too, although the load answers success",
     "Check calls with RONDO_GRAPH_CALL(call), or find the stretch with RONDO_GRAPH_CHECKPOINT(\"name\")"},
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
    // ---- update
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
    {"34", CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, Phase::Build, any_phase, "", -1,
     "The driver is older than this feature", "Update the driver; has(Feature) tells before the call"},
    {"34", CUDA_ERROR_NOT_SUPPORTED, Phase::Build, any_phase, "", -1,
     "The driver or the device does not support this",
     "Look for a limit of the node's kind in rondo/graph_build.h"},
    {"36", static_cast<CUresult>(98) /* cudaErrorInvalidDeviceFunction */, Phase::Build, any_phase, "", -1,
     "The kernel was compiled for another architecture, or its handle belongs to another context",
     "Compile for this device, and look the function up in the current context"},
    {"37", CUDA_ERROR_TIMEOUT, Phase::Launch, any_phase, "", -1,
     "A wait took too long; it has nothing to do with capture",
     "Look at external semaphores and at communication with other processes"},
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

std::string explain(CUresult code, Phase phase, std::string_view call, int result) {
  const Finding* f = diagnose(code, phase, call, result);
  return f ? fmt::format(". {}. {}", f->cause, f->remedy) : "";
}

void fail(const driver::Driver& d, CUresult code, Phase phase, const char* call, const std::string& context,
          int result) {
  const std::string_view text(call);
  throw Error(ErrorKind::Device,
              fmt::format("{} failed: {}{}{}", driver::base_name(text.substr(0, text.find('('))),
                          driver::describe(d, code), context.empty() ? "" : " [" + context + "]",
                          explain(code, phase, call, result)));
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
