// In what kinds of work a replay::Region finds its arguments, and whether what it replays is right.
//   bench_replay_discovery [--json FILE] [--trials N] [--seed S] [--only PART OF A NAME] [--check] [--list]
//   [--patience SECONDS] [--libs FOLDER:FOLDER]
// Exit code 77: there is no GPU; 3: a row or a trial took longer than the patience (60 s), and where it stood; 1: a wrong result, or a region that threw; with --check also a row that is
// not as expected.
//
// First a table: each kind of work is called some times with other buffers at each call, and Region (policy
// always, proof exact) says what became of it: found (addresses are patched), staged (some arguments are
// copied), refused (no recording, so every call is plain) or plain (a scalar belongs to the signature, which
// does not come again). A recording that replays has passed the proof. Then random trials: a kind of work,
// sizes, buffers, options and changes drawn from the seed.
//
// How a result is judged: all buffers lie in one pool, and a second pool has the same contents. The region
// works in the first, the same calls are done plainly at the same places of the second, and then the whole
// pools must be equal, bit for bit: so a write to an address of an earlier call is seen wherever it goes.
// Page-locked host memory has two pools of its own. Outputs are overwritten before, so that what an earlier
// call left there does not count. Work whose plain runs differ among themselves (atomic additions) is
// compared within a tolerance. Last, four threads call one region.
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"
#include "replay_kinds.h"
#include "replay_kinds_libraries.h"
#include "replay_kinds_own.h"
#include "watchdog.h"

namespace {

// ---------------------------------------------------------------- all kinds
const std::vector<Outcome> kFound = {Outcome::Found}, kRefused = {Outcome::Refused},
                           kStaged = {Outcome::Staged}, kCopiedOrFound = {Outcome::Found, Outcome::Staged},
                           kFoundOrPlain = {Outcome::Found, Outcome::Staged, Outcome::Plain},
                           kAny = {Outcome::Found, Outcome::Staged, Outcome::Refused},
                           kPlain = {Outcome::Plain, Outcome::Refused};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
    {"one kernel", kFound, Needs::Nothing, [](Random& r) { return chain(r, 2); }},
    {"chain of kernels, live scalars", kFound, Needs::Nothing,
     [](Random& r) { return chain(r, r.between(3, 40)); }},
    {"struct with pointers by value", kFound, Needs::Nothing, by_value_struct},
    {"multi-tensor struct of 3 KiB", kFound, Needs::Nothing, multi_tensor},
    {"interior pointers", kFound, Needs::Nothing, interior_pointers},
    {"pointer one past the end", kAny, Needs::Nothing, end_pointer},
    {"tensor map", kFound, Needs::Nothing, tensor_map},
    {"in place", kFound, Needs::Nothing, in_place},
    {"in place by two arguments", kFoundOrPlain, Needs::Nothing, in_place_by_two},
    {"kernel chosen by alignment", kFound, Needs::Nothing, by_alignment},
    {"pointer table, static memory", kFound, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::Static); }},
    {"pointer table, page-locked", kFound, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::PageLocked); }},
    {"pointer table, heap, promised", kFound, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::HeapPromised); }},
    {"pointer table, heap", kRefused, Needs::Nothing,
     [](Random& r) { return table_from_host(r, Host::Heap); }},
    {"two tables, interior pointers", kFound, Needs::Nothing, two_tables},
    {"copies and fills, 1-D and 2-D", kFound, Needs::Nothing, copies_and_fills},
    {"page-locked host arguments", kCopiedOrFound, Needs::Nothing, host_arguments},
    {"fork and join", kFound, Needs::Nothing, fork_join},
    {"atomic additions, tolerance", kFound, Needs::Nothing, atomic_sum},
    {"200 nodes hold an argument", kStaged, Needs::Nothing, many_holders},
    {"index lookup", kFound, Needs::Nothing, index_lookup},
    {"host function", kAny, Needs::Nothing, host_function},
    {"fixed scalar of two values", kFound, Needs::Nothing, fixed_scalar},
    {"live scalar, computed with", kPlain, Needs::Nothing, derived_scalar},
    {"live scalar decides launches", kFoundOrPlain, Needs::Nothing, deciding_scalar},
    {"synchronises", kRefused, Needs::Nothing, synchronises},
    {"looks at results", kRefused, Needs::Nothing, looks_at_results},
    {"cudaMalloc inside", kRefused, Needs::Nothing, allocates},
    {"cudaMallocAsync inside", kAny, Needs::Nothing, allocates_in_order},
    {"remembers an address", kRefused, Needs::Nothing, remembers_an_address, false},
    {"counts its calls", kRefused, Needs::Nothing, counts_its_calls, false},
    {"cuBLAS fp32, live alpha", kFoundOrPlain, Needs::Blas, sgemm},
    {"cuBLAS TF32", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::F32, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32); }},
    {"cuBLAS bf16", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::BF16, CUDA_R_16BF, CUBLAS_COMPUTE_32F); }},
    {"cuBLAS bf16, large", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::BF16, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 1536); }},
    {"cuBLAS fp16", kCopiedOrFound, Needs::Blas,
     [](Random& r) { return gemm_of(r, Type::F16, CUDA_R_16F, CUBLAS_COMPUTE_32F); }},
    {"cuBLAS split-K", kFound, Needs::Blas, split_k},
    {"cuBLAS gemv, live alpha", kFoundOrPlain, Needs::Blas, gemv},
    {"cuBLAS batched, host table", kFound, Needs::Blas, [](Random& r) { return batched(r, false); }},
    {"cuBLAS batched, table by kernel", kFound, Needs::Blas, [](Random& r) { return batched(r, true); }},
    {"cuBLAS batched fp16, host table", kCopiedOrFound, Needs::Blas, batched_half},
    {"cuBLAS strided batched", kFound, Needs::Blas, strided},
    {"cuBLAS strided batched bf16", kCopiedOrFound, Needs::Blas, strided_half},
    {"cuBLASLt bias", kCopiedOrFound, Needs::BlasLt,
     [](Random& r) { return lt_product(r, CUBLASLT_EPILOGUE_BIAS); }},
    {"cuBLASLt bias, relu", kCopiedOrFound, Needs::BlasLt,
     [](Random& r) { return lt_product(r, CUBLASLT_EPILOGUE_RELU_BIAS); }},
    {"cuBLASLt bias, gelu", kCopiedOrFound, Needs::BlasLt,
     [](Random& r) { return lt_product(r, CUBLASLT_EPILOGUE_GELU_BIAS); }},
