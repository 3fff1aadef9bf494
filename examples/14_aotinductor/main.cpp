// A model that PyTorch compiled ahead of time, run from C++ and replayed as a CUDA graph with new tensors at
// each call: no Python, no copies of inputs, and each result is a tensor of its own.
//
//   python export.py FOLDER          model.pt2, and one input and its result to compare with
//   aotinductor FOLDER [calls]
//
// Exit codes as in ../example.h: 0 every fact held, 1 one did not, 77 this machine cannot run it.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <rondo/replay.h>
#include <rondo/replay_work.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "../example.h"

namespace replay = rondo::replay;

namespace {

constexpr int64_t kBatch = 8, kWidth = 256, kClasses = 16;
constexpr int kWarmUps = 3, kInputs = 7;

// ---------------------------------------------------------------- the package as work of a region
// All that torch's allocator gives while a Recorder lives: torch has one listener for ever, so it is a list.
class Recorder {
 public:
  Recorder() {
    static const bool listening = [] {
      c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
          [](const c10::CachingDeviceAllocator::TraceEntry& entry) {
            using Entry = c10::CachingDeviceAllocator::TraceEntry;
            if (current_ && entry.action_ == Entry::ALLOC)
              current_->push_back({static_cast<uint64_t>(entry.addr_), entry.size_});
          });
      return true;
    }();
    (void)listening;
    current_ = &found_;
  }
  ~Recorder() { current_ = nullptr; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  const std::vector<replay::Span>& found() const { return found_; }

 private:
  inline static thread_local std::vector<replay::Span>* current_ = nullptr;
  std::vector<replay::Span> found_;
};

// The arguments are: x, read; y, made by the package itself.
class Package : public replay::Work {
 public:
  // run_single_threaded: the package then waits for nothing by itself, which a capture could not have.
  explicit Package(const std::string& path)
      : loader_(path, "model", /*run_single_threaded=*/true), capturing_(at::cuda::getStreamFromPool()) {}

  at::Tensor plain(CUstream stream, const at::Tensor& x) {
    return loader_.run({x}, static_cast<void*>(stream)).at(0);
  }
  // The first runs load kernels and make the workspaces of libraries, one for each stream: a capture could
  // not, or would have them in memory that goes with its graph.
  at::Tensor warm_up(const at::Tensor& x) {
    at::Tensor y;
    at::cuda::getCurrentCUDAStream().synchronize();
    for (const c10::cuda::CUDAStream stream : {capturing_, at::cuda::getCurrentCUDAStream()}) {
      const c10::cuda::CUDAStreamGuard guard(stream);
      for (int i = 0; i < kWarmUps; ++i) y = plain(stream.stream(), x);
      stream.synchronize();
    }
    return y;
  }

  // One call: by the graph into memory of this call, or plainly, where the package allocates the result.
  at::Tensor operator()(replay::RegionBase& region, const at::Tensor& x) {
    at::Tensor y =
        at::empty({kBatch, kClasses}, x.options());  // torch's blocks have the room that Made asks for
    replay::Argument arguments[] = {{address(x), x.nbytes(), replay::Kind::In, replay::Element::F32},
                                    {address(y), y.nbytes(), replay::Kind::Made, replay::Element::F32}};
    const bool replayed = region.call(at::cuda::getCurrentCUDAStream().stream(), arguments, *this);
    return replayed ? y : std::exchange(plain_, at::Tensor());
  }

  // ---- what the region asks for
  void run(CUstream stream, replay::Argument* arguments, bool) override {
    plain_ = plain(stream, input(arguments[0]));
    arguments[1].value = address(plain_);
  }

  replay::CapturedWork capture(replay::Argument* arguments) override {
    struct Owner {
      at::cuda::CUDAGraph graph{/*keep_graph=*/true};
      at::Tensor result;
    };
    auto owner = std::make_shared<Owner>();
    const at::Tensor x = input(arguments[0]);
    const c10::cuda::CUDAStreamGuard guard(capturing_);
    const Recorder recorder;
    owner->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);  // a pool of its own
    try {
      owner->result = plain(capturing_.stream(), x);
    } catch (...) {
      owner->graph.capture_end();  // torch's allocator routes to the pool until then
      throw;
    }
    owner->graph.capture_end();
    if (arguments[1].kind != replay::Kind::Made)
      throw rondo::Error(rondo::ErrorKind::Usage, "the result was to be made by the package");
    arguments[1].value = address(owner->result);
    replay::CapturedWork out;
    out.graph = owner->graph.raw_cuda_graph();
    out.allocations = recorder.found();
    out.owner = std::move(owner);
    return out;
  }

