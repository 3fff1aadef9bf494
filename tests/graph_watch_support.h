// CUPTI and the driver's error log without a GPU: a table of CUPTI functions that shows calls to its
// subscriber as the real one does, a log in the driver's format, and calls of a run-time library over the
// fake driver.
#pragma once
#include <pthread.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph_support.h"
#include "rondo/base/options.h"
#include "rondo/driver/cupti.h"

namespace rondo::graph {

#if RONDO_HAS_CUPTI

// In place of the real CUPTI from here to the destructor. One at a time.
class FakeCupti {
 public:
  FakeCupti() {
    self = this;
    table_.where = "fake libcupti";
    table_.cuptiGetVersion = [](uint32_t* v) { return *v = 130000, CUPTI_SUCCESS; };
    table_.cuptiGetResultString = [](CUptiResult, const char** t) {
      return *t = "CUPTI_AS_THE_FAKE_SAYS", CUPTI_SUCCESS;
    };
    table_.cuptiSubscribe = &subscribe;
    table_.cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
      self->callback_ = nullptr, self->domains_.clear();
      return CUPTI_SUCCESS;
    };
    table_.cuptiEnableDomain = [](uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
      if (self->refuse_domains) return CUPTI_ERROR_INVALID_PARAMETER;
      self->domains_.push_back(domain);
      return CUPTI_SUCCESS;
    };
    before_ = driver::set_cupti_for_tests(&table_);
  }
  ~FakeCupti() {
    driver::set_cupti_for_tests(before_);
    self = nullptr;
  }
  driver::Cupti& table() { return table_; }
  bool subscribed() const { return callback_ != nullptr; }

  CUptiResult answer = CUPTI_SUCCESS;  // of the next subscriptions
  bool refuse_domains = false;
  int subscriptions = 0;

  // `work` as a call of an API: the subscriber sees it begin and end.
  template <class Work>
  static int call(CUpti_CallbackDomain domain, const char* name, const Work& work) {
    show(domain, name, CUPTI_API_ENTER, 0);
    int code = work();
    show(domain, name, CUPTI_API_EXIT, code);
    return code;
  }
  static inline FakeCupti* self = nullptr;

 private:
  static CUptiResult subscribe(CUpti_SubscriberHandle* s, CUpti_CallbackFunc f, void*) {
    if (self->answer != CUPTI_SUCCESS) return self->answer;
    if (self->callback_) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    ++self->subscriptions;
    self->callback_ = f;
    *s = reinterpret_cast<CUpti_SubscriberHandle>(self);
    return CUPTI_SUCCESS;
  }
  static void show(CUpti_CallbackDomain domain, const char* name, CUpti_ApiCallbackSite site, int code) {
    if (!self || !self->callback_) return;
    if (std::find(self->domains_.begin(), self->domains_.end(), domain) == self->domains_.end()) return;
    CUpti_CallbackData data{};
    data.callbackSite = site;
    data.functionName = name;
    data.functionReturnValue = site == CUPTI_API_EXIT ? &code : nullptr;
    self->callback_(nullptr, domain, 1, &data);
  }
  driver::Cupti table_;
  const driver::Cupti* before_ = nullptr;
  CUpti_CallbackFunc callback_ = nullptr;
  std::vector<CUpti_CallbackDomain> domains_;
};

#endif

#if CUDA_VERSION >= 12090

// The fake driver's table with an error log, in its place from here to the destructor.
class LoggingDriver {
 public:
  explicit LoggingDriver(const driver::Driver& real) : table_(real) {
    lines.clear();
    answer = CUDA_SUCCESS;
    table_.cuLogsCurrent.set(
        +[](CUlogIterator* at, unsigned) {
          ++marks;
          return *at = static_cast<unsigned>(lines.size()), answer;
        },
        real.version);
    table_.cuLogsDumpToMemory.set(
        +[](CUlogIterator* at, char* buffer, size_t* size, unsigned) {
          std::string text;
          for (size_t i = at ? *at : 0; i < lines.size(); ++i) text += lines[i] + "\n";
          if (text.size() >= *size) return CUDA_ERROR_INVALID_VALUE;
          text.copy(buffer, text.size());
          *size = text.size();
          return answer;
        },
        real.version);
    before_ = driver::set_driver_for_tests(&table_);
  }
  ~LoggingDriver() { driver::set_driver_for_tests(before_); }

  // As the driver writes it: "[time][thread][CUDA][E] text".
  static void say(const std::string& text,
                  unsigned long thread = static_cast<unsigned long>(pthread_self())) {
    lines.push_back("[12:46:23.854][" + std::to_string(thread) + "][CUDA][E] " + text);
  }
  static inline std::vector<std::string> lines;
  static inline CUresult answer = CUDA_SUCCESS;
  static inline int marks = 0;

 private:
  driver::Driver table_;
  const driver::Driver* before_ = nullptr;
};

#endif

// A variable of the environment for a scope, and what is read from it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
    reload_options();
  }
  ~Environment() {
    unsetenv(name_);
    reload_options();
  }

 private:
  const char* name_;
};

}  // namespace rondo::graph