#if BENCH_HAS_CUDNN
    {"cuDNN convolution", kFound, Needs::Dnn, [](Random& r) { return convolution(r, false); }},
    {"cuDNN convolution, bias, relu", kFound, Needs::Dnn, [](Random& r) { return convolution(r, true); }},
    {"cuDNN softmax", kFound, Needs::Dnn, softmax},
    {"cuDNN multi-head attention", kCopiedOrFound, Needs::Dnn, attention},
    {"cuDNN pooling", kFound, Needs::Dnn, pooling},
    {"cuDNN batch norm, inference", kFound, Needs::Dnn, batch_norm},
#endif
    {"CUB sort of pairs", kFound, Needs::Nothing, cub_sort},
    {"CUB sum", kFound, Needs::Nothing, cub_reduce},
    {"CUB scan", kFound, Needs::Nothing, cub_scan},
    {"CUB select", kFound, Needs::Nothing, cub_select},
    {"Thrust transform", kFound, Needs::Nothing, thrust_transform},
    {"Thrust sort, memory kept", kFound, Needs::Nothing, thrust_sort},
    {"Thrust scan, memory kept", kFound, Needs::Nothing, thrust_scan},
    {"Thrust sort, allocates", kAny, Needs::Nothing, thrust_sort_allocating},
    {"Thrust reduce to a number", kRefused, Needs::Nothing, thrust_reduce},
  };
  return all;
}

// Why this kind of work cannot be tried here; "": it can.
std::string absent(Needs needs) {
  const auto& b = bench::Blas::get();
  const auto& l = bench::BlasLt::get();
  const auto& d = bench::Dnn::get();
  switch (needs) {
    case Needs::Blas:
      return b.ok() ? "" : b.why();
    case Needs::BlasLt:
      return l.ok() ? "" : l.why();
    case Needs::Dnn:
      return d.ok() ? "" : d.why();
    default:
      return "";
  }
}

