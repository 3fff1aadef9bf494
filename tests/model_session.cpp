// What a caller of Model can do wrong, and what a session tells about itself.
#include "model_support.h"
#include "rondo/session.h"

namespace rondo {
namespace {

using test::error_of;

const char kText[] =
    "weight w: f32[2, 3];\n"
    "fn main(x: f32[3], i: int) -> f32[2] { w @ x + float(i) }\n";

Weights weights() {
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  Weights w;
  w.set("w", {2, 3}, numbers);
  return w;
}

ModelOptions on_cpu() {
  ModelOptions options;
  options.device = "cpu";
  return options;
}

TEST(Model, RunsAProgramOfItsText) {
  Model model = Model::compile(kText, "linear.rondo", weights(), on_cpu());
  Batch batch = model.batch();
  const float x[] = {1, 10, 100};
  batch.add({batch.tensor(std::vector<int64_t>{3}, x), Value::integer(1000)});
  const Outputs outputs = model.run(batch);
  EXPECT_EQ(outputs[0].tensor()[0], 1321.0f);
  EXPECT_EQ(outputs[0].tensor()[1], 1654.0f);
  const Report report = model.report();
  EXPECT_EQ(report.program, "linear.rondo");
  EXPECT_GT(report.load_ms, 0);
  const std::string text = report.text();
  for (const char* stage : {"parse", "reuse", "specialise", "facts", "plan", "host program", "kernels", "load"})
    EXPECT_NE(text.find(std::string("    ") + stage), std::string::npos) << stage << "\n" << text;
}

TEST(Model, SourceErrorsPointIntoTheText) {
  EXPECT_EQ(error_of([] { Model::compile("fn main() -> int { x }", "p.rondo", {}, on_cpu()); }).substr(0, 26),
            "source: p.rondo:1:20: erro");
}

TEST(Model, WeightsAreCheckedBeforeAnythingIsCompiled) {
  EXPECT_EQ(error_of([] { Model::compile(kText, "p.rondo", {}, on_cpu()); }),
            "usage: weight w: f32[2,3] is missing\nno weights are given");
}

TEST(Model, WeightsThatAreNotUsedAreNoted) {
  Weights w = weights();
  const float one[] = {1};
  w.set("unused", {1}, one);
  const Model model = Model::compile(kText, "p.rondo", w, on_cpu());
  ASSERT_EQ(model.report().notes.size(), 1u);
  EXPECT_EQ(model.report().notes[0], "weights that the program does not use: unused");
}

TEST(Model, OptionsThatAreNotThereAreRefused) {
  ModelOptions options = on_cpu();
  options.replay = "often";
  EXPECT_EQ(error_of([&] { Model::compile(kText, "p.rondo", weights(), options); }),
            "usage: there is no replay 'often': expected auto, graph or stream");
  options = on_cpu();
  options.device = "tpu";
  EXPECT_EQ(error_of([&] { Model::compile(kText, "p.rondo", weights(), options); }),
            "usage: there is no device 'tpu': expected auto, cpu, cuda or cuda:N");
}

TEST(Model, FileThatIsNotThereIsNamed) {
  EXPECT_EQ(error_of([] { Model::load("/no/such.rondo", {}); }),
            "usage: cannot read /no/such.rondo: No such file or directory");
}

TEST(Model, IndexOutOfRangeNamesInstanceAndLine) {
  const std::string text = "weight e: f32[4, 2];\nfn main(i: int) -> f32[2] {\n  e[i]\n}\n";
  Weights w;
  const std::vector<float> numbers(8, 1.0f);
  w.set("e", {4, 2}, numbers);
  Model model = Model::compile(text, "p.rondo", w, on_cpu());
  Batch batch = model.batch();
  batch.add({Value::integer(3)});
  batch.add({Value::integer(4)});
  EXPECT_EQ(error_of([&] { model.run(batch); }),
            "usage: instance 1: p.rondo:3: row 4 of a tensor with 4 rows; expected 0 to 3");
}

TEST(Session, EveryStageCanBeShown) {
  for (const std::string& stage : session::stages())
    EXPECT_GT(session::dump(kText, "p.rondo", stage, {}).size(), 20u) << stage;
  EXPECT_EQ(error_of([] { session::dump(kText, "p.rondo", "soup", {}); }),
            "usage: there is no stage 'soup': expected one of ir, reuse, specialised, facts, host, plan, cpp, cpu, cuda");
}

}  // namespace
}  // namespace rondo