  void make(replay::Argument* arguments) override {
    made_ = at::empty({kBatch, kClasses}, at::device(at::kCUDA).dtype(at::kFloat));
    arguments[1].value = address(made_);
  }
  void before_launch(CUstream, bool) override {}  // the model draws no random numbers

 private:
  static uint64_t address(const at::Tensor& t) { return reinterpret_cast<uint64_t>(t.data_ptr()); }
  // While it is recorded the region calls with memory of its own.
  static at::Tensor input(const replay::Argument& a) {
    return at::from_blob(reinterpret_cast<void*>(a.value), {kBatch, kWidth},
                         at::device(at::kCUDA).dtype(at::kFloat));
  }
  torch::inductor::AOTIModelPackageLoader loader_;
  c10::cuda::CUDAStream capturing_;
  at::Tensor plain_, made_;
};

// ---------------------------------------------------------------- the program
std::string folder;
int calls = 2000;

at::Tensor from_file(const std::string& path, at::IntArrayRef shape) {
  at::Tensor t = at::empty(shape, at::kFloat);
  std::ifstream in(path, std::ios::binary);
  in.read(static_cast<char*>(t.data_ptr()), static_cast<std::streamsize>(t.nbytes()));
  if (!in)
    throw rondo::Error(rondo::ErrorKind::Usage, path + " cannot be read. Run: python export.py " + folder);
  return t.to(at::kCUDA);
}

template <class F>
double us_a_call(F&& call) {
  at::cuda::getCurrentCUDAStream().synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call(i);
  at::cuda::getCurrentCUDAStream().synchronize();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
}

void body() {
  if (!at::cuda::is_available()) example::skip("torch sees no GPU");
  const at::InferenceMode inference;
  const c10::cuda::CUDAStreamGuard on_a_stream(at::cuda::getStreamFromPool());
  Package package(folder + "/model.pt2");

  const at::Tensor x = from_file(folder + "/input.bin", {kBatch, kWidth});
  const at::Tensor expected = from_file(folder + "/output.bin", {kBatch, kClasses});
  example::check(at::allclose(package.warm_up(x), expected, 1e-4, 1e-5),
                 "the package gives what the model gave in Python");

  replay::RegionBase region("classifier", replay::Options{});
  // Other tensors at each call; results are kept.
  std::vector<at::Tensor> inputs, want;
  for (int i = 0; i < kInputs; ++i) {
    inputs.push_back(at::randn({kBatch, kWidth}, x.options()));
    want.push_back(package.plain(at::cuda::getCurrentCUDAStream().stream(), inputs.back()));
  }
  std::vector<at::Tensor> kept;
  for (int i = 0; i < calls; ++i) {
    const at::Tensor result = package(region, inputs[i % kInputs].clone());
    if (i % 50 == 0) kept.push_back(result);
  }
  bool right = true;
  for (size_t k = 0; k < kept.size(); ++k) right &= at::equal(kept[k], want[k * 50 % kInputs]);
  example::check(right, "every result that was kept is that of a plain run, bit for bit");

  const double plain = us_a_call(
      [&](int i) { package.plain(at::cuda::getCurrentCUDAStream().stream(), inputs[i % kInputs]); });
  const double replayed = us_a_call([&](int i) { package(region, inputs[i % kInputs]); });
  std::printf("\nthe package by itself %.1f us a call, through Rondo %.1f us, back to back\n\n", plain,
              replayed);

  const replay::RegionReport report = region.report();
  std::printf("%s\n", replay::text(std::vector{report}).c_str());
  example::check(report.recordings.size() == 1 && report.recordings[0].nodes > 0,
                 "one recording serves all tensors");
  example::check(report.replays > 0 || report.recordings[0].choice == "plain",
                 "it is replayed, or measured to be faster plainly");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: aotinductor FOLDER [calls]; FOLDER is what export.py was given\n");
    return 1;
  }
  folder = argv[1];
  if (argc > 2) calls = std::max(1, std::atoi(argv[2]));
  return example::run(body);
}