// ---------------------------------------------------------------- two pools
// `work` is where regions work, `plain` where the same is done plainly, at the same places.
class Pools {
 public:
  static constexpr size_t kDevice = size_t{32} << 20, kHost = size_t{1} << 20;
  Pools() {
    MUST(cudaStreamCreateWithFlags(&stream[0], cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&stream[1], cudaStreamNonBlocking));
    for (uint8_t*& p : device) MUST(cudaMalloc(&p, kDevice));
    for (uint8_t*& p : host) MUST(cudaMallocHost(&p, kHost));
    MUST(cudaMalloc(&difference_, sizeof *difference_));
    for (uint8_t* p : device) MUST(cudaMemset(p, 0x5a, kDevice));
    for (uint8_t* p : host) std::memset(p, 0x5a, kHost);
  }
  ~Pools() {
    for (uint8_t* p : device) (void)cudaFree(p);
    for (uint8_t* p : host) (void)cudaFreeHost(p);
    (void)cudaFree(difference_);
    for (cudaStream_t s : stream) (void)cudaStreamDestroy(s);
  }
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  void wait() const {
    for (cudaStream_t s : stream) MUST(cudaStreamSynchronize(s));
  }
  // The plain pools become copies of the working ones.
  void equalise() const {
    MUST(cudaMemcpyAsync(device[1], device[0], kDevice, cudaMemcpyDeviceToDevice, stream[0]));
    wait();
    std::memcpy(host[1], host[0], kHost);
  }
  // "" or where they differ.
  std::string difference() const {
    bench::Difference d;
    MUST(cudaMemcpyAsync(difference_, &d, sizeof d, cudaMemcpyHostToDevice, stream[0]));
    bench::compare(device[0], device[1], kDevice, 0, difference_, stream[0]);
    MUST(cudaMemcpyAsync(&d, difference_, sizeof d, cudaMemcpyDeviceToHost, stream[0]));
    wait();
    if (d.bytes)
      return std::to_string(d.bytes) + " bytes of device memory differ, the first at " +
             std::to_string(d.first);
    if (std::memcmp(host[0], host[1], kHost) == 0) return "";
    size_t first = 0;
    while (host[0][first] == host[1][first]) ++first;
    return "host memory differs, first at " + std::to_string(first);
  }

  cudaStream_t stream[2] = {};
  uint8_t* device[2] = {};
  uint8_t* host[2] = {};

 private:
  bench::Difference* difference_ = nullptr;
};

// ---------------------------------------------------------------- one region, called and judged
// Of work whose plain runs differ, to the largest magnitude of the buffer.
constexpr double kTolerance = 1e-3;

struct Counts {
  uint64_t calls = 0, plain = 0, replays = 0, patched = 0;
};

class Trial {
 public:
  Trial(Pools& pools, Random& random, std::string name, Made made, replay::Options options)
      : pools_(pools), random_(random), made_(std::move(made)), region_(std::move(name), std::move(options)) {
    values_.resize(made_.specs.size());
    alignment_.resize(made_.specs.size());
    for (size_t i = 0; i < made_.specs.size(); ++i) {
      // Usually one alignment a trial: it belongs to the signature.
      const size_t least = made_.specs[i].alignment;
      alignment_[i] = random_.chance(0.7) ? std::max<size_t>(least, 256) : least << random_.between(0, 6);
      draw(i);
    }
  }

  // Some calls one after the other, without a wait between them. `change`: the chance for an argument to be
  // another one. "" or what is wrong.
  std::string burst(int calls, double change) {
    std::vector<std::vector<uint64_t>> each;
    for (int c = 0; c < calls; ++c) {
      if (done_ > 0 || c > 0)
        for (size_t i = 0; i < values_.size(); ++i)
          if (random_.chance(change)) draw(i);
      each.push_back(values_);
    }
    for (const auto& values : each) prepare(values);
    pools_.equalise();
    const cudaStream_t s = pools_.stream[random_.between(0, 1)];
    const replay::detail::WorkRef work{&made_.work, [](void* object, CUstream stream, const Argument* a) {
                                         (*static_cast<Work*>(object))(stream, a);
                                       }};
    for (const auto& values : each) region_.call(s, arguments(values, 0), work);
    pools_.wait();
    for (const auto& values : each) made_.work(s, arguments(values, 1).data());
    pools_.wait();
    MUST(cudaGetLastError());
    done_ += calls;
    std::string wrong;
    if (made_.proof == replay::Proof::tolerance) wrong = settle_outputs(each.back());
    if (wrong.empty()) wrong = pools_.difference();
    if (wrong.empty()) return "";
    pools_.equalise();
    return wrong + placement(each.back());
  }
  replay::RegionReport report() const { return region_.report(); }
  const std::string& sizes() const { return made_.sizes; }

