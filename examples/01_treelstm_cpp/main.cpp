// Runs the TreeLSTM over trees built as C++ values, with weights set from C++: no file but the program's own.
//   treelstm path/to/treelstm.rondo [device]
#include <rondo/model.h>

#include <cmath>
#include <cstdio>

namespace {

constexpr int64_t kHidden = 64, kWords = 1000;

// Small made-up numbers; a real caller has Weights::load("file.safetensors").
void set(rondo::Weights* weights, const std::string& name, std::vector<int64_t> dims) {
  size_t count = 1;
  for (const int64_t d : dims) count *= static_cast<size_t>(d);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.1f * std::sin(static_cast<float>(i * (name.size() + 7) % 1009));
  weights->set(name, std::move(dims), values);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw rondo::Error(rondo::ErrorKind::Usage, "expected the path of treelstm.rondo");
    rondo::Weights weights;
    set(&weights, "embed", {kWords, kHidden});
    for (const char* name : {"w10", "w11", "w12", "w13", "w14", "w15", "w16", "w17", "w18", "w30", "w31", "w32", "w33"}) {
      set(&weights, name, {kHidden, kHidden});
    }
    for (const char* name : {"b20", "b21", "b22", "b23", "b24", "b25", "b26"}) set(&weights, name, {kHidden});

    rondo::ModelOptions options;
    options.device = argc > 2 ? argv[2] : "auto";
    options.defines = {{"H", kHidden}};
    rondo::Model model = rondo::Model::load(argv[1], weights, options);

    // A minibatch: chains that lean to the left, of 1 to 8 words. Constructors are looked up once.
    rondo::Batch batch = model.batch();
    const auto leaf = batch.constructor("Leaf"), node = batch.constructor("Node");
    for (int64_t words = 1; words <= 8; ++words) {
      rondo::Value tree = batch.make(leaf, {rondo::Value::integer(words)});
      for (int64_t w = 1; w < words; ++w) {
        tree = batch.make(node, {tree, batch.make(leaf, {rondo::Value::integer(w)})});
      }
      batch.add({tree});
    }

    const rondo::Outputs roots = model.run(batch);
    for (size_t i = 0; i < roots.size(); ++i) {
      const auto h = roots[i].tensor();
      std::printf("tree %zu: h[0..3] = %8.5f %8.5f %8.5f %8.5f\n", i, h[0], h[1], h[2], h[3]);
    }
    std::printf("\n%s", model.report().text().c_str());
    return 0;
  } catch (const rondo::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
