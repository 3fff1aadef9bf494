#include "rondo/graph/graph.h"

#include <fmt/format.h>

#include <exception>

namespace rondo::graph {
namespace {

const char* name(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "memcpy";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "memset";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "host";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "child graph";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "empty";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "event wait";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "event record";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return "semaphore signal";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "semaphore wait";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "alloc";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "free";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "batch mem op";
    default:
      return "other";
  }
}

const char* describe(CUgraphInstantiateResult result) {
  switch (result) {
    case CUDA_GRAPH_INSTANTIATE_SUCCESS:
      return "success";
    case CUDA_GRAPH_INSTANTIATE_ERROR:
      return "see the error code";
    case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
      return "invalid structure, such as a cycle";
    case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
      return "a node that a device-launched graph cannot have";
    case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
      return "nodes of several contexts";
    default:
      return "a reason newer than this build";
  }
}

const char* describe(CUgraphExecUpdateResult result) {
  switch (result) {
    case CU_GRAPH_EXEC_UPDATE_SUCCESS:
      return "success";
    case CU_GRAPH_EXEC_UPDATE_ERROR:
      return "see the error code";
    case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
      return "the topology differs";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
      return "the type of a node differs";
    case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
      return "the function of a kernel node differs";
    case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
      return "parameters differ in a way that cannot be updated";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:
      return "something about a node is not supported";
    case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
      return "a kernel's function cannot be changed to this";
    case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
      return "the attributes of a kernel node differ";
    default:
      return "a reason newer than this build";
  }
}

}  // namespace

std::string describe_node(const driver::Driver& d, CUgraphNode node) {
  CUgraphNodeType type{};
  if (!node || d.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return "unknown node";
#if CUDA_VERSION >= 12030
  CUDA_KERNEL_NODE_PARAMS params{};
  const char* function = nullptr;
  if (type == CU_GRAPH_NODE_TYPE_KERNEL && d.cuFuncGetName &&
      d.cuGraphKernelNodeGetParams(node, &params) == CUDA_SUCCESS && params.func &&
      d.cuFuncGetName(&function, params.func) == CUDA_SUCCESS && function)
    return fmt::format("kernel node {}", function);
#endif
  return fmt::format("{} node", name(type));
}

// ---------------------------------------------------------------- Graph

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(graph_, other.graph_);
  return *this;
}

Graph::~Graph() {
  if (graph_) (void)driver_->cuGraphDestroy(graph_);
}

size_t Graph::node_count() const {
  size_t count = 0;
  RONDO_CU(*driver_, cuGraphGetNodes(graph_, nullptr, &count));
  return count;
}

Graph capture(const driver::Driver& d, CUstream stream, const std::function<void()>& work) {
  RONDO_CU(d, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::exception_ptr broken;
  try {
    work();
  } catch (...) {
    broken = std::current_exception();
  }
  // Also after a failure: only the end of its capture makes the stream usable again.
  CUgraph raw = nullptr;
  const CUresult code = d.cuStreamEndCapture(stream, &raw);
  Graph graph(d, raw);
  if (broken) std::rethrow_exception(broken);
  if (code != CUDA_SUCCESS)
    driver::fail(
        d, code, "cuStreamEndCapture(",
        "a call between begin and end that is not allowed in a capture, and whose status was not looked at");
  return graph;
}

// ---------------------------------------------------------------- GraphExec

GraphExec& GraphExec::operator=(GraphExec&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(exec_, other.exec_);
  return *this;
}

GraphExec::~GraphExec() {
  if (exec_) (void)driver_->cuGraphExecDestroy(exec_);
}

void GraphExec::upload(CUstream stream) const { RONDO_CU(*driver_, cuGraphUpload(exec_, stream)); }
void GraphExec::launch(CUstream stream) const { RONDO_CU(*driver_, cuGraphLaunch(exec_, stream)); }

Updated GraphExec::update(const Graph& graph) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult code = driver_->cuGraphExecUpdate(exec_, graph.get(), &info);
  if (code == CUDA_SUCCESS && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) return {true, ""};
  std::string reason = fmt::format("{}: {}", driver::describe(*driver_, code), describe(info.result));
  if (info.errorNode) reason += fmt::format(" [{}]", describe_node(*driver_, info.errorNode));
  return {false, std::move(reason)};
}

GraphExec instantiate(const Graph& graph) {
  const driver::Driver& d = graph.driver();
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CUgraphExec raw = nullptr;
  const CUresult code = d.cuGraphInstantiateWithParams(&raw, graph.get(), &params);
  if (code == CUDA_SUCCESS && params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS) return GraphExec(d, raw);
  GraphExec partial(d, raw);
  std::string context = describe(params.result_out);
  if (params.hErrNode_out) context += "; " + describe_node(d, params.hErrNode_out);
  driver::fail(d, code, "cuGraphInstantiateWithParams(", context);
}

}  // namespace rondo::graph