 private:
  // Another place in the pool, or another value.
  void draw(size_t i) {
    const Spec& spec = made_.specs[i];
    if (!spec.buffer()) {
      values_[i] = 0;
      if (spec.integer) {
        values_[i] = static_cast<uint64_t>(random_.between(1, spec.most));
      } else {
        // Sometimes one of the values that libraries treat specially.
        const float f = random_.chance(0.1) ? static_cast<float>(random_.between(-1, 1)) : random_.number();
        std::memcpy(&values_[i], &f, sizeof f);
      }
      return;
    }
    if (spec.same_as >= 0 && random_.chance(0.5)) {
      values_[i] = values_[static_cast<size_t>(spec.same_as)];
      return;
    }
    const size_t pool = spec.host ? Pools::kHost : Pools::kDevice;
    const size_t alignment = random_.chance(0.05) ? spec.alignment << random_.between(0, 4) : alignment_[i];
    if (spec.bytes() > pool / 4)
      throw rondo::Error(rondo::ErrorKind::Internal,
                         "a buffer of " + std::to_string(spec.bytes()) + " bytes is too large for the pool");
    for (int tries = 0; tries < 1000; ++tries) {
      const size_t places = (pool - spec.bytes()) / alignment;
      const size_t at = (static_cast<size_t>(random_.bits()) % (places + 1)) * alignment;
      if (free_for(i, at)) {
        values_[i] = at;
        return;
      }
    }
    throw rondo::Error(rondo::ErrorKind::Internal, "the pool is too full for another buffer");
  }
  bool free_for(size_t i, size_t at) const {
    const Spec& spec = made_.specs[i];
    for (size_t j = 0; j < made_.specs.size(); ++j) {
      const Spec& other = made_.specs[j];
      if (j == i || !other.buffer() || other.host != spec.host) continue;
      if (at < values_[j] + other.bytes() && values_[j] < at + spec.bytes()) return false;
    }
    return true;
  }
  void* address(size_t i, uint64_t at, int pool) const {
    return (made_.specs[i].host ? pools_.host : pools_.device)[pool] + at;
  }
  std::vector<Argument> arguments(const std::vector<uint64_t>& values, int pool) const {
    std::vector<Argument> all;
    for (size_t i = 0; i < values.size(); ++i) {
      const Spec& spec = made_.specs[i];
      Argument a;
      a.kind = spec.kind;
      a.value = spec.buffer() ? reinterpret_cast<uint64_t>(address(i, values[i], pool)) : values[i];
      a.bytes = spec.buffer() ? spec.bytes() : 4;
      const Type t = spec.type;
      if (spec.buffer())
        a.element = t == Type::F32    ? replay::Element::F32
                    : t == Type::F16  ? replay::Element::F16
                    : t == Type::BF16 ? replay::Element::BF16
                    : t == Type::F64  ? replay::Element::F64
                                      : replay::Element::Bytes;
      else if (!spec.integer)
        a.element = replay::Element::F32;
      all.push_back(a);
    }
    return all;
  }
  // New contents for what is read, rubbish where it is written.
  void prepare(const std::vector<uint64_t>& values) {
    const cudaStream_t s = pools_.stream[0];
    for (const bool read : {false, true})
      for (size_t i = 0; i < values.size(); ++i) {
        const Spec& spec = made_.specs[i];
        if (!spec.buffer() || (spec.kind != Kind::Out) != read) continue;
        if (read)
          bench::fill(address(i, values[i], 0), spec.count, spec.type, random_.bits(), s, spec.range);
        else
          MUST(cudaMemsetAsync(address(i, values[i], 0), 0xa5, spec.bytes(), s));
      }
  }
  // Outputs that may differ a little: compared here, and then made equal.
  std::string settle_outputs(const std::vector<uint64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Spec& spec = made_.specs[i];
      if (spec.kind != Kind::Out || spec.type != Type::F32 || spec.host) continue;
      std::vector<float> a(spec.count), b(spec.count);
      MUST(cudaMemcpy(a.data(), address(i, values[i], 0), spec.bytes(), cudaMemcpyDeviceToHost));
      MUST(cudaMemcpy(b.data(), address(i, values[i], 1), spec.bytes(), cudaMemcpyDeviceToHost));
      double most = 0;
      for (const float v : b) most = std::max(most, std::fabs(static_cast<double>(v)));
      for (size_t j = 0; j < spec.count; ++j)
        if (!(std::fabs(static_cast<double>(a[j]) - b[j]) <= kTolerance * (most + 1.0)))
          return "argument " + std::to_string(i) + " is " + std::to_string(a[j]) + " instead of " +
                 std::to_string(b[j]);
      MUST(cudaMemcpy(address(i, values[i], 1), address(i, values[i], 0), spec.bytes(),
                      cudaMemcpyDeviceToDevice));
    }
    return "";
  }
  std::string placement(const std::vector<uint64_t>& values) const {
    std::string text = "; the last call had";
    for (size_t i = 0; i < values.size(); ++i)
      if (made_.specs[i].buffer())
        text += " " + std::to_string(values[i]) + "+" + std::to_string(made_.specs[i].bytes());
    return text;
  }

  Pools& pools_;
  Random& random_;
  Made made_;
  replay::RegionBase region_;
  std::vector<uint64_t> values_;  // places in the pool, or bits of scalars
  std::vector<size_t> alignment_;
  int done_ = 0;
};

