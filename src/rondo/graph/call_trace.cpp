#include "rondo/graph/call_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "rondo/driver/cupti.h"
#include "rondo/graph/callers.h"

namespace rondo::graph::detail {

struct CallTrace::Traced {
  const driver::Driver* driver = nullptr;
  CUstream stream = nullptr;
  std::thread::id thread;
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::optional<TracedCall> breaker, first_failure;
};

namespace {

using Traced = CallTrace::Traced;

// Two locks, because CUPTI may wait for callbacks while it subscribes, and callbacks need the list.
std::mutex life_mutex;  // of the subscription
std::mutex list_mutex;  // of `traced`
// Never destroyed: other threads call CUDA while the process ends.
std::vector<std::shared_ptr<Traced>>& traced = *new std::vector<std::shared_ptr<Traced>>;

#if RONDO_HAS_CUPTI

// Both under life_mutex.
int users = 0;
CUpti_SubscriberHandle subscriber = nullptr;
const driver::Cupti* cupti = nullptr;

// Callbacks of a thread's calls of one subscription: an end that was not seen must not spoil the next.
std::atomic<unsigned> subscription{0};
struct ThisThread {
  unsigned subscription = 0;
  bool asking = false;  // our own question is not to be traced
  int depth = 0;        // of run-time calls
  const char* runtime_call = nullptr;
};
thread_local ThisThread here;

// "cudaMalloc" of "cudaMalloc_v3020", "cudaMemcpyAsync" of "cudaMemcpyAsync_ptsz".
std::string plain_name(std::string_view name) {
  while (true) {
    const size_t at = name.rfind('_');
    if (at == name.npos || at == 0) return std::string(name);
    const std::string_view tail = name.substr(at + 1);
    const bool version =
        tail.size() > 1 && tail[0] == 'v' && tail.find_first_not_of("0123456789", 1) == tail.npos;
    if (!version && tail != "ptsz" && tail != "ptds") return std::string(name);
    name = name.substr(0, at);
  }
}

// They return a status that was someone else's, or no status at all.
bool tells_of_others(std::string_view name) {
  for (const char* head :
       {"cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorName", "cudaGetErrorString"})
    if (name.substr(0, std::string_view(head).size()) == head) return true;
  return false;
}

void on_failure(const char* name, int code, bool outermost) {
  std::vector<std::shared_ptr<Traced>> open;
  {
    const std::lock_guard lock(list_mutex);
    open = traced;
  }
  std::optional<std::string> callers;
  for (const std::shared_ptr<Traced>& t : open) {
    if (!t->on.load(std::memory_order_acquire)) continue;
    const bool elsewhere = t->thread != std::this_thread::get_id();
    {
      const std::lock_guard lock(t->mutex);
      if (t->breaker) continue;
    }
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const bool broken = t->driver->cuStreamIsCapturing(t->stream, &status) == CUDA_SUCCESS &&
                        status == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    if (!broken && (elsewhere || !outermost)) continue;
    if (!callers) callers = describe_callers(places_of_stack(), plain_name(name));
    TracedCall call{plain_name(name), static_cast<CUresult>(code), *callers, elsewhere};
    const std::lock_guard lock(t->mutex);
    if (!elsewhere && !t->first_failure) t->first_failure = call;
    if (broken && !t->breaker) t->breaker = std::move(call);
  }
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  ThisThread& t = here;
  if (t.asking) return;
  if (const unsigned now = subscription.load(std::memory_order_relaxed); t.subscription != now)
    t.subscription = now, t.depth = 0;
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (!runtime && domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER) {
    if (runtime && t.depth++ == 0) t.runtime_call = call.functionName;
    return;
  }
  const char* name = t.depth > 0 ? t.runtime_call : call.functionName;
  if (runtime && t.depth > 0) --t.depth;
  if (!call.functionReturnValue || !name) return;
  const int code = *static_cast<const int*>(call.functionReturnValue);
  if (code <= 0 || code > 999 || code == CUDA_ERROR_NOT_READY || tells_of_others(name)) return;
  t.asking = true;
  try {
    on_failure(name, code, t.depth == 0);
  } catch (...) {  // out of memory: this call is then not named
  }
  t.asking = false;
}

std::string words(const driver::Cupti& c, CUptiResult code) {
  const char* text = nullptr;
  if (c.cuptiGetResultString(code, &text) != CUPTI_SUCCESS || !text) text = "unknown result";
  return fmt::format("{} ({})", text, static_cast<int>(code));
}

CUptiResult subscribe(const driver::Cupti& c, std::string* holder) {
#ifdef CUpti_SubscriberParams_STRUCT_SIZE
  if (c.cuptiSubscribe_v2) {
    char name[2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "Rondo";
    params.oldSubscriberName = name, params.oldSubscriberSize = sizeof name;
    const CUptiResult code = c.cuptiSubscribe_v2(&subscriber, &on_call, nullptr, &params);
    name[sizeof name - 1] = 0;
    *holder = name;
    return code;
  }
#endif
  (void)holder;
  return c.cuptiSubscribe(&subscriber, &on_call, nullptr);
}

// "" or why not.
std::string enter() {
  const std::lock_guard lock(life_mutex);
  if (users > 0) return ++users, "";
  try {
    cupti = &driver::cupti();
  } catch (const Error& e) {
    return e.what();
  }
  std::string holder;
  const CUptiResult code = subscribe(*cupti, &holder);
  if (code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || code == CUPTI_ERROR_MAX_LIMIT_REACHED)
    return fmt::format(
        "another tool holds CUPTI, which has room for one{}. Run without the profiler or debugger (Nsight, "
        "compute-sanitizer, the PyTorch profiler)",
        holder.empty() ? "" : " (" + holder + ")");
  if (code != CUPTI_SUCCESS)
    return fmt::format(
        "cuptiSubscribe of {} failed: {}. Check that it fits the driver, or set RONDO_LIBCUPTI to one that "
        "does",
        cupti->where, words(*cupti, code));
  subscription.fetch_add(1, std::memory_order_relaxed);
  for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API})
    if (const CUptiResult enabled = cupti->cuptiEnableDomain(1, subscriber, domain);
        enabled != CUPTI_SUCCESS) {
      (void)cupti->cuptiUnsubscribe(subscriber);
      return fmt::format("cuptiEnableDomain of {} failed: {}", cupti->where, words(*cupti, enabled));
    }
  users = 1;
  return "";
}

void leave() noexcept {
  const std::lock_guard lock(life_mutex);
  if (--users == 0) (void)cupti->cuptiUnsubscribe(subscriber);
}

#else

std::string enter() {
  try {
    (void)driver::cupti();
  } catch (const Error& e) {
    return e.what();
  }
  return "this build of Rondo was made without the headers of CUPTI";
}
void leave() noexcept {}

#endif

}  // namespace

CallTrace::CallTrace(const driver::Driver& d, CUstream stream)
    : traced_(std::make_shared<Traced>()), unavailable_(enter()) {
  if (!unavailable_.empty()) return;
  traced_->driver = &d;
  traced_->stream = stream;
  traced_->thread = std::this_thread::get_id();
  try {
    const std::lock_guard lock(list_mutex);
    traced.push_back(traced_);
  } catch (...) {
    leave();
    throw;
  }
}

CallTrace::~CallTrace() {
  stop();
  if (!unavailable_.empty()) return;
  {
    const std::lock_guard lock(list_mutex);
    std::erase(traced, traced_);
  }
  leave();
}

void CallTrace::start() noexcept { traced_->on.store(true, std::memory_order_release); }
void CallTrace::stop() noexcept { traced_->on.store(false, std::memory_order_release); }

std::optional<TracedCall> CallTrace::breaker() const {
  const std::lock_guard lock(traced_->mutex);
  return traced_->breaker;
}
std::optional<TracedCall> CallTrace::first_failure() const {
  const std::lock_guard lock(traced_->mutex);
  return traced_->first_failure;
}

}  // namespace rondo::graph::detail
