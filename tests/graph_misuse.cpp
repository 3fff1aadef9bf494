// What goes wrong in other people's hands: objects that hold nothing, nodes of other graphs, ends in the
// wrong order or thread, one exec in many threads.
#include <thread>

#include "graph_support.h"
#include "rondo/graph/look.h"

namespace rondo::graph {
namespace {

class Misuse : public Graphs {
 protected:
  CUstreamCaptureMode mode() const {
    CUstreamCaptureMode found = CU_STREAM_CAPTURE_MODE_RELAXED;
    RONDO_CU(d_, cuThreadExchangeStreamCaptureMode(&found));
    CUstreamCaptureMode back = found;
    RONDO_CU(d_, cuThreadExchangeStreamCaptureMode(&back));
    return found;
  }
  auto remote(size_t word, uint32_t value) {
    return store(word, value).with(attribute::memory_sync_domain(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE));
  }
};

// ---------------------------------------------------------------- captures and scopes

TEST_F(Misuse, WhatBelongsToACaptureIsRefusedAfterItsEnd) {
  Graph g;
  const Stream other = Stream::create();
  Capture fresh(m_.stream);
  (void)fresh.end();
  Capture into(m_.stream, g, {});
  into.finish();
  for (Capture* c : {&fresh, &into})
    for (const std::function<void()>& call :
         {std::function<void()>([&] { (void)c->graph(); }),
          {[&] { (void)c->tip(); }},
          {[&] { c->set_tip({}); }},
          {[&] { c->fork(other); }},
          {[&] { c->join(other); }},
          {[&] { c->graft([](GraphView to, const After& tip) { return to.empty(tip); }); }}})
      EXPECT_EQ(message_of(call, ErrorKind::Usage),
                "the capture has ended already. Call end() or finish() once, and last");
}

TEST_F(Misuse, RelaxedScopesMayEndInAnyOrder) {
  auto first = std::make_unique<RelaxedScope>(), second = std::make_unique<RelaxedScope>(),
       third = std::make_unique<RelaxedScope>();
  first.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  third.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  second.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(Misuse, ARelaxedScopeThatEndsOnAnotherThreadLeavesThatThreadAlone) {
  CUstreamCaptureMode strict = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  RONDO_CU(d_, cuThreadExchangeStreamCaptureMode(&strict));
  auto outer = std::make_unique<RelaxedScope>(), inner = std::make_unique<RelaxedScope>();
  std::thread([&] {
    outer.reset();
    EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  }).join();
  inner.reset();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

// ---------------------------------------------------------------- names

TEST_F(Misuse, APlainNameThatSpellsATypeIsNotTakenApart) {
  EXPECT_EQ(look::demangled("f"), "f");
  EXPECT_EQ(look::demangled("Pf"), "Pf");
  EXPECT_EQ(look::demangled("_Z3fooi"), "foo(int)");
}

TEST_F(Misuse, AStringOfJsonIsUtf8WhateverTheNameHolds) {
  EXPECT_EQ(look::quoted("a\"b\\c\n\x01\x7f"), "\"a\\\"b\\\\c\\u000a\\u0001\x7f\"");
  EXPECT_EQ(look::quoted("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  // A byte that begins nothing, a character cut off, too long a form, half a pair, beyond the last one.
  EXPECT_EQ(look::quoted("\xff|\xc3"), "\"\\ufffd|\\ufffd\"");
  EXPECT_EQ(look::quoted("\xc0\xaf"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(look::quoted("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(look::quoted("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

}  // namespace
}  // namespace rondo::graph