Outcome outcome_of(const replay::RegionReport& r) {
  if (r.replays == 0) {
    for (const auto& recording : r.recordings)
      if (recording.state == "refused") return Outcome::Refused;
    return r.failures > 0 ? Outcome::Refused : Outcome::Plain;
  }
  for (const auto& recording : r.recordings)
    if (recording.replays > 0 && recording.copied_bytes_a_call > 0) return Outcome::Staged;
  return Outcome::Found;
}
std::string reason_of(const replay::RegionReport& r) {
  std::string reason;
  for (const auto& recording : r.recordings)
    if (!recording.reason.empty()) reason = recording.reason;
  return r.fallbacks.empty() ? reason : r.fallbacks.back();
}

// ---------------------------------------------------------------- the table
struct Row {
  std::string name, sizes, wrong, threw, reason;
  std::string not_made;  // why the library cannot do this work here
  Outcome outcome = Outcome::Plain;
  bool expected = true;
  std::vector<Outcome> expectation;
  size_t nodes = 0, kernels = 0, slots = 0;
  uint64_t copied_bytes = 0, patched = 0, calls = 0, replays = 0;
  double record_ms = 0;
};

Row table_row(const Family& family, uint64_t seed, Pools& pools) {
  Random random(seed);
  Row row;
  row.name = family.name, row.expectation = family.expected;
  Made made;
  try {
    made = family.make(random);
  } catch (const std::exception& e) {
    row.not_made = e.what();
    return row;
  }
  try {
    replay::Options options;
    options.policy = replay::Policy::always;
    options.remember = false;
    options.proof = made.proof;
    options.host_tables = made.host_tables;
    options.tolerance = kTolerance;
    Trial trial(pools, random, family.name, std::move(made), options);
    row.sizes = trial.sizes();
    for (int i = 0; i < 12; ++i) {
      const std::string wrong = trial.burst(1, 1.0);
      // Work that breaks the contract has no right result.
      if (!wrong.empty() && family.in_trials && row.wrong.empty()) row.wrong = wrong;
    }
    const replay::RegionReport r = trial.report();
    row.outcome = outcome_of(r);
    row.reason = reason_of(r);
    row.calls = r.calls, row.replays = r.replays, row.patched = r.patched_nodes;
    for (const auto& recording : r.recordings) {
      row.record_ms += recording.record_ms;
      if (recording.nodes < row.nodes) continue;
      row.nodes = recording.nodes, row.kernels = recording.kernels, row.slots = recording.slots;
      row.copied_bytes = recording.copied_bytes_a_call;
    }
    row.expected =
        std::find(family.expected.begin(), family.expected.end(), row.outcome) != family.expected.end();
  } catch (const std::exception& e) {
    row.threw = e.what();
  }
  return row;
}

void print(const Row& r) {
  if (!r.not_made.empty()) {
    std::printf("%-32s not done: %s\n", r.name.c_str(), r.not_made.c_str());
    return;
  }
  std::string expectation;
  for (const Outcome o : r.expectation)
    expectation += (expectation.empty() ? "" : "/") + std::string(name(o));
  std::printf("%-32s %-22s %-8s%c %5zu %5zu %5zu %9llu %8.2f %3llu/%-3llu %s\n", r.name.c_str(),
              r.sizes.c_str(), r.threw.empty() ? name(r.outcome) : "threw", r.expected ? ' ' : '!', r.nodes,
              r.kernels, r.slots, static_cast<unsigned long long>(r.copied_bytes), r.record_ms,
              static_cast<unsigned long long>(r.replays), static_cast<unsigned long long>(r.calls),
              r.wrong.empty() ? "" : "WRONG");
  if (!r.threw.empty()) std::printf("    %s\n", r.threw.c_str());
  if (!r.wrong.empty()) std::printf("    %s\n", r.wrong.c_str());
  if (!r.expected) std::printf("    expected: %s\n", expectation.c_str());
  if (!r.reason.empty() && r.outcome != Outcome::Found) std::printf("    %s\n", r.reason.c_str());
  std::fflush(stdout);
}

