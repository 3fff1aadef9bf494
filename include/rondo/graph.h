// CUDA graphs as C++ values that cannot be misused, with faults explained.
//
//     using namespace rondo::graph;
//     Graph g = capture([&](CUstream s) { existing_code(s); });   // or node by node: Graph g; g.add(...)
//     GraphExec exec = g.instantiate();
//     exec.launch(stream);
//
// graph_types.h    streams, events, kinds of nodes, edges, kernel calls, features by driver version
// graph_build.h    Graph, GraphView, NodeView: every kind of node, structure, parameters, attributes
// graph_exec.h     GraphExec: launch, upload, whole-graph and node-wise update, enable and disable
// graph_capture.h  capture of a stream, which names the call that breaks it and always cleans up
// graph_look.h     DOT, JSON, the difference of two graphs in words, memory of execs
//
// Owners are move-only; views borrow. The caller's context is current in every call (as with the driver API).
// Errors are rondo::Error: Unavailable (no driver, or one too old), Usage (the caller), Device (the driver's
// answer, with the cause and the remedy).
#pragma once
#include "rondo/graph_build.h"
#include "rondo/graph_capture.h"
#include "rondo/graph_exec.h"
#include "rondo/graph_look.h"
#include "rondo/graph_types.h"