// ---------------------------------------------------------------- random trials
struct Trials {
  uint64_t seed = 0;
  int count = 0, replayed = 0, staged = 0, refused = 0, plain = 0, wrong = 0, threw = 0, not_made = 0;
  Counts calls;
  std::vector<std::string> failures;
};

replay::Options random_options(Random& r, const Made& made) {
  replay::Options o;
  o.host_tables = made.host_tables;
  o.policy = r.chance(0.75) ? replay::Policy::always : replay::Policy::auto_;
  o.proof = r.chance(0.1) ? replay::Proof::off : made.proof;
  o.tolerance = kTolerance;
  const double staging = r.chance(0.7) ? 0.0 : r.chance(0.5) ? 1.0 : 2.0;
  o.staging = staging == 0.0   ? replay::Staging::auto_
              : staging == 1.0 ? replay::Staging::always
                               : replay::Staging::never;
  o.goal = r.chance(0.5) ? replay::Goal::both : r.chance(0.5) ? replay::Goal::period : replay::Goal::latency;
  o.plain_calls = static_cast<unsigned>(r.between(1, 2));
  o.most_recordings = r.chance(0.2) ? 2 : 64;
  o.check_arguments = r.chance(0.1);
  o.remember = false;
  return o;
}

Trials random_trials(const std::vector<Family>& chosen, int count, uint64_t seed, Pools& pools,
                     bench::Watchdog& watchdog) {
  Trials t;
  t.seed = seed;
  for (int i = 0; i < count; ++i) {
    // A trial is repeated alone by its own seed: --trials 1 --seed S.
    const uint64_t own = seed + static_cast<uint64_t>(i);
    Random random(own);
    const Family& family = random.of(chosen);
    ++t.count;
    watchdog.step("trial of seed " + std::to_string(own) + ", " + family.name);
    std::string said;
    Made made;
    try {
      made = family.make(random);
    } catch (const std::exception&) {  // sizes that the library refuses
      ++t.not_made;
      continue;
    }
    try {
      // Of atomic additions only the last call is compared, so there are no bursts of several either.
      const bool alone = made.alone || made.proof == replay::Proof::tolerance;
      const replay::Options options = random_options(random, made);
      Trial trial(pools, random, "trial " + std::to_string(own), std::move(made), options);
      const int bursts = random.between(4, 10);
      const double change = random.chance(0.2) ? 0.0 : random.chance(0.3) ? 1.0 : 0.4;
      for (int b = 0; b < bursts && said.empty(); ++b)
        said = trial.burst(alone || b < 3 ? 1 : random.between(1, 4), change);
      const replay::RegionReport r = trial.report();
      t.calls.calls += r.calls, t.calls.plain += r.plain_calls, t.calls.replays += r.replays;
      t.calls.patched += r.patched_nodes;
      switch (outcome_of(r)) {
        case Outcome::Found:
          ++t.replayed;
          break;
        case Outcome::Staged:
          ++t.staged;
          break;
        case Outcome::Refused:
          ++t.refused;
          break;
        case Outcome::Plain:
          ++t.plain;
          break;
      }
      if (!said.empty()) {
        ++t.wrong;
        said = "WRONG, seed " + std::to_string(own) + ", " + family.name + " " + trial.sizes() + ": " + said;
      }
    } catch (const std::exception& e) {
      ++t.threw;
      said = "threw, seed " + std::to_string(own) + ", " + family.name + ": " + e.what();
    }
    if (!said.empty()) {
      std::printf("%s\n", said.c_str());
      std::fflush(stdout);
      t.failures.push_back(said);
      if (cudaDeviceSynchronize() != cudaSuccess) {
        std::printf("the GPU's context is lost: the remaining trials are not done\n");
        break;
      }
    }
  }
  return t;
}

// Four threads, each with a stream and buffers of its own, call one region. "" or what is wrong.
std::string threads_check() {
  constexpr int kThreads = 4, kCalls = 200, kCount = 5000, kBuffers = 3;
  replay::Options options;
  options.policy = replay::Policy::always;
  options.remember = false;
  replay::Region region(
      "threads",
      [](cudaStream_t s, const float* x, float* y, int n, float a) {
        for (int i = 0; i < 5; ++i) axpb<<<blocks_for(n), 256, 0, s>>>(y, i ? y : x, n, 0.5f, a);
        bench::launched();
      },
      options);
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      try {
        MUST(cudaSetDevice(0));
        cudaStream_t s = nullptr;
        MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        bench::Arena memory(s);
        float *x[kBuffers], *y[kBuffers];
        for (int b = 0; b < kBuffers; ++b)
          x[b] = memory.filled<float>(kCount), y[b] = memory.zeros<float>(kCount);
        std::vector<float> in(kCount), out(kCount);
        for (int c = 0; c < kCalls && wrong[t].empty(); ++c) {
          const int b = (c + t) % kBuffers;
          const float a = static_cast<float>(2 + c % 17 + t);
          MUST(cudaMemsetAsync(y[b], 0xa5, kCount * sizeof(float), s));
          region(s, replay::in(static_cast<const float*>(x[b]), kCount), replay::out(y[b], kCount), kCount,
                 replay::live(a));
          MUST(cudaMemcpyAsync(in.data(), x[b], kCount * sizeof(float), cudaMemcpyDeviceToHost, s));
          MUST(cudaMemcpyAsync(out.data(), y[b], kCount * sizeof(float), cudaMemcpyDeviceToHost, s));
          MUST(cudaStreamSynchronize(s));
          for (int i = 0; i < kCount; ++i) {
            float v = in[i];
            for (int k = 0; k < 5; ++k)
              v = 0.5f * v + a;  // exact: the product is, so fused or not is the same
            if (v == out[i]) continue;
            wrong[t] = "thread " + std::to_string(t) + ", call " + std::to_string(c) + ", element " +
                       std::to_string(i) + ": " + std::to_string(out[i]) + " instead of " + std::to_string(v);
            break;
          }
        }
        MUST(cudaStreamDestroy(s));
      } catch (const std::exception& e) {
        wrong[t] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  const replay::RegionReport r = region.report();
  std::printf("%d threads, %llu calls of one region: %llu plain, %llu replays\n", kThreads,
              static_cast<unsigned long long>(r.calls), static_cast<unsigned long long>(r.plain_calls),
              static_cast<unsigned long long>(r.replays));
  for (const std::string& w : wrong)
    if (!w.empty()) return w;
  if (r.calls != kThreads * kCalls) return "the report has another number of calls";
  return r.replays == 0 ? "nothing was replayed: " + reason_of(r) : "";
}

void write(const std::string& path, const std::vector<Row>& rows, const std::vector<std::string>& absent,
           const Trials& t, const std::string& of_threads) {
  nlohmann::json j = {{"device", bench::gpu_name()}, {"absent", absent}};
  j["cublas"] = bench::Blas::get().path(), j["cublaslt"] = bench::BlasLt::get().path();
  j["cudnn"] = bench::Dnn::get().path();
  for (const Row& r : rows) {
    nlohmann::json expectation = nlohmann::json::array();
    for (const Outcome o : r.expectation) expectation.push_back(name(o));
    j["table"].push_back({{"name", r.name},
                          {"sizes", r.sizes},
                          {"outcome", r.threw.empty() ? name(r.outcome) : "threw"},
                          {"expected", expectation},
                          {"as_expected", r.expected},
                          {"right", r.wrong.empty()},
                          {"nodes", r.nodes},
                          {"kernels", r.kernels},
                          {"slots", r.slots},
                          {"copied_bytes_a_call", r.copied_bytes},
                          {"patched_nodes", r.patched},
                          {"calls", r.calls},
                          {"replays", r.replays},
                          {"record_ms", r.record_ms},
                          {"reason", r.reason},
                          {"wrong", r.wrong},
                          {"threw", r.threw}});
  }
  j["trials"] = {{"seed", t.seed},
                 {"count", t.count},
                 {"found", t.replayed},
                 {"staged", t.staged},
                 {"refused", t.refused},
                 {"plain", t.plain},
                 {"wrong", t.wrong},
                 {"threw", t.threw},
                 {"not_made", t.not_made},
                 {"calls", t.calls.calls},
                 {"plain_calls", t.calls.plain},
                 {"replays", t.calls.replays},
                 {"patched_nodes", t.calls.patched},
                 {"failures", t.failures}};
  j["threads_wrong"] = of_threads;
  const std::string text = j.dump(2) + "\n";
  FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file && std::fclose(file) != 0) || !written)
    throw rondo::Error(rondo::ErrorKind::Usage, "cannot write " + path);
}

int run(int trials, uint64_t seed, const std::string& only, const std::string& json, bool check,
        double patience) {
  bench::use_gpu();
  std::printf("%s\n", bench::gpu_name().c_str());
  Pools pools;
  std::vector<Family> chosen, in_trials;
  std::vector<std::string> left_out;
  for (const Family& f : families()) {
    if (std::string(f.name).find(only) == std::string::npos) continue;
    if (const std::string why = absent(f.needs); !why.empty()) {
      left_out.push_back(std::string(f.name) + ": " + why);
      continue;
    }
    chosen.push_back(f);
    if (f.in_trials) in_trials.push_back(f);
  }
  for (const std::string& line : left_out) std::printf("left out: %s\n", line.c_str());
  std::printf("%-32s %-22s %-9s %5s %5s %5s %9s %8s %7s\n", "work", "sizes", "outcome", "nodes", "kern.",
              "slots", "copied B", "rec. ms", "replays");
  std::vector<Row> rows;
  int wrong = 0, unexpected = 0;
  bench::Watchdog watchdog(patience);
  for (const Family& f : chosen) {
    watchdog.step(std::string("row ") + f.name);
    rows.push_back(table_row(f, seed, pools));
    print(rows.back());
    if (!rows.back().not_made.empty()) {
      left_out.push_back(std::string(f.name) + ": " + rows.back().not_made);
      rows.pop_back();
      continue;
    }
    wrong += !rows.back().wrong.empty() || !rows.back().threw.empty();
    unexpected += !rows.back().expected;
  }
  int counts[4] = {};
  for (const Row& r : rows) ++counts[static_cast<int>(r.outcome)];
  std::printf(
      "%zu kinds of work: %d found, %d staged, %d refused, %d plain; %d not as expected, %d wrong or threw\n",
      rows.size(), counts[0], counts[1], counts[2], counts[3], unexpected, wrong);
  Trials t;
  t.seed = seed;
  if (!in_trials.empty() && trials > 0) {
    t = random_trials(in_trials, trials, seed, pools, watchdog);
    std::printf(
        "%d random trials from seed %llu: %d found, %d staged, %d refused, %d plain; %d WRONG, %d threw\n",
        t.count, static_cast<unsigned long long>(seed), t.replayed, t.staged, t.refused, t.plain, t.wrong,
        t.threw);
    std::printf(
        "%llu calls, %llu plain, %llu replays, %llu nodes patched\n",
        static_cast<unsigned long long>(t.calls.calls), static_cast<unsigned long long>(t.calls.plain),
        static_cast<unsigned long long>(t.calls.replays), static_cast<unsigned long long>(t.calls.patched));
  }
  watchdog.step("threads");
  const std::string of_threads = threads_check();
  if (!of_threads.empty()) std::printf("WRONG with threads: %s\n", of_threads.c_str());
  if (!json.empty()) write(json, rows, left_out, t, of_threads);
  return wrong || !of_threads.empty() || t.wrong || t.threw || (check && unexpected) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json, only;
  int trials = 1000;
  uint64_t seed = 1;
  bool check = false;
  double patience = 60;
  return bench::guarded([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--list") {
        for (const Family& f : families()) std::printf("%s\n", f.name);
        return 0;
      }
      if (option == "--check") {
        check = true;
        continue;
      }
      if (i + 1 == argc)
        throw rondo::Error(rondo::ErrorKind::Usage,
                           option +
                               " is unknown or lacks its value: expected --json FILE, --trials N, --seed S, "
                               "--only NAME, --patience SECONDS, --check, --libs FOLDERS or --list");
      const std::string value = argv[++i];
      if (option == "--json")
        json = value;
      else if (option == "--libs")
        bench::look_in(value);
      else if (option == "--only")
        only = value;
      else if (option == "--trials")
        trials = std::atoi(value.c_str());
      else if (option == "--patience")
        patience = std::atof(value.c_str());
      else if (option == "--seed")
        seed = std::strtoull(value.c_str(), nullptr, 10);
      else
        throw rondo::Error(rondo::ErrorKind::Usage, "unknown: " + option + " " + value);
    }
    return run(trials, seed, only, json, check, patience);
  });
}
